"""Packed segments: elements addressed by a key and a position, with the segments stored consecutively."""

from __future__ import annotations

from atl.core.index import Bound, Index, Leaf, bound, index
from atl.core.predicate import at_most, conjunction, disjunction, equal
from atl.core.substitution import transform
from atl.core.terms import Expr, Guard
from atl.core.traversal import Path
from atl.surface.reindexing import Packing
from rewrites.derivation import Derivation
from rewrites.rule_arguments import Function
from rewrites.tactics.reindexing.delta import merge_sum_guards, to_delta_sum, to_place
from rewrites.tactics.reindexing.formulas import closed_formula, closed_predicate


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
