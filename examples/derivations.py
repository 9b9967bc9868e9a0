"""The schedules of Fig. 8.6, each derived from its naive program by a short chain of proved rewrites.

Each function returns a session; `.done()` returns its theorem. They follow the derivations of the paper. For fast
schedules see `examples.fast`.
"""

from __future__ import annotations

import atl
from examples.schedules import blur, convolution, matmul, tensor_addition

n, m = atl.sizes("n m")
f = atl.tensor("f", n)


def pipeline() -> atl.Program:
    """Return the pipeline of §3.1, which adds to each element of a first stage its left neighbour."""
    stage = atl.gen(n, lambda j: 2 * f[j])
    body = atl.let(stage, lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i]), name="buf")
    return atl.program("pipeline", [f], body)


def pipeline_fused() -> atl.Session:
    """Fuse the two stages into one loop (§4.2.3)."""
    s = atl.reschedule(pipeline())
    s.rw("unfold_let")
    s.rw("get_gen")
    s.rw("get_gen")
    return s


def pipeline_split() -> atl.Session:
    """Fuse, and peel the first element, so that the others need no guard (§4.5.2). For n >= 1."""
    s = atl.reschedule(pipeline(), given=[n >= 1])
    s.fuse("buf")
    s.rw("split_gen", around="i", k=1)
    s.simpl_guard()
    s.rw("nothing_add")
    return s


def pipeline_tiled() -> atl.Session:
    """Tile by eight elements, each tile computed into a buffer first (§4.1, with E13)."""
    s = pipeline_fused()
    s.rw("truncr_flatten_split", reverse=True, around="i", k=8)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_twice", at="j", top_down=True)
    s.lbind((0, 0, 0, 0, 0), "v")
    s.rw("ll_guard")
    s.rw("ll_gen")
    return s


def matmul_tiled() -> atl.Session:
    """Tile by C x C for every C >= 1 (the authors: 18 steps).

    As in the paper, each element is a separate sum, which C compilers do not vectorise, so this is as slow as the naive
    product. `fast.product_in_square_tiles` accumulates the same tiles in registers.
    """
    c = matmul.C
    s = atl.reschedule(matmul.naive(), given=[c >= 1])
    s.rw("truncr_flatten_split", reverse=True, around="i", k=c)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_gen")
    s.rw("gen_interchange", around="j")
    s.rw("truncr_flatten_split", reverse=True, around="j", k=c)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_gen")
    s.rw("guard_guard")
    return s


def matmul_tiled_with_tails() -> atl.Session:
    """Tile by C x C, with the last columns and rows peeled into separate loops (the authors: 21 steps).

    It is as slow as `matmul_tiled`, for the same reason.
    """
    c, rows, columns = matmul.C, matmul.M, matmul.N
    s = atl.reschedule(matmul.naive(), given=[c >= 1])
    s.rw("truncr_flatten_split", reverse=True, around="i", k=c)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_gen")
    s.rw("split_gen", around="i", k=rows // c)
    s.simpl_guard()
    s.rw("gen_interchange", around="j")
    s.rw("truncr_flatten_split", reverse=True, around="j", k=c)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_gen")
    s.rw("split_gen", around="i1", k=columns // c)
    s.simpl_guard()
    return s


def addition_flat() -> atl.Session:
    """Flatten to one loop over all elements, split in storage (the authors: 39 steps)."""
    a, b, c = tensor_addition.N, tensor_addition.K, tensor_addition.C
    s = atl.reschedule(tensor_addition.nested(), given=[a >= 1, b >= 1, c >= 1])
    for size in (a, b, c):
        s.rw("split_flatten", reverse=True, around="i", k=size)
        s.rw("flatten_gen_gen")
    s.simpl_index()
    s.rw("equal_index", a="(i // C) // K % N", b="i // (C*K) % N", at="i", all=True)
    return s


def shifting_convolution() -> atl.Program:
    """Return a shift, written as a convolution with the kernel that is 1 at offset 2 (`conv4` of the authors)."""
    c = atl.tensor("c", m)
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(j == i - 2, 1.0) * c[j]))
    return atl.program("shift", [c], body)


def convolution_shift() -> atl.Session:
    """Eliminate the sum over a Kronecker delta (the authors: 9 steps)."""
    s = atl.reschedule(shifting_convolution())
    s.rw("guard_mul_left")
    s.rw("sum_delta_only")
    return s


def scatter_to_gather() -> atl.Session:
    """Turn the scatter form into the gather form, in which each output reads its inputs (§8.1.2, 17 steps)."""
    s = atl.reschedule(convolution.scatter())
    s.rw("guard_mul_right")
    s.rw("sum_delta_only", reverse=True, lo=0, hi=convolution.R)
    for _ in range(3):
        s.rw("sum_gen_swap", reverse=True, top_down=True)
    s.rw("sum_swap", at="i", top_down=True)
    s.rw("sum_swap", at="i", top_down=True)
    s.rw("sum_delta_only")
    s.simpl_guard()
    return s


def im2col() -> atl.Session:
    """Copy the windows of a convolution into a buffer, which leaves a matrix product (§8.1.3; the authors: 8 steps)."""
    s = atl.reschedule(convolution.direct())
    s.lbind("x[_, _, _]", "windows", over="w[_, _, _] * _")
    s.rw("ll_sum")
    s.rw("ll_sum")
    s.rw("ll_gen")
    s.rw("ll_gen_indep")
    s.rw("ll_gen")
    return s


def blur_fused() -> atl.Session:
    """Fuse the two stages of the blur into one loop nest (the authors: 13 steps)."""
    s = atl.reschedule(blur.two_stage())
    s.inline("buf")
    s.rw("get_gen", all=True)
    s.simpl_guard()
    return s


def blur_fused_with_tails() -> atl.Session:
    """Fuse the blur and peel its border, so that the interior needs no guards (not derived by the authors)."""
    rows, columns = blur.n, blur.m
    s = atl.reschedule(blur.two_stage(), given=[rows >= 2, columns >= 2])
    s.inline("buf")
    s.rw("get_gen", all=True)
    s.split_loop("y", 1, rows - 1)
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    s.split_loop((0, 1, 0), 1, columns - 1)
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    return s


def blur_two_stage_with_tails() -> atl.Session:
    """Schedule breadth-first and peel the border of the first stage (Fig. 8.1; the authors: 13 steps). For m >= 2.

    The whole buffer is zeroed first. `fast.blur_in_two_stages` avoids the rows of zeros.
    """
    rows, columns = blur.n, blur.m
    s = atl.reschedule(blur.two_stage(), given=[columns >= 2])
    s.split_loop((0,), 1, rows + 1)
    s.split_loop((0, 0, 1, 0), 1, columns - 1)
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    return s


def blur_tiled_staged_with_tails() -> atl.Session:
    """Peel the border, and tile the interior, each tile with a buffer of its row sums (Fig. 8.2).

    Holds for all tile sizes in 31 steps. The authors needed 747 sentences, and assumed that the tiles do not divide the
    image. C compilers optimise tiles of a constant size better: see `fast.blur_in_tiles`.
    """
    rows, columns = blur.n - 2, blur.m - 2
    k_n, k_m = atl.sizes("k_n k_m", min=1)
    s = atl.reschedule(blur.two_stage(), given=[blur.n >= 2, blur.m >= 2, k_n >= 1, k_m >= 1])
    # Peel the first and last rows, then the first and last columns of the rows between.
    s.split_loop((1,), 1, rows + 1)
    s.split_loop((1, 0, 1, 0), 1, columns + 1)
    middle = (1, 0, 1)
    s.rw("transpose_transpose", reverse=True, at=middle, top_down=True)
    s.rw("gen_concat", at=middle)
    s.rw("gen_concat", at=middle)
    # Tile the rows of the interior; the last tile is guarded.
    interior = (*middle, 0, 0, 1, 0)
    s.rw("gen_rebase", at=interior, top_down=True)
    s.rw("truncr_flatten_split", reverse=True, at=interior, top_down=True, k=k_n)
    s.inline("split")
    s.rw("get_gen", at=interior)
    s.rw("guard_gen")
    s.rw("split_gen", at=(*interior, 0, 0), top_down=True, k=rows // k_n)
    s.simpl_guard()
    # Tile the columns of each full tile of rows.
    last_row, row = (*interior, 0, 0, 1), (*interior, 0, 0, 0, 0)
    s.rw("gen_interchange", at=row, top_down=True)
    across = (*row, 0)
    s.rw("gen_rebase", at=across, top_down=True)
    s.rw("truncr_flatten_split", reverse=True, at=across, top_down=True, k=k_m)
    s.inline("split")
    s.rw("get_gen", at=across)
    s.rw("guard_gen", at=across)
    s.rw("split_gen", at=(*across, 0, 0), top_down=True, k=columns // k_m)
    s.simpl_guard()
    tiles = [(*across, 0, 0, 0), (*across, 0, 0, 1)]
    for tile in tiles:
        s.rw("gen_interchange", at=(*tile, 0), top_down=True)
    s.rw("gen_rebase", at=(*last_row, 0, 0), top_down=True)
    # Buffer the row sums that a tile reads. At the border they are computed at each read.
    for loop in (*tiles, last_row):
        s.stage("buf", at=loop)
    s.inline("buf")
    s.rw("get_gen", all=True)
    s.simpl_guard()
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    return s
