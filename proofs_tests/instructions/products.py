"""Programs and schedules of products, shared by the tests of instructions."""

from functools import lru_cache

import numpy as np
import numpy.typing as npt

import atl
from atl.core.program import Program
from lowering.gpu.gpu_kernel import GpuKernel
from rewrites.session.session import Session

N, M, K = atl.sizes("n m k")

ONE_WARP = """product (A : float16[n, k], B : float16[k, m]) : float32[n, m] given n % 16 = 0, m % 8 = 0, k % 16 = 0 :=
  flatten ⊞[io < n // 16 | block.y] transpose flatten ⊞[jo < m // 8 | block.x]
    let acc | registers :=
      Σ[po < k // 16]
        let Af | registers :=
          ⊞[a < 8 | thread.y] ⊞[b < 4 | thread.x] ⊞[e < 2] ⊞[c < 2] ⊞[d < 2] A[16*io + 8*c + a, 16*po + 8*e + 2*b + d]
        in
        let Bf | registers :=
          ⊞[a < 8 | thread.y] ⊞[b < 4 | thread.x] ⊞[c < 2] ⊞[d < 2] B[16*po + 8*c + 2*b + d, 8*jo + a]
        in
        ⊞[a < 8 | thread.y] ⊞[b < 4 | thread.x] ⊞[c < 2] ⊞[d < 2] Σ[p < 16 | call mma_m16n8k16]
          cast(float32, Af[a, p // 2 % 4, p // 8, c, p % 2]) * cast(float32, Bf[2*b + d, p // 2 % 4, p // 8, p % 2])
    in
    transpose flatten ⊞[c < 2] ⊞[a < 8 | thread.y] flatten ⊞[b < 4 | thread.x] ⊞[d < 2] acc[a, b, c, d]
"""
"""A product by one warp in each block, written by hand: the fragments are filled from global memory."""

_LANES = "⊞[a < 8 | thread.y] ⊞[b < 4 | thread.x]"
_WARPS = f"⊞[w < 2 | thread.z] {_LANES}"
TWO_WARPS = (
    ONE_WARP.replace("n % 16 = 0", "n % 32 = 0")
    .replace("io < n // 16", "io < n // 32")
    .replace(f"{_LANES} ⊞[e", f"{_WARPS} ⊞[e")
    .replace("A[16*io + 8*c", "A[32*io + 16*w + 8*c")
    .replace(f"{_LANES} ⊞[c < 2] ⊞[d < 2] Σ", f"{_WARPS} ⊞[c < 2] ⊞[d < 2] Σ")
    .replace("Af[a,", "Af[w, a,")
    .replace("transpose flatten ⊞[c < 2]", "transpose flatten ⊞[w < 2 | thread.z] flatten ⊞[c < 2]")
    .replace("acc[a,", "acc[w, a,")
)
"""The same by two warps, of which each has the same fragments of B."""

OWN_CELLS = """copy (A : float16[n, 16]) : float16[n, 16] given n % 16 = 0 :=
  flatten ⊞[io < n // 16 | block.x]
    let As | shared :=
      flatten ⊞[c < 2] ⊞[a < 8 | thread.y] flatten ⊞[e < 2] flatten ⊞[b < 4 | thread.x] ⊞[d < 2]
        A[16*io + 8*c + a, 8*e + 2*b + d]
    in
    let Af | registers :=
      ⊞[a < 8 | thread.y] ⊞[b < 4 | thread.x] ⊞[e < 2] ⊞[c < 2] ⊞[d < 2 | call ldmatrix_left] As[8*c + a, 8*e + 2*b + d]
    in
    flatten ⊞[c < 2] ⊞[a < 8 | thread.y] flatten ⊞[e < 2] flatten ⊞[b < 4 | thread.x] ⊞[d < 2] Af[a, b, e, c, d]
"""
"""A copy in which each lane stores the elements of its fragment, which are loaded as rows that other lanes stored."""

Array = npt.NDArray[np.generic]


def product(
    dtype: str, into: str, *, left: str = "A[i, p]", right: str = "B[p, j]", other: str | None = None
) -> Program:
    """Return a product of two operands of a type, with sums of another type; an operand may be stored transposed."""
    a = "n, k" if left == "A[i, p]" else "k, n"
    b = "k, m" if right == "B[p, j]" else "m, k"
    return atl.parse(
        f"product (A : {dtype}[{a}], B : {other or dtype}[{b}]) : {into}[n, m] := "
        f"⊞[i < n] ⊞[j < m] Σ[p < k] cast({into}, {left}) * cast({into}, {right})"
    )


@lru_cache(maxsize=16)
def by_warps(
    dtype: str = "float16",
    into: str = "float32",
    instruction: str = "mma_m16n8k16",
    block: tuple[int, int, int] = (16, 8, 16),
    warps: int = 1,
    left: str = "A[i, p]",
    right: str = "B[p, j]",
    stages: int = 1,
) -> Session:
    """Return the derivation of a product by an instruction of tensor cores. With stages, rows are whole pieces."""
    whole = 8 if into == "float32" else 16
    given = [size % whole == 0 for size in (N, M, K)] if stages > 1 else ()
    start = atl.reschedule(product(dtype, into, left=left, right=right), given=given)
    return start.tensor_cores("p", instruction, block=block, warps=warps, stages=stages)


@lru_cache(maxsize=16)
def kernel_by_warps(
    dtype: str = "float16",
    into: str = "float32",
    instruction: str = "mma_m16n8k16",
    block: tuple[int, int, int] = (16, 8, 16),
    warps: int = 1,
    left: str = "A[i, p]",
    right: str = "B[p, j]",
    stages: int = 1,
) -> GpuKernel:
    """Return the kernel of such a derivation."""
    made = by_warps(dtype, into, instruction, block, warps, left, right, stages).compile(target="cuda")
    assert isinstance(made, GpuKernel)
    return made


def integers(seed: int, shape: tuple[int, ...], dtype: str) -> Array:
    """Return random integers of up to 8, of which all products and sums are exact."""
    drawn = np.random.default_rng(seed).integers(0 if dtype == "uint8" else -8, 9, shape)
    if dtype == "bfloat16":
        import ml_dtypes

        return drawn.astype(ml_dtypes.bfloat16)
    return drawn.astype(dtype)


def operands(
    sizes: tuple[int, int, int], dtype: str, *, left: str = "A[i, p]", right: str = "B[p, j]", other: str | None = None
) -> tuple[Array, Array]:
    """Return operands for n, m and k, stored as the program reads them."""
    n, m, k = sizes
    return (
        integers(n + 41 * k, (n, k) if left == "A[i, p]" else (k, n), dtype),
        integers(m + 43 * k, (k, m) if right == "B[p, j]" else (m, k), other or dtype),
    )


def expected(a: Array, b: Array, into: str, *, left: str = "A[i, p]", right: str = "B[p, j]") -> Array:
    """Return NumPy's product."""
    made: Array = (a if left == "A[i, p]" else a.T).astype(into) @ (b if right == "B[p, j]" else b.T).astype(into)
    return made
