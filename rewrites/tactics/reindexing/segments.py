"""Segments, packed: what is stored by a key and a position is stored one segment after the other."""

from __future__ import annotations

from atl.core.index import Bound, Index, Leaf, bound, index
from atl.core.predicate import at_most, conjunction, disjunction, equal
from atl.core.substitution import transform
from atl.core.terms import Expr, Guard
from atl.core.traversal import Path
from atl.surface.reindexing import Packing
from rewrites.derivation import Derivation
from rewrites.instantiation import Function
from rewrites.tactics.reindexing.delta import guards_joined, placed, summed
from rewrites.tactics.reindexing.formulas import closed_formula, closed_predicate


def in_segments(work: Derivation, path: Path, packing: Packing, keys: Index) -> Path:
    """A box of keys and positions is read of its segments, one after the other; the way from there to these.

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
    """e(k, q) → Σ[l < K] Σ[r < length(l)] [l = k ∧ r = q] · e(l, r)."""
    scope = work.cursor(at).scope
    key = scope.indices[-2]
    names = [getattr(each.atom, "name", "") for each in scope.indices[-2:]]
    for position, extent in ((0, packing.count(key)), (1, keys)):
        element = Function(("index",), _abstracted(work.term(at), position))
        summed(work, at, closed_formula(extent, scope, ()), bound(position), element, names[-1 - position])
    guards_joined(work, at, 2)


def _placed_in_segment(work: Derivation, at: Path, packing: Packing) -> None:
    """[l = k ∧ r = q] · e(l, r) → (place P at(l, r) e(l, r))[at(k, q)]: of two segments the one ends before the other.

    That is said beside the equation first: each of the three questions is easy by itself.
    """
    scope = work.cursor(at).scope
    key, position, own_key, own_position = scope.indices[-4:]
    wanted, own = packing.at(key, position), packing.at(own_key, own_position)
    met = equal(wanted, own)
    in_order = [disjunction([at_most(b, a), packing.disjoint(a, b)]) for a, b in ((key, own_key), (own_key, key))]
    for condition in (conjunction([met, *in_order]), met):
        work.rewrite("guard_equivalent", at, q=closed_predicate(condition, scope, ()))
    extent, place, read = (closed_formula(x, scope, ()) for x in (packing.places, own, wanted))
    placed(work, at, extent, place, read)


def _abstracted(term: Expr, position: int) -> Expr:
    """The term under one more binder, whose index stands where the one at this position stood."""

    def moved(leaf: Leaf, depth: int) -> Index:
        if not isinstance(leaf, Bound) or leaf.position < depth:
            return index(leaf)
        free = leaf.position - depth
        return bound(depth if free == position else leaf.position + 1)

    return transform(term, moved)
