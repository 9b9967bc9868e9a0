"""Fast schedules of the programs in `examples.schedules.images`, for all sizes.

Each function returns a session; `.done()` returns its theorem. The numbers of rows follow from `atl.machine()`, for
images of up to 2048 columns, unless they are given.
"""

from __future__ import annotations

from typing import Final

import atl
from examples.schedules import images

ROW_BYTES: Final = 4 * 2048
"""Size of a row for which strips of rows are chosen."""


def unsharp_mask_by_ring() -> atl.Session:
    """Keep the last five filtered rows in a circular buffer, and peel the columns near the border."""
    s = atl.reschedule(images.unsharp_mask())
    s.fuse("wide").mark("row", "ring")
    return _without_clamps(s, "x", in_="row")


def unsharp_mask_in_strips(rows: int = 0) -> atl.Session:
    """Schedule the same in strips of rows, each with a circular buffer. Strips recompute four rows."""
    s = atl.reschedule(images.unsharp_mask())
    s.fuse("wide").tile("⊞[y < n] _", rows or atl.machine().strip_rows(ROW_BYTES))
    s.stage("row", at="yo").mark("row", "ring")
    _without_clamps(s, "x", in_="row")
    s.tails()
    return s


def unsharp_mask_by_rows(rows: int = 0) -> atl.Session:
    """Compute several rows together, and keep the filtered values that they share in registers.

    This reads several rows at a time from memory, which is faster than one for images larger than the caches.
    """
    s = atl.reschedule(images.unsharp_mask())
    s.fuse("wide").unroll_and_jam("⊞[y < n] _", rows or _rows_together(), share="row").mark("row", "registers")
    _without_clamps(s, "⊞[x < m] _")
    s.mark("x", "vector").tails(strategy="split")
    return s


def _without_clamps(s: atl.Session, columns: str, **place: str) -> atl.Session:
    """Peel the two first and last columns, so that the positions of the others need no clamps."""
    return s.split_loop(columns, "min(2, m)", "max(min(2, m), m - 2)", **place).simpl_index()


def _rows_together() -> int:
    """Return the number of rows whose windows of five rows fit in the registers."""
    return max(2, atl.machine().register_tile("float32")[0] - 4)


def harris_in_strips(rows: int = 0) -> atl.Session:
    """Compute strips of rows, with three rows of both gradients in circular buffers.

    The sums over three rows of the products of gradients are stored for one row at a time.
    """
    s = atl.reschedule(images.harris())
    s.fuse("wide").tile("⊞[y < n] ⊞[x < m] _ - _", rows or atl.machine().strip_rows(ROW_BYTES))
    for name in ("xx", "xy", "yy"):
        s.stage(name, at="yi")
    for name in ("gx", "gy"):
        s.stage(name, at="yo").mark(name, "ring").split_loop("x", "min(2, m)", "m", in_=name)
    s.simpl_index().mark("r", "unroll").mark("q", "unroll")
    s.tails()
    return s
