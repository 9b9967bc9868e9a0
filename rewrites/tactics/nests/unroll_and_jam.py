"""Unroll-and-jam, with optional staging of values that the jammed iterations share."""

from __future__ import annotations

from rewrites.cursors.cursor import Cursor
from rewrites.cursors.targets import restrict
from rewrites.derivation import Derivation
from rewrites.tactics import arg
from rewrites.tactics.loops import as_bound, first_possible
from rewrites.tactics.nests.interchange import interchange_at
from rewrites.tactics.nests.tiling import nested_loops, tile_loop
from rewrites.tactics.simplification import simplify_guards
from rewrites.tactics.storage.staging import stage_below
from rewrites.tactics.tactic import tactic


@tactic
def unroll_and_jam(
    work: Derivation, name: arg.Loop, by: arg.Factor, *, share: arg.Term | None = None, in_: arg.Inside = None
) -> None:
    """Unroll a loop by `by` and jam the copies into the loop inside it; optionally stage the values they `share`.

    ⊞[y < n] ⊞[x < m] e(y, x)  →  truncr _ flatten ⊞[yo < ⌈n/k⌉] transpose ⊞[x < m] ⊞[yi < k] [_] · e(k*yo + yi, x)

    The inner loop may be a sum. `share` selects a let around the loop, an input, or a subterm; the part read in each
    iteration of the inner loop is staged in a small buffer, like `stage`.

    >>> s = reschedule(atl.parse(
    ...     "f (v : float32[n + 2, m]) : float32[n, m] := let half := ⊞[y < n + 2] ⊞[x < m] v[y, x] / 2.0 in "
    ...     "⊞[y < n] ⊞[x < m] half[y, x] + half[y + 2, x]"))
    >>> s.unroll_and_jam("⊞[y < n] _", 4, share="half")
    f (v : float32[n + 2, m]) : float32[n, m] :=
      truncr (4*⌈n / 4⌉ - n) flatten ⊞[yo < ⌈n / 4⌉] transpose ⊞[x < m]
        let half := ⊞[y < 6] ⊞[i < 1] [4*yo + y <= n + 1] · v[4*yo + y, x] / 2.0 in
        ⊞[yi < 4] [4*yo + yi < n] · (half[yi, 0] + half[yi + 2, 0])
    """
    name = restrict(name, in_)

    def jammed(cursor: Cursor) -> None:
        inner = tile_loop(work, cursor.path, as_bound(by, cursor))
        simplify_guards(work, cursor.path)
        interchange_at(work, inner)
        _, around, _ = nested_loops(work, cursor.path, 3)
        if share is not None:
            stage_below(work, share, (*around, 0), None)

    first_possible(work, name, jammed)
