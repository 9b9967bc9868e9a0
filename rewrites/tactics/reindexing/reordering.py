"""Permuted loops (§6.5, E34): nested loops that run in the order of places, each place led back to their indices."""

from __future__ import annotations

from collections.abc import Sequence

from atl.checks.scope import Scope
from atl.core.index import ZERO, Index, atoms
from atl.core.predicate import conjunction, conjuncts, equal, within
from atl.core.substitution import shift_term
from atl.core.terms import Gen, Reduce, Reshape
from atl.core.traversal import Path
from atl.errors import InvalidArgument
from atl.prove import proves
from atl.text.printing import place_of
from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.instantiation import Function
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.loops import first_possible, loops
from rewrites.tactics.nests.tiling import loops_meant
from rewrites.tactics.reindexing.delta import guards_joined, summed
from rewrites.tactics.reindexing.formulas import Storable, closed_formula, closed_predicate, reindexing_at
from rewrites.tactics.reindexing.variables import place_variables
from rewrites.tactics.simplification import simplify_guards


def reorder(work: Derivation, name: Target | Sequence[Target], layout: Storable) -> None:
    """Runs a loop, or loops nested directly, in the order of the places of a layout.

    Σ[i < n] Σ[j < m] e(i, j)  →  Σ[p < P] Σ[q < Q] [hit(p, q)] · e(back(p, q))

    A generation is stored where its elements belong, in the order of the places:

    ⊞[i < n] e(i)  →  Σ[p < P] [hit(p)] · place n back(p) e(back(p))

    The layout is proved to give each iteration a place of its own; places that none has are left out by the guard.

    >>> import layouts
    >>> s = reschedule(atl.parse("f (A : float32[n, m]) : float32 := Σ[i < n] Σ[j < m] A[i, j]"))
    >>> s.reorder(["i", "j"], layouts.blocked(8, 8))
    f (A : float32[n, m]) : float32 :=
      Σ[p0 < ⌈n / 8⌉] Σ[p1 < ⌈m / 8⌉] Σ[p2 < 8] Σ[p3 < 8] [8*p0 + p2 < n ∧ 8*p1 + p3 < m] ·
        A[8*p0 + p2, 8*p1 + p3]
    """
    names = loops_meant(name)
    inner = [{cursor.path for cursor in loops(work, each)} for each in names[1:]]
    first_possible(work, names[0], lambda cursor: Order(work, cursor, inner, layout).taken())


class Order:
    """One nest of loops: sums over the places are put in, change places with the loops, and take their indices away."""

    def __init__(
        self,
        work: Derivation,
        cursor: Cursor,
        inner: Sequence[set[Path]],
        layout: Storable,
    ) -> None:
        self.work, self.path = work, cursor.path
        self.ranges = self._nest(cursor, inner)
        self.made = reindexing_at(layout, tuple(self.ranges), cursor.scope.facts)
        if self.made.inverse is None:
            raise InvalidArgument(
                "no way is known that leads back from the places of this layout to the indices of the loops",
                required="a layout with a way back: strides in order, each more than those before it span, or back=",
            )
        self.places = place_variables(self.made.names[1])
        self.rank = len(self.ranges)

    def _nest(self, cursor: Cursor, inner: Sequence[set[Path]]) -> list[Index]:
        """The extents of the loops, which are of one kind, nested directly, from zero on, and of no other's index."""
        extents: list[Index] = []
        for position in range(len(inner) + 1):
            path = (*cursor.path, *(0,) * position)
            at = self.work.cursor(path)
            term = at.term
            if not isinstance(term, Gen | Reduce) or (position and path not in inner[position - 1]):
                raise DoesNotApply(
                    "these loops do not stand directly inside of one another",
                    place=place_of(self.work.goal, path),
                    required="loops in their order, from the outermost on, with nothing between them",
                )
            if isinstance(term, Reduce) and term.monoid != "sum":
                raise DoesNotApply(
                    f"{at.called[0]} folds by {term.monoid}",
                    place=place_of(self.work.goal, path),
                    required="sums or generations: what a place without an element adds is zero",
                )
            if type(term) is not type(cursor.term):
                raise DoesNotApply(
                    "a sum and a generation have no common order",
                    place=place_of(self.work.goal, path),
                    required="sums only, or generations only",
                    suggestions=(f's.interchange("{cursor.called[0]}")',),
                )
            low, high = at.scope.index(term.low), at.scope.index(term.high)
            own = [each.atom for each in at.scope.indices[len(cursor.scope.indices) :]]
            if low != ZERO or any(atom in own for atom in atoms(high)):
                raise DoesNotApply(
                    f"the range of {at.called[0]} does not begin at zero, or depends on another of these loops",
                    place=place_of(self.work.goal, path),
                    required="a box: ranges from 0 to an extent each",
                )
            extents.append(high)
        return extents

    def taken(self) -> None:
        """Takes the steps."""
        if isinstance(self.work.term(self.path), Gen):
            self._scattered()
        at = (*self.path, *(0,) * self.rank)
        scope = self.work.cursor(at).scope
        self._summed_over_places(at, scope)
        self._places_outside()
        self._led_back()
        simplify_guards(self.work, self.path)
        simplify_conditions(self.work, self.path)
        simplify_indices(self.work, self.path)

    def _scattered(self) -> None:
        """⊞[i < n] ⊞[j < m] e → Σ[i < n] Σ[j < m] place n i (place m j e)."""
        for position in reversed(range(self.rank)):
            at = (*self.path, *(0,) * position)
            self.work.rewrite("gen_scatter", at)
            below = (*at, 0)
            while isinstance(self.work.term(below), Reshape) and isinstance(self.work.term((*below, 0)), Reduce):
                self.work.rewrite("place_of_sum", below)
                below = (*below, 0)
        self._placed_within()

    def _placed_within(self) -> None:
        """place n i (Σ[j < m] e) → Σ[j < m] place n i e, until the sums stand directly inside of one another."""
        while self.work.sweep(["place_of_sum"], self.path):
            pass

    def _summed_over_places(self, at: Path, scope: Scope) -> None:
        """e → Σ[p < P] Σ[q < Q] [p = to(i, j) ∧ …] · e, which holds as the places are within their extents."""
        to = self.made.place(scope.indices[len(scope.indices) - self.rank :])
        for position in reversed(range(len(self.places))):
            extent, wanted = (closed_formula(x, scope, ()) for x in (self.made.places[position], to[position]))
            element = Function(("index",), shift_term(self.work.term(at), 1))
            summed(self.work, at, extent, wanted, element, self.places[position].name)
        guards_joined(self.work, at, len(self.places))

    def _places_outside(self) -> None:
        """Σi Σj Σp Σq e → Σp Σq Σi Σj e."""
        for position in range(len(self.places)):
            for depth in reversed(range(position, position + self.rank)):
                self.work.rewrite("sum_swap", (*self.path, *(0,) * depth))

    def _led_back(self) -> None:
        """Σi Σj [p = to(i, j)] · e → [hit(p)] · e(back(p))."""
        count = len(self.places)
        around = (*self.path, *(0,) * count)
        at = (*around, *(0,) * self.rank)
        scope = self.work.cursor(at).scope
        before = len(scope.indices) - self.rank - count
        places, own = scope.indices[before : before + count], scope.indices[before + count :]
        origin = self.made.origin(places)
        there = [equal(p, q) for p, q in zip(places, self.made.place(origin), strict=True)]
        inside = [within(ZERO, x, extent) for x, extent in zip(origin, self.made.shape, strict=True)]
        facts = self.work.cursor(around).scope.facts.assume(*inside)
        open_ = [part for condition in there for part in conjuncts(condition) if not proves(facts, part)]
        led = [equal(x, came) for x, came in zip(own, origin, strict=True)]
        wanted = closed_predicate(conjunction([*led, *open_]), scope, ())
        self.work.rewrite("guard_equivalent", at, q=wanted)
        for position in reversed(range(self.rank)):
            outer = (*around, *(0,) * position)
            came = closed_formula(origin[position], self.work.cursor(outer).scope, ())
            self.work.rewrite("sum_delta", outer, a=came)
