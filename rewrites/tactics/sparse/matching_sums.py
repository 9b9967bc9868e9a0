"""Hoisting of sums whose entries are matched with those of another operand, in preparation for co-iteration."""

from __future__ import annotations

from atl.core.index import Bound, Index, Read, atoms
from atl.core.predicate import Predicate, Zero, conjuncts
from atl.core.terms import Expr, Guard, Place, Reduce, Reshape
from atl.core.traversal import Path
from rewrites.derivation import Derivation
from rewrites.tactics.nests.guards import conditions, split_guard, used_positions


def hoist_matching_sums(work: Derivation) -> None:
    """Hoist inner sums, with their matching condition, out of sums on which they do not depend.

    Σp place m a[p] Σq [c = d[q]] · e → Σq [c = d[q]] · Σp place m a[p] e, where neither c, d nor the range contains p.

    So rows of two operands are matched before their entries. Each pair of sums becomes adjacent, as needed for one
    co-iteration per level (Fig. 7.2).
    """
    while any(
        _out(work, cursor.path) for cursor in list(work.cursors(top_down=True)) if _has_matching_sum(cursor.term)
    ):
        pass


def _has_matching_sum(term: Expr) -> bool:
    """Return True for a sum of scattered sums, the inner of which compares its own coordinates with others."""
    if not (isinstance(term, Reduce) and term.monoid == "sum"):
        return False
    inner = term.body
    while isinstance(inner, Reshape) and isinstance(inner.op, Place):
        inner = inner.operand
    return (
        isinstance(inner, Reduce)
        and inner.monoid == "sum"
        and not _depends_on(0, inner.low, inner.high)
        and isinstance(inner.body, Guard)
        and any(_compares(part) for part in conjuncts(inner.body.predicate))
    )


def _compares(part: Predicate) -> bool:
    """Return True for an equation on a coordinate at the innermost index that does not depend on the next one."""
    if not isinstance(part, Zero) or 1 in used_positions(part):
        return False
    return any(isinstance(atom, Read) and _depends_on(0, *atom.indices) for atom in atoms(part.expression))


def _depends_on(position: int, *stated: Index) -> bool:
    return any(atom == Bound(position) for e in stated for atom in atoms(e))


def _out(work: Derivation, path: Path) -> bool:
    """Hoist the inner sum, with the conditions that do not depend on the outer index, out of the outer one."""
    point = work.checkpoint
    while isinstance(work.term((*path, 0)), Reshape):
        at = (*path, 0)
        while isinstance(work.term((*at, 0)), Reshape):
            at = (*at, 0)
        if not (work.attempt("place_of_sum", at) and work.attempt("place_of_guard", (*at, 0))):
            work.rollback(point)
            return False
    if not work.attempt("sum_swap", path):
        work.rollback(point)
        return False
    guard = (*path, 0, 0)
    out = [part for part in conditions(work, guard) if 0 not in used_positions(part)]
    split_guard(work, guard, out)
    return work.attempt("sum_guard", (*path, 0), reverse=True)
