"""Programs of neural networks, each with a NumPy reference: a dense layer with GELU, attention, a convolution."""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

# -- a dense layer ----------------------------------------------------------------------------------------------------

N, D, H = atl.sizes("N D H")
samples, weights, bias = atl.tensor("samples", N, D), atl.tensor("weights", D, H), atl.tensor("bias", H)
ROOT: Final = 0.7978845608
"""√(2/π), in the tanh form of GELU."""
CUBIC: Final = 0.044715


def _gelu(x: Tensor) -> Tensor:
    return 0.5 * x * (1.0 + atl.tanh(ROOT * (x + CUBIC * x * x * x)))


def dense_gelu() -> Program:
    """Return a dense layer, gelu(samples weights + bias), with a row for each sample."""
    sums = atl.gen(N, H, lambda s, h: atl.sum(D, lambda d: samples[s, d] * weights[d, h]) + bias[h])
    body = atl.let(sums, lambda unit: atl.gen(N, H, lambda s, h: _gelu(unit[s, h])), name="unit")
    return atl.program("dense_gelu", [samples, weights, bias], body)


def numpy_dense_gelu(samples: Array, weights: Array, bias: Array) -> Array:
    """Compute `dense_gelu` by NumPy."""
    x = samples @ weights + bias
    out: Array = 0.5 * x * (1 + np.tanh(ROOT * (x + CUBIC * x * x * x)))
    return out


# -- attention --------------------------------------------------------------------------------------------------------

B, L, S, E, F = atl.sizes("B L S E F", min=1)
query, key, value = atl.tensor("query", B, L, E), atl.tensor("key", B, S, E), atl.tensor("value", B, S, F)


def multi_head_attention() -> Program:
    """Return softmax(query keyᵀ / √E) value for each of B heads, in stages that each compute all heads."""
    root = atl.sqrt(atl.cast("float32", atl.value(E)))
    scores = atl.gen(B, L, S, lambda b, i, j: atl.sum(E, lambda e: query[b, i, e] * key[b, j, e]) / root)

    def powers(score: Tensor, top: Tensor) -> Tensor:
        return atl.let(atl.gen(B, L, S, lambda b, i, j: atl.exp(score[b, i, j] - top[b, i])), totals, name="power")

    def totals(power: Tensor) -> Tensor:
        summed = atl.gen(B, L, lambda b, i: atl.sum(S, lambda j: power[b, i, j]))
        return atl.let(summed, lambda total: weighed(power, total), name="total")

    def weighed(power: Tensor, total: Tensor) -> Tensor:
        def mixed(b: IndexExpr, i: IndexExpr, f: IndexExpr) -> Tensor:
            return atl.sum(S, lambda j: power[b, i, j] * value[b, j, f]) / total[b, i]

        return atl.gen(B, L, F, mixed)

    def heads(score: Tensor) -> Tensor:
        tops = atl.gen(B, L, lambda b, i: atl.reduce("max", S, lambda j: score[b, i, j]))
        return atl.let(tops, lambda top: powers(score, top), name="top")

    return atl.program("multi_head_attention", [query, key, value], atl.let(scores, heads, name="score"))


def numpy_multi_head_attention(query: Array, key: Array, value: Array) -> Array:
    """Compute `multi_head_attention` by NumPy."""
    scores = query @ key.swapaxes(1, 2) / np.sqrt(query.shape[2])
    powers = np.exp(scores - scores.max(2, keepdims=True))
    out: Array = powers @ value / powers.sum(2, keepdims=True)
    return out
