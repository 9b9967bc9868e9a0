"""Schedules for a GPU, for every size: each step but the marks is a proved rewrite.

Every function returns the session at its end. The marks say which loops are the axes of a grid and of its blocks, and
which tensors the threads of a block share, or keep in their registers; `lower(s.goal, target="cuda")` proves that they
may, and `lowering.gpu` makes the kernels.
"""

from __future__ import annotations

import atl
from atl import Program
from examples.schedules import anchors, blur
from rewrites import Session, reschedule

n, m = atl.sizes("n m")
x = atl.tensor("x", n, m)


def row_sums() -> Program:
    """The sum of each row of a matrix."""
    return atl.program("row_sums", [x], atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j])))


def product(side: int = 64, each: int = 4, terms: int = 16) -> Session:
    """Tiles of side x side, of which every thread keeps each x each in registers; both operands in shared memory.

    What the tiles stick out holds zeros in shared memory, so that the products are computed without a test.
    """
    s = reschedule(anchors.product())
    s.tile(["i", "j"], [[side, each], [side, each]])
    s.accumulate("p", at="jo").mark("acc", "registers")
    s.tile("p", terms)
    s.pack("B", at="po").pack("A", at="po")
    s.mark("Ap", "shared").mark("Bp", "shared")
    s.mark("io", "block.y").mark("jo", "block.x").mark("iio", "thread.y").mark("jio", "thread.x")
    s.mark(f"⊞[pi < {terms}] ⊞[_ < _] ⊞[_ < _] [_] · A[_, _]", "thread.x")
    s.mark(f"⊞[pi < {terms}] ⊞[_ < _] ⊞[_ < _] [_] · B[_, _]", "thread.y")
    return s


def transpose(side: int = 32, rows: int = 8) -> Session:
    """Tiles in shared memory, so that rows of both matrices are read and written along x; `rows` threads along y."""
    s = reschedule(anchors.transpose())
    s.tile(["j", "i"], [side, side])
    s.stage("A[_, _]", at="io", name="tile").mark("tile", "shared")
    s.tile(f"⊞[ii < {side}] [_] · A[_, _]", rows)
    s.tile(f"⊞[ji < {side}] ⊞[ii < {side}] [_] · tile[_, _]", rows)
    s.mark("jo", "block.y").mark("io", "block.x").mark("iii", "thread.y").mark("jii", "thread.y")
    s.mark(f"⊞[ji < {side}] flatten _", "thread.x").mark(f"⊞[ii < {side}] [_] · tile[_, _]", "thread.x")
    return s


def blur_in_tiles(rows: int = 8, columns: int = 32) -> Session:
    """A block reads its tile of the picture with a border of one pixel into shared memory, zeros outside of it."""
    s = reschedule(blur.fused())
    s.tile(["y", "x"], [rows, columns])
    s.pad("v", at="xo").mark("vp", "shared")
    s.mark("yo", "block.y").mark("xo", "block.x").mark("yi", "thread.y").mark("xi", "thread.x")
    s.mark(f"⊞[i < {rows + 2}] _", "thread.y").mark(f"⊞[j < {columns + 2}] _", "thread.x")
    return s


def row_sums_by_blocks(threads: int = 128) -> Session:
    """A block for each row: each thread adds up every `threads`-th element, then all of them fold their sums."""
    s = reschedule(row_sums())
    s.tile("j", threads).interchange("jo")
    s.mark("i", "block.x").mark("ji", "thread.x")
    return s


def row_sums_by_warps(rows: int = 4) -> Session:
    """A warp for each row, so that no thread waits for another one."""
    s = reschedule(row_sums())
    s.tile("i", rows).tile("j", 32).interchange("jo")
    s.mark("io", "block.x").mark("ii", "thread.y").mark("ji", "thread.x")
    return s
