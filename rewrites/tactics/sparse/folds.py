"""Minima and maxima of entries: max[j < m] Σp [j = crd[p]] · e(p) → max[p] e(p), with zero unless the row is full.

By `max_of_few`, the maximum of a row with fewer entries than columns is that of zero and its entries. If coordinates
are distinct, every element is one entry, and a row with an entry in each column contains them in order.
"""

from __future__ import annotations

from atl.core.index import ZERO, Bound, Index, Leaf, bound, index, map_leaves, shift
from atl.core.predicate import Predicate, at_most, conjunction, conjuncts, equal, less
from atl.core.terms import Expr, Guard, Reduce
from atl.core.traversal import Path
from atl.errors import ATLError
from rewrites.derivation import Derivation
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.sparse.loop_elimination import CannotEliminate, depends_on, eliminate_loop, solutions


def fold_entries(work: Derivation) -> None:
    """Fold entries instead of elements by minimum and maximum, where coordinates are proved to be distinct."""
    while any(_folded(work, cursor.path) for cursor in work.cursors(top_down=True) if _is_fold(cursor.term)):
        pass


def _folded(work: Derivation, path: Path) -> bool:
    point = work.checkpoint
    try:
        _fold(work, path)
    except (CannotEliminate, ATLError):
        work.rollback(point)
        return False
    return True


def _is_fold(term: Expr) -> bool:
    """Return True for a minimum or maximum of sums of entries, whose coordinates are compared with its index only."""
    match term:
        case Reduce("min" | "max", low, body=Reduce("sum", body=Guard(predicate))) if low == ZERO:
            return len(conjuncts(predicate)) == 1 and any(map(_is_coordinate, solutions(predicate, 1)))
        case _:
            return False


def _is_coordinate(value: Index) -> bool:
    """Return True for an index that depends on the position of an entry, and not on the index of the fold."""
    return depends_on(0, value) and not depends_on(1, value)


def _fold(work: Derivation, path: Path) -> None:
    """Rewrite max[j < n] Σp [j = a(p)] · e to a selection by the number of entries.

    Raises `CannotEliminate` or `DoesNotApply` if coordinates are not proved to be within 0 and n, and distinct.
    """
    fold = work.term(path)
    assert isinstance(fold, Reduce)
    assert isinstance(fold.body, Reduce)
    assert isinstance(fold.body.body, Guard)
    coordinate = next(filter(_is_coordinate, solutions(fold.body.body.predicate, 1)))
    work.rewrite(f"{fold.monoid}_of_few", path)
    work.rename((*path, 1), fold.body.name)
    work.rename((*path, 2), fold.name)
    eliminate_loop(work, (*path, 0, 0), within=True)
    work.rewrite("where_count", path)
    few, full = (*path, 0), (*path, 1)
    # max[p] max[j < n] max([j = a(p)] · Σq [j = a(q)] · e(j, q), 0) → max[p] max(e(a(p), p), 0)
    work.rewrite(f"{fold.monoid}_delta", (*few, 0), a=shift(_at(coordinate, bound(1)), -1, 1))
    simplify_guards(work, few)
    _eliminate(work, (*few, 0, 0), bound(0))
    # max[j < n] Σ[lo <= p < hi] [j = a(p)] · e(j, p) → max[j < n] e(j, lo + j). The proof needs the bounds of the first
    # and of the last coordinate.
    low, high = shift(fold.body.low, 1), shift(fold.body.high, 1)
    _eliminate(
        work,
        (*full, 0),
        fold.body.low + bound(0),
        at_most(ZERO, _at(coordinate, low)),
        less(_at(coordinate, high - 1), shift(fold.high, 2)),
    )


def _eliminate(work: Derivation, path: Path, position: Index, *known: Predicate) -> None:
    """Eliminate a sum of which only the term at a position is computed. The proof may need conditions that are true."""
    found = equal(bound(0), shift(position, 1))
    if known:
        work.rewrite("guard_equivalent", (*path, 0), q=conjunction([found, *known]))
    work.rewrite("guard_equivalent", (*path, 0), q=found)
    work.rewrite("sum_delta_within", path, a=position)


def _at(value: Index, position: Index) -> Index:
    """Return an index in which the position of the entry is replaced."""

    def moved(leaf: Leaf) -> Index:
        return position if leaf == Bound(0) else index(leaf)

    return map_leaves(value, moved)
