"""GPU schedules for all sizes. Each step except the marks is a proved rewrite.

Each function returns a session. Marks bind loops to the axes of the grid and of its blocks, and place tensors in shared
memory or registers. `atl.lower(s.goal, target="cuda")` proves that the marks are legal, and `lowering.gpu` outlines the
kernels.
"""

from __future__ import annotations

import atl
from atl import Program
from examples.schedules import anchors, blur, convolution, everyday

n, m = atl.sizes("n m")
x = atl.tensor("x", n, m)
A = atl.tensor("A", n, m)
v = atl.tensor("v", m)


def row_sums() -> Program:
    """Return the sum of each row of a matrix."""
    return atl.program("row_sums", [x], atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j])))


def whole_sum() -> Program:
    """Return the sum of all elements of a matrix."""
    return atl.program("whole_sum", [x], atl.sum(n, m, lambda i, j: x[i, j]))


def spmv() -> Program:
    """Return a matrix times a vector."""
    return atl.program("spmv", [A, v], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j])))


def _smoothed(first: atl.Tensor, steps: atl.IndexExpr) -> atl.Tensor:
    """Return a vector after some steps, each of which adds the neighbours of an element to it, except at the ends."""
    extent = first.shape[0]

    def next_element(u: atl.Tensor, i: atl.IndexExpr) -> atl.Tensor:
        return atl.select((i >= 1) & (i + 1 < extent), u[i - 1] + u[i] + u[i + 1], u[i])

    start = atl.gen(extent, lambda j: first[j])
    states = atl.scan(steps, start, lambda s, u: atl.gen(extent, lambda i: next_element(u, i)))
    return atl.let(states, lambda states: atl.gen(extent, lambda k: states[steps, k]))


def smoothing() -> Program:
    """Return a vector after T steps."""
    n, steps = atl.sizes("n T")
    a = atl.tensor("a", n)
    return atl.program("smoothing", [a], _smoothed(a, steps))


def smoothing_of_rows(columns: int = 128) -> Program:
    """Return the rows of a matrix after T steps each."""
    n, steps = atl.sizes("n T")
    A = atl.tensor("A", n, columns)  # noqa: N806
    return atl.program("smoothing_of_rows", [A], atl.gen(n, lambda r: _smoothed(A[r], steps)))


def product(side: int = 128, each: tuple[int, int] = (16, 4), terms: int = 32, *, lanes: bool = True) -> atl.Session:
    """Compute tiles of side x side, with rows x columns per thread in registers, and both operands in shared memory.

    Partial tiles are padded with zeros in shared memory, so that the products need no guards. A warp covers whole rows
    of a tile: B is read and the result is stored row by row, and all lanes read the same element of A. With `lanes`,
    rows of B and of the result are accessed 16 bytes at a time, which requires that m is a multiple of 4.
    """
    rows, columns = each
    s = atl.reschedule(anchors.product(), given=[anchors.m % 4 == 0] if lanes else [])
    s.gpu_map(["i", "j"], [[side, rows], [side, columns]]).stage_registers("p", at="jo")
    s.tile("p", terms)
    s.pack("B", at="po").pack("A", at="po", order=["iio", "iii", "pi"])
    s.mark("Ap", "shared").mark("Bp", "shared")
    # Load four terms of a row of A at once, for all columns of the thread.
    s.tile("Σ[pi < _] _", 4).interchange("pii").interchange("pii").interchange("pii")
    if lanes:
        s.mark("⊞[jii < _] [_] · B[_, _]", "vector").mark("⊞[jii < _] [_] · acc[_, _, _, _]", "vector")
        s.mark("⊞[jii < _] Ap[_, _, _] * Bp[_, _, _]", "vector")
    s.mark("⊞[jio < _] ⊞[jii < _] [_] · B[_, _]", "thread.x")
    s.tile("⊞[pi < _] ⊞[jio < _ | thread.x] _", side // rows)
    s.mark("⊞[pii < _] ⊞[jio < _ | thread.x] _", "thread.y")
    s.mark("⊞[pi < _] [_] · A[_, _]", "thread.x").mark("⊞[iio < _] ⊞[iii < _] ⊞[pi < _ | thread.x] _", "thread.y")
    return s


def transpose(side: int = 32, rows: int = 8) -> atl.Session:
    """Transpose tiles in shared memory, so that both matrices are accessed along their rows; `rows` threads along y.

    Rows of a tile are padded, so that the elements of a column are in different banks.
    """
    s = atl.reschedule(anchors.transpose())
    s.tile(["j", "i"], [side, side])
    s.stage("A[_, _]", at="io", name="tile").pad_rows("tile").mark("tile", "shared")
    s.tile(f"⊞[ii < {side}] [_] · A[_, _]", rows)
    s.tile(f"⊞[ji < {side}] ⊞[ii < {side}] [_] · tile[_, _]", rows)
    s.mark("jo", "block.y").mark("io", "block.x").mark("iii", "thread.y").mark("jii", "thread.y")
    s.mark(f"⊞[ji < {side}] flatten _", "thread.x").mark(f"⊞[ii < {side}] [_] · tile[_, _]", "thread.x")
    return s


def blur_in_tiles(rows: int = 8, columns: int = 32) -> atl.Session:
    """Copy a tile of the image with a border of one pixel, zero-padded, to shared memory in each block."""
    s = atl.reschedule(blur.fused())
    s.tile(["y", "x"], [rows, columns])
    s.pad("v", at="xo").mark("vp", "shared")
    s.mark("yo", "block.y").mark("xo", "block.x").mark("yi", "thread.y").mark("xi", "thread.x")
    # The same threads also copy the border, so that a warp remains a row of the tile.
    s.tile("⊞[i < _] ⊞[j < _] _", rows).tile("⊞[j < _] _", columns)
    s.mark("ii", "thread.y").mark("ji", "thread.x")
    return s


def row_sums_by_blocks(threads: int = 128) -> atl.Session:
    """Assign a block to each row. Each thread adds up every `threads`-th element, then the block folds the sums."""
    s = atl.reschedule(row_sums())
    s.tile("j", threads).interchange("jo")
    s.mark("i", "block.x").mark("ji", "thread.x")
    return s


def row_sums_by_warps(rows: int = 4) -> atl.Session:
    """Assign a warp to each row, so that no barriers are needed."""
    s = atl.reschedule(row_sums())
    s.tile("i", rows).tile("j", 32).interchange("jo")
    s.mark("io", "block.x").mark("ii", "thread.y").mark("ji", "thread.x")
    return s


def softmax_by_warps(rows: int = 4) -> atl.Session:
    """Assign a warp to each row. Its lanes compute the maximum and the sum together, and each power twice.

    Rows of arbitrary length do not fit into shared memory. Recomputing is cheaper than storing them.
    """
    s = atl.reschedule(everyday.softmax()).fuse("power").fuse("top").fuse("total")
    s.stage("max[_ < m] _", at="j", name="top").hoist("top", out_of="j")
    s.stage("Σ[_ < m] _", at="⊞[j < m] _", name="total").hoist("total", out_of="j")
    for fold in ("max", "Σ"):
        s.tile(f"{fold}[_ < m] _", 32).interchange(f"{fold}[_ < ⌈m / 32⌉] _").mark(f"{fold}[_ < 32] _", "thread.x")
    s.tile("⊞[j < m] _", 32).mark("⊞[_ < 32] _", "thread.x")
    return s.tile("i", rows).mark("io", "block.x").mark("ii", "thread.y")


def whole_sum_in_two_launches(threads: int = 128, last: int = 1024) -> atl.Session:
    """Sum all elements: a block for each row, then one block for the sums of the rows."""
    s = atl.reschedule(whole_sum())
    s.stage("Σ[j < m] _", name="rows").mark("rows", "global")
    s.tile("j", threads).interchange("jo").mark("⊞[i < n] _", "block.x").mark("ji", "thread.x")
    s.tile("Σ[i < n] _", last).interchange("io").mark("ii", "thread.x")
    return s


def spmv_by_threads(threads: int = 128) -> atl.Session:
    """Multiply a CSR matrix by a vector, with a thread for each row."""
    return atl.reschedule(spmv()).sparsify("A", atl.CSR).gpu_map("i", threads)


def spmv_by_warps(rows: int = 4) -> atl.Session:
    """Multiply a CSR matrix by a vector, with a warp for each row: lanes read adjacent elements and fold their sums."""
    s = atl.reschedule(spmv()).sparsify("A", atl.CSR)
    s.tile("i", rows).tile("p", 32).interchange("po")
    return s.mark("io", "block.x").mark("ii", "thread.y").mark("pi", "thread.x")


def convolution_by_gather(channels: int = 8, positions: int = 32) -> atl.Session:
    """Assign a thread to each output. The threads of a warp read adjacent positions, and the same weight."""
    return atl.reschedule(convolution.gather()).gpu_map(["n", "k", "p"], [1, channels, positions])


def steps_by_launches(threads: int = 128) -> atl.Session:
    """Launch a kernel for each step of a recurrence. Two states are kept in global memory."""
    s = atl.reschedule(smoothing())
    for loop in "jik":
        s.tile(loop, threads).mark(f"{loop}o", "block.x").mark(f"{loop}i", "thread.x")
    return s


def steps_in_blocks(columns: int = 128) -> atl.Session:
    """Assign a block to each row, and a thread to each element. A barrier separates the steps, in shared memory."""
    s = atl.reschedule(smoothing_of_rows(columns)).mark("r", "block.x")
    return s.mark("j", "thread.x").mark("i", "thread.x").mark("k", "thread.x")
