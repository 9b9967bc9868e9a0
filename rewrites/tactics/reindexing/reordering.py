"""Permuted loops (§6.5, E34): nested loops in the order of a layout's places, with indices computed by its inverse."""

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
from rewrites.cursors.targets import restrict
from rewrites.derivation import Derivation
from rewrites.errors import DoesNotApply
from rewrites.rule_arguments import Function
from rewrites.tactics import arg
from rewrites.tactics.indices import simplify_conditions, simplify_indices
from rewrites.tactics.loops import find_loops, first_possible
from rewrites.tactics.nests.tiling import as_targets
from rewrites.tactics.reindexing.elements import merge_sum_guards, to_delta_sum
from rewrites.tactics.reindexing.formulas import closed_formula, closed_predicate, place_variables, reindexing_at
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.tactic import tactic


@tactic
def reorder(work: Derivation, name: arg.Loops, layout: arg.Layout, *, in_: arg.Inside = None) -> None:
    """Run a loop, or directly nested loops, in the order of a layout's places.

    Places (p, q) are the offsets to which the layout maps iterations (i, j). `inverse` maps a place back to its
    iteration, and `hit` holds if the place has one. In other tactics, `to` is the layout's map itself.

    Σ[i < n] Σ[j < m] e(i, j)  →  Σ[p < P] Σ[q < Q] [hit(p, q)] · e(inverse(p, q))

    The elements of a generation are scattered to their positions, in the order of the places:

    ⊞[i < n] e(i)  →  Σ[p < P] [hit(p)] · place n inverse(p) e(inverse(p))

    The layout is proved to map each iteration to a separate place.

    >>> import layouts
    >>> s = reschedule(atl.parse("f (A : float32[n, m]) : float32 := Σ[i < n] Σ[j < m] A[i, j]"))
    >>> s.reorder(["i", "j"], layouts.blocked(8, 8))
    f (A : float32[n, m]) : float32 :=
      Σ[p0 < ⌈n / 8⌉] Σ[p1 < ⌈m / 8⌉] Σ[p2 < 8] Σ[p3 < 8] [8*p0 + p2 < n ∧ 8*p1 + p3 < m] ·
        A[8*p0 + p2, 8*p1 + p3]
    """
    name = restrict(name, in_)
    names = as_targets(name)
    inner = [{cursor.path for cursor in find_loops(work, each)} for each in names[1:]]
    first_possible(work, names[0], lambda cursor: Reordering(work, cursor, inner, layout).run())


class Reordering:
    """Reorders one loop nest: introduces sums over the places, moves them out, and eliminates the loops' indices."""

    def __init__(
        self,
        work: Derivation,
        cursor: Cursor,
        inner: Sequence[set[Path]],
        layout: arg.Layout,
    ) -> None:
        self.work, self.path = work, cursor.path
        self.ranges = self._nest(cursor, inner)
        self.made = reindexing_at(layout, tuple(self.ranges), cursor.scope.facts)
        if self.made.inverse is None:
            raise InvalidArgument(
                "this layout has no known inverse from its places to the loop indices",
                required="a layout with an inverse: strides in order, each more than those before it span, or back=",
            )
        self.places = place_variables(self.made.names[1])
        self.rank = len(self.ranges)

    def _nest(self, cursor: Cursor, inner: Sequence[set[Path]]) -> list[Index]:
        """Return the extents of the loops, which must be of one kind, directly nested, zero-based and independent."""
        extents: list[Index] = []
        for position in range(len(inner) + 1):
            path = (*cursor.path, *(0,) * position)
            at = self.work.cursor(path)
            term = at.term
            if not isinstance(term, Gen | Reduce) or (position and path not in inner[position - 1]):
                raise DoesNotApply(
                    "these loops are not directly nested",
                    place=place_of(self.work.goal, path),
                    required="loops in order, outermost first, with nothing between them",
                )
            if isinstance(term, Reduce) and term.monoid != "sum":
                raise DoesNotApply(
                    f"{at.called[0]} is a {term.monoid}",
                    place=place_of(self.work.goal, path),
                    required="sums or generations, since a place without an element adds zero",
                )
            if type(term) is not type(cursor.term):
                raise DoesNotApply(
                    "a sum and a generation cannot be reordered together",
                    place=place_of(self.work.goal, path),
                    required="sums only, or generations only",
                    suggestions=(f's.interchange("{cursor.called[0]}")',),
                )
            low, high = at.scope.index(term.low), at.scope.index(term.high)
            own = [each.atom for each in at.scope.indices[len(cursor.scope.indices) :]]
            if low != ZERO or any(atom in own for atom in atoms(high)):
                raise DoesNotApply(
                    f"the range of {at.called[0]} does not start at zero, or depends on another of these loops",
                    place=place_of(self.work.goal, path),
                    required="a box: ranges from 0 to an extent each",
                )
            extents.append(high)
        return extents

    def run(self) -> None:
        """Apply the rewrites."""
        if isinstance(self.work.term(self.path), Gen):
            self._scattered()
        at = (*self.path, *(0,) * self.rank)
        scope = self.work.cursor(at).scope
        self._summed_over_places(at, scope)
        self._places_outside()
        self._substitute_inverse()
        simplify_guards(self.work, self.path)
        simplify_conditions(self.work, self.path)
        simplify_indices(self.work, self.path)

    def _scattered(self) -> None:
        """Rewrite ⊞[i < n] ⊞[j < m] e → Σ[i < n] Σ[j < m] place n i (place m j e)."""
        for position in reversed(range(self.rank)):
            at = (*self.path, *(0,) * position)
            self.work.rewrite("gen_scatter", at)
            below = (*at, 0)
            while isinstance(self.work.term(below), Reshape) and isinstance(self.work.term((*below, 0)), Reduce):
                self.work.rewrite("place_of_sum", below)
                below = (*below, 0)
        self._placed_within()

    def _placed_within(self) -> None:
        """Rewrite place n i (Σ[j < m] e) → Σ[j < m] place n i e, until the sums are directly nested."""
        while self.work.sweep(["place_of_sum"], self.path):
            pass

    def _summed_over_places(self, at: Path, scope: Scope) -> None:
        """Rewrite e → Σ[p < P] Σ[q < Q] [p = to(i, j) ∧ …] · e, using that the places are within their extents."""
        to = self.made.place(scope.indices[len(scope.indices) - self.rank :])
        for position in reversed(range(len(self.places))):
            extent, wanted = (closed_formula(x, scope, ()) for x in (self.made.places[position], to[position]))
            element = Function(("index",), shift_term(self.work.term(at), 1))
            to_delta_sum(self.work, at, extent, wanted, element, self.places[position].name)
        merge_sum_guards(self.work, at, len(self.places))

    def _places_outside(self) -> None:
        """Rewrite Σi Σj Σp Σq e → Σp Σq Σi Σj e."""
        for position in range(len(self.places)):
            for depth in reversed(range(position, position + self.rank)):
                self.work.rewrite("sum_swap", (*self.path, *(0,) * depth))

    def _substitute_inverse(self) -> None:
        """Rewrite Σi Σj [p = to(i, j)] · e → [hit(p)] · e(inverse(p))."""
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
