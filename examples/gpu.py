"""Schedules for a GPU, for every size: each step but the marks is a proved rewrite.

Every function returns the session at its end. The marks say which loops are the axes of a grid and of its blocks, and
which tensors the threads of a block share, or keep in their registers; `lower(s.goal, target="cuda")` proves that they
may, and `lowering.gpu` makes the kernels.
"""

from __future__ import annotations

import atl
from atl import Program
from examples.schedules import anchors, blur, convolution, everyday
from rewrites import Session, reschedule
from sparse import CSR

n, m = atl.sizes("n m")
x = atl.tensor("x", n, m)
A = atl.tensor("A", n, m)
v = atl.tensor("v", m)


def row_sums() -> Program:
    """The sum of each row of a matrix."""
    return atl.program("row_sums", [x], atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j])))


def whole_sum() -> Program:
    """The sum of all elements of a matrix."""
    return atl.program("whole_sum", [x], atl.sum(n, m, lambda i, j: x[i, j]))


def spmv() -> Program:
    """A matrix times a vector."""
    return atl.program("spmv", [A, v], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j])))


def product(side: int = 128, each: tuple[int, int] = (16, 4), terms: int = 32, *, lanes: bool = True) -> Session:
    """Tiles of side x side, of which every thread keeps rows x columns in registers; both operands in shared memory.

    What the tiles stick out holds zeros in shared memory, so that the products are computed without a test. A warp has
    whole rows of a tile: so B is read and the result stored row by row, and all lanes want the same of A. With `lanes`
    rows of B and of the result are read and stored 16 bytes at a time: m is to be a multiple of 4.
    """
    rows, columns = each
    s = reschedule(anchors.product(), given=[anchors.m % 4 == 0] if lanes else [])
    s.gpu_map(["i", "j"], [[side, rows], [side, columns]]).stage_registers("p", at="jo")
    s.tile("p", terms)
    s.pack("B", at="po").pack("A", at="po", order=["iio", "iii", "pi"])
    s.mark("Ap", "shared").mark("Bp", "shared")
    # Four terms of one row of A come at once, and are used for all columns of the thread.
    s.tile("Σ[pi < _] _", 4).interchange("pii").interchange("pii").interchange("pii")
    if lanes:
        s.mark("⊞[jii < _] [_] · B[_, _]", "vector").mark("⊞[jii < _] [_] · acc[_, _, _, _]", "vector")
        s.mark("⊞[jii < _] Ap[_, _, _] * Bp[_, _, _]", "vector")
    s.mark("⊞[jio < _] ⊞[jii < _] [_] · B[_, _]", "thread.x")
    s.tile("⊞[pi < _] ⊞[jio < _ | thread.x] _", side // rows)
    s.mark("⊞[pii < _] ⊞[jio < _ | thread.x] _", "thread.y")
    s.mark("⊞[pi < _] [_] · A[_, _]", "thread.x").mark("⊞[iio < _] ⊞[iii < _] ⊞[pi < _ | thread.x] _", "thread.y")
    return s


def transpose(side: int = 32, rows: int = 8) -> Session:
    """Tiles in shared memory, so that rows of both matrices are read and written along x; `rows` threads along y.

    Rows of a tile are padded: the elements of a column, which a warp stores, are in different banks.
    """
    s = reschedule(anchors.transpose())
    s.tile(["j", "i"], [side, side])
    s.stage("A[_, _]", at="io", name="tile").pad_rows("tile").mark("tile", "shared")
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
    # The border is filled by the same threads once more, so that a warp stays a row of the tile.
    s.tile("⊞[i < _] ⊞[j < _] _", rows).tile("⊞[j < _] _", columns)
    s.mark("ii", "thread.y").mark("ji", "thread.x")
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


def softmax_by_warps(rows: int = 4) -> Session:
    """A warp for each row: its lanes find the maximum and the sum side by side, and compute each power twice.

    A row of any length has no room in shared memory; to read it again and compute again costs less than to store it.
    """
    s = reschedule(everyday.softmax()).fuse("power").fuse("top").fuse("total")
    s.stage("max[_ < m] _", at="j", name="top").hoist("top", out_of="j")
    s.stage("Σ[_ < m] _", at="⊞[j < m] _", name="total").hoist("total", out_of="j")
    for fold in ("max", "Σ"):
        s.tile(f"{fold}[_ < m] _", 32).interchange(f"{fold}[_ < ⌈m / 32⌉] _").mark(f"{fold}[_ < 32] _", "thread.x")
    s.tile("⊞[j < m] _", 32).mark("⊞[_ < 32] _", "thread.x")
    return s.tile("i", rows).mark("io", "block.x").mark("ii", "thread.y")


def whole_sum_in_two_launches(threads: int = 128, last: int = 1024) -> Session:
    """The sum of all elements: a block for each row, and one block that adds up the sums of the rows."""
    s = reschedule(whole_sum())
    s.stage("Σ[j < m] _", name="rows").mark("rows", "global")
    s.tile("j", threads).interchange("jo").mark("⊞[i < n] _", "block.x").mark("ji", "thread.x")
    s.tile("Σ[i < n] _", last).interchange("io").mark("ii", "thread.x")
    return s


def spmv_by_threads(threads: int = 128) -> Session:
    """A sparse matrix in rows (CSR) times a vector: a thread for each row."""
    return reschedule(spmv()).sparsify("A", CSR).gpu_map("i", threads)


def spmv_by_warps(rows: int = 4) -> Session:
    """The same with a warp for each row: its lanes read elements side by side, and fold their sums."""
    s = reschedule(spmv()).sparsify("A", CSR)
    s.tile("i", rows).tile("p", 32).interchange("po")
    return s.mark("io", "block.x").mark("ii", "thread.y").mark("pi", "thread.x")


def convolution_by_gather(channels: int = 8, positions: int = 32) -> Session:
    """A thread for each output; those of a warp read positions side by side, and all the same weight."""
    return reschedule(convolution.gather()).gpu_map(["n", "k", "p"], [1, channels, positions])
