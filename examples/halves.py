"""GPU schedules with 16-bit storage: arrays of float16, arithmetic in float32.

Products are computed by tensor cores, and their tiles are copied ahead (`s.tensor_cores`). Softmax and layer norm have
a warp for each row. Each step except the marks is a proved rewrite.
"""

from __future__ import annotations

import atl

PIECES = "k % 8 = 0, m % 8 = 0"
"""Rows consist of whole pieces of 16 bytes."""


def product(left: str = "A[i, p]", right: str = "B[p, j]", *, stages: int = 3) -> atl.Session:
    """Multiply two matrices, each stored as it is or transposed: `A[p, i]`, `B[j, p]`."""
    a, b = ("n, k" if left == "A[i, p]" else "k, n"), ("k, m" if right == "B[p, j]" else "m, k")
    text = f"""product (A : float16[{a}], B : float16[{b}]) : float32[n, m] given {PIECES} :=
      ⊞[i < n] ⊞[j < m] Σ[p < k] cast(float32, {left}) * cast(float32, {right})"""
    return atl.reschedule(atl.parse(text)).tensor_cores("p", "mma_m16n8k16", stages=stages)


def grouped_product(block: tuple[int, int, int] = (128, 128, 32), warps: int = 8) -> atl.Session:
    """Multiply the matrices of each group, which are the blocks along z."""
    text = f"""grouped (A : float16[g, n, k], B : float16[g, k, m]) : float32[g, n, m] given {PIECES} :=
      ⊞[q < g] ⊞[i < n] ⊞[j < m] Σ[p < k] cast(float32, A[q, i, p]) * cast(float32, B[q, p, j])"""
    s = atl.reschedule(atl.parse(text)).tensor_cores("p", "mma_m16n8k16", block=block, warps=warps, stages=3)
    return s.mark("q", "block.z")


def attention_products(block: tuple[int, int, int] = (64, 64, 32), warps: int = 4) -> atl.Session:
    """Compute the two products of attention, in three launches: scores, their rounding to 16 bits, and weighted values.

    Softmax would be between them.
    """
    text = """attention (Q : float16[h, n, d], K : float16[h, l, d], V : float16[h, l, d]) : float32[h, n, d]
        given d % 8 = 0, l % 8 = 0 :=
      let P | global := ⊞[q < h] ⊞[i < n] ⊞[j < l] Σ[p < d] cast(float32, Q[q, i, p]) * cast(float32, K[q, j, p]) in
      let S | global := ⊞[q < h] ⊞[i < n] ⊞[j < l] cast(float16, P[q, i, j]) in
      ⊞[q < h] ⊞[i < n] ⊞[e < d] Σ[j < l] cast(float32, S[q, i, j]) * cast(float32, V[q, j, e])"""
    s = atl.reschedule(atl.parse(text)).gpu_map(["q", "i", "j"], [1, 8, 32], in_="let S := _ in _")
    for sum_ in ("Σ[p < d] _", "Σ[j < l] _"):
        s.tensor_cores(sum_, "mma_m16n8k16", block=block, warps=warps, stages=2)
    return s.mark("q", "block.z")


def _by_warps(s: atl.Session, sums: int, rows: int = 4) -> atl.Session:
    """Assign a warp to each row, whose lanes fold sums and the maximum together."""
    folds = (["max"] if "max[" in str(s.goal) else []) + ["Σ"] * sums
    for fold in folds:
        s.tile(f"{fold}[_ < m] _", 32).interchange(f"{fold}[_ < ⌈m / 32⌉] _").mark(f"{fold}[_ < 32] _", "thread.x")
    s.tile("⊞[j < m] _", 32).mark("⊞[_ < 32] _", "thread.x")
    return s.tile("i", rows).mark("io", "block.x").mark("ii", "thread.y")


def softmax() -> atl.Session:
    """Compute softmax of each row."""
    text = """softmax (x : float16[n, m]) : float16[n, m] :=
      ⊞[i < n] let top := max[j < m] cast(float32, x[i, j]) in
        let total := Σ[j < m] exp(cast(float32, x[i, j]) - top) in
        ⊞[j < m] cast(float16, exp(cast(float32, x[i, j]) - top) / total)"""
    return _by_warps(atl.reschedule(atl.parse(text)), 1)


def layer_norm() -> atl.Session:
    """Normalise each row: subtract its mean, and divide by its deviation."""
    text = """layer_norm (x : float16[n, m], scale : float16[m], bias : float16[m]) : float16[n, m] :=
      ⊞[i < n] let mean := (Σ[j < m] cast(float32, x[i, j])) / value(m) in
        let deviation := sqrt((Σ[j < m] (cast(float32, x[i, j]) - mean) * (cast(float32, x[i, j]) - mean)) / value(m)
          + 0.00001) in
        ⊞[j < m] cast(float16,
          (cast(float32, x[i, j]) - mean) / deviation * cast(float32, scale[j]) + cast(float32, bias[j]))"""
    return _by_warps(atl.reschedule(atl.parse(text)), 2)
