"""Schedules that call a BLAS: a product of packed panels, a convolution as products, and products on several ranks.

Each is derived by proved rewrites. `dispatch` then finds the loops that an instruction computes.
"""

from typing import Final

import atl
from examples import distributed

PRODUCT: Final = atl.parse(
    """product (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]"""
)
CONVOLUTION: Final = atl.parse(
    """convolution (x : float32[h + 2, w + 2, c], f : float32[3, 3, c, o], h : size, w : size) : float32[h, w, o] :=
      ⊞[y < h] ⊞[z < w] ⊞[k < o] Σ[u < 3] Σ[v < 3] Σ[q < c] x[y + u, z + v, q] * f[u, v, q, k]"""
)


def packed_product(columns: int = 256) -> atl.Session:
    """Return the product of matrices in panels: `sgemm` multiplies by some columns of B, which are copied first."""
    s = atl.reschedule(PRODUCT)
    s.tile("j", columns).interchange("i")
    s.pack("B", at="jo")
    return s.call("sgemm")


def convolution_as_products() -> atl.Session:
    """Return the convolution as nine sums of products: each adds a batch of matrices, one for each row of the image."""
    s = atl.reschedule(CONVOLUTION)
    for loop in ("k", "z", "y") * 2:  # both sums over the window move outside
        s.interchange(loop)
    return s.dispatch("q")


def summa() -> atl.Session:
    """Return SUMMA whose local products call `sgemm`: each rank calls it once for each pair of blocks it receives."""
    return distributed.summa().call("sgemm")


def contracted() -> atl.Session:
    """Return the product with sharded terms: each rank calls `sgemm` once, and the results are added on all ranks."""
    return distributed.contracted().call("sgemm")


def rows() -> atl.Session:
    """Return the product with gathered blocks: each rank calls `sgemm` once for each block, and adds to its rows."""
    s = distributed.rows().interchange("⊞[j < m] Σ[po < P] _").interchange("⊞[i < nb] _")
    return s.call("sgemm")
