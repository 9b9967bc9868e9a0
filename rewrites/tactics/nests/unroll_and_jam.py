"""Iterations of a loop side by side inside of the loop within it, with what they share computed once."""

from __future__ import annotations

from typing import Any

from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import Target
from rewrites.derivation import Derivation
from rewrites.tactics.loops import as_bound, first_possible
from rewrites.tactics.nests.order import interchanged
from rewrites.tactics.nests.tiling import nested, one_tile
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.staging import stage_below


def unroll_and_jam(work: Derivation, name: Target, by: Any, *, share: Target | None = None) -> None:
    """Runs `by` iterations of a loop at a time inside of the loop within it, and keeps there what they `share`.

    ⊞[y < n] ⊞[x < m] e(y, x)  →  truncr _ flatten ⊞[yo < ⌈n/k⌉] transpose ⊞[x < m] ⊞[yi < k] [_] · e(k*yo + yi, x)

    The inner loop may be a sum. What is shared is a let around the loop, an input, or a subterm: in each iteration of
    the inner loop what is read of it there is computed into a small buffer, as `stage` does.

    >>> s = reschedule(atl.parse(
    ...     "f (v : float32[n + 2, m]) : float32[n, m] := let half := ⊞[y < n + 2] ⊞[x < m] v[y, x] / 2.0 in "
    ...     "⊞[y < n] ⊞[x < m] half[y, x] + half[y + 2, x]"))
    >>> s.unroll_and_jam("⊞[y < n] _", 4, share="half")
    f (v : float32[n + 2, m]) : float32[n, m] :=
      truncr (4*⌈n / 4⌉ - n) flatten ⊞[yo < ⌈n / 4⌉] transpose ⊞[x < m]
        let half := ⊞[y < 6] ⊞[i < 1] [4*yo + y <= n + 1] · v[4*yo + y, x] / 2.0 in
        ⊞[yi < 4] [4*yo + yi < n] · (half[yi, 0] + half[yi + 2, 0])
    """

    def jammed(cursor: Cursor) -> None:
        inner = one_tile(work, cursor.path, as_bound(by, cursor))
        simplify_guards(work, cursor.path)
        interchanged(work, inner)
        _, around, _ = nested(work, cursor.path, 3)
        if share is not None:
            stage_below(work, share, (*around, 0), None)

    first_possible(work, name, jammed)
