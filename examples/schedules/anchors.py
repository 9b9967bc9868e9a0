"""Unscheduled programs that are benchmarked against other systems, each with a NumPy reference."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

n, m, k = atl.sizes("n m k")


def product(dtype: str = "float32") -> Program:
    """Return a matrix product."""
    a, b = atl.tensor("A", n, k, dtype=dtype), atl.tensor("B", k, m, dtype=dtype)
    return atl.program("product", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j])))


def numpy_product(a: Array, b: Array) -> Array:
    """Compute `product` by NumPy."""
    out: Array = a @ b
    return out


def matrix_vector() -> Program:
    """Return a matrix times a vector."""
    a, x = atl.tensor("A", n, k), atl.tensor("x", k)
    return atl.program("matrix_vector", [a, x], atl.gen(n, lambda i: atl.sum(k, lambda p: a[i, p] * x[p])))


def addition() -> Program:
    """Return the sum of two matrices."""
    a, b = atl.tensor("A", n, m), atl.tensor("B", n, m)
    return atl.program("added", [a, b], atl.gen(n, m, lambda i, j: a[i, j] + b[i, j]))


def numpy_addition(a: Array, b: Array) -> Array:
    """Compute `addition` by NumPy."""
    out: Array = a + b
    return out


def transpose() -> Program:
    """Return the transpose of a matrix."""
    a = atl.tensor("A", n, m)
    return atl.program("transposed", [a], atl.gen(m, n, lambda j, i: a[i, j]))


def numpy_transpose(a: Array) -> Array:
    """Compute `transpose` by NumPy."""
    return a.T


X, Y, Z = atl.sizes("X Y Z")
heat = atl.tensor("heat", X, Y, Z)


def seven_points() -> Program:
    """Return a time step of heat diffusion: a seven-point stencil with zeros outside."""

    def cell(x: IndexExpr, y: IndexExpr, z: IndexExpr) -> Tensor:
        across = atl.guard(x >= 1, heat[x - 1, y, z]) + atl.guard(x + 1 < X, heat[x + 1, y, z])
        along = atl.guard(y >= 1, heat[x, y - 1, z]) + atl.guard(y + 1 < Y, heat[x, y + 1, z])
        up = atl.guard(z >= 1, heat[x, y, z - 1]) + atl.guard(z + 1 < Z, heat[x, y, z + 1])
        return 0.4 * heat[x, y, z] + 0.1 * (across + along + up)

    return atl.program("seven_points", [heat], atl.gen(X, Y, Z, cell))


def numpy_seven_points(heat: Array) -> Array:
    """Compute `seven_points` by NumPy."""
    wide, inside = np.pad(heat, 1), slice(1, -1)
    around = sum(np.roll(wide, by, axis)[inside, inside, inside] for axis in range(3) for by in (1, -1))
    out: Array = 0.4 * heat + 0.1 * around
    return out


B, K, C, H, W, R, S = atl.sizes("B K C H W R S")


def convolution_2d() -> Program:
    """Return a convolution of images with filters of R x S, with zeros below and to the right of each image."""
    x, w = atl.tensor("x", B, C, H, W), atl.tensor("w", K, C, R, S)

    def term(n: IndexExpr, k: IndexExpr, y: IndexExpr, p: IndexExpr) -> Tensor:
        def product(c: IndexExpr, r: IndexExpr, q: IndexExpr) -> Tensor:
            return atl.guard((y + r < H) & (p + q < W), x[n, c, y + r, p + q] * w[k, c, r, q])

        return atl.sum(C, R, S, product)

    return atl.program("convolution_2d", [x, w], atl.gen(B, K, H, W, term))


def numpy_convolution_2d(x: Array, w: Array) -> Array:
    """Compute `convolution_2d` by NumPy."""
    rows, columns, high, wide = *x.shape[2:], *w.shape[2:]
    around = np.pad(x, ((0, 0), (0, 0), (0, high), (0, wide)))
    out: Array = np.zeros((x.shape[0], w.shape[0], rows, columns), x.dtype)
    for y in range(high):
        for p in range(wide):
            out += np.einsum("bcyp,kc->bkyp", around[:, :, y : y + rows, p : p + columns], w[:, :, y, p])
    return out


tall, long = atl.sizes("R S", min=1)


def filters() -> Program:
    """Return a convolution of images with filters of R x S, only where the filter is inside of the image."""
    x, w = atl.tensor("x", B, C, H + tall - 1, W + long - 1), atl.tensor("w", K, C, tall, long)

    def element(n: IndexExpr, k: IndexExpr, y: IndexExpr, p: IndexExpr) -> Tensor:
        return atl.sum(C, tall, long, lambda c, r, q: x[n, c, y + r, p + q] * w[k, c, r, q])

    return atl.program("filters", [x, w], atl.gen(B, K, H, W, element))


def numpy_filters(x: Array, w: Array) -> Array:
    """Compute `filters` by NumPy."""
    rows, columns = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    out: Array = numpy_convolution_2d(x, w)[:, :, :rows, :columns]
    return out


def numpy_whole_windows(x: Array, w: Array) -> Array:
    """Compute `direct` and `im2col` of `examples.schedules.convolution`, whose input contains all windows."""
    out: Array = numpy_convolution(x, w)[:, :, : x.shape[2] - w.shape[2]]
    return out


def numpy_convolution(x: Array, w: Array) -> Array:
    """Compute `gather` and `scatter` of `examples.schedules.convolution`, with zeros after each row."""
    width, taps = x.shape[2], w.shape[2]
    wide = np.pad(x, ((0, 0), (0, 0), (0, taps)))
    out: Array = np.zeros((x.shape[0], w.shape[0], width), x.dtype)
    for at in range(taps):
        out += np.einsum("bcp,kc->bkp", wide[:, :, at : at + width], w[:, :, at])
    return out


def numpy_blur(picture: Array) -> Array:
    """Compute the blur of `examples.schedules.blur`: the sum of nine neighbours."""
    rows, columns = picture.shape
    wide = np.pad(picture, 1)
    out: Array = np.zeros_like(picture)
    for y in range(3):
        for x in range(3):
            out += wide[y : y + rows, x : x + columns]
    return out
