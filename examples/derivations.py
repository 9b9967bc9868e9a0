"""The schedules of Fig. 8.6, derived: each from its naive program by a short chain of proved rewrites.

Every function returns the session at its end; `.done()` is the theorem. One call is one step. They show what the paper
derives, and how; the schedules that are fast are in `examples.fast`.
"""

from __future__ import annotations

import atl
from examples.schedules import blur, convolution, matmul, tensor_addition
from rewrites import Session, reschedule

n, m = atl.sizes("n m")
f = atl.tensor("f", n)


def pipeline() -> atl.Program:
    """The pipeline of §3.1: each element of a first stage is added to its left neighbour."""
    stage = atl.gen(n, lambda j: 2 * f[j])
    body = atl.let(stage, lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i]), name="buf")
    return atl.program("pipeline", [f], body)


def pipeline_fused() -> Session:
    """§4.2.3: the two stages in one loop."""
    s = reschedule(pipeline())
    s.rw("unfold_let")
    s.rw("get_gen")
    s.rw("get_gen")
    return s


def pipeline_split() -> Session:
    """§4.5.2: fused, with the first element split off, so that the others need no test. For n >= 1."""
    s = reschedule(pipeline(), given=[n >= 1])
    s.fuse("buf")
    s.rw("split_gen", around="i", k=1)
    s.simpl_guard()
    s.rw("nothing_add")
    return s


def pipeline_tiled() -> Session:
    """§4.1 (with E13): tiles of eight elements, each computed into a buffer first."""
    s = pipeline_fused()
    s.rw("truncr_flatten_split", reverse=True, around="i", k=8)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_twice", at="j", top_down=True)
    s.lbind((0, 0, 0, 0, 0), "v")
    s.rw("ll_guard")
    s.rw("ll_gen")
    return s


def matmul_tiled() -> Session:
    """C x C tiles for every C >= 1 (the authors: 18 steps).

    As the paper has it, each element is a sum by itself, of which C compilers make no vectors: it is no faster than the
    naive product. `fast.product_in_square_tiles` adds up the same tiles in registers.
    """
    c = matmul.C
    s = reschedule(matmul.naive(), given=[c >= 1])
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


def matmul_tiled_with_tails() -> Session:
    """Whole tiles without a test, the last columns and rows in loops of their own (the authors: 21 steps).

    For how fast it is, `matmul_tiled` says what there is to say.
    """
    c, rows, columns = matmul.C, matmul.M, matmul.N
    s = reschedule(matmul.naive(), given=[c >= 1])
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


def addition_flat() -> Session:
    """One loop over all elements, split in storage (the authors: 39 steps)."""
    a, b, c = tensor_addition.N, tensor_addition.K, tensor_addition.C
    s = reschedule(tensor_addition.nested(), given=[a >= 1, b >= 1, c >= 1])
    for size in (a, b, c):
        s.rw("split_flatten", reverse=True, around="i", k=size)
        s.rw("flatten_gen_gen")
    s.simpl_index()
    s.rw("equal_index", a="(i // C) // K % N", b="i // (C*K) % N", at="i", all=True)
    return s


def shifting_convolution() -> atl.Program:
    """A convolution by the kernel that is 1 at offset 2 (`conv4` of the authors): a shift, written as a sum."""
    c = atl.tensor("c", m)
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(j == i - 2, 1.0) * c[j]))
    return atl.program("shift", [c], body)


def convolution_shift() -> Session:
    """The sum of a delta is the one element it picks (the authors: 9 steps)."""
    s = reschedule(shifting_convolution())
    s.rw("guard_mul_left")
    s.rw("sum_delta_only")
    return s


def scatter_to_gather() -> Session:
    """§8.1.2: from adding every input to the outputs it reaches, to reading every output's inputs (17 steps)."""
    s = reschedule(convolution.scatter())
    s.rw("guard_mul_right")
    s.rw("sum_delta_only", reverse=True, lo=0, hi=convolution.R)
    for _ in range(3):
        s.rw("sum_gen_swap", reverse=True, top_down=True)
    s.rw("sum_swap", at="i", top_down=True)
    s.rw("sum_swap", at="i", top_down=True)
    s.rw("sum_delta_only")
    s.simpl_guard()
    return s


def im2col() -> Session:
    """§8.1.3: the windows of a convolution in a buffer, the rest a matrix product (the authors: 8 steps)."""
    s = reschedule(convolution.direct())
    s.lbind("x[_, _, _]", "windows", over="w[_, _, _] * _")
    s.rw("ll_sum")
    s.rw("ll_sum")
    s.rw("ll_gen")
    s.rw("ll_gen_indep")
    s.rw("ll_gen")
    return s


def blur_fused() -> Session:
    """The two stages of the blur in one loop nest (the authors: 13 steps)."""
    s = reschedule(blur.two_stage())
    s.inline("buf")
    s.rw("get_gen", all=True)
    s.simpl_guard()
    return s


def blur_fused_with_tails() -> Session:
    """The border split off, so that the interior needs no test: a derivation that the authors do not have."""
    rows, columns = blur.n, blur.m
    s = reschedule(blur.two_stage(), given=[rows >= 2, columns >= 2])
    s.inline("buf")
    s.rw("get_gen", all=True)
    s.split_loop("y", 1, rows - 1)
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    s.split_loop((0, 1, 0), 1, columns - 1)
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    return s


def blur_two_stage_with_tails() -> Session:
    """Breadth-first, with the border of the first stage split off (Fig. 8.1; the authors: 13 steps). For m >= 2.

    All of the buffer is zeroed first; `fast.blur_in_two_stages` has no rows of zeros.
    """
    rows, columns = blur.n, blur.m
    s = reschedule(blur.two_stage(), given=[columns >= 2])
    s.split_loop((0,), 1, rows + 1)
    s.split_loop((0, 0, 1, 0), 1, columns - 1)
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    return s


def blur_tiled_staged_with_tails() -> Session:
    """Fig. 8.2: the border split off, the interior in tiles, each with a buffer of its row sums.

    For all tile sizes, dividing or not, in 31 steps, where the authors needed 747 sentences and assumed that the tiles
    do not divide the picture. C compilers know more of tiles of a constant size: `fast.blur_in_tiles`.
    """
    rows, columns = blur.n - 2, blur.m - 2
    k_n, k_m = atl.sizes("k_n k_m", min=1)
    s = reschedule(blur.two_stage(), given=[blur.n >= 2, blur.m >= 2, k_n >= 1, k_m >= 1])
    # The border: prologue, interior and epilogue, of rows and then of the columns between.
    s.split_loop((1,), 1, rows + 1)
    s.split_loop((1, 0, 1, 0), 1, columns + 1)
    middle = (1, 0, 1)
    s.rw("transpose_transpose", reverse=True, at=middle, top_down=True)
    s.rw("gen_concat", at=middle)
    s.rw("gen_concat", at=middle)
    # The interior in rows of tiles; the last one is guarded.
    interior = (*middle, 0, 0, 1, 0)
    s.rw("gen_rebase", at=interior, top_down=True)
    s.rw("truncr_flatten_split", reverse=True, at=interior, top_down=True, k=k_n)
    s.inline("split")
    s.rw("get_gen", at=interior)
    s.rw("guard_gen")
    s.rw("split_gen", at=(*interior, 0, 0), top_down=True, k=rows // k_n)
    s.simpl_guard()
    # Each row of whole tiles in tiles.
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
    # The row sums that a tile reads, in a buffer of its own; at the border they are computed where they are read.
    for loop in (*tiles, last_row):
        s.stage("buf", at=loop)
    s.inline("buf")
    s.rw("get_gen", all=True)
    s.simpl_guard()
    s.rw("nothing_add", all=True)
    s.rw("add_nothing", all=True)
    return s
