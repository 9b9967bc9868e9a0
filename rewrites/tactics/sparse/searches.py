"""Loops that search for entries: those that find the block of an entry are eliminated, others are named in notes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

from atl.core.index import AnyAtom, Bound, Index, Read, atoms, bound, floordiv, index
from atl.core.predicate import NonNegative, Predicate, Zero, conjunction, conjuncts, equal
from atl.core.terms import Gen, Guard, Reduce
from atl.errors import ATLError
from rewrites.cursors.cursor import Cursor
from rewrites.derivation import Derivation
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.sparse.loop_elimination import CannotEliminate, eliminate_loop


def eliminate_searches(work: Derivation) -> None:
    """Eliminate the sums whose index is proved to be a quotient.

    Σ[q < ⌈n / 4⌉] [4*q <= crd[p] <= 4*q + 3] · e(q) → e(crd[p] // 4), also if other sums are between.
    """
    while any(_eliminated(work, cursor) for cursor in list(work.cursors()) if isinstance(cursor.term, Guard)):
        simplify_guards(work)


def _eliminated(work: Derivation, guard: Cursor) -> bool:
    """Eliminate a sum around a guard whose condition determines its index; return True if there is one."""
    assert isinstance(guard.term, Guard)
    predicate, loops = guard.term.predicate, _loops_around(guard)
    for position, loop in enumerate(loops):
        if not (isinstance(loop.term, Reduce) and loop.term.monoid == "sum"):
            continue
        for value in _quotients(predicate, position):
            point = work.checkpoint
            try:
                work.rewrite("guard_equivalent", guard.path, q=conjunction([equal(bound(position), value), predicate]))
                eliminate_loop(work, loop.path, within=False)
            except (CannotEliminate, ATLError):
                work.rollback(point)
            else:
                return True
    return False


def _quotients(predicate: Predicate, position: int) -> Iterator[Index]:
    """Yield the quotients c*a // k for coordinates and indices a in conditions that relate c*a to k times an index."""
    found: dict[Index, None] = {}
    equations = [part.expression for part in conjuncts(predicate) if isinstance(part, Zero)]
    for expression in (*equations, *_windows(predicate, position)):
        factor = _factor(expression, position)
        for term, value in expression.terms:
            if abs(factor) > 1 and value * factor < 0 and len(term) == 1 and _is_independent(term[0], position):
                found[floordiv(index(term[0]) * abs(value), index(abs(factor)))] = None
    yield from found


def _windows(predicate: Predicate, position: int) -> list[Index]:
    """Return the expressions e >= 0 that bound a multiple of an index from both sides, a constant apart."""
    parts = [part.expression for part in conjuncts(predicate) if isinstance(part, NonNegative)]
    sides = [expression for expression in parts if _factor(expression, position)]
    return [each for pair in combinations(sides, 2) if (pair[0] + pair[1]).constant is not None for each in pair]


def _factor(expression: Index, position: int) -> int:
    return next((value for term, value in expression.terms if term == (Bound(position),)), 0)


def _is_independent(atom: AnyAtom, position: int) -> bool:
    """Return True for an element that is read, or an index, if it does not depend on the index at a position."""
    return isinstance(atom, Read | Bound) and all(each != Bound(position) for each in atoms(index(atom)))


def _loops_around(guard: Cursor) -> Sequence[Cursor]:
    """Return the loops around a guard, from the inside out."""
    return [above for above in reversed(guard.spine()[:-1]) if isinstance(above.term, Gen | Reduce)]


# -- notes ------------------------------------------------------------------------------------------------------------


def note_searches(work: Derivation) -> None:
    """Note the loops that test each index for the block of an entry, and those that compare all pairs of entries."""
    notes: dict[str, None] = {}
    for cursor in work.cursors():
        if not isinstance(cursor.term, Guard):
            continue
        predicate, loops = cursor.term.predicate, _loops_around(cursor)
        for position, loop in enumerate(loops):
            assert isinstance(loop.term, Gen | Reduce)
            if (loop.term.high - loop.term.low).constant is not None:
                continue  # the loop is within a block
            others = {atom for expression in _windows(predicate, position) for atom in atoms(expression)}
            if any(_is_entry(atom, loops) for atom in others - {Bound(position)}):
                notes[f"the loop {loop.called[0]} is dense, and tests each index for the blocks of entries"] = None
        for first, second in _pairs(predicate, loops):
            a, b = (loops[at].called[0] for at in (first, second))
            notes[f"the loops {a} and {b} compare all pairs of entries, unless they are marked as a merge"] = None
    work.notes += [note for note in notes if note not in work.notes]


def _is_entry(atom: AnyAtom, loops: Sequence[Cursor]) -> bool:
    """Return True for a coordinate that is read, and for the index of a sum."""
    if isinstance(atom, Bound):
        return atom.position < len(loops) and isinstance(loops[atom.position].term, Reduce)
    return isinstance(atom, Read)


def _pairs(predicate: Predicate, loops: Sequence[Cursor]) -> Iterator[tuple[int, int]]:
    """Yield the loops over entries whose coordinates a condition compares, the outer one first."""
    for part in conjuncts(predicate):
        if isinstance(part, Zero | NonNegative):
            found = {
                at.position
                for read in atoms(part.expression)
                if isinstance(read, Read)
                for at in atoms(index(read))
                if isinstance(at, Bound) and _is_entry(at, loops)
            }
            if len(found) == 2:
                inner, outer = sorted(found)
                yield outer, inner
