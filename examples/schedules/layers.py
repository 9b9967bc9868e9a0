"""Programs that are not in the paper: a two-layer stencil, a batched product, attention, layer norm."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

n, m = atl.sizes("n m", min=1)
picture = atl.tensor("picture", n, m)


def _five(of: Tensor, y: IndexExpr, x: IndexExpr) -> Tensor:
    """Return the sum of a pixel and its four neighbours, with zeros outside of the image."""
    above, below = atl.guard(y >= 1, of[y - 1, x]), atl.guard(y + 1 < n, of[y + 1, x])
    left, right = atl.guard(x >= 1, of[y, x - 1]), atl.guard(x + 1 < m, of[y, x + 1])
    return above + left + of[y, x] + right + below


def stencils() -> Program:
    """Return a five-point stencil of a five-point stencil, with a buffer of the whole image between them."""
    first = atl.gen(n, m, lambda y, x: _five(picture, y, x))
    body = atl.let(first, lambda once: atl.gen(n, m, lambda y, x: _five(once, y, x)), name="once")
    return atl.program("stencils", [picture], body)


B, M, N, K = atl.sizes("B M N K")
left, right = atl.tensor("left", B, M, K), atl.tensor("right", B, K, N)


def batched_product() -> Program:
    """Return a batch of matrix products."""
    body = atl.gen(B, M, N, lambda b, i, j: atl.sum(K, lambda k: left[b, i, k] * right[b, k, j]))
    return atl.program("batched", [left, right], body)


L, S, D, E = atl.sizes("L S D E", min=1)
query, key, weight = atl.tensor("query", L, D), atl.tensor("key", S, D), atl.tensor("weight", S, E)


def attention() -> Program:
    """Return softmax(query keyᵀ / √D) weight of one head, in stages that each compute all rows."""
    root = atl.sqrt(atl.cast("float32", atl.value(D)))
    scores = atl.gen(L, S, lambda i, j: atl.sum(D, lambda d: query[i, d] * key[j, d]) / root)

    def result(score: Tensor) -> Tensor:
        greatest = atl.gen(L, lambda i: atl.reduce("max", S, lambda j: score[i, j]))
        return atl.let(greatest, lambda top: _weighed(score, top), name="top")

    return atl.program("attention", [query, key, weight], atl.let(scores, result, name="score"))


def _weighed(score: Tensor, top: Tensor) -> Tensor:
    powers = atl.gen(L, S, lambda i, j: atl.exp(score[i, j] - top[i]))

    def divided(power: Tensor, total: Tensor) -> Tensor:
        return atl.gen(L, E, lambda i, e: atl.sum(S, lambda j: power[i, j] * weight[j, e]) / total[i])

    def summed(power: Tensor) -> Tensor:
        totals = atl.gen(L, lambda i: atl.sum(S, lambda j: power[i, j]))
        return atl.let(totals, lambda total: divided(power, total), name="total")

    return atl.let(powers, summed, name="power")


def layer_norm() -> Program:
    """Return each row minus its mean, divided by its standard deviation."""
    x = atl.tensor("x", n, m)
    count = atl.cast("float32", atl.value(m))
    means = atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j]) / count)

    def scaled(mean: Tensor) -> Tensor:
        def square(i: IndexExpr, j: IndexExpr) -> Tensor:
            return (x[i, j] - mean[i]) * (x[i, j] - mean[i])

        deviations = atl.gen(n, lambda i: atl.sqrt(atl.sum(m, lambda j: square(i, j)) / count + 1e-5))
        return atl.let(deviations, lambda by: atl.gen(n, m, lambda i, j: (x[i, j] - mean[i]) / by[i]), name="deviation")

    return atl.program("layer_norm", [x], atl.let(means, scaled, name="mean"))


# -- NumPy references ------------------------------------------------------------------------------------------------


def _five_of(of: Array) -> Array:
    wide = np.pad(of, 1)
    out: Array = wide[:-2, 1:-1] + wide[1:-1, :-2] + of + wide[1:-1, 2:] + wide[2:, 1:-1]
    return out


def numpy_stencils(picture: Array) -> Array:
    """Compute `stencils` by NumPy."""
    return _five_of(_five_of(picture))


def numpy_batched(left: Array, right: Array) -> Array:
    """Compute `batched_product` by NumPy."""
    return left @ right


def numpy_attention(query: Array, key: Array, weight: Array) -> Array:
    """Compute `attention` by NumPy."""
    scores = query @ key.T / np.sqrt(query.shape[1])
    powers = np.exp(scores - scores.max(1, keepdims=True))
    out: Array = powers @ weight / powers.sum(1, keepdims=True)
    return out


def numpy_layer_norm(x: Array) -> Array:
    """Compute `layer_norm` by NumPy."""
    centred = x - x.mean(1, keepdims=True)
    out: Array = centred / np.sqrt((centred * centred).mean(1, keepdims=True) + 1e-5)
    return out
