"""A recursive filter and dynamic programming: deriche, floyd-warshall, nussinov."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

import atl
from atl import IndexExpr, Program, Tensor
from examples.polybench.benchmark import REAL, Benchmark, Extent, Sizes, real, table

COUNT: Final = "int32"
SIZES: Final = {"n": (60, 180, 500, 2500)}


def _once(values: Mapping[str, Tensor], body: Callable[[dict[str, Tensor]], Tensor]) -> Tensor:
    """Return `body` of the values, each of which is computed once."""
    if not values:
        return body({})
    (name, value), *others = values.items()
    return atl.let(value, lambda one: _once(dict(others), lambda rest: body({name: one, **rest})), name=name)


def _line(m: Extent, x: Tensor, c: Mapping[str, Tensor]) -> Tensor:
    """Return the sum of two recursive filters of x, one forwards and one backwards."""

    def forwards(j: IndexExpr, y: Tensor) -> Tensor:
        one = atl.guard(j >= 1, c["a2"] * x[j - 1] + c["b1"] * y[j - 1])
        return c["a1"] * x[j] + one + atl.guard(j >= 2, c["b2"] * y[j - 2])

    def backwards(p: IndexExpr, y: Tensor) -> Tensor:
        one = atl.guard(p >= 1, c["a3"] * x[m - p] + c["b1"] * y[p - 1])
        return one + atl.guard(p >= 2, c["a4"] * x[m + 1 - p] + c["b2"] * y[p - 2])

    both = {"forth": atl.rec(m, forwards, dtype=REAL), "back": atl.rec(m, backwards, dtype=REAL)}
    return _once(both, lambda y: atl.gen(m, lambda j: y["forth"][j] + y["back"][m - 1 - j]))


def deriche() -> Program:
    """Return the image, smoothed along its rows, then along its columns."""
    w, h = atl.sizes("w h")
    alpha, image = real("alpha"), real("image", w, h)

    def smoothed(c: Mapping[str, Tensor]) -> Tensor:
        along_rows = atl.gen(w, lambda i: _line(h, image[i], c))
        return atl.let(along_rows, lambda rows: atl.transpose(atl.gen(h, lambda j: _line(w, rows.T[j], c))))

    def filtered(e: Tensor, k: Tensor) -> Tensor:
        weights = {"a1": k, "a2": k * e * (alpha - 1), "a3": k * e * (alpha + 1), "a4": -k * e * e}
        return _once({**weights, "b1": 2.0**-alpha, "b2": -e * e}, smoothed)

    def gain(e: Tensor) -> Tensor:
        return (1 - e) * (1 - e) / (1 + 2 * alpha * e - atl.exp(2 * alpha))

    body = atl.let(atl.exp(-alpha), lambda e: atl.let(gain(e), lambda k: filtered(e, k), name="k"), name="e")
    return atl.program("deriche", [alpha, image], body)


def _deriche(s: Sizes) -> dict[str, Any]:
    return {"alpha": 0.25, "image": table(s.w, s.h, of=lambda i, j: (313 * i + 991 * j) % 65536 / 65535)}


def floyd_warshall() -> Program:
    """Return the lengths of the shortest paths, computed in place: step k may read row k and column k after it."""
    n = atl.sizes("n")
    path = atl.tensor("path", n, n, dtype=COUNT)

    def step(k: IndexExpr, u: Tensor) -> Tensor:
        def row(i: IndexExpr, v: Tensor) -> Tensor:
            def element(j: IndexExpr, r: Tensor) -> Tensor:
                to, onward = atl.select(k < j, r[k], u[i, k]), atl.select(k < i, v[k, j], u[k, j])
                return atl.minimum(u[i, j], to + onward)

            return atl.rec(n, element, dtype=COUNT)

        return atl.rec(n, row, of=(n,), dtype=COUNT)

    return atl.program("floyd_warshall", [path], atl.iterate(n, path, step))


def _floyd_warshall(s: Sizes) -> dict[str, Any]:
    def length(i: Any, j: Any) -> Any:
        far = ((i + j) % 13 == 0) | ((i + j) % 7 == 0) | ((i + j) % 11 == 0)
        return np.where(far, 999, i * j % 7 + 1)

    return {"path": table(s.n, s.n, of=length)}


def nussinov() -> Program:
    """Return the largest number of pairs of bases between positions i and j, from the last row to the first."""
    n = atl.sizes("n")
    seq = atl.tensor("seq", n, dtype=COUNT, range=(0, 4))

    def row(p: IndexExpr, later: Tensor) -> Tensor:
        i = n - 1 - p

        def element(j: IndexExpr, r: Tensor) -> Tensor:
            pair = atl.select((i < j - 1) & (seq[i] + seq[j] == 3), 1, 0)
            inside = later[p - 1, j - 1] + pair
            parts = atl.reduce("max", (i + 1, j), lambda k: r[k] + later[n - 2 - k, j])
            best = atl.maximum(atl.maximum(atl.maximum(0, r[j - 1]), later[p - 1, j]), atl.maximum(inside, parts))
            return atl.select(i < j, best, 0)

        return atl.rec(n, element, dtype=COUNT)

    reversed_rows = atl.rec(n, row, of=(n,), dtype=COUNT)
    body = atl.let(reversed_rows, lambda later: atl.gen(n, lambda i: later[n - 1 - i]), name="later")
    return atl.program("nussinov", [seq], body)


BENCHMARKS: Final = (
    Benchmark("deriche", deriche, {"w": (64, 192, 720, 4096), "h": (64, 128, 480, 2160)}, _deriche),
    Benchmark("floyd-warshall", floyd_warshall, {"n": (60, 180, 500, 2800)}, _floyd_warshall),
    Benchmark("nussinov", nussinov, SIZES, lambda s: {"seq": table(s.n, of=lambda i: (i + 1) % 4)}),
)
