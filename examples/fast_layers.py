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


def multi_head_attention_in_registers(rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute blocks of rows with their scores in a buffer, both products in register tiles, and the keys packed.

    Without `rows`, their number is a power of two, so that usual numbers of queries leave no partial block.
    """
    most_rows, columns = _tile(rows, columns)
    rows = rows or 1 << most_rows.bit_length() - 1
    s = atl.reschedule(networks.multi_head_attention())
    s.lbind("sqrt(_)", "root", over=())
    s.tile("⊞[i < L] ⊞[f < F] _", rows)
    for name in ("total", "power", "top", "score"):
        s.stage(name, at="io")
    s.tile("⊞[j < S] [_] · _ / _", columns).interchange(f"⊞[i < {rows}] _")
    s.accumulate("e", name="dots").mark("dots", "registers")
    s.pack("key", at="b")
    s.tile("f", columns).interchange("ii")
    s.accumulate("Σ[j < S] _ * _", name="mixed").mark("mixed", "registers")
    s.pack("value", at="b")
    s.tails(strategy="split")
    return s


def _tile(rows: int, columns: int) -> tuple[int, int]:
    """Return rows and columns of a register tile of float32; 0 stands for the number that suits this machine."""
    most_rows, two_vectors = atl.machine().register_tile("float32")
    return rows or most_rows, columns or two_vectors
