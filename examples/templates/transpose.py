"""Transposition in CUDA and MLIR, directly and through a tile in shared memory."""

from __future__ import annotations

from typing import Final

import atl
from atl import sizes
from layouts.lego import GroupBy, Row, TileInto
from layouts.templates import Filled, fill, part_of

CUDA_NAIVE: Final = """\
__global__ void turn(const float *x, float *y, int N, int M)
{
    const int by = blockIdx.y, bx = blockIdx.x, ty = threadIdx.y, tx = threadIdx.x;
    y[{{ out }}] = x[{{ x }}];
}
"""

CUDA_STAGED: Final = """\
__global__ void turn(const float *x, float *y, int N, int M)
{
    __shared__ float tile[{{ places }}];
    const int by = blockIdx.y, bx = blockIdx.x, ty = threadIdx.y, tx = threadIdx.x;
    tile[{{ tile("ty", "tx") }}] = x[{{ x }}];
    __syncthreads();
    y[{{ staged }}] = tile[{{ tile("tx", "ty") }}];
}
"""

CUDA_HOST: Final = """
extern "C" int transpose(const float *x, float *y, int N, int M)
{
    cudaLaunchConfig_t how = {};
    how.gridDim = dim3(M / {{ T }}, N / {{ T }});
    how.blockDim = dim3({{ T }}, {{ T }});
    return cudaLaunchKernelEx(&how, turn, x, y, N, M) != cudaSuccess;
}
"""

MLIR_NAIVE: Final = """\
func.func @transpose(%x : memref<?xf32>, %y : memref<?xf32>, %N : index, %M : index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  scf.for %i = %zero to %N step %one {
    scf.for %j = %zero to %M step %one {
      {{ define(source, target) | indent(6) }}
      %value = memref.load %x[{{ source }}] : memref<?xf32>
      memref.store %value, %y[{{ target }}] : memref<?xf32>
    }
  }
  func.return
}
"""

MLIR_STAGED: Final = """\
func.func @transpose(%x : memref<?xf32>, %y : memref<?xf32>, %N : index, %M : index) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %T = arith.constant {{ T }} : index
  %rows = arith.divsi %N, %T : index
  %columns = arith.divsi %M, %T : index
  %tile = memref.alloc() : memref<{{ places }}xf32>
  scf.for %by = %zero to %rows step %one {
    scf.for %bx = %zero to %columns step %one {
      scf.for %ty = %zero to %T step %one {
        scf.for %tx = %zero to %T step %one {
          {{ define(x, tile("ty", "tx")) | indent(10) }}
          %value = memref.load %x[{{ x }}] : memref<?xf32>
          memref.store %value, %tile[{{ tile("ty", "tx") }}] : memref<{{ places }}xf32>
        }
      }
      scf.for %ty = %zero to %T step %one {
        scf.for %tx = %zero to %T step %one {
          {{ define(staged, tile("tx", "ty")) | indent(10) }}
          %value = memref.load %tile[{{ tile("tx", "ty") }}] : memref<{{ places }}xf32>
          memref.store %value, %y[{{ staged }}] : memref<?xf32>
        }
      }
    }
  }
  func.return
}
"""


def _places(T: int) -> dict[str, object]:
    N, M, by, bx, ty, tx, i, j = sizes("N M by bx ty tx i j")
    x = TileInto([N, M], [T, T]).OrderBy(Row(N, M))
    y = TileInto([M, N], [T, T]).OrderBy(Row(M, N))
    tile = part_of(atl.swizzled(T)((T, T)), slice(None), slice(None))
    return {
        "x": x.apply(by, bx, ty, tx), "out": y.apply(bx, by, tx, ty), "staged": y.apply(bx, by, ty, tx),
        "tile": tile, "places": T * T, "T": T,
        "source": GroupBy([N, M]).apply(i, j), "target": GroupBy([M, N]).apply(j, i),
    }  # fmt: skip


def in_cuda(T: int = 32, *, staged: bool = True) -> Filled:
    """Return the CUDA kernel in tiles of T x T, with one thread per element of a tile."""
    return fill((CUDA_STAGED if staged else CUDA_NAIVE) + CUDA_HOST, "cuda", _places(T))


def in_mlir(T: int = 4, *, staged: bool = True) -> Filled:
    """Return the same as MLIR loops."""
    return fill(MLIR_STAGED if staged else MLIR_NAIVE, "mlir", _places(T))
