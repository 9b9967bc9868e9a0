"""Preserving padding when a tensor is bound: under a truncation, reads of the buffer get the guards of its elements."""

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
from rewrites.tactics.nests.guards import lift_guard, split_extrema, used_positions
from rewrites.tactics.simplification import reduce_accesses
from rewrites.tactics.storage.binding import bind


def keep_padding(work: Derivation, path: Path) -> bool:
    """Bind a truncated tensor with guarded elements, keeping the guard around each element's use.

    e  →  let x := e in ⊞[i < n] [p(i)] · x[i], where e is for example Σ[k < m] ⊞[i < n] [p(i)] · a(i, k).

    Returns True if it did; the value of the let is then at `path + (0,)`.
    """
    rank = work.term(path).type.rank
    if not _is_truncated(work, path) or not (rank or isinstance(work.term(path), Guard)):
        return False
    before = work.checkpoint
    try:
        if _bind_guarded(work, path, rank):
            return True
    except ATLError:
        pass  # a step on the element cannot be inverted
    work.rollback(before)
    return False


def _bind_guarded(work: Derivation, path: Path, rank: int) -> bool:
    element = path
    names = _names_of(work.term(path))
    for dimension in range(rank):
        work.rewrite("gen_eta", element, reverse=True)
        work.rename(element, names[dimension] if dimension < len(names) else "i")
        element = (*element, 0)
    start = work.taken
    reduce_accesses(work, element)
    guarded = _pull_guards_out(work, element)
    steps = [theorem.steps[-1] for theorem in work.theorems[start + 1 :]]
    term = work.term(element)
    if not guarded or not isinstance(term, Guard):
        return False
    # Duplicate the guard, and undo the steps inside the outer one.
    work.rewrite("guard_twice", element)
    for step in reversed(steps):
        below = (*element, 0, *step.path[len(element) :])
        work.apply(step.rule, below, step.arguments, reverse=not step.reverse)
    bind(work, path, (*(0,) * rank, 0, *(0,) * rank), "x")
    return True


def _names_of(term: Expr) -> list[str]:
    """Return the names of a tensor's generations, below sums and addends."""
    names = []
    while children(term):
        if isinstance(term, Gen):
            names.append(term.name)
        term = children(term)[-1 if isinstance(term, Let) else 0].expr
    return names


def _is_truncated(work: Derivation, path: Path) -> bool:
    """Return True if elements at this place are elements of a truncated tensor, with no computation between."""
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
    """Return True if every truncation around a place is proved to cut only padding."""
    for length in range(len(path)):
        cursor = work.cursor(path[:length])
        found = truncation_at(cursor.term, cursor.scope, cursor.path)
        if found is not None and not all(isinstance(found.decide(case), Proved) for case in found.operand.cases):
            return False
    return True


def _pull_guards_out(work: Derivation, path: Path) -> bool:
    """Move guards out of sums and additions as far as possible; return True if the place then is a guard."""
    match work.term(path):
        case Guard():
            _pull_guards_out(work, (*path, 0))
        case Reduce("sum"):
            _pull_guards_out(work, (*path, 0))
            _add_outer_condition(work, path)
        case Binary("add"):
            _pull_guards_out(work, (*path, 0))
            _pull_guards_out(work, (*path, 1))
        case _:
            return False
    lift_guard(work, path)
    return isinstance(work.term(path), Guard)


def _add_outer_condition(work: Derivation, path: Path) -> None:
    """Add to the guard in a sum the condition without the summation variable that it implies.

    Σ[q < m] [i + q < n] · e → Σ[q < m] [i + q < n ∧ i < n] · e
    """
    cursor, inner = work.cursor(path), work.cursor((*path, 0))
    if not isinstance(inner.term, Guard):
        return
    known = split_extrema(inner.term.predicate)
    new = []
    for part in known:
        if isinstance(part, NonNegative) and 0 in used_positions(part):
            most = upper_bound(cursor.scope.facts, inner.scope.index(part.expression), [cursor.loop])
            weaker = None if most is None else at_most(ZERO, closed(most, inner.scope))
            # Skip a condition on sizes only, which is the same for all elements of the tile.
            if weaker is not None and used_positions(weaker):
                new.append(weaker)
    if new:
        work.attempt("guard_equivalent", inner.path, q=conjunction([*known, *new]))
