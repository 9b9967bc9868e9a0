"""Sums over elements, each scattered to its place in a layout: Kronecker deltas, whole tensors, and packed segments."""

from __future__ import annotations

from collections.abc import Sequence

from atl.checks.scope import Scope
from atl.core.index import ONE, ZERO, Bound, Index, Leaf, Var, bound, index
from atl.core.predicate import Predicate, at_most, conjunction, disjunction, equal
from atl.core.substitution import shift_term, transform
from atl.core.terms import Access, Expr, Guard, Reduce
from atl.core.traversal import Path
from atl.surface.reindexing import Packing, Reindexing
from atl.surface.values import IndexExpr
from rewrites.derivation import Derivation
from rewrites.rule_arguments import Argument, Function
from rewrites.tactics.reindexing.formulas import closed_formula, closed_predicate, element_variables

# -- Kronecker deltas -------------------------------------------------------------------------------------------------


def to_delta_sum(work: Derivation, at: Path, extent: Index, wanted: Index, element: Function, name: str) -> None:
    """Rewrite e(a) → Σ[i < n] [i = a] · e(i), where a is within n."""
    arguments: dict[str, Argument] = {"lo": ZERO, "hi": extent, "a": wanted, "e": element}
    work.apply(work.rule("sum_delta_within"), at, arguments, reverse=True)
    work.rename(at, name)


def merge_sum_guards(work: Derivation, at: Path, count: int) -> None:
    """Merge the guards of `count` nested sums: Σ[i] [p] · Σ[j] [q] · e → Σ[i] Σ[j] [p ∧ q] · e."""
    inside = (*at, 0)
    for _ in range(count - 1):
        work.rewrite("sum_guard", inside)
        inside = (*inside, 0)
        work.rewrite("guard_guard", inside)


def to_place(work: Derivation, at: Path, extent: Index, place: Index, wanted: Index) -> None:
    """Rewrite [k = i] · e → (place n i e)[k]."""
    arguments: dict[str, Argument] = {"n": extent, "i": place, "e": work.term((*at, 0)), "k": wanted}
    work.apply(work.rule("place_access"), at, arguments, reverse=True)


# -- elements ---------------------------------------------------------------------------------------------------------


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


# -- packed segments --------------------------------------------------------------------------------------------------


def in_segments(work: Derivation, path: Path, packing: Packing, keys: Index) -> Path:
    """Rewrite a box of keys and positions to reads of consecutive segments; return the path to the segments.

    ⊞[k < K] ⊞[q < Q] [hit] · e(k, q)
    →  ⊞[k < K] ⊞[q < Q] [q < length(k)] · (Σ[l < K] Σ[r < length(l)] place P at(l, r) e(l, r))[at(k, q)]
    """
    at = (*path, 0, 0)
    if isinstance(work.term(at), Guard):
        scope = work.cursor(at).scope
        work.attempt("guard_equivalent", at, q=closed_predicate(packing.contains(*scope.indices[-2:]), scope, ()))
        at = (*at, 0)
    _summed_by_segment(work, at, packing, keys)
    _placed_in_segment(work, (*at, 0, 0), packing)
    for outer in ((*at, 0), at):
        work.rewrite("get_sum", outer, reverse=True)
    return (*at, 0)[len(path) :]


def _summed_by_segment(work: Derivation, at: Path, packing: Packing, keys: Index) -> None:
    """Rewrite e(k, q) → Σ[l < K] Σ[r < length(l)] [l = k ∧ r = q] · e(l, r)."""
    scope = work.cursor(at).scope
    key = scope.indices[-2]
    names = [getattr(each.atom, "name", "") for each in scope.indices[-2:]]
    for position, extent in ((0, packing.count(key)), (1, keys)):
        element = Function(("index",), _abstracted(work.term(at), position))
        to_delta_sum(work, at, closed_formula(extent, scope, ()), bound(position), element, names[-1 - position])
    merge_sum_guards(work, at, 2)


def _placed_in_segment(work: Derivation, at: Path, packing: Packing) -> None:
    """Rewrite [l = k ∧ r = q] · e(l, r) → (place P at(l, r) e(l, r))[at(k, q)].

    The order of two segments is added to the condition first, since the two proofs are easier than one.
    """
    scope = work.cursor(at).scope
    key, position, own_key, own_position = scope.indices[-4:]
    wanted, own = packing.at(key, position), packing.at(own_key, own_position)
    met = equal(wanted, own)
    in_order = [disjunction([at_most(b, a), packing.disjoint(a, b)]) for a, b in ((key, own_key), (own_key, key))]
    for condition in (conjunction([met, *in_order]), met):
        work.rewrite("guard_equivalent", at, q=closed_predicate(condition, scope, ()))
    extent, place, read = (closed_formula(x, scope, ()) for x in (packing.places, own, wanted))
    to_place(work, at, extent, place, read)


def _abstracted(term: Expr, position: int) -> Expr:
    """Abstract the term over the index at this position, under one more binder."""

    def moved(leaf: Leaf, depth: int) -> Index:
        if not isinstance(leaf, Bound) or leaf.position < depth:
            return index(leaf)
        free = leaf.position - depth
        return bound(depth if free == position else leaf.position + 1)

    return transform(term, moved)
