"""Fast schedules of the programs in `examples.schedules.networks`, for all sizes.

Each function returns a session; `.done()` returns its theorem. Register tiles have the shape that `atl.machine()`
suggests, unless rows and columns are given.
"""

from __future__ import annotations

import atl
from examples.schedules import networks


def dense_gelu_by_panels(rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute register tiles over packed panels of the weights, and apply bias and GELU to each tile.

    A tile of sums moves from registers to a buffer in the first-level cache, from which the last loop reads it.
    """
    rows, columns = _tile(rows, columns)
    s = atl.reschedule(networks.dense_gelu())
    s.interchange("⊞[s < N] ⊞[h < H] 0.5 * _ * _")
    s.tile(["⊞[h < H] ⊞[s < N] 0.5 * _ * _", "s"], [columns, rows]).interchange("hi")
    s.stage("unit", at="so")
    s.accumulate("d").mark("acc", "registers")
    s.pack("weights", at="ho")
    s.tails(strategy="split")
    return s


def _tile(rows: int, columns: int) -> tuple[int, int]:
    """Return rows and columns of a register tile of float32; 0 stands for the number that suits this machine."""
    most_rows, two_vectors = atl.machine().register_tile("float32")
    return rows or most_rows, columns or two_vectors
