"""Schedules for the emulated systolic core: a product of matrices of any sizes, and the scores of attention."""

from typing import Final

import atl

PRODUCT: Final = atl.parse(
    """product (A : float32[n, k], B : float32[k, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]"""
)
SCORES: Final = atl.parse(
    """scores (Q : float32[n, d], K : float32[m, d]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[p < d] Q[i, p] * K[j, p]"""
)


def product(rows: int = 128, columns: int = 512, terms: int = 128) -> atl.Session:
    """Return the product in tiles, by default the largest ones that the core multiplies."""
    return _in_tiles(PRODUCT, "A", "B", rows, columns, terms)


def scores(rows: int = 128, columns: int = 512, terms: int = 128) -> atl.Session:
    """Return the scores of attention, the products of all rows of Q with all rows of K."""
    return _in_tiles(SCORES, "Q", "K", rows, columns, terms)


def _in_tiles(program: atl.Program, left: str, right: str, rows: int, columns: int, terms: int) -> atl.Session:
    s = atl.reschedule(program)
    s.tile(["i", "j"], [rows, columns]).accumulate("p", at="jo", name="acc").tile("p", terms)
    s.pack(left, at="po", name="left", order=["pi", "ii"]).pack(right, at="po", name="right", order=["pi", "ji"])
    return s.mark("acc", "accumulator").mark("left", "scratchpad").mark("right", "scratchpad")
