"""Programs that the paper does not have, scheduled by hand in sessions: stencils, a batched product, attention.

Every function returns the session at its end; `.done()` is the theorem. One call is one step. They show what single
tactics do to larger programs; the fast product of a batch is `examples.fast.batched_product_by_panels`.
"""

from __future__ import annotations

from examples.schedules import layers
from rewrites import Session, reschedule


def stencils_fused() -> Session:
    """Both layers in one loop nest: each pixel of the first is computed wherever it is read."""
    s = reschedule(layers.stencils())
    s.fuse("once")
    return s


def stencils_by_rows() -> Session:
    """Each row computes the three rows of the first layer that it reads."""
    s = reschedule(layers.stencils())
    s.stage("once", at=(1,))
    return s


def stencils_tiled(rows: int = 32, columns: int = 128) -> Session:
    """Tiles, each with the part of the first layer that it reads; the inner tiles run without a test."""
    n, m = layers.n, layers.m
    s = reschedule(layers.stencils(), given=[n >= rows + 2, m >= columns + 2])
    s.tile([(1,), (1, 0)], [rows, columns])
    s.stage("once", at="xo")
    s.split_loop("xo", 1, (m - 2) // columns)
    s.split_loop("yo", 1, (n - 2) // rows)
    return s


def batched_product_blocked() -> Session:
    """Tiles of 8 x 16, the reduction in steps of 4, in the order io jo ko ii ki ji, added up in registers."""
    s = reschedule(layers.batched_product())
    s.tile(["i", "j"], [8, 16])
    s.stage("Σ[k < _] _", at="jo", name="block")
    s.tile("k", 4)
    s.interchange("ji")
    s.interchange("ii")
    s.interchange("ji")
    s.tails(strategy="split").mark("block", "registers")
    return s


def batched_product_one_row() -> Session:
    """Row by row, the columns innermost: one pass over the rows of the right operand."""
    s = reschedule(layers.batched_product())
    s.interchange("j")
    return s


def batched_product_flat() -> Session:
    """The batch and the rows as one loop, in tiles of 8. For M >= 1."""
    s = reschedule(layers.batched_product(), given=[layers.M >= 1])
    s.flatten_loops("b")
    s.tile("bi", 8)
    return s


def attention_by_rows() -> Session:
    """Everything for one row at a time: the buffers hold a row, not the L x S scores; weights are read row by row."""
    s = reschedule(layers.attention())
    rows = s.find("⊞[i < L] ⊞[e < E] _")
    for name in ("total", "power", "top", "score"):
        s.stage(name, at=rows)
    return _weights_row_by_row(s)


def attention_in_blocks() -> Session:
    """Blocks of eight rows, with buffers for a block, and the product with the weights in the order j, e."""
    s = reschedule(layers.attention())
    s.tile("⊞[i < L] ⊞[e < E] _", 8)
    for name in ("total", "power", "top", "score"):
        s.stage(name, at="io")
    return _weights_row_by_row(s)


def _weights_row_by_row(s: Session) -> Session:
    s.lbind("Σ[j < S] _ * weight[j, _]", "mixed")
    s.hoist("mixed")
    s.interchange("⊞[e < E] Σ[j < S] _")
    return s
