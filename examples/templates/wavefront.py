"""Needleman-Wunsch alignment in CUDA: a tile in shared memory is filled along its antidiagonals.

The threads of a step access one antidiagonal. In a row-major tile these elements are a stride of the width minus one
apart. If the layout orders the tile by antidiagonals, they are adjacent, and the kernel template is the same.
"""

from __future__ import annotations

from typing import Any, Final

from atl import imax, sizes
from layouts.lego import GenP, GroupBy, Row
from layouts.templates import Filled, fill

TEMPLATE: Final = """\
#define AT(i, j) tile[{{ tile("(i)", "(j)") }}]
#define SCORE(i, j) score[{{ score("(i)", "(j)") }}]

__global__ void step(int *score, const int *gain, int n, int diagonal, int penalty)
{
    __shared__ int tile[{{ places }}];
    const int t = threadIdx.x;
    const int first = max(diagonal - n / {{ B }} + 1, 0);
    const int by = first + blockIdx.x, bx = diagonal - by;
    for (int i = 0; i < {{ B }}; ++i) {
        AT(i + 1, t + 1) = gain[{{ gain }}];
    }
    AT(t + 1, 0) = SCORE(by * {{ B }} + t + 1, bx * {{ B }});
    AT(0, t + 1) = SCORE(by * {{ B }}, bx * {{ B }} + t + 1);
    if (t == 0) AT(0, 0) = SCORE(by * {{ B }}, bx * {{ B }});
    __syncthreads();
    for (int d = 0; d < 2 * {{ B }} - 1; ++d) {
        if (d - {{ B }} < t && t <= d) {
            const int i = d - t + 1, j = t + 1;
            const int along = max(AT(i - 1, j), AT(i, j - 1)) - penalty;
            AT(i, j) = max(AT(i - 1, j - 1) + AT(i, j), along);
        }
        __syncthreads();
    }
    for (int i = 0; i < {{ B }}; ++i) SCORE(by * {{ B }} + i + 1, bx * {{ B }} + t + 1) = AT(i + 1, t + 1);
}

extern "C" int align(int *score, const int *gain, int n, int penalty)
{
    const int tiles = n / {{ B }};
    for (int d = 0; d < 2 * tiles - 1; ++d) {
        cudaLaunchConfig_t how = {};
        how.gridDim = dim3(d < tiles ? d + 1 : 2 * tiles - 1 - d);
        how.blockDim = dim3({{ B }});
        if (cudaLaunchKernelEx(&how, step, score, gain, n, d, penalty) != cudaSuccess) return 1;
    }
    return 0;
}
"""


def antidiagonals(n: int) -> GenP:
    """Return the layout of a square by antidiagonals, from its first corner (Fig. 7, without its two cases).

    >>> [antidiagonals(3).apply((i, j)) for i in range(3) for j in range(3)]
    [0, 1, 3, 2, 4, 6, 5, 7, 8]
    """

    def place(i: Any, j: Any) -> Any:
        d = i + j
        # Antidiagonals past the main one are shorter, and start further down.
        over = max(d - n + 1, 0) if isinstance(d, int) else imax(d - n + 1, 0)
        return d * (d + 1) // 2 - over * (over - 1) + i - over

    def element(x: int) -> tuple[int, int]:
        return inverse[x]

    inverse = {int(place(i, j)): (i, j) for i in range(n) for j in range(n)}
    return GenP([n, n], place, element)


def wavefront(B: int = 16, *, by_diagonals: bool = True) -> Filled:
    """Return the kernel for tiles of B x B, stored by antidiagonals or row-major."""
    n, by, bx, i, t = sizes("n by bx i t")
    side = B + 1
    buffer = GroupBy([side, side]).OrderBy(antidiagonals(side) if by_diagonals else Row(side, side))
    gain = GroupBy([n, n]).OrderBy(Row(n, n))
    places = {
        "tile": buffer[:, :],
        "score": GroupBy([n + 1, n + 1])[:, :],
        "gain": gain.apply(B * by + i, B * bx + t),
        "B": B,
        "places": side * side,
    }
    return fill(TEMPLATE, "cuda", places)
