"""Padding that a buffer would lose: where a truncation cuts it, reads of the buffer are guarded as its elements are."""

from __future__ import annotations

from atl.core.index import ZERO
from atl.core.predicate import NonNegative, at_most, conjunction
from atl.core.terms import Binary, Concat, Expr, Gen, Guard, Let, Reduce, Reshape, TruncateLeft, TruncateRight
from atl.core.traversal import Path, children
from atl.errors import ATLError
from atl.prove import Proved, upper_bound
from padtypes import truncation_at
from rewrites.derivation import Derivation
from rewrites.tactics.indices import closed
from rewrites.tactics.nests.bounds import spread
from rewrites.tactics.nests.guards import moved_out, used_positions
from rewrites.tactics.simplification import reduce_accesses
from rewrites.tactics.storage.binding import bind


def padding_kept(work: Derivation, path: Path) -> bool:
    """Binds a tensor whose elements are guarded, and which is truncated, with the guard around each element's use.

    e  →  let x := e in ⊞[i < n] [p(i)] · x[i], where e is Σ[k < m] ⊞[i < n] [p(i)] · a(i, k), say.

    Says whether it did: the value of the let stands at `path + (0,)` then.
    """
    rank = work.term(path).type.rank
    if not _is_truncated(work, path) or not (rank or isinstance(work.term(path), Guard)):
        return False
    before = work.checkpoint
    try:
        if _bound(work, path, rank):
            return True
    except ATLError:
        pass  # the element's form is one that cannot be taken back
    work.rollback(before)
    return False


def _bound(work: Derivation, path: Path, rank: int) -> bool:
    element = path
    names = _names_of(work.term(path))
    for dimension in range(rank):
        work.rewrite("gen_eta", element, reverse=True)
        work.rename(element, names[dimension] if dimension < len(names) else "i")
        element = (*element, 0)
    start = work.taken
    reduce_accesses(work, element)
    guarded = _pulled_out(work, element)
    there = [theorem.steps[-1] for theorem in work.theorems[start + 1 :]]
    term = work.term(element)
    if not guarded or not isinstance(term, Guard):
        return False
    # The element is guarded; within one more guard that is the same, it is taken back to what it was made of.
    work.rewrite("guard_twice", element)
    for step in reversed(there):
        below = (*element, 0, *step.path[len(element) :])
        work.apply(step.rule, below, step.arguments, reverse=not step.reverse)
    bind(work, path, (*(0,) * rank, 0, *(0,) * rank), "x")
    return True


def _names_of(term: Expr) -> list[str]:
    """The names of the generations that a tensor is made by, below its sums and its addends."""
    names = []
    while children(term):
        if isinstance(term, Gen):
            names.append(term.name)
        term = children(term)[-1 if isinstance(term, Let) else 0].expr
    return names


def _is_truncated(work: Derivation, path: Path) -> bool:
    """Whether elements at this place are elements of what is truncated, with nothing computed from them in between."""
    for length in range(len(path) - 1, -1, -1):
        match work.term(path[:length]):
            case Reshape(TruncateRight() | TruncateLeft()):
                return True
            case Gen() | Reduce() | Guard() | Reshape() | Concat():
                continue
            case Let() if path[length] == 1:
                continue
            case _:
                return False
    return False


def cuts_only_padding(work: Derivation, path: Path) -> bool:
    """Whether every truncation around a place is proved to cut only padding."""
    for length in range(len(path)):
        cursor = work.cursor(path[:length])
        found = truncation_at(cursor.term, cursor.scope, cursor.path)
        if found is not None and not all(isinstance(found.decide(case), Proved) for case in found.operand.cases):
            return False
    return True


def _pulled_out(work: Derivation, path: Path) -> bool:
    """Brings guards out of sums and additions, as far as they go. Says whether a guard stands at the place then."""
    match work.term(path):
        case Guard():
            _pulled_out(work, (*path, 0))
        case Reduce("sum"):
            _pulled_out(work, (*path, 0))
            _weakened(work, path)
        case Binary("add"):
            _pulled_out(work, (*path, 0))
            _pulled_out(work, (*path, 1))
        case _:
            return False
    moved_out(work, path)
    return isinstance(work.term(path), Guard)


def _weakened(work: Derivation, path: Path) -> None:
    """Σ[q < m] [i + q < n] · e → Σ[q < m] [i + q < n ∧ i < n] · e: with what holds outside where any term is there."""
    cursor, inner = work.cursor(path), work.cursor((*path, 0))
    if not isinstance(inner.term, Guard):
        return
    known = spread(inner.term.predicate)
    new = []
    for part in known:
        if isinstance(part, NonNegative) and 0 in used_positions(part):
            most = upper_bound(cursor.scope.facts, inner.scope.index(part.expression), [cursor.loop])
            weaker = None if most is None else at_most(ZERO, closed(most, inner.scope))
            # One of sizes alone, such as that there are terms at all, tells elements of the tile not apart.
            if weaker is not None and used_positions(weaker):
                new.append(weaker)
    if new:
        work.attempt("guard_equivalent", inner.path, q=conjunction([*known, *new]))
