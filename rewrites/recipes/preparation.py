"""Recipes that prepare a goal for the others: elements instead of vectors, unrolled taps, reciprocals."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from atl.core import terms
from rewrites.cursors.cursor import Cursor
from rewrites.errors import DoesNotApply
from rewrites.recipes.declaration import recipe
from rewrites.recipes.structure import everywhere, loop_at, reads_below, target_of

TAPS: Final = 9
"""Maximum number of terms of a sum that is unrolled."""


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
        raise DoesNotApply("the goal computes elements", required="arithmetic on vectors, or a sum of vectors")


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
            if loop.trips is not None and loop.trips <= TAPS:
                yield cursor


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
