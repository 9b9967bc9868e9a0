"""Schedules for the emulated systolic core, for any sizes: a product, the scores of attention, a product of three."""

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
CHAIN: Final = atl.parse(
    """chain (A : float32[n, k], B : float32[k, l], C : float32[l, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] Σ[q < l] (Σ[p < k] A[i, p] * B[p, q]) * C[q, j]"""
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


def chain(rows: int = 128, columns: int = 512, terms: int = 128) -> atl.Session:
    """Return the product of three matrices: a tile of A B moves to the scratchpad, and is multiplied by a tile of C.

    The tile of A B has the terms of the second product on its partitions. So it is computed transposed, by exchanging
    the factors.
    """
    s = atl.reschedule(CHAIN)
    s.tile(["i", "j"], [rows, columns]).accumulate("q", at="jo", name="acc").tile("q", terms)
    s.stage("Σ[p < k] _", at="qo", name="first").accumulate("p", at="qo", name="sums")
    s.inline("first").rw("get_gen").rw("get_gen").simpl_guard().pack("sums", at="qo", name="first").tile("p", terms)
    s.pack("A", at="po", name="left", order=["pi", "ii"]).pack("B", at="po", name="right", order=["pi", "qi"])
    s.pack("C", at="qo", name="next", order=["qi", "ji"]).mark("acc", "accumulator").mark("sums", "accumulator")
    for operand in ("left", "right", "first", "next"):
        s.mark(operand, "scratchpad")
    return s
