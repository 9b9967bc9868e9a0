"""Schedules of programs that are not in the paper: stencils, a batched product, attention.

Each function returns a session; `.done()` returns its theorem. They show the effect of single tactics on larger
programs. For a fast batched product see `examples.fast.batched_product_by_panels`.
"""

from __future__ import annotations

import atl
from examples.schedules import layers


def stencils_fused() -> atl.Session:
    """Fuse both layers into one loop nest. Each pixel of the first is recomputed at each read."""
    s = atl.reschedule(layers.stencils())
    s.fuse("once")
    return s


def stencils_by_rows() -> atl.Session:
    """Compute, for each row, the three rows of the first layer that it reads."""
    s = atl.reschedule(layers.stencils())
    s.stage("once", at=(1,))
    return s


def stencils_tiled(rows: int = 32, columns: int = 128) -> atl.Session:
    """Tile the second layer, and compute the part of the first that each tile reads. Inner tiles have no guards."""
    n, m = layers.n, layers.m
    s = atl.reschedule(layers.stencils(), given=[n >= rows + 2, m >= columns + 2])
    s.tile([(1,), (1, 0)], [rows, columns])
    s.stage("once", at="xo")
    s.split_loop("xo", 1, (m - 2) // columns)
    s.split_loop("yo", 1, (n - 2) // rows)
    return s


def batched_product_blocked() -> atl.Session:
    """Tile by 8 x 16, and the reduction by 4. Reorder the loops to io jo ko ii ki ji, with registers for the sums."""
    s = atl.reschedule(layers.batched_product())
    s.tile(["i", "j"], [8, 16])
    s.stage("Σ[k < _] _", at="jo", name="block")
    s.tile("k", 4)
    s.interchange("ji")
    s.interchange("ii")
    s.interchange("ji")
    s.tails(strategy="split").mark("block", "registers")
    return s


def batched_product_one_row() -> atl.Session:
    """Make the columns the innermost loop, so that the right operand is read row by row."""
    s = atl.reschedule(layers.batched_product())
    s.interchange("j")
    return s


def batched_product_flat() -> atl.Session:
    """Flatten the loops over the batch and the rows, and tile the result by 8. For M >= 1."""
    s = atl.reschedule(layers.batched_product(), given=[layers.M >= 1])
    s.flatten_loops("b")
    s.tile("bi", 8)
    return s


def attention_by_rows() -> atl.Session:
    """Compute one row at a time. The buffers hold one row instead of L x S scores."""
    s = atl.reschedule(layers.attention())
    rows = s.find("⊞[i < L] ⊞[e < E] _")
    for name in ("total", "power", "top", "score"):
        s.stage(name, at=rows)
    return _weights_row_by_row(s)


def attention_in_blocks() -> atl.Session:
    """Compute eight rows at a time, with buffers for them, and the product with the weights in the order j, e."""
    s = atl.reschedule(layers.attention())
    s.tile("⊞[i < L] ⊞[e < E] _", 8)
    for name in ("total", "power", "top", "score"):
        s.stage(name, at="io")
    return _weights_row_by_row(s)


def _weights_row_by_row(s: atl.Session) -> atl.Session:
    s.lbind("Σ[j < S] _ * weight[j, _]", "mixed")
    s.hoist("mixed")
    s.interchange("⊞[e < E] Σ[j < S] _")
    return s
