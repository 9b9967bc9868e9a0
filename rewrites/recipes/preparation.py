"""Recipes that prepare a goal for the others: elements instead of vectors, unrolled taps, reciprocals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from rewrites.cursors.cursor import Cursor, cursor_at, walk
from rewrites.errors import DoesNotApply
from rewrites.recipes.declaration import recipe
from rewrites.recipes.structure import Loop, Read, below, everywhere, loop_at, reads_below, target_of

PHASES: Final = 4
"""Maximum number of phases of a loop that are separated."""
TAPS: Final = 9
"""Maximum number of terms of a sum that is unrolled."""
MAX_READS: Final = 72
"""Maximum number of reads in the unrolled terms."""


@recipe()
def elements(s: Any) -> None:
    """Compute elements instead of vectors: (⊞[i] a) ⊕ b → ⊞[i] a + b[i], Σ[k] ⊞[i] e → ⊞[i] Σ[k] e."""
    before = len(s.steps)
    vectors = (cursor for cursor in everywhere(s.goal) if isinstance(cursor.term, terms.Binary | terms.Unary))
    if any(cursor.term.type.rank for cursor in vectors):
        s.normalize()
    while (found := next(_sums_of_vectors(s.goal), None)) is not None:
        s.interchange(target_of(s.goal, found.path))
    if len(s.steps) == before:
        raise DoesNotApply("the goal already computes elements", required="arithmetic on vectors, or a sum of vectors")


def _sums_of_vectors(program: Any) -> Iterator[Cursor]:
    for cursor in everywhere(program):
        if isinstance(cursor.term, terms.Reduce) and cursor.term.type.rank:
            body = cursor.child(0)
            while isinstance(body.term, terms.Guard):
                body = body.child(0)
            if isinstance(body.term, terms.Gen):
                yield cursor


@recipe()
def unroll_taps(s: Any) -> None:
    """Unroll sums of a few terms, such as the taps of a filter: Σ[t < 3] e(t) → e(0) + e(1) + e(2)."""
    before = len(s.steps)
    while (found := next(_taps(s.goal), None)) is not None:
        s.unroll(target_of(s.goal, found.path))
    if len(s.steps) == before:
        raise DoesNotApply("no sum has a small constant number of terms", required=f"a sum of at most {TAPS} terms")


def _taps(program: Any) -> Iterator[Cursor]:
    """Yield the reductions of few terms whose elements move along with a loop around them, the inner ones first."""
    for cursor in reversed(list(everywhere(program))):
        if isinstance(cursor.term, terms.Reduce) and not cursor.term.type.rank:
            loop = loop_at(cursor)
            reads = list(reads_below(cursor))
            few = loop.trips is not None and loop.trips <= TAPS and loop.trips * len(reads) <= MAX_READS
            if few and any(_moves_along(read, loop) for read in reads):
                yield cursor


def _moves_along(read: Read, loop: Loop) -> bool:
    """Return whether an element is read at the sum of a loop's index and another one, as through a window."""
    indices = [{atom for atom in ix.atoms(index) if isinstance(atom, ix.Var)} for index in read.indices]
    return any(loop.variable in variables and len(variables) > 1 for variables in indices)


@recipe()
def split_phases(s: Any) -> None:
    """Separate the phases of a loop that reads x[i // 2]: ⊞[i < 2*n] e(i // 2, i % 2) → ⊞[io < n] e(io, 0) ++ e(io, 1).

    Then reads are contiguous. This suits upsampling by 2, 3 or 4.
    """
    before = len(s.steps)
    while (found := next(_phases(s.goal), None)) is not None:
        cursor, phases = found
        s.tile(target_of(s.goal, cursor.path), phases)
        tiled = [
            each for each in walk(cursor_at(s.goal, cursor.path), top_down=True) if isinstance(each.term, terms.Gen)
        ]
        inner = s.find(tiled[1].path)
        s.simpl_index()
        s.unroll(target_of(s.goal, inner.path))
    if len(s.steps) == before:
        raise DoesNotApply("no inner loop reads x[i // 2]", required=f"an index i // c, c from 2 to {PHASES}")


def _phases(program: Any) -> Iterator[tuple[Cursor, int]]:
    """Yield the inner loops whose index is divided by a small constant in a read, with that constant."""
    for cursor in everywhere(program):
        if not isinstance(cursor.term, terms.Gen) or any(isinstance(each.term, terms.Gen) for each in below(cursor)):
            continue
        loop = loop_at(cursor)
        for read in reads_below(cursor) if loop.trips is None else ():
            for atom in (atom for index in read.indices for atom in ix.atoms(index)):
                if isinstance(atom, ix.Quotient) and loop.variable in ix.atoms(atom.numerator):
                    divisor = atom.denominator.constant
                    if divisor is not None and divisor <= PHASES:
                        yield cursor, divisor


@recipe()
def multiply_by_reciprocals(s: Any) -> None:
    """Divide once per row instead of once per element: a(j) / d → a(j) * (1 / d) if d does not depend on the loop."""
    found = [cursor.path for cursor in everywhere(s.goal) if _divides_by_invariant(cursor)]
    if not found:
        raise DoesNotApply("no divisor is the same for a whole loop", required="a quotient in a loop")
    for path in reversed(found):
        s.rw("mul_one", around=(*path, 0), reverse=True).rw("mul_div", around=path)


def _divides_by_invariant(cursor: Cursor) -> bool:
    if not (isinstance(cursor.term, terms.Binary) and cursor.term.op == "div") or cursor.term.type.rank:
        return False
    around = [each for each in cursor.spine() if isinstance(each.term, terms.Gen)]
    if not around:
        return False
    inner = loop_at(around[-1])
    varies = [any(read.depends_on(inner) for read in reads_below(cursor.child(k))) for k in (0, 1)]
    return varies == [True, False]
