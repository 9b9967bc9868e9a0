"""Hints about the contents of filled storage and about the iteration that stores an element. Rocq checks them.

The storing iteration is found by solving the equations between the indices of the cell and the position of the element
for the loop variables, one by one. An index i * c + j is split into quotient and remainder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Final, Literal, TypeAlias, assert_never

from atl.core.index import ZERO, AnyAtom, Index, Leaf, Var, atoms, floordiv, index, map_leaves
from atl.core.predicate import TRUE, Predicate, conjunction, substitute, within
from atl.errors import InvalidArgument
from atl.prove import Facts, simplify_predicate
from lowering.nest import loopnest as ln
from rewrites.rocq.nests.plan import Both, Branch, Looking, Loop, Nothing, Plan, Simple
from rewrites.rocq.nests.printing import Printer, literal
from rewrites.rocq.notation import Notation, operation, positions

Turn: TypeAlias = Literal["left", "right"] | ln.For | ln.If
Text: TypeAlias = Callable[["Writer"], str]
"""A text that depends on the values of loop variables."""

POSITIONS: Final = count(100_000)
"""Fresh ids for positions of elements, which no variable of a nest has."""


@dataclass(frozen=True, slots=True)
class Store:
    """An assignment, its path in a plan, and the values of scalar variables there."""

    at: ln.Assign
    way: tuple[Turn, ...]
    scalars: Mapping[int, Text]

    @property
    def loops(self) -> tuple[ln.For, ...]:
        return tuple(turn for turn in self.way if isinstance(turn, ln.For))


@dataclass(frozen=True, slots=True)
class Found:
    """A store to a position in a region, with the values of its loop variables."""

    store: Store
    values: Mapping[Var, Index]
    region: Predicate


def stores_of(plan: Plan, uid: int, scalars: Mapping[int, Text], way: tuple[Turn, ...] = ()) -> Iterator[Store]:
    """Yield all assignments to a storage id."""
    match plan:
        case Simple(ln.Assign(target) as at):
            if (target.buffer if isinstance(target, ln.Cell) else target).uid == uid:
                yield Store(at, way, scalars)
        case Loop(at, body) | Branch(at, body):
            yield from stores_of(body, uid, scalars, (*way, at))
        case Both(first, second, local):
            yield from stores_of(first, uid, scalars, (*way, "left"))
            if isinstance(local, ln.Scalar):
                scalars = {**scalars, local.uid: scalar_of(first, local.uid, scalars)}
            yield from stores_of(second, uid, scalars, (*way, "right"))
        case Nothing() | Looking() | Simple():
            return
        case _:
            assert_never(plan)


def found_at(store: Store, position: Sequence[Var], facts: Facts) -> Found:
    """Return the iteration that stores to a position, and the region in which it does."""
    target = store.at.target
    pairs = target.pairs if isinstance(target, ln.Cell) else ()
    if len(pairs) != len(position):
        raise InvalidArgument(
            f"a store with {len(pairs)} indices to a tensor of rank {len(position)}",
            required="an index for each extent",
        )
    values = _solved([at for at, _ in pairs], [extent for _, extent in pairs], store.loops, position)

    def at(leaf: Leaf) -> Index:
        return values.get(leaf, index(leaf)) if isinstance(leaf, Var) else index(leaf)

    region: Predicate = TRUE
    for turn in store.way:
        if isinstance(turn, ln.For):
            here = within(turn.low, index(turn.variable), turn.high)
        elif isinstance(turn, ln.If):
            here = turn.predicate
        else:
            continue
        region = conjunction((region, substitute(here, at)))
    for (place, _), p in zip(pairs, position, strict=True):
        region = conjunction((region, within(index(p), map_leaves(place, at), index(p) + 1)))
    return Found(store, values, simplify_predicate(facts, region))


def _solved(
    places: Sequence[Index], extents: Sequence[Index], loops: Sequence[ln.For], position: Sequence[Var]
) -> dict[Var, Index]:
    """Solve for the loop variables at which the indices equal the position, as far as possible."""
    values: dict[Var, Index] = {}

    def at(leaf: Leaf) -> Index:
        return values.get(leaf, index(leaf)) if isinstance(leaf, Var) else index(leaf)

    left = list(zip(places, position, strict=True))
    by_variable = {loop.variable: loop for loop in loops}
    while left:
        unknown = [{a for a in atoms(e) if a in by_variable and a not in values} for e, _ in left]
        order = sorted(range(len(left)), key=lambda k: len(unknown[k]))
        solved = next((k for k in order if _solve(left[k], unknown[k], by_variable, values, at)), None)
        if solved is None:
            break
        del left[solved]
    rest = [loop for loop in loops if loop.variable not in values]
    if len(rest) == 1 and left:
        # The position in one loop over all elements.
        values[rest[0].variable] = ln.flat(tuple(zip(map(index, position), extents, strict=True))) + rest[0].low
    for loop in rest:
        values.setdefault(loop.variable, map_leaves(loop.low, at))
    return values


def _solve(
    equation: tuple[Index, Var],
    unknown: Collection[AnyAtom],
    loops: Mapping[Var, ln.For],
    values: dict[Var, Index],
    at: Callable[[Leaf], Index],
) -> bool:
    """Solve one index of a cell for its variables, outer ones first. Return whether this succeeds."""
    place, p = equation
    found: dict[Var, Index] = {}
    rest = index(p)
    ordered = [variable for variable in loops if variable in unknown]
    factors: dict[Var, Index] = {}
    for variable in ordered:
        inside = map_leaves(place, _next(variable)) - place
        if any(a in unknown for a in atoms(inside)):
            return False
        factors[variable] = inside
    plain = map_leaves(place, lambda leaf: ZERO if leaf in ordered else index(leaf))
    rest = rest - map_leaves(plain, at)
    for k, variable in enumerate(ordered):
        factor = map_leaves(factors[variable], at)
        low = sum((map_leaves(factors[v] * loops[v].low, at) for v in ordered[k + 1 :]), ZERO)
        found[variable] = floordiv(rest - low, factor) if factor != index(1) else rest - low
        if factor == index(-1):
            found[variable] = low - rest
        rest = rest - factor * found[variable]
    values |= found
    return True


def _next(variable: Var) -> Callable[[Leaf], Index]:
    return lambda leaf: index(leaf) + 1 if leaf == variable else index(leaf)


# -- contents ---------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Writer:
    """Printer of values as scalars of Rocq. `contents` names the contents of filled buffers."""

    printer: Printer
    contents: Mapping[int, str]
    scalars: Mapping[int, Text]
    values: Mapping[Var, Index] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: count(200_000))

    def index(self, e: Index) -> str:
        return self.printer.index(map_leaves(e, self._at))

    def predicate(self, p: Predicate) -> str:
        return self.printer.predicate(substitute(p, self._at))

    def _at(self, leaf: Leaf) -> Index:
        return self.values.get(leaf, index(leaf)) if isinstance(leaf, Var) else index(leaf)

    def text(self, e: ln.ScalarExpr) -> str:
        """Print an expression of type scalar."""
        match e:
            case ln.Number(value):
                return literal(value)
            case ln.FromIndex(at):
                return f"(integer {self.index(at)})"
            case ln.Load(source):
                if isinstance(source, ln.Scalar):
                    return self.scalars[source.uid](self)
                name, uid = source.buffer.name, source.buffer.uid
                known = self.printer.input(name) if source.buffer.role == "input" else self.contents.get(uid)
                if known is None:
                    raise InvalidArgument(
                        f"{name} accumulates sums of several loops and is then used to compute another tensor",
                        required="a nest in which such sums are only used for the output",
                    )
                return f"({known} {positions(self.index(at) for at, _ in source.pairs)})"
            case ln.Apply("where", (test, left, right)):
                return f"(if truth {self.text(test)} then {self.text(left)} else {self.text(right)})"
            case ln.Apply(op, arguments, dtype):
                assert op != "where"
                return f"({' '.join([operation(op, dtype), *map(self.text, arguments)])})"
            case ln.Choose(p, left, right):
                return f"(if {self.predicate(p)} then {self.text(left)} else {self.text(right)})"
            case ln.Convert(argument, dtype):
                return f'(convert "{dtype}" {self.text(argument)})'
            case _:
                assert_never(e)

    def under(self, variable: Var) -> tuple[str, Writer]:
        """Bind the variable of a sum under a fresh name."""
        bound = Var(next(self.numbers), variable.name)
        return self.index(index(bound)), replace(self, values={**self.values, variable: index(bound)})


def scalar_of(plan: Plan, uid: int, scalars: Mapping[int, Text]) -> Text:
    """Return the value of a scalar variable after a plan that fills it."""

    def text(writer: Writer) -> str:
        return _after(plan, uid, replace(writer, scalars={**writer.scalars, **scalars}), "zero")

    return text


def _after(plan: Plan, uid: int, writer: Writer, before: str) -> str:
    """Return the value of a scalar variable after a plan, given its value before."""
    match plan:
        case Simple(ln.Declare(ln.Scalar(number), value)) if number == uid:
            return writer.text(value)
        case Simple(ln.Assign(ln.Scalar(number), value)) if number == uid:
            return writer.text(value)
        case Simple(ln.Accumulate(ln.Scalar(number), op, value)) if number == uid:
            return f"({operation(op)} {before} {writer.text(value)})"
        case Both(first, second, local):
            before = _after(first, uid, writer, before)
            if isinstance(local, ln.Scalar):
                known = {**writer.scalars, local.uid: scalar_of(first, local.uid, writer.scalars)}
                writer = replace(writer, scalars=known)
            return _after(second, uid, writer, before)
        case Loop(at, body):
            ends = f"{writer.index(at.low)} {writer.index(at.high)}"
            name, inside = writer.under(at.variable)
            added = _after(body, uid, inside, "zero")
            return before if added == "zero" else f"(add {before} (fold add {ends} (fun {name} => {added})))"
        case Branch(at, body):
            return f"(if {writer.predicate(at.predicate)} then {_after(body, uid, writer, before)} else {before})"
        case Nothing() | Looking() | Simple():
            return before
        case _:
            assert_never(plan)


def held_by(found: Sequence[Found], position: Sequence[Var], writer: Writer) -> str:
    """Return the contents of storage: the stored value at positions in each region, elsewhere zero."""
    text = "zero"
    for each in reversed(found):
        scalars = {**writer.scalars, **each.store.scalars}
        here = replace(writer, values={**writer.values, **each.values}, scalars=scalars)
        value = here.text(each.store.at.value)
        text = value if each.region == TRUE else f"if {writer.predicate(each.region)} then {value} else {text}"
    names = positions(Notation().index(index(p)) for p in position)
    return f"(fun at'' => match at'' with {names} => {text} | _ => zero end)"


__all__ = ["Found", "Store", "Writer", "found_at", "held_by", "scalar_of", "stores_of"]
