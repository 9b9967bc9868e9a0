"""Storing a tensor through a layout, and reading it back through the same layout."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Literal, TypeAlias, get_args

from atl.core.index import ZERO, Index, index, map_leaves, shift
from atl.core.marks import LetMark
from atl.core.predicate import TRUE, Predicate, conjunction, conjuncts, substitute, within
from atl.core.substitution import shift_term
from atl.core.terms import Access, Expr, Gen, Guard, Input, Let
from atl.core.traversal import Path
from atl.errors import InvalidArgument, brief
from atl.prove import Facts, proves
from atl.surface.reindexing import Reindexing
from atl.text.printing import place_of
from rewrites.cursors.targets import Target, every
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Argument, Function
from rewrites.rule_statement import MAX_ELEMENT_RANK
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.regions import note_growth
from rewrites.tactics.reindexing import formulas
from rewrites.tactics.reindexing.elements import Elements, in_fewer_digits, in_segments
from rewrites.tactics.simplification import OF_ACCESSES, simplify_guards
from rewrites.tactics.storage.binding import bind, check_name
from rewrites.tactics.tactic import tactic

FilledBy: TypeAlias = Literal["places", "elements"]
"""The kind of loops that fill a stored tensor."""


@tactic
def store(
    work: Derivation,
    what: arg.Tensor,
    layout: arg.Layout,
    *,
    name: arg.NewName | None = None,
    loops: FilledBy = "places",
) -> None:
    """Store a let, or a copy of an input, through a layout, and redirect all reads.

    let y := e in … y[i, j] …  →  let y := ⊞[p < P] ⊞[q < Q] [hit(p, q)] · e[inverse(p, q)] in … y[to(i, j)] …

    The layout is proved injective: places are within its extents, and its inverse maps the place of an element to that
    element. Places without an element are padding.

    With `loops="elements"` the loops remain those over the elements, which are scattered to their places; this keeps
    adjacent reads in adjacent threads. The same happens for a layout without a known inverse, whose injectivity is then
    proved directly.

    let y := e in …  →  let y := Σ[i < n] Σ[j < m] place P to(i, j) e[i, j] in …

    >>> import layouts
    >>> s = reschedule(atl.parse(
    ...     "f (A : float32[n, m], x : float32[n]) : float32[m] "
    ...     ":= ⊞[j < m] Σ[i < n] A[i, j] * x[i]"))
    >>> s.store("A", layouts.column_major)
    f (A : float32[n, m], x : float32[n]) : float32[m] :=
      let As := ⊞[p0 < m] ⊞[p1 < n] A[p1, p0] in
      ⊞[j < m] Σ[i < n] As[j, i] * x[i]
    -- As holds m x n elements: it grows with m and n
    """
    check_name(name)
    if not isinstance(loops, str) or loops not in get_args(FilledBy):
        raise InvalidArgument(f"loops={brief(loops)}", required='loops="places" or loops="elements"')
    path = _let_of(work, what, name)
    let = work.term(path)
    assert isinstance(let, Let)
    value = work.cursor((*path, 0))
    made = formulas.reindexing_at(layout, value.scope.shape(value.term.type), value.scope.facts)
    called, mark = let.name, let.mark
    called_loops = _loops_of(let.value, made)
    if loops == "elements" or made.inverse is None:
        made = _for_elements(made, value.scope.facts)
    if made.inverse is None:
        inner = _without_inverse(work, (*path, 0), made, called_loops)
    else:
        inner = _Steps(work, (*path, 0), made).run()
        if made.packing is not None:
            inner = (*inner, *in_segments(work, (*path, 0, *inner), made.packing, made.places[0]))
        elif loops == "elements":
            inner = (*inner, *_over_elements(work, (*path, 0, *inner), made, called_loops))
    work.mark(path, LetMark.NONE)
    bind(work, path, (0, *inner), called, mark)
    work.rewrite("unfold_let", (*path, 1))
    _read_through(work, (*path, 1))
    work.repeat(work.known(OF_ACCESSES), (*path, 0))
    simplify_guards(work, (*path, 0))
    simplify_guards(work, (*path, 1))
    simplify_conditions(work, path)
    simplify_indices(work, path)
    note_growth(work, path)


def _let_of(work: Derivation, what: Target, name: str | None) -> Path:
    """Return the path of the selected let; for an input, of a new let around the program that copies it."""
    cursor = every(work.goal, what)[0]
    if isinstance(cursor.term, Let):
        if name is not None:
            raise InvalidArgument(
                f"name={brief(name)} for the let {cursor.called[0]}",
                required="no name=, since a let keeps its name; s.rename changes it",
            )
        return cursor.path
    if not isinstance(cursor.term, Input):
        raise DoesNotApply(
            f"{what} is neither a let nor an input",
            place=place_of(work.goal, cursor.path),
            required="the name of a let or of an input",
            suggestions=("s.lbind(…) or s.stage(…) binds a subterm to a let",),
        )
    bind(work, (), cursor.path, name or f"{cursor.term.array.name}s")
    return ()


def _loops_of(value: Expr, made: Reindexing) -> list[str]:
    """Return names for the loops over the elements, taken from generations where possible."""
    names = list(made.names[0])
    for position in range(len(names)):
        if not isinstance(value, Gen):
            break
        names[position], value = value.name, value.body
    return names


def _for_elements(made: Reindexing, facts: Facts) -> Reindexing:
    """Return the layout for loops over the elements, with at most as many digits as the rules support."""
    if made.packing is not None:
        raise InvalidArgument(
            'loops="elements" is not supported for packed segments',
            required='loops="places", which runs over the segments',
        )
    if len(made.places) <= MAX_ELEMENT_RANK:
        return made
    fewer = in_fewer_digits(made, MAX_ELEMENT_RANK)
    formulas.check_reindexing(fewer, facts)
    return fewer


def _over_elements(work: Derivation, path: Path, made: Reindexing, names: Sequence[str]) -> Path:
    """Rewrite ⊞[p < P] [hit(p)] · e[inverse(p)] → ⊞[p < P] [hit(p)] · (Σ[i < n] place P to(i) e[i])[p].

    Returns the path to the sum.
    """
    at = (*path, *(0,) * len(made.places))
    if isinstance(work.term(at), Guard):
        at = (*at, 0)
    scope = work.cursor(at).scope
    places = scope.indices[len(scope.indices) - len(made.places) :]
    return (*at[len(path) :], *Elements(work, at, made, origin=made.origin(places), places=places, names=names).run())


def _without_inverse(work: Derivation, path: Path, made: Reindexing, names: Sequence[str]) -> Path:
    """Rewrite v → ⊞[i < n] (Σ[j < n] place P to(j) v[j])[to(i)], by a proof that elements with one place are equal."""
    at = _elements(work, path, made)
    scope = work.cursor(at).scope
    own = scope.indices[len(scope.indices) - len(made.shape) :]
    return (*at[len(path) :], *Elements(work, at, made, origin=own, places=made.place(own), names=names).run())


def _elements(work: Derivation, path: Path, made: Reindexing) -> Path:
    """Rewrite v → ⊞[i < n] … v[i] …; return the path of the element."""
    at = path
    for extent, name in zip(work.term(at).type.shape, made.names[0], strict=True):
        depth = len(at) - len(path)
        work.rewrite("gen_eta", at, reverse=True, n=shift(extent, depth))
        work.rename(at, name)
        at = (*at, 0)
    return at


class _Steps:
    """Rewrites v → ⊞[i < n] … (⊞[p < P] … [hit] · v[inverse])[to], one digit of the place after the other.

    The stored term is a function of the place's digits. The wanted digits are substituted one after the other,
    outermost first, so that each stage is exactly the body of the next generation applied to that digit.
    """

    def __init__(self, work: Derivation, path: Path, made: Reindexing) -> None:
        self.work, self.path, self.made = work, path, made
        self.places = formulas.place_variables(made.names[1])
        at = _elements(work, path, made)
        self.at, self.scope = at, work.cursor(at).scope
        rank = len(made.shape)
        self.value = work.term((*at, *(0,) * rank))
        self.to = made.place(self.scope.indices[len(self.scope.indices) - rank :])
        self.stages = self._stages()

    def run(self) -> Path:
        """Apply the rewrites; return the path from the tensor to the stored term."""
        at = self.at
        condition, origin = self.stages[-1]
        if self.guarded:
            holds = formulas.closed_predicate(condition, self.scope, ())
            self.work.rewrite("guard_true", at, reverse=True, p=holds)
            self._come_from(origin, (*at, 0))
        else:
            self._come_from(origin, at)
        for position in reversed(range(len(self.places))):
            arguments: dict[str, Argument] = {
                "lo": ZERO,
                "hi": formulas.closed_formula(self.made.places[position], self.scope, ()),
                "k": formulas.closed_formula(self.to[position], self.scope, ()),
                "e": Function(("index",), self._body(position)),
            }
            self.work.apply(self.work.rule("get_gen"), at, arguments, reverse=True)
            at = (*at, 0)
            self.work.rename(at, self.places[position].name)
        return at[len(self.path) :]

    @property
    def guarded(self) -> bool:
        """True if there are places without an element."""
        return self.stages[0][0] != TRUE

    def _stages(self) -> list[tuple[Predicate, tuple[Index, ...]]]:
        """Return the hit condition and the origin with the first 0, 1, … digits replaced by the wanted ones."""
        places = [index(place) for place in self.places]
        limits = zip(places, self.made.places, strict=True)
        facts = self.scope.facts.assume(*(within(ZERO, place, extent) for place, extent in limits))
        open_ = [part for part in conjuncts(self.made.hit(places)) if not proves(facts, part)]
        condition, origin = conjunction(open_), self.made.origin(places)
        stages = [(condition, origin)]
        for place, wanted in zip(self.places, self.to, strict=True):
            placed = partial(formulas.substitute_leaf, place, wanted)
            condition = substitute(condition, placed)
            origin = tuple(map_leaves(part, placed) for part in origin)
            stages.append((condition, origin))
        return stages

    def _come_from(self, origin: Sequence[Index], at: Path) -> None:
        """Rewrite v[i] → v[inverse(to(i))], in each dimension."""
        for position, came in enumerate(origin):
            access = (*at, *(0,) * (len(origin) - 1 - position))
            term, wanted = self.work.term(access), formulas.closed_formula(came, self.scope, ())
            assert isinstance(term, Access)
            if term.index != wanted:
                self.work.rewrite("access_at", access, j=wanted)

    def _body(self, position: int) -> Expr:
        """Return the stored term as a function of the digits from `position` on, with earlier digits as wanted."""
        condition, origin = self.stages[position]
        own = self.places[position:]
        body: Expr = shift_term(self.value, len(own))
        for came in origin:
            body = Access(body, formulas.closed_formula(came, self.scope, own))
        if self.guarded:
            body = Guard(formulas.closed_predicate(condition, self.scope, own), body)
        for inner in reversed(range(position + 1, len(self.places))):
            extent = formulas.closed_formula(self.made.places[inner], self.scope, self.places[position:inner])
            body = Gen(ZERO, extent, body, self.places[inner].name)
        return body


# -- reading ----------------------------------------------------------------------------------------------------------


def _read_through(work: Derivation, below: Path) -> None:
    """Rewrite (⊞[i < n] ⊞[j < m] y[to(i, j)])[a][b] → y[to(a, b)], for each read."""
    work.repeat(["get_gen", "guard_access", "get_gen_guarded"], below)
