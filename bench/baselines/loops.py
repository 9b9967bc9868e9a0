"""Loops for numba. Each function takes `prange`, which is `range` with one thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.comparison import Array

Loops = Callable[..., None]


def blur(prange: Any) -> Loops:
    """Read nine pixels per result, and only those inside of the image at the border."""

    def edge(v: Array, n: int, y: int, x: int) -> Any:
        total = v[y, x] * 0
        for a in range(max(y - 1, 0), min(y + 2, n)):
            for b in range(max(x - 1, 0), min(x + 2, n)):
                total += v[a, b]
        return total

    from numba import njit

    at_edge = njit(edge)

    def run(v: Array, out: Array) -> None:
        n = v.shape[0]
        for y in prange(n):
            out[y, 0] = at_edge(v, n, y, 0)
            out[y, n - 1] = at_edge(v, n, y, n - 1)
            if y in (0, n - 1):
                for x in range(1, n - 1):
                    out[y, x] = at_edge(v, n, y, x)
            else:
                for x in range(1, n - 1):
                    above = v[y - 1, x - 1] + v[y - 1, x] + v[y - 1, x + 1]
                    below = v[y + 1, x - 1] + v[y + 1, x] + v[y + 1, x + 1]
                    out[y, x] = above + (v[y, x - 1] + v[y, x] + v[y, x + 1]) + below

    return run


def transpose(prange: Any) -> Loops:
    """Copy tiles of 16 x 16."""

    def run(x: Array, out: Array) -> None:
        n = x.shape[0]
        for tile in prange((n + 15) // 16):
            for first in range(0, n, 16):
                for j in range(16 * tile, min(16 * tile + 16, n)):
                    for i in range(first, min(first + 16, n)):
                        out[j, i] = x[i, j]

    return run


def addition(prange: Any) -> Loops:
    """Add element by element."""

    def run(a: Array, b: Array, out: Array) -> None:
        for i in prange(a.shape[0]):
            for j in range(a.shape[1]):
                out[i, j] = a[i, j] + b[i, j]

    return run


def matrix_vector(prange: Any) -> Loops:
    """Sum row by row."""

    def run(a: Array, x: Array, out: Array) -> None:
        for i in prange(a.shape[0]):
            total = x[0] * 0
            for j in range(a.shape[1]):
                total += a[i, j] * x[j]
            out[i] = total

    return run


def stencil(prange: Any) -> Loops:
    """Compute the inner cells in plain loops, and the border cell by cell."""

    from numba import njit

    def edge(v: Array, n: int, x: int, y: int, z: int) -> Any:
        around = v[x, y, z] * 0
        if x > 0:
            around += v[x - 1, y, z]
        if x < n - 1:
            around += v[x + 1, y, z]
        if y > 0:
            around += v[x, y - 1, z]
        if y < n - 1:
            around += v[x, y + 1, z]
        if z > 0:
            around += v[x, y, z - 1]
        if z < n - 1:
            around += v[x, y, z + 1]
        return 0.4 * v[x, y, z] + 0.1 * around

    at_edge = njit(edge)

    def run(v: Array, out: Array) -> None:
        n = v.shape[0]
        four, one = v.dtype.type(0.4), v.dtype.type(0.1)
        for x in prange(n):
            for y in range(n):
                if x in (0, n - 1) or y in (0, n - 1):
                    for z in range(n):
                        out[x, y, z] = at_edge(v, n, x, y, z)
                else:
                    out[x, y, 0] = at_edge(v, n, x, y, 0)
                    out[x, y, n - 1] = at_edge(v, n, x, y, n - 1)
                    for z in range(1, n - 1):
                        sides = v[x - 1, y, z] + v[x + 1, y, z] + v[x, y - 1, z] + v[x, y + 1, z]
                        out[x, y, z] = four * v[x, y, z] + one * (sides + v[x, y, z - 1] + v[x, y, z + 1])

    return run


def layer_norm(prange: Any) -> Loops:
    """Make three passes over each row."""

    def run(x: Array, out: Array) -> None:
        m = x.shape[1]
        for i in prange(x.shape[0]):
            total = x[0, 0] * 0
            for j in range(m):
                total += x[i, j]
            mean = total / x.dtype.type(m)
            squares = x[0, 0] * 0
            for j in range(m):
                squares += (x[i, j] - mean) * (x[i, j] - mean)
            factor = x.dtype.type(1 / (squares / m + 1e-5) ** 0.5)
            for j in range(m):
                out[i, j] = (x[i, j] - mean) * factor

    return run
