"""LU decomposition in CUDA with thread coarsening expressed as a layout (Table I, 12b).

T x T threads compute a block of R T x R T elements, so R x R per thread: the layout GroupBy([R, R], [T, T]). The same
template serves all degrees of coarsening.
"""

from __future__ import annotations

from typing import Final

from atl import sizes
from layouts.lego import GroupBy, RegP, Row
from layouts.templates import Filled, fill

TEMPLATE: Final = """\
#define A(i, j) a[{{ matrix("(i)", "(j)") }}]
#define AT(i, j) [{{ block("(i)", "(j)") }}]

__global__ void corner(float *a, int n, int k0)
{
    for (int k = k0; k < k0 + {{ W }}; ++k) {
        for (int i = k + 1 + threadIdx.x; i < k0 + {{ W }}; i += {{ threads }}) A(i, k) /= A(k, k);
        __syncthreads();
        for (int i = k + 1 + threadIdx.x; i < k0 + {{ W }}; i += {{ threads }})
            for (int j = k + 1; j < k0 + {{ W }}; ++j) A(i, j) -= A(i, k) * A(k, j);
        __syncthreads();
    }
}

__global__ void rim(float *a, int n, int k0)
{
    const int at = k0 + {{ W }} * (blockIdx.x + 1);
    for (int t = threadIdx.x; t < {{ W }}; t += {{ threads }}) {
        for (int k = k0; k < k0 + {{ W }}; ++k)
            for (int i = k + 1; i < k0 + {{ W }}; ++i) A(i, at + t) -= A(i, k) * A(k, at + t);
        for (int k = k0; k < k0 + {{ W }}; ++k) {
            for (int l = k0; l < k; ++l) A(at + t, k) -= A(at + t, l) * A(l, k);
            A(at + t, k) /= A(k, k);
        }
    }
}

__global__ void inner(float *a, int n, int k0)
{
    __shared__ float lower[{{ places }}], upper[{{ places }}];
    const int ty = threadIdx.y, tx = threadIdx.x;
    const int row = k0 + {{ W }} * (blockIdx.y + 1), column = k0 + {{ W }} * (blockIdx.x + 1);
    for (int r = 0; r < {{ R }}; ++r)
        for (int q = 0; q < {{ R }}; ++q) {
            const int i = {{ row }}, j = {{ column }};
            lower AT(i, j) = A(row + i, k0 + j);
            upper AT(i, j) = A(k0 + i, column + j);
        }
    __syncthreads();
    for (int r = 0; r < {{ R }}; ++r)
        for (int q = 0; q < {{ R }}; ++q) {
            const int i = {{ row }}, j = {{ column }};
            float sum = 0;
            for (int k = 0; k < {{ W }}; ++k) sum += lower AT(i, k) * upper AT(k, j);
            A(row + i, column + j) -= sum;
        }
}

extern "C" int decompose(float *a, int n)
{
    for (int k0 = 0; k0 < n; k0 += {{ W }}) {
        const unsigned left = (n - k0) / {{ W }} - 1;
        cudaLaunchConfig_t how = {};
        how.gridDim = dim3(1);
        how.blockDim = dim3({{ threads }});
        if (cudaLaunchKernelEx(&how, corner, a, n, k0) != cudaSuccess) return 1;
        if (left == 0) continue;
        how.gridDim = dim3(left);
        if (cudaLaunchKernelEx(&how, rim, a, n, k0) != cudaSuccess) return 1;
        how.gridDim = dim3(left, left);
        how.blockDim = dim3({{ T }}, {{ T }});
        if (cudaLaunchKernelEx(&how, inner, a, n, k0) != cudaSuccess) return 1;
    }
    return 0;
}
"""


def lud(R: int = 4, T: int = 16) -> Filled:
    """Return the decomposition by blocks of R T x R T elements and T x T threads."""
    n, r, q, ty, tx = sizes("n r q ty tx")
    inside = [r < R, q < R, ty < T, tx < T]
    work = GroupBy([R, R], [T, T]).OrderBy(RegP([R, R, T, T], [1, 3, 2, 4])).OrderBy(Row(R * T, R * T))
    row, column = GroupBy([R * T, R * T], given=inside).inv(work.apply(r, q, ty, tx))
    places = {
        "matrix": GroupBy([n, n])[:, :], "block": GroupBy([R * T, R * T])[:, :],
        "row": row, "column": column,
        "W": R * T, "R": R, "T": T, "threads": T * T, "places": R * T * R * T,
    }  # fmt: skip
    return fill(TEMPLATE, "cuda", places, given=inside)
