"""Eight common programs (filters, products, layers, a stencil in time, a histogram), each with a NumPy reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

n, m, k = atl.sizes("n m k")

# -- a separable filter -----------------------------------------------------------------------------------------------

TAPS: Final = 5
picture, taps = atl.tensor("picture", n, m), atl.tensor("taps", TAPS)


def gaussian() -> Program:
    """Return a separable five-tap filter, with zeros outside of the image."""

    def tap(t: IndexExpr, at: IndexExpr, end: IndexExpr, value: Callable[[IndexExpr], Tensor]) -> Tensor:
        near = at + t - 2
        return atl.guard((near >= 0) & (near < end), taps[t] * value(near))

    def across(y: IndexExpr, x: IndexExpr) -> Tensor:
        return atl.sum(TAPS, lambda t: tap(t, x, m, lambda near: picture[y, near]))

    def down(row: Tensor, y: IndexExpr) -> Tensor:
        return atl.sum(TAPS, lambda t: tap(t, y, n, lambda near: row[near]))

    body = atl.let(atl.gen(n, m, across), lambda row: atl.gen(n, lambda y: down(row, y)), name="row")
    return atl.program("gaussian", [picture, taps], body)


def numpy_gaussian(picture: Array, taps: Array) -> Array:
    """Compute `gaussian` by NumPy."""
    rows, columns = picture.shape
    wide = np.pad(picture, ((0, 0), (2, 2)))
    row = np.pad(np.sum([taps[t] * wide[:, t : t + columns] for t in range(TAPS)], axis=0), ((2, 2), (0, 0)))
    out: Array = np.sum([taps[t] * row[t : t + rows] for t in range(TAPS)], axis=0)
    return out


# -- products ---------------------------------------------------------------------------------------------------------

lower, right = atl.tensor("lower", n, n), atl.tensor("right", n, m)


def triangular_product() -> Program:
    """Return the product with a lower triangle: row i reads the first i + 1 rows of the right operand."""
    body = atl.gen(n, m, lambda i, j: atl.sum(i + 1, lambda p: lower[i, p] * right[p, j]))
    return atl.program("triangular", [lower, right], body)


def numpy_triangular(lower: Array, right: Array) -> Array:
    """Compute `triangular_product` by NumPy."""
    out: Array = np.tril(lower) @ right
    return out


I, J, K, R = atl.sizes("I J K R")  # noqa: E741
cube = atl.tensor("cube", I, J, K)
second, third = atl.tensor("second", J, R), atl.tensor("third", K, R)


def mttkrp() -> Program:
    """Return the matricised tensor times a Khatri-Rao product, with two products for each element."""

    def element(i: IndexExpr, r: IndexExpr) -> Tensor:
        return atl.sum(J, K, lambda p, q: cube[i, p, q] * second[p, r] * third[q, r])

    return atl.program("mttkrp", [cube, second, third], atl.gen(I, R, element))


def numpy_mttkrp(cube: Array, second: Array, third: Array) -> Array:
    """Compute `mttkrp` by NumPy."""
    out: Array = np.einsum("ijk,jr,kr->ir", cube, second, third, optimize=True)
    return out


A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)


def product() -> Program:
    """Return a matrix product."""
    return atl.program("product", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))


def numpy_product(a: Array, b: Array) -> Array:
    """Compute `product` by NumPy."""
    out: Array = a @ b
    return out


# -- layers -----------------------------------------------------------------------------------------------------------

S, D, H, C = atl.sizes("S D H C")
samples = atl.tensor("samples", S, D)
weights1, bias1 = atl.tensor("weights1", D, H), atl.tensor("bias1", H)
weights2, bias2 = atl.tensor("weights2", H, C), atl.tensor("bias2", C)


def perceptron() -> Program:
    """Return two dense layers, max(samples weights1 + bias1, 0) weights2 + bias2, with a row for each sample."""

    def unit(s: IndexExpr) -> Tensor:
        return atl.sum(D, lambda d: samples[s, d] * weights1[d]) + bias1

    def scores(hidden: Tensor, s: IndexExpr) -> Tensor:
        return atl.sum(H, lambda h: atl.maximum(hidden[s, h], 0.0) * weights2[h]) + bias2

    body = atl.let(atl.gen(S, unit), lambda hidden: atl.gen(S, lambda s: scores(hidden, s)), name="hidden")
    return atl.program("perceptron", [samples, weights1, bias1, weights2, bias2], body)


def numpy_perceptron(samples: Array, weights1: Array, bias1: Array, weights2: Array, bias2: Array) -> Array:
    """Compute `perceptron` by NumPy."""
    out: Array = np.maximum(samples @ weights1 + bias1, 0) @ weights2 + bias2
    return out


logits = atl.tensor("logits", n, m)


def softmax() -> Program:
    """Return exp(x - max x) / Σ exp(x - max x) of each row, in stages that each compute all rows."""
    tops = atl.gen(n, lambda i: atl.reduce("max", m, lambda j: logits[i, j]))

    def powers(top: Tensor) -> Tensor:
        return atl.let(atl.gen(n, m, lambda i, j: atl.exp(logits[i, j] - top[i])), totals, name="power")

    def totals(power: Tensor) -> Tensor:
        summed = atl.gen(n, lambda i: atl.sum(m, lambda j: power[i, j]))
        return atl.let(summed, lambda total: atl.gen(n, m, lambda i, j: power[i, j] / total[i]), name="total")

    return atl.program("softmax", [logits], atl.let(tops, powers, name="top"))


def numpy_softmax(logits: Array) -> Array:
    """Compute `softmax` by NumPy."""
    if logits.size == 0:
        return logits
    powers = np.exp(logits - logits.max(1, keepdims=True))
    out: Array = powers / powers.sum(1, keepdims=True)
    return out


# -- a stencil in time ------------------------------------------------------------------------------------------------

X, Y, Z = atl.sizes("X Y Z")
heat = atl.tensor("heat", X, Y, Z)


def _bordered(of: Callable[[IndexExpr, IndexExpr, IndexExpr], Tensor]) -> Tensor:
    """Return a field with a border of zeros, one cell wide."""

    def cell(x: IndexExpr, y: IndexExpr, z: IndexExpr) -> Tensor:
        inside = (x >= 1) & (x <= X) & (y >= 1) & (y <= Y) & (z >= 1) & (z <= Z)
        return atl.guard(inside, of(x - 1, y - 1, z - 1))

    return atl.gen(X + 2, Y + 2, Z + 2, cell)


def _seven(of: Tensor, x: IndexExpr, y: IndexExpr, z: IndexExpr) -> Tensor:
    """Return the seven-point stencil at cell (x, y, z) of a field with a border."""
    a, b, c = x + 1, y + 1, z + 1
    around = of[a - 1, b, c] + of[a + 1, b, c] + of[a, b - 1, c] + of[a, b + 1, c] + of[a, b, c - 1] + of[a, b, c + 1]
    return 0.4 * of[a, b, c] + 0.1 * around


def two_steps() -> Program:
    """Return two time steps of heat diffusion, with zeros outside."""

    def second(wide: Tensor) -> Tensor:
        first = _bordered(lambda x, y, z: _seven(wide, x, y, z))
        return atl.let(first, lambda once: atl.gen(X, Y, Z, lambda x, y, z: _seven(once, x, y, z)), name="once")

    body = atl.let(_bordered(lambda x, y, z: heat[x, y, z]), second, name="wide")
    return atl.program("two_steps", [heat], body)


def numpy_two_steps(heat: Array) -> Array:
    """Compute `two_steps` by NumPy."""

    def step(of: Array) -> Array:
        wide = np.pad(of, 1)
        inside = slice(1, -1)
        around = sum(np.roll(wide, by, axis)[inside, inside, inside] for axis in range(3) for by in (1, -1))
        out: Array = 0.4 * of + 0.1 * around
        return out

    return step(step(heat))


# -- a histogram ------------------------------------------------------------------------------------------------------

bins = atl.sizes("bins")
level = atl.tensor("level", n, dtype="int64", range=(0, bins))


def histogram() -> Program:
    """Return the number of occurrences of each level, where each bin reads every element."""
    body = atl.gen(bins, lambda b: atl.sum(n, lambda p: atl.guard(level[p] == b, 1.0)))
    return atl.program("histogram", [level], body)


def numpy_histogram(level: Array, bins: int) -> Array:
    """Compute `histogram` by NumPy."""
    out: Array = np.bincount(level, minlength=bins)
    return out
