"""Statistics of the columns of a matrix: correlation, covariance."""

from __future__ import annotations

from typing import Any, Final

import atl
from atl import IndexExpr, Program, Tensor
from examples.polybench.benchmark import REAL, Benchmark, Extent, Sizes, number, real, table

SIZES: Final = {"m": (28, 80, 240, 1200), "n": (32, 100, 260, 1400)}


def _mirrored(m: Extent, half: Tensor) -> Tensor:
    """Return the symmetric matrix whose elements above the diagonal are those of `half`."""
    return atl.let(half, lambda h: atl.gen(m, m, lambda i, j: atl.select(i <= j, h[i, j], h[j, i])), name="half")


def correlation() -> Program:
    """Return the correlation of each pair of columns. Deviations of at most 0.1 are replaced by 1."""
    n, m = atl.sizes("n m")
    data = real("data", n, m)

    def products(c: Tensor) -> Tensor:
        def element(i: IndexExpr, j: IndexExpr) -> Tensor:
            above = atl.guard(i < j, atl.sum(n, lambda k: c[k, i] * c[k, j]))
            return atl.select(i == j, atl.cast(REAL, 1), above)

        return _mirrored(m, atl.gen(m, m, element))

    def scaled(mean: Tensor) -> Tensor:
        deviation = atl.sqrt(((data - mean) ** 2).mean(axis=0))

        def by(d: Tensor) -> Tensor:
            replaced = atl.where(d <= 0.1, 1, d)
            return atl.let(
                replaced,
                lambda d: atl.let((data - mean) / (atl.sqrt(number(n)) * d), products, name="scaled"),
                name="deviation",
            )

        return atl.let(deviation, by, name="d")

    return atl.program("correlation", [data], atl.let(data.mean(axis=0), scaled, name="mean"))


def _correlation(s: Sizes) -> dict[str, Any]:
    return {"data": table(s.n, s.m, of=lambda i, j: i * j / s.m + i)}


def covariance() -> Program:
    """Return the covariance of each pair of columns."""
    n, m = atl.sizes("n m")
    data = real("data", n, m)

    def products(c: Tensor) -> Tensor:
        def element(i: IndexExpr, j: IndexExpr) -> Tensor:
            return atl.guard(i <= j, atl.sum(n, lambda k: c[k, i] * c[k, j]) / (number(n) - 1))

        return _mirrored(m, atl.gen(m, m, element))

    body = atl.let(data.mean(axis=0), lambda mean: atl.let(data - mean, products, name="centred"), name="mean")
    return atl.program("covariance", [data], body)


def _covariance(s: Sizes) -> dict[str, Any]:
    return {"data": table(s.n, s.m, of=lambda i, j: i * j / s.m)}


BENCHMARKS: Final = (
    Benchmark("correlation", correlation, SIZES, _correlation),
    Benchmark("covariance", covariance, SIZES, _covariance),
)
