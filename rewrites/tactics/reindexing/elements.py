"""Loops over elements: a tensor as the sum of its elements, each scattered to its place in a layout."""

from __future__ import annotations

from collections.abc import Sequence

from atl.checks.scope import Scope
from atl.core.index import ONE, ZERO, Index, Var, index
from atl.core.predicate import Predicate, conjunction, equal
from atl.core.substitution import shift_term
from atl.core.terms import Access, Expr, Guard, Reduce
from atl.core.traversal import Path
from atl.surface.reindexing import Reindexing
from atl.surface.values import IndexExpr
from rewrites.derivation import Derivation
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics.reindexing.delta import merge_sum_guards, to_delta_sum, to_place
from rewrites.tactics.reindexing.formulas import closed_formula, closed_predicate
from rewrites.tactics.reindexing.variables import element_variables


def in_fewer_digits(made: Reindexing, most: int) -> Reindexing:
    """Return the layout with at most `most` digits per place, by flattening the last ones row-major."""
    kept, joined = made.places[: most - 1], made.places[most - 1 :]
    back = made.inverse

    def to(*at: IndexExpr) -> tuple[Index, ...]:
        place = made.place([x.node for x in at])
        flat = ZERO
        for digit, extent in zip(place[most - 1 :], joined, strict=True):
            flat = flat * extent + digit
        return (*place[: most - 1], flat)

    def inverse(*at: IndexExpr) -> Sequence[Index]:
        rest, digits = at[-1], list[IndexExpr]()
        for extent in reversed(joined[1:]):
            digits.insert(0, rest % IndexExpr(extent))
            rest = rest // IndexExpr(extent)
        return made.origin([x.node for x in (*at[:-1], rest, *digits)])

    return Reindexing(made.shape, (*kept, product(joined)), to, None if back is None else inverse)


def product(extents: Sequence[Index]) -> Index:
    """Return the product of the extents."""
    found = ONE
    for extent in extents:
        found = found * extent
    return found


class Elements:
    """Rewrites the read v[x] to a read, at the place of x, of the sum of all scattered elements.

    v[x, y]  →  (Σ[i < n] Σ[j < m] place P to₀(i, j) place Q to₁(i, j) v[i, j])[p, q]
    """

    def __init__(
        self,
        work: Derivation,
        at: Path,
        made: Reindexing,
        *,
        origin: Sequence[Index],
        places: Sequence[Index],
        names: Sequence[str],
    ) -> None:
        self.work, self.at, self.made = work, at, made
        self.scope: Scope = work.cursor(at).scope
        self.origin, self.places = origin, places
        self.rank = len(made.shape)
        self.own = element_variables(names)
        value = work.term(at)
        for _ in range(self.rank):
            assert isinstance(value, Access)
            value = value.tensor
        self.value = value

    def run(self) -> Path:
        """Rewrite, and return the path from the element to the sum."""
        self._summed()
        body = (*self.at, *(0,) * self.rank)
        self._placed(body)
        for depth in reversed(range(self.rank)):
            for access in range(len(self.places)):
                self.work.rewrite("get_sum", (*self.at, *(0,) * (depth + access)), reverse=True)
        return (0,) * len(self.places)

    def _summed(self) -> None:
        """Rewrite v[x, y] → Σ[i < n] Σ[j < m] [i = x ∧ j = y] · v[i, j]."""
        for r in reversed(range(self.rank)):
            own = index(self.own[r])
            extent = closed_formula(self.made.shape[r], self.scope, ())
            wanted = closed_formula(self.origin[r], self.scope, ())
            element = Function(("index",), self._term(r + 1, [*self.origin[:r], own], [self.own[r]]))
            to_delta_sum(self.work, self.at, extent, wanted, element, self.own[r].name)
        merge_sum_guards(self.work, self.at, self.rank)

    def _term(self, r: int, at: Sequence[Index], inside: Sequence[Var]) -> Expr:
        """Return Σ[j < m] [j = y] · v[at, j], for the dimensions from r on, under binders of these variables."""
        if r == self.rank:
            value: Expr = shift_term(self.value, len(inside))
            for x in at:
                value = Access(value, closed_formula(x, self.scope, inside))
            return value
        own, under = index(self.own[r]), (*inside, self.own[r])
        there = closed_predicate(equal(own, self.origin[r]), self.scope, under)
        body = Guard(there, self._term(r + 1, [*at, own], under))
        extent = closed_formula(self.made.shape[r], self.scope, inside)
        return Reduce("sum", ZERO, extent, body, self.own[r].name)

    def _placed(self, at: Path) -> None:
        """Rewrite [i = x ∧ j = y] · e → (place P to₀(i, j) place Q to₁(i, j) e)[p, q]."""
        scope = self.work.cursor(at).scope
        to = self.made.place(scope.indices[len(scope.indices) - self.rank :])
        equal_places = [closed_predicate(equal(p, own), scope, ()) for p, own in zip(self.places, to, strict=True)]
        self.work.rewrite("guard_equivalent", at, q=conjunction(equal_places))
        for k in range(len(equal_places) - 1):
            self._taken_apart((*at, *(0,) * k), equal_places[k], conjunction(equal_places[k + 1 :]))
        for k in reversed(range(len(equal_places))):
            guard = (*at, *(0,) * k)
            for _ in range(len(equal_places) - 1 - k):
                self.work.rewrite("guard_access", guard, reverse=True)
                guard = (*guard, 0)
            extent, place, wanted = (closed_formula(x, scope, ()) for x in (self.made.places[k], to[k], self.places[k]))
            to_place(self.work, guard, extent, place, wanted)

    def _taken_apart(self, at: Path, first: Predicate, rest: Predicate) -> None:
        """Split a guard: [p ∧ q] · e → [p] · [q] · e."""
        arguments: dict[str, Argument] = {"p": first, "q": rest, "e": self.work.term((*at, 0))}
        self.work.apply(self.work.rule("guard_guard"), at, arguments, reverse=True)
