"""Work that is measured beside the systems people use, as its formulas stand; each with its NumPy."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl import IndexExpr, Program, Tensor

Array: TypeAlias = npt.NDArray[Any]

n, m, k = atl.sizes("n m k")


def product(dtype: str = "float32") -> Program:
    """A matrix product."""
    a, b = atl.tensor("A", n, k, dtype=dtype), atl.tensor("B", k, m, dtype=dtype)
    return atl.program("product", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j])))


def numpy_product(a: Array, b: Array) -> Array:
    """What `product` computes."""
    out: Array = a @ b
    return out


def matrix_vector() -> Program:
    """A matrix times a vector."""
    a, x = atl.tensor("A", n, k), atl.tensor("x", k)
    return atl.program("matrix_vector", [a, x], atl.gen(n, lambda i: atl.sum(k, lambda p: a[i, p] * x[p])))


def addition() -> Program:
    """The sum of two matrices."""
    a, b = atl.tensor("A", n, m), atl.tensor("B", n, m)
    return atl.program("added", [a, b], atl.gen(n, m, lambda i, j: a[i, j] + b[i, j]))


def numpy_addition(a: Array, b: Array) -> Array:
    """What `addition` computes."""
    out: Array = a + b
    return out


def transpose() -> Program:
    """The transpose of a matrix."""
    a = atl.tensor("A", n, m)
    return atl.program("transposed", [a], atl.gen(m, n, lambda j, i: a[i, j]))


def numpy_transpose(a: Array) -> Array:
    """What `transpose` computes."""
    return a.T


X, Y, Z = atl.sizes("X Y Z")
heat = atl.tensor("heat", X, Y, Z)


def seven_points() -> Program:
    """One time step of heat that spreads in space: a cell and its six neighbours; outside it is cold."""

    def cell(x: IndexExpr, y: IndexExpr, z: IndexExpr) -> Tensor:
        across = atl.guard(x >= 1, heat[x - 1, y, z]) + atl.guard(x + 1 < X, heat[x + 1, y, z])
        along = atl.guard(y >= 1, heat[x, y - 1, z]) + atl.guard(y + 1 < Y, heat[x, y + 1, z])
        up = atl.guard(z >= 1, heat[x, y, z - 1]) + atl.guard(z + 1 < Z, heat[x, y, z + 1])
        return 0.4 * heat[x, y, z] + 0.1 * (across + along + up)

    return atl.program("seven_points", [heat], atl.gen(X, Y, Z, cell))


def numpy_seven_points(heat: Array) -> Array:
    """What `seven_points` computes."""
    wide, inside = np.pad(heat, 1), slice(1, -1)
    around = sum(np.roll(wide, by, axis)[inside, inside, inside] for axis in range(3) for by in (1, -1))
    out: Array = 0.4 * heat + 0.1 * around
    return out


B, K, C, H, W, R, S = atl.sizes("B K C H W R S")


def convolution_2d() -> Program:
    """Images, of some channels each, with filters of R x S; what lies below and to the right of an image is zero."""
    x, w = atl.tensor("x", B, C, H, W), atl.tensor("w", K, C, R, S)

    def term(n: IndexExpr, k: IndexExpr, y: IndexExpr, p: IndexExpr) -> Tensor:
        def product(c: IndexExpr, r: IndexExpr, q: IndexExpr) -> Tensor:
            return atl.guard((y + r < H) & (p + q < W), x[n, c, y + r, p + q] * w[k, c, r, q])

        return atl.sum(C, R, S, product)

    return atl.program("convolution_2d", [x, w], atl.gen(B, K, H, W, term))


def numpy_convolution_2d(x: Array, w: Array) -> Array:
    """What `convolution_2d` computes."""
    rows, columns, high, wide = *x.shape[2:], *w.shape[2:]
    around = np.pad(x, ((0, 0), (0, 0), (0, high), (0, wide)))
    out: Array = np.zeros((x.shape[0], w.shape[0], rows, columns), x.dtype)
    for y in range(high):
        for p in range(wide):
            out += np.einsum("bcyp,kc->bkyp", around[:, :, y : y + rows, p : p + columns], w[:, :, y, p])
    return out


tall, long = atl.sizes("R S", min=1)


def filters() -> Program:
    """Images with filters of R x S, wherever a whole filter lies within the image."""
    x, w = atl.tensor("x", B, C, H + tall - 1, W + long - 1), atl.tensor("w", K, C, tall, long)

    def element(n: IndexExpr, k: IndexExpr, y: IndexExpr, p: IndexExpr) -> Tensor:
        return atl.sum(C, tall, long, lambda c, r, q: x[n, c, y + r, p + q] * w[k, c, r, q])

    return atl.program("filters", [x, w], atl.gen(B, K, H, W, element))


def numpy_filters(x: Array, w: Array) -> Array:
    """What `filters` computes."""
    rows, columns = x.shape[2] - w.shape[2] + 1, x.shape[3] - w.shape[3] + 1
    out: Array = numpy_convolution_2d(x, w)[:, :, :rows, :columns]
    return out


def numpy_whole_windows(x: Array, w: Array) -> Array:
    """What the convolutions compute whose input is longer than their output, by as much as a window is."""
    out: Array = numpy_convolution(x, w)[:, :, : x.shape[2] - w.shape[2]]
    return out


def numpy_convolution(x: Array, w: Array) -> Array:
    """What the convolutions of `examples.schedules.convolution` compute: zeros follow each row."""
    width, taps = x.shape[2], w.shape[2]
    wide = np.pad(x, ((0, 0), (0, 0), (0, taps)))
    out: Array = np.zeros((x.shape[0], w.shape[0], width), x.dtype)
    for at in range(taps):
        out += np.einsum("bcp,kc->bkp", wide[:, :, at : at + width], w[:, :, at])
    return out


def numpy_blur(picture: Array) -> Array:
    """What the blurs of `examples.schedules.blur` compute: nine neighbours added."""
    rows, columns = picture.shape
    wide = np.pad(picture, 1)
    out: Array = np.zeros_like(picture)
    for y in range(3):
        for x in range(3):
            out += wide[y : y + rows, x : x + columns]
    return out
