"""Kernels over the rows of a matrix in Triton: softmax, and layer normalization with its backward pass.

Rows are covered by blocks, and the last block may be partial. The layout provides the mask of each load.
"""

from __future__ import annotations

from typing import Final

from atl import sizes
from layouts.lego import CoverBy
from layouts.templates import Filled, fill

HEAD: Final = """\
import triton
import triton.language as tl


@triton.jit
"""

SOFTMAX: Final = """\
def softmax(x_ptr, y_ptr, N, BS: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + {{ row }}, mask={{ row.inside }}, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + {{ row }}, e / tl.sum(e, axis=0), mask={{ row.inside }})
"""

FORWARD: Final = """\
def forward(x_ptr, y_ptr, w_ptr, b_ptr, mean_ptr, rstd_ptr, N, eps, BS: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BS], dtype=tl.float32)
    for block in range(tl.cdiv(N, BS)):
        total += tl.load(x_ptr + {{ part }}, mask={{ part.inside }}, other=0.0)
    mean = tl.sum(total, axis=0) / N
    total = tl.zeros([BS], dtype=tl.float32)
    for block in range(tl.cdiv(N, BS)):
        x = tl.load(x_ptr + {{ part }}, mask={{ part.inside }}, other=0.0)
        apart = tl.where({{ part.inside }}, x - mean, 0.0)
        total += apart * apart
    rstd = 1 / tl.sqrt(tl.sum(total, axis=0) / N + eps)
    tl.store(mean_ptr + row, mean)
    tl.store(rstd_ptr + row, rstd)
    for block in range(tl.cdiv(N, BS)):
        w = tl.load(w_ptr + {{ column }}, mask={{ column.inside }})
        b = tl.load(b_ptr + {{ column }}, mask={{ column.inside }})
        x = tl.load(x_ptr + {{ part }}, mask={{ part.inside }}, other=0.0)
        tl.store(y_ptr + {{ part }}, (x - mean) * rstd * w + b, mask={{ part.inside }})
"""

BACKWARD_X: Final = """\
def backward_x(dx_ptr, dy_ptr, x_ptr, w_ptr, mean_ptr, rstd_ptr, N, BS: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + {{ row }}, mask={{ row.inside }}, other=0.0)
    dy = tl.load(dy_ptr + {{ row }}, mask={{ row.inside }}, other=0.0)
    w = tl.load(w_ptr + {{ whole }}, mask={{ whole.inside }}, other=0.0)
    mean = tl.load(mean_ptr + row)
    rstd = tl.load(rstd_ptr + row)
    apart = tl.where({{ row.inside }}, (x - mean) * rstd, 0.0)
    along = tl.sum(apart * w * dy, axis=0) / N
    level = tl.sum(w * dy, axis=0) / N
    tl.store(dx_ptr + {{ row }}, (w * dy - (apart * along + level)) * rstd, mask={{ row.inside }})
"""

BACKWARD_W: Final = """\
def backward_w(dw_ptr, db_ptr, dy_ptr, x_ptr, mean_ptr, rstd_ptr, M, N, BM: tl.constexpr, BS: tl.constexpr):
    block = tl.program_id(0)
    dw = tl.zeros([BM, BS], dtype=tl.float32)
    db = tl.zeros([BM, BS], dtype=tl.float32)
    for rows in range(tl.cdiv(M, BM)):
        x = tl.load(x_ptr + {{ tile }}, mask={{ tile.inside }}, other=0.0)
        dy = tl.load(dy_ptr + {{ tile }}, mask={{ tile.inside }}, other=0.0)
        mean = tl.load(mean_ptr + {{ of_rows }}, mask={{ of_rows.inside }}, other=0.0)
        rstd = tl.load(rstd_ptr + {{ of_rows }}, mask={{ of_rows.inside }}, other=0.0)
        dw += dy * (x - mean[:, None]) * rstd[:, None]
        db += dy
    tl.store(dw_ptr + {{ column }}, tl.sum(dw, axis=0), mask={{ column.inside }})
    tl.store(db_ptr + {{ column }}, tl.sum(db, axis=0), mask={{ column.inside }})
"""


def softmax() -> Filled:
    """Return the softmax of rows that fit into one block.

    >>> print(softmax().text.splitlines()[7].strip())
    x = tl.load(x_ptr + N*row + tl.arange(0, BS), mask=(tl.arange(0, BS) < N), other=-float("inf"))
    """
    M, N, BS, row = sizes("M N BS row")
    return fill(HEAD + SOFTMAX, "triton", {"row": CoverBy([M, N], [1, BS])[row, 0, 0, :]})


def layer_norm() -> tuple[Filled, Filled, Filled]:
    """Return layer normalization: the forward pass, and the gradients of the input and of the weights."""
    M, N, BM, BS, row, rows, block = sizes("M N BM BS row rows block")
    matrix, vector = CoverBy([M, N], [1, BS]), CoverBy([N], [BS])
    column = vector[block, :]
    tile, of_rows = CoverBy([M, N], [BM, BS])[rows, block, :, :], CoverBy([M], [BM])[rows, :]
    return (
        fill(HEAD + FORWARD, "triton", {"part": matrix[row, block, 0, :], "column": column}),
        fill(HEAD + BACKWARD_X, "triton", {"row": matrix[row, 0, 0, :], "whole": vector[0, :]}),
        fill(HEAD + BACKWARD_W, "triton", {"tile": tile, "of_rows": of_rows, "column": column}),
    )
