"""Fast schedules of the programs in `examples.schedules.networks`, for all sizes.

Each function returns a session; `.done()` returns its theorem. Register tiles have the shape that `atl.machine()`
suggests, unless rows and columns are given.
"""

from __future__ import annotations

import atl
from examples.schedules import networks
from examples.tiles import power_of_two_rows, register_tile


def dense_gelu_by_panels(rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute register tiles over packed panels of the weights, and apply bias and GELU to each tile.

    A tile of sums moves from registers to a buffer in the first-level cache, from which the last loop reads it.
    """
    rows, columns = register_tile(rows, columns)
    s = atl.reschedule(networks.dense_gelu())
    s.interchange("⊞[s < N] ⊞[h < H] 0.5 * _ * _")
    s.tile(["⊞[h < H] ⊞[s < N] 0.5 * _ * _", "s"], [columns, rows]).interchange("hi")
    s.stage("unit", at="so")
    s.accumulate("d").mark("acc", "registers")
    s.pack("weights", at="ho")
    s.tails(strategy="split")
    return s


def multi_head_attention_in_registers(rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute blocks of rows with their scores in a buffer, both products in register tiles, and the keys packed."""
    rows, columns = register_tile(rows or power_of_two_rows(), columns)
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


def depthwise_in_registers(positions: int = 0, channels: int = 0) -> atl.Session:
    """Compute register tiles of positions in a row x channels, without the border and the last partial tile.

    Those pixels are computed one by one, with the channels as the innermost loop.
    """
    rows, channels = register_tile(0, channels)
    positions = positions or max(1, rows // 4 * 2)
    s = atl.reschedule(networks.depthwise())
    end = f"min(1, X) + {positions} * (max(X - 2, 0) // {positions})"
    s.split_loop("x", "min(1, X)", end, names=("left", "x", "right"))
    s.tile(["⊞[min(1, X) <= x < _] _", "c"], [positions, channels])
    s.accumulate(s.find("Σ[r < 3] _", in_="co"), at="co").mark("acc", "registers")
    for border in ("left", "right"):
        s.interchange("c", in_=border).interchange("c", in_=border)
    s.mark("q", "unroll", in_="co")
    s.tails(strategy="split")
    return s


def batched_matrix_vector_by_rows(rows: int = 0) -> atl.Session:
    """Compute several rows together in registers, so that each element of a vector is loaded once for them."""
    s = atl.reschedule(networks.batched_matrix_vector())
    s.tile("i", rows or power_of_two_rows())
    s.accumulate("d", at="io").mark("acc", "registers")
    s.tails(strategy="split")
    return s


def spmm_by_entries(form: atl.Format = atl.CSR) -> atl.Session:
    """Derive the loops over the stored entries of each row."""
    return atl.reschedule(networks.spmm()).sparsify("graph", form)


def spmm_in_registers(form: atl.Format = atl.CSR) -> atl.Session:
    """Accumulate each row of the result in registers, so that an entry is read once for all its columns."""
    return spmm_by_entries(form).accumulate("p", name="row").mark("row", "registers")
