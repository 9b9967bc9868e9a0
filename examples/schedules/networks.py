"""Programs of neural networks, each with a NumPy reference: a dense layer with GELU, attention, convolution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import Condition, IndexExpr, Program, Tensor

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
    return _attention("multi_head_attention", lambda i: S)


def causal_attention() -> Program:
    """Return attention in which query i reads keys 0 … i only, for each of B heads."""
    return _attention("causal_attention", lambda i: i + 1, given=[L <= S])


def _attention(name: str, seen: Callable[[IndexExpr], IndexExpr], given: Sequence[Condition] = ()) -> Program:
    """Return attention in which query i reads the first seen(i) keys."""
    root = atl.sqrt(atl.cast("float32", atl.value(E)))
    scores = atl.gen(B, L, S, lambda b, i, j: atl.sum(E, lambda e: query[b, i, e] * key[b, j, e]) / root)

    def powers(score: Tensor, top: Tensor) -> Tensor:
        return atl.let(atl.gen(B, L, S, lambda b, i, j: atl.exp(score[b, i, j] - top[b, i])), totals, name="power")

    def totals(power: Tensor) -> Tensor:
        summed = atl.gen(B, L, lambda b, i: atl.sum(seen(i), lambda j: power[b, i, j]))
        return atl.let(summed, lambda total: weighed(power, total), name="total")

    def weighed(power: Tensor, total: Tensor) -> Tensor:
        def mixed(b: IndexExpr, i: IndexExpr, f: IndexExpr) -> Tensor:
            return atl.sum(seen(i), lambda j: power[b, i, j] * value[b, j, f]) / total[b, i]

        return atl.gen(B, L, F, mixed)

    def heads(score: Tensor) -> Tensor:
        tops = atl.gen(B, L, lambda b, i: atl.reduce("max", seen(i), lambda j: score[b, i, j]))
        return atl.let(tops, lambda top: powers(score, top), name="top")

    return atl.program(name, [query, key, value], atl.let(scores, heads, name="score"), given=given)


def numpy_multi_head_attention(query: Array, key: Array, value: Array) -> Array:
    """Compute `multi_head_attention` by NumPy."""
    return _numpy_mixed(query @ key.swapaxes(1, 2) / np.sqrt(query.shape[2]), value)


def numpy_causal_attention(query: Array, key: Array, value: Array) -> Array:
    """Compute `causal_attention` by NumPy."""
    scores = query @ key.swapaxes(1, 2) / np.sqrt(query.shape[2])
    return _numpy_mixed(np.where(np.tri(*scores.shape[1:]) > 0, scores, -np.inf), value)


def _numpy_mixed(scores: Array, value: Array) -> Array:
    powers = np.exp(scores - scores.max(2, keepdims=True))
    out: Array = powers @ value / powers.sum(2, keepdims=True)
    return out


# -- a depthwise convolution ------------------------------------------------------------------------------------------

Y, X, C = atl.sizes("Y X C", min=1)
image, filters = atl.tensor("image", Y, X, C), atl.tensor("filters", 3, 3, C)


def depthwise() -> Program:
    """Return a convolution of each channel with its own filter of 3 x 3; channels are last, and zeros are outside."""

    def element(y: IndexExpr, x: IndexExpr, c: IndexExpr) -> Tensor:
        def term(r: IndexExpr, q: IndexExpr) -> Tensor:
            high, wide = y + r - 1, x + q - 1
            inside = (high >= 0) & (high < Y) & (wide >= 0) & (wide < X)
            return atl.guard(inside, image[high, wide, c] * filters[r, q, c])

        return atl.sum(3, 3, term)

    return atl.program("depthwise", [image, filters], atl.gen(Y, X, C, element))


def numpy_depthwise(image: Array, filters: Array) -> Array:
    """Compute `depthwise` by NumPy."""
    rows, columns, _ = image.shape
    wide = np.pad(image, ((1, 1), (1, 1), (0, 0)))
    out: Array = np.sum(
        [filters[r, q] * wide[r : r + rows, q : q + columns] for r in range(3) for q in range(3)], axis=0
    )
    return out


# -- matrices times vectors -------------------------------------------------------------------------------------------

matrices, vectors = atl.tensor("matrices", B, N, D), atl.tensor("vectors", B, D)


def batched_matrix_vector() -> Program:
    """Return the product of each matrix of a batch and its own vector."""
    body = atl.gen(B, N, lambda b, i: atl.sum(D, lambda d: matrices[b, i, d] * vectors[b, d]))
    return atl.program("batched_matrix_vector", [matrices, vectors], body)


def numpy_batched_matrix_vector(matrices: Array, vectors: Array) -> Array:
    """Compute `batched_matrix_vector` by NumPy."""
    out: Array = (matrices @ vectors[:, :, None])[:, :, 0]
    return out


# -- a sparse matrix times a dense one --------------------------------------------------------------------------------

WIDE: Final = 32
rows, columns = atl.sizes("rows columns")
graph, features = atl.tensor("graph", rows, columns), atl.tensor("features", columns, WIDE)


def spmm() -> Program:
    """Return a matrix, which schedules store in a sparse format, times a dense matrix of 32 columns."""
    body = atl.gen(rows, WIDE, lambda i, j: atl.sum(columns, lambda p: graph[i, p] * features[p, j]))
    return atl.program("spmm", [graph, features], body)
