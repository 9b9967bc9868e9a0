"""Pad-sets (Figs. 5.5 and 5.6, with E3–E9, E27 and E28): predicates for the elements of a tensor that are padding.

A pad-set is a predicate over the indices of an element, inferred by substitution. It is represented by its complement:
the *cases* in which an element is computed. A case may depend on witnesses, the indices of enclosing sums. An element
is computed if some iteration computes it, and padding if every iteration pads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, product
from typing import Final, Literal, TypeAlias, assert_never

from atl.checks.scope import Scope, outermost, parts_in_scope
from atl.core import terms
from atl.core.index import ZERO, Array, Bound, Index, Leaf, Quotient, Size, Var, atoms, index, value_of
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, conjunction, holds, less, negation, within
from atl.core.program import Program, checked_program
from atl.core.reshape_definitions import Positions, kept, origin
from atl.core.substitution import map_op
from atl.core.terms import TruncateLeft
from atl.core.traversal import Path
from atl.errors import ArgumentError, ATLError, InvalidArgument, UnsafeTruncation, brief
from atl.prove import Answer, Facts, Model, Proved, Refuted, Unknown, prove, simplify_predicate
from atl.text.latex import formula
from atl.text.markup import Html, element, joined, lines, svg
from atl.text.printing import place_of, show_predicate


@dataclass(frozen=True, slots=True)
class Witness:
    """The index of a sum, existentially quantified over low <= variable < high."""

    variable: Var
    low: Index
    high: Index

    @property
    def range(self) -> Predicate:
        return within(self.low, index(self.variable), self.high)


@dataclass(frozen=True, slots=True)
class Case:
    """The elements that one leaf computes: those for which the condition holds for some values of the witnesses.

    `leaf` is the path of the leaf relative to the term of the pad-set.
    """

    condition: Predicate
    witnesses: tuple[Witness, ...] = ()
    leaf: Path = ()

    def given(self) -> Predicate:
        """Return the condition on an element and the witnesses under which this case computes the element."""
        return conjunction((*(witness.range for witness in self.witnesses), self.condition))


@dataclass(frozen=True, slots=True, repr=False)
class PadSet:
    """The padding of a term: the elements within `shape` for which no case holds.

    `elements` are the variables for the indices of an element; `scope` is the scope of the term.
    """

    elements: tuple[Var, ...]
    shape: tuple[Index, ...]
    cases: tuple[Case, ...]
    scope: Scope = field(repr=False)

    @property
    def within_shape(self) -> Predicate:
        pairs = zip(self.elements, self.shape, strict=True)
        return conjunction(within(ZERO, index(variable), extent) for variable, extent in pairs)

    @property
    def predicate(self) -> Predicate | None:
        """The pad-set as a predicate over `elements`; None if it needs a quantifier (a sum of guarded terms)."""
        conditions: list[Predicate] = []
        for case in self.cases:
            if any(witness.variable.uid in case.condition.free for witness in case.witnesses):
                return None
            nonempty = (less(witness.low, witness.high) for witness in case.witnesses)
            conditions.append(negation(conjunction((*nonempty, case.condition))))
        return conjunction(conditions)

    @property
    def simplified(self) -> Predicate | None:
        """The predicate, simplified by the facts of the scope."""
        where = self.predicate
        return None if where is None else simplify_predicate(self.scope.facts.assume(self.within_shape), where)

    def contains(
        self,
        at: tuple[int, ...],
        leaf: Callable[[Leaf], int],
        element: Callable[[Array, tuple[int, ...]], int] = lambda array, indices: 0,
    ) -> bool:
        """Return whether the element at `at` is padding, for given values of sizes, indices and array elements."""
        if not isinstance(at, tuple) or len(at) != len(self.elements) or not all(type(i) is int for i in at):
            raise ArgumentError(
                f"invalid element index {brief(at)}", required=f"a tuple of {len(self.elements)} integers"
            )
        if not callable(leaf):
            raise ArgumentError(f"leaf={brief(leaf)}", required="a function from sizes and indices to integers")
        known = {variable.uid: position for variable, position in zip(self.elements, at, strict=True)}
        return not any(_computes(case, case.witnesses, known, leaf, element) for case in self.cases)

    def __str__(self) -> str:
        where = self.simplified
        if where is None:
            parts = (_quantified(case) for case in self.cases)
            return f"padding where {' and '.join(parts)}"
        if where == FALSE:
            return "no element is padding"
        return "every element is padding" if where == TRUE else f"padding where {show_predicate(where)}"

    __repr__ = __str__

    def _repr_latex_(self) -> str | None:
        """Return the pad-set as a formula for notebooks; None if it is not a plain condition."""
        where = self.simplified
        if where is None or where in (TRUE, FALSE):
            return None
        shown = formula(where)
        return None if shown is None else f"$\\text{{padding where }} {shown.strip('$')}$"


def _quantified(case: Case) -> str:
    ranges = ", ".join(f"{w.low} <= {w.variable.name} < {w.high}" for w in case.witnesses)
    condition = show_predicate(negation(case.condition))
    return f"({condition} for all {ranges})" if ranges else f"({condition})"


def _computes(
    case: Case,
    witnesses: tuple[Witness, ...],
    known: dict[int, int],
    leaf: Callable[[Leaf], int],
    element: Callable[[Array, tuple[int, ...]], int],
) -> bool:
    def value(at: Leaf) -> int:
        return known[at.uid] if isinstance(at, Var) and at.uid in known else leaf(at)

    if not witnesses:
        return holds(case.condition, value, element)
    first, *rest = witnesses
    low, high = value_of(first.low, value, element), value_of(first.high, value, element)
    return any(
        _computes(case, tuple(rest), {**known, first.variable.uid: candidate}, leaf, element)
        for candidate in range(low, high)
    )


# -- inference --------------------------------------------------------------------------------------------------------


def infer(program: Program) -> dict[Path, PadSet]:
    """Return the pad-set of every sub-expression of a program, by path; `()` is the path of the body.

    Sizes and tile sizes stay symbolic. Law (Theorem 1): an element of a pad-set is padding when the program is
    evaluated. For these pad-sets the converse holds too.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> print(infer(atl.program("padded", [x], atl.padr(2, x)))[()])
    padding where n <= e0
    """
    return {
        path: pad_set(at, scope)
        for path, at, scope in parts_in_scope(checked_program(program).body, outermost(program))
    }


def pad_set(e: terms.Expr, scope: Scope) -> PadSet:
    """Return the pad-set of a term in a scope."""
    for given, of in ((e, terms.Term), (scope, Scope)):
        if not isinstance(given, of):
            raise ArgumentError(
                f"pad_set({brief(given)})",
                required="a term and its scope; padtypes.infer returns the pad-sets of a program",
            )
    ids = count(_FIRST_ELEMENT)
    shape = scope.shape(e.type)
    elements = tuple(Var(next(ids), f"e{dimension}") for dimension in range(len(shape)))
    at = tuple(index(variable) for variable in elements)
    return PadSet(elements, shape, tuple(_cases(e, at, scope, (), ids)), scope)


_FIRST_ELEMENT = 1 << 20
"""Larger than the ids of any scope, and the same each time, so that pad-sets of a term are equal."""


def _cases(e: terms.Expr, at: Positions, scope: Scope, path: Path, ids: Iterator[int]) -> Iterator[Case]:
    """Yield the cases in which the element of `e` at `at` is computed."""
    match e:
        case terms.Gen(low, _, body):
            inside = Scope(scope.facts, (*scope.indices, scope.index(low) + at[0]))
            yield from _cases(body, at[1:], inside, (*path, 0), ids)
        case terms.Reduce("sum", low, high, body, name):
            witness = Witness(Var(next(ids), name), scope.index(low), scope.index(high))
            inside = Scope(scope.facts, (*scope.indices, index(witness.variable)))
            for case in _cases(body, at, inside, (*path, 0), ids):
                yield Case(case.condition, (witness, *case.witnesses), case.leaf)
        case terms.Reduce(_, low, high):
            # Monoids other than the sum store padding as zero: only an empty range is padding.
            yield Case(less(scope.index(low), scope.index(high)), leaf=path)
        case terms.Rec(low, _, init, body):
            # Reads of earlier rows are stored values, so their padding is not part of that of a later row.
            p, first = at[0], scope.index(low)
            later = Scope(scope.facts, (*scope.indices, p))
            yield from _where(less(p, first), _cases(init, at, scope, (*path, 0), ids))
            yield from _where(at_most(first, p), _cases(body, at[1:], later, (*path, 1), ids))
        case terms.Guard(predicate, body):
            yield from _where(scope.predicate(predicate), _cases(body, at, scope, (*path, 0), ids))
        case terms.Let(_, body):
            yield from _cases(body, at, scope, (*path, 1), ids)
        case terms.Concat(left, right):
            first, *rest = at
            n = scope.index(left.type.shape[0])
            yield from _where(less(first, n), _cases(left, at, scope, (*path, 0), ids))
            yield from _where(at_most(n, first), _cases(right, (first - n, *rest), scope, (*path, 1), ids))
        case terms.Reshape(op, operand):
            source = origin(map_op(op, scope.index), scope.shape(operand.type), at)
            yield from _where(source.present, _cases(operand, source.at, scope, (*path, 0), ids))
        case terms.Padding():
            return
        case terms.Named() | terms.Number() | terms.Access() | terms.Elementwise() | terms.Select():
            # Reads, literals and arithmetic are stored, even if their operands are padding (E27).
            yield Case(TRUE, leaf=path)
        case _:
            assert_never(e)


def _where(condition: Predicate, cases: Iterator[Case]) -> Iterator[Case]:
    for case in cases:
        both = conjunction((condition, case.condition))
        if both != FALSE:
            yield Case(both, case.witnesses, case.leaf)


# -- truncations ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Truncation:
    """A truncation of a program: its path, its operator, and the pad-set of its operand."""

    path: Path
    op: terms.TruncateLeft | terms.TruncateRight
    operand: PadSet

    @property
    def cut(self) -> Predicate:
        """The condition that an element of the operand is cut."""
        keeps = kept(self.op, self.operand.shape[0], index(self.operand.elements[0]))
        return conjunction((self.operand.within_shape, negation(keeps)))

    def facts(self, case: Case) -> Facts:
        """Return the facts about a cut element of this case; if they are contradictory, no element is cut."""
        return self.operand.scope.facts.assume(self.cut, case.given())

    def decide(self, case: Case) -> Answer:
        """Decide whether no element of this case is cut."""
        return prove(self.facts(case), FALSE)


def truncations(program: Program) -> Iterator[Truncation]:
    """Yield every truncation of a program, outermost first."""
    checked_program(program)
    for path, at, scope in parts_in_scope(program.body, outermost(program)):
        found = truncation_at(at, scope, path)
        if found is not None:
            yield found


def truncation_at(e: terms.Expr, scope: Scope, path: Path = ()) -> Truncation | None:
    """Return the term as a truncation; None if it is not one."""
    if not isinstance(e, terms.Reshape):
        return None
    op = map_op(e.op, scope.index)
    match op:
        case terms.TruncateLeft() | terms.TruncateRight():
            return Truncation(path, op, pad_set(e.operand, scope))
        case terms.Transpose() | terms.Flatten() | terms.Split() | terms.PadLeft() | terms.PadRight() | terms.Place():
            return None  # no element is cut
        case _:
            assert_never(op)


# -- the check of truncations -----------------------------------------------------------------------------------------


_GUARD = "guard the computation of the elements beyond the end: atl.guard(i < n, e)"
_TILE = "drop ceildiv(n, k)*k - n elements of a tiled tensor (k - n % k is wrong where k divides n: erratum E10)"
MAX_PICTURE_ELEMENTS = 240
"""The largest number of elements of a tensor that is drawn in an error message."""


def check(program: Program) -> None:
    """Prove that every truncation cuts only padding, so that no computed element is lost.

    Lowering never stores the elements that are cut. Raises `UnsafeTruncation` with the truncation, the facts in scope,
    and the sizes and indices of a lost element, or the reason why the prover gave up. Source: Fig. 5.6, PADSETTRUNCL
    and PADSETTRUNCR.

    >>> import atl
    >>> n, k = atl.sizes("n"), atl.sizes("k", min=1)
    >>> x = atl.tensor("x", n)
    >>> split = atl.split(k, x)
    >>> check(atl.program("there_and_back", [x], atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(split))))
    """
    for _, error in unsafe_truncations(program):
        raise error


def unsafe_truncations(program: Program) -> Iterator[tuple[Path, UnsafeTruncation]]:
    """Yield each truncation not proved to cut only padding: its path, and the error that `check` raises."""
    for truncation in truncations(program):
        for case in truncation.operand.cases:
            answer = truncation.decide(case)
            if not isinstance(answer, Proved):
                yield truncation.path, _unsafe(program, truncation, case, answer)
                break


def _unsafe(program: Program, truncation: Truncation, case: Case, answer: Refuted | Unknown) -> UnsafeTruncation:
    end = "first" if isinstance(truncation.op, TruncateLeft) else "last"
    what = f"the truncation of the {end} {truncation.op.by} elements"
    place = place_of(program, truncation.path)
    known = [show_predicate(fact) for fact in truncation.operand.scope.facts.predicates]
    required = "only padding may be cut" + (f"  (known here: {', '.join(known)})" if known else "")
    if isinstance(answer, Unknown):
        return UnsafeTruncation(
            f"{what} cannot be proved to cut only padding: the prover gave up ({answer.reason})",
            place=place,
            required=f"{required}: never {show_predicate(conjunction((truncation.cut, case.given())))}",
            suggestions=(
                _GUARD,
                "declare assumptions on the sizes: atl.sizes(…, min=…), or atl.program(…, given=[…])",
            ),
        )
    model = answer.model
    lost = tuple(model.leaf(variable) for variable in truncation.operand.elements)
    own = {variable.name for variable in truncation.operand.elements}
    numbers = ", ".join(f"{name} = {value}" for name, value in model.numbers.items() if name not in own)
    where = lost[0] if len(lost) == 1 else lost
    return UnsafeTruncation(
        f"{what} would cut a computed element",
        place=place,
        required=required,
        numbers=f"{numbers}: the element at {where} would be lost"
        if numbers
        else f"the element at {where} would be lost",
        suggestions=(
            _GUARD,
            *((_TILE,) if any(isinstance(atom, Quotient) for atom in atoms(truncation.op.by)) else ()),
        ),
        picture=_picture(truncation, model),
    )


def _picture(truncation: Truncation, model: Model) -> str | None:
    """Draw the operand for the sizes of the counterexample; None if it is too large to read."""
    count = 1
    for extent in truncation.operand.shape:
        count *= model.value(extent)
    if count > MAX_PICTURE_ELEMENTS:
        return None
    try:
        return str(draw_pad_set(truncation.operand, model.leaf, model.element, cut=truncation.cut))
    except (ATLError, ZeroDivisionError):
        return None


# -- drawings ---------------------------------------------------------------------------------------------------------


State: TypeAlias = Literal["value", "padding", "cut", "lost"]
Cells: TypeAlias = Mapping[tuple[int, ...], State]
Leaves: TypeAlias = Callable[[Leaf], int]

SIGNS: Final[dict[State, str]] = {"value": "#", "padding": ".", "cut": "x", "lost": "!"}
LEGEND: Final[dict[State, str]] = {
    "value": "computed", "padding": "padding", "cut": "cut, padding", "lost": "cut, computed: lost"
}  # fmt: skip
COLOURS: Final[dict[State, str]] = {"value": "#4269d0", "padding": "#e8e8ec", "cut": "#ffffff", "lost": "#d62728"}
MAX_CELLS: Final = 4_096


@dataclass(frozen=True, slots=True, repr=False)
class PadSetDrawing:
    """The state of every element of a tensor, for given sizes.

    `str()` draws one character for each element: `#` computed, `.` padding, `x` padding that is cut, `!` a computed
    element that is cut. Rows and columns are the last two dimensions; each index of the other dimensions is a panel.
    """

    shape: tuple[int, ...]
    cells: Cells
    title: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.shape, tuple) or not isinstance(self.cells, Mapping) or not isinstance(self.title, str):
            raise InvalidArgument(
                f"a picture of shape={brief(self.shape)}, cells={brief(self.cells)}, title={brief(self.title)}",
                required="a tuple, a dictionary and a text: padtypes.draw makes one",
            )

    def __str__(self) -> str:
        blocks = [self.title] if self.title else []
        for panel in self._panels():
            head = f"[{', '.join(map(str, panel))}, …]" if panel else ""
            rows = ["".join(SIGNS[state] for state in row) or "(empty)" for row in self._rows(panel)]
            blocks.append("\n".join(([head] if head else []) + (rows or ["(empty)"])))
        used = [state for state in SIGNS if state in set(self.cells.values())]
        legend = ["   ".join(f"{SIGNS[state]} {LEGEND[state]}" for state in used)] if used else []
        return "\n".join(blocks + legend)

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        """Return the drawing as SVG, for notebooks."""
        return self.svg()

    def _panels(self) -> list[tuple[int, ...]]:
        return list(product(*(range(extent) for extent in self.shape[:-2])))

    def _rows(self, panel: tuple[int, ...]) -> list[list[State]]:
        if len(self.shape) < 2:
            return [[self.cells[at] for at in product(*map(range, self.shape))]]
        n, m = self.shape[-2:]
        return [[self.cells[(*panel, i, j)] for j in range(m)] for i in range(n)]

    def svg(self, *, cell: int = 18) -> str:
        """Return the drawing as a standalone SVG document; `cell` is the side of an element in pixels."""
        if type(cell) is not int or not 1 <= cell <= 10_000:
            raise ArgumentError(f"cell={brief(cell)}", required="the side of an element in pixels, from 1 to 10,000")
        drawn: list[Html] = []
        top, width = 8, 120
        if self.title:
            drawn.append(_text(8, top + 12, self.title, bold=True))
            top += 24
        for panel in self._panels():
            rows = self._rows(panel)
            if panel:
                drawn.append(_text(8, top + 12, f"[{', '.join(map(str, panel))}, …]"))
                top += 18
            for i, row in enumerate(rows):
                drawn.append(_text(8, top + i * cell + cell * 0.7, str(i)))
                drawn.extend(_square(32 + j * cell, top + i * cell, cell, state) for j, state in enumerate(row))
                width = max(width, 40 + len(row) * cell)
            top += max(1, len(rows)) * cell + 10
        for state in (state for state in SIGNS if state in set(self.cells.values())):
            drawn.append(_square(8, top, 12, state))
            drawn.append(_text(26, top + 11, LEGEND[state]))
            width, top = max(width, 200, 8 + 8 * len(self.title)), top + 18
        body = lines([element("rect", width=width, height=top + 4, fill="white"), *drawn])
        box = f"0 0 {width} {top + 4}"
        return svg(width, top + 4, body, viewBox=box, font_family="sans-serif", font_size=11)


def _text(x: float, y: float, text: str, *, bold: bool = False) -> Html:
    return element("text", text, x=f"{x:g}", y=f"{y:g}", fill="#333", font_weight="bold" if bold else None)


def _square(x: int, y: int, side: int, state: State) -> Html:
    cut = state in ("cut", "lost")
    drawn = max(1, side - 2)
    size = {"x": x, "y": y, "width": drawn, "height": drawn, "rx": 2}
    dashes = "3,2" if cut else None
    square = element("rect", **size, fill=COLOURS[state], stroke="#888", stroke_dasharray=dashes)
    if not cut:
        return square
    left, upper, right, lower = x + 4, y + 4, x + side - 6, y + side - 6
    cross = f"M{left} {upper}L{right} {lower}M{right} {upper}L{left} {lower}"
    return joined([square, element("path", d=cross, stroke="#999" if state == "cut" else "white", fill="none")])


def draw(
    program: Program, path: Path = (), *, sizes: Mapping[str, int], indices: Mapping[str, int] | None = None
) -> PadSetDrawing:
    """Draw the pad-set of a sub-expression for given sizes; for a truncation, its operand with the cut elements marked.

    `indices` maps the names of enclosing indices to values (default 0). Raises `ArgumentError` for an unknown path, a
    missing size, or a tensor of more than 4096 elements.

    >>> import atl
    >>> n = atl.sizes("n")
    >>> x = atl.tensor("x", n)
    >>> print(draw(atl.program("rows", [x], atl.split(4, x)), sizes={"n": 10}))
    ####
    ####
    ##..
    # computed   . padding
    """
    checked_program(program)
    where = tuple(path) if isinstance(path, tuple | list) else None
    found = next((part for part in parts_in_scope(program.body, outermost(program)) if part[0] == where), None)
    if found is None:
        raise ArgumentError(
            f"{program.name} has no sub-expression at {brief(path)}", required="a key of padtypes.infer(program)"
        )
    for name, values in (("sizes", sizes), ("indices", indices or {})):
        if not isinstance(values, Mapping) or any(type(value) is not int or value < 0 for value in values.values()):
            raise ArgumentError(
                f"{name}={brief(values)}",
                required=f'a dictionary from names to non-negative integers: {name}={{"n": 8}}',
            )
    missing = [name for name in program.sizes if name not in sizes]
    if missing:
        raise ArgumentError(f"the size {missing[0]} has no value", required=f"sizes={{{', '.join(program.sizes)}}}")
    _, at, scope = found
    given = indices or {}

    def leaf(leaf: Leaf) -> int:
        match leaf:
            case Size(name):
                return sizes[name]
            case Var(name=name):
                return given.get(name, 0)
            case Bound():
                raise AssertionError("every enclosing binder is named in the scope")
            case _:
                assert_never(leaf)

    truncation = truncation_at(at, scope, path)
    if truncation is not None:
        return draw_pad_set(truncation.operand, leaf, cut=truncation.cut)
    return draw_pad_set(pad_set(at, scope), leaf)


def draw_pad_set(
    padset: PadSet,
    leaf: Leaves,
    element: Callable[[Array, tuple[int, ...]], int] = lambda array, indices: 0,
    *,
    cut: Predicate = FALSE,
    title: str = "",
) -> PadSetDrawing:
    """Draw a pad-set and the elements that `cut` removes, for given values of sizes, indices and array elements."""
    if not isinstance(padset, PadSet) or not callable(leaf):
        raise ArgumentError(
            f"draw_pad_set({brief(padset)}, {brief(leaf)})",
            required="a pad-set, and a function from sizes and indices to integers; padtypes.draw takes a program",
        )
    shape = tuple(value_of(extent, leaf, element) for extent in padset.shape)
    count = 1
    for extent in shape:
        count *= extent
    if count > MAX_CELLS:
        raise ArgumentError(
            f"a drawing of {count} elements would be too large",
            required=f"at most {MAX_CELLS} elements",
            suggestions=("draw smaller sizes",),
        )
    cells: dict[tuple[int, ...], State] = {}
    for at in product(*(range(extent) for extent in shape)):
        padding = padset.contains(at, leaf, element)
        dropped = _holds_at(padset, cut, at, leaf, element)
        cells[at] = ("cut" if padding else "lost") if dropped else ("padding" if padding else "value")
    return PadSetDrawing(shape, cells, title)


def _holds_at(
    padset: PadSet,
    predicate: Predicate,
    at: tuple[int, ...],
    leaf: Leaves,
    element: Callable[[Array, tuple[int, ...]], int],
) -> bool:
    known = {variable.uid: position for variable, position in zip(padset.elements, at, strict=True)}
    return holds(predicate, lambda v: known[v.uid] if isinstance(v, Var) and v.uid in known else leaf(v), element)
