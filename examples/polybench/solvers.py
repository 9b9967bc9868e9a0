"""Factorizations and solvers: cholesky, durbin, gramschmidt, lu, ludcmp, trisolv."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import atl
from atl import IndexExpr, Program, Tensor
from examples.polybench.benchmark import REAL, Array, Benchmark, Extent, Sizes, real, table
from examples.polybench.blas import SQUARE

SIZES: Final = {"n": (40, 120, 400, 2000)}


def trisolv() -> Program:
    """Return x of L x = b for a lower triangular L."""
    n = atl.sizes("n")
    L, b = real("L", n, n), real("b", n)  # noqa: N806

    def element(i: IndexExpr, x: Tensor) -> Tensor:
        return (b[i] - atl.sum(i, lambda j: L[i, j] * x[j])) / L[i, i]

    return atl.program("trisolv", [L, b], atl.rec(n, element, dtype=REAL))


def _trisolv(s: Sizes) -> dict[str, Any]:
    return {
        "L": table(s.n, s.n, of=lambda i, j: np.where(j <= i, (i + s.n - j + 1) * 2 / s.n, 0)),
        "b": table(s.n, of=lambda i: i),
    }


def _factors(n: Extent, A: Tensor) -> Tensor:  # noqa: N803
    """Return U on and above the diagonal, and below it L, whose diagonal is 1, of A = L U."""

    def row(i: IndexExpr, F: Tensor) -> Tensor:  # noqa: N803
        def element(j: IndexExpr, f: Tensor) -> Tensor:
            def rest(terms: IndexExpr) -> Tensor:
                return A[i, j] - atl.sum(terms, lambda k: f[k] * F[k, j])

            return atl.select(j < i, rest(j) / F[j, j], rest(i))

        return atl.rec(n, element, dtype=REAL)

    return atl.rec(n, row, of=(n,), dtype=REAL)


def lu() -> Program:
    """Return the factors of A without pivoting."""
    n = atl.sizes("n")
    A = real("A", n, n)  # noqa: N806
    return atl.program("lu", [A], _factors(n, A))


def ludcmp() -> Program:
    """Return x of A x = b."""
    n = atl.sizes("n")
    A, b = real("A", n, n), real("b", n)  # noqa: N806

    def forward(F: Tensor) -> Tensor:  # noqa: N803
        return atl.rec(n, lambda i, y: b[i] - atl.sum(i, lambda j: F[i, j] * y[j]), dtype=REAL)

    def backward(F: Tensor, y: Tensor) -> Tensor:  # noqa: N803
        def element(p: IndexExpr, z: Tensor) -> Tensor:
            i = n - 1 - p
            return (y[i] - atl.sum(p, lambda q: F[i, n - 1 - q] * z[q])) / F[i, i]

        return atl.let(atl.rec(n, element, dtype=REAL), lambda z: atl.gen(n, lambda i: z[n - 1 - i]), name="z")

    body = atl.let(
        _factors(n, A),
        lambda F: atl.let(forward(F), lambda y: backward(F, y), name="y"),  # noqa: N803
        name="F",
    )
    return atl.program("ludcmp", [A, b], body)


def _definite(s: Sizes) -> Array:
    """Return L Lᵀ of a lower triangular L."""
    lower = table(s.n, s.n, of=lambda i, j: np.where(j < i, 1 - j / s.n, i == j))
    product: Array = lower @ lower.T
    return product


def _ludcmp(s: Sizes) -> dict[str, Any]:
    return {"A": _definite(s), "b": table(s.n, of=lambda i: (i + 1) / s.n / 2 + 4)}


def cholesky() -> Program:
    """Return L of A = L Lᵀ, with the elements of A above the diagonal."""
    n = atl.sizes("n")
    A = real("A", n, n)  # noqa: N806

    def row(i: IndexExpr, L: Tensor) -> Tensor:  # noqa: N803
        def element(j: IndexExpr, r: Tensor) -> Tensor:
            below = (A[i, j] - atl.sum(j, lambda k: r[k] * L[j, k])) / L[j, j]
            diagonal = atl.sqrt(A[i, i] - atl.sum(i, lambda k: r[k] * r[k]))
            return atl.select(j < i, below, atl.select(j == i, diagonal, A[i, j]))

        return atl.rec(n, element, dtype=REAL)

    return atl.program("cholesky", [A], atl.rec(n, row, of=(n,), dtype=REAL))


def durbin() -> Program:
    """Return the solution of the Yule-Walker equations of r.

    Row k solves the first k + 1 equations, and ends with the error of the prediction.
    """
    n = atl.sizes("n", min=1)
    r = real("r", n)
    first = atl.gen(1, n + 1, lambda _, i: atl.select(i == 0, -r[0], atl.select(i == n, 1, 0)))

    def row(k: IndexExpr, Y: Tensor) -> Tensor:  # noqa: N803
        y = Y[k - 1]

        def extended(error: Tensor, alpha: Tensor) -> Tensor:
            def element(i: IndexExpr) -> Tensor:
                new = atl.select(i == k, alpha, atl.select(i == n, error, 0))
                return atl.select(i < k, y[i] + alpha * y[k - 1 - i], new)

            return atl.gen(n + 1, element)

        def by(error: Tensor) -> Tensor:
            dot = atl.sum(k, lambda i: r[k - 1 - i] * y[i])
            return atl.let(-(r[k] + dot) / error, lambda alpha: extended(error, alpha), name="alpha")

        return atl.let((1 - y[k - 1] * y[k - 1]) * y[n], by, name="error")

    body = atl.let(atl.rec(first, n, row)[n - 1], lambda y: atl.gen(n, lambda i: y[i]), name="y")
    return atl.program("durbin", [r], body)


def gramschmidt() -> Program:
    """Return R and Q of A = Q R, where the columns of Q are orthonormal.

    The state has the columns of Q so far and the rest of A, above the rows of R so far.
    """
    m, n = atl.sizes("m n")
    A = real("A", m, n)  # noqa: N806

    def step(k: IndexExpr, u: Tensor) -> Tensor:
        def columns(norm: Tensor, q: Tensor, r: Tensor) -> Tensor:
            def above(i: IndexExpr, j: IndexExpr) -> Tensor:
                return atl.select(j < k, u[i, j], atl.select(j == k, q[i], u[i, j] - q[i] * r[j]))

            def below(i: IndexExpr, j: IndexExpr) -> Tensor:
                return atl.select(i == k, atl.select(j == k, norm, r[j]), u[m + i, j])

            return atl.concat(atl.gen(m, n, above), atl.gen(n, n, below))

        def projected(norm: Tensor, q: Tensor) -> Tensor:
            row = atl.gen(n, lambda j: atl.guard(k < j, atl.sum(m, lambda i: q[i] * u[i, j])))
            return atl.let(row, lambda r: columns(norm, q, r), name="r")

        def scaled(norm: Tensor) -> Tensor:
            return atl.let(atl.gen(m, lambda i: u[i, k] / norm), lambda q: projected(norm, q), name="q")

        return atl.let(atl.sqrt(atl.sum(m, lambda i: u[i, k] * u[i, k])), scaled, name="norm")

    start = atl.concat(A, atl.gen(n, n, lambda i, j: atl.cast(REAL, 0)))
    body = atl.let(atl.iterate(n, start, step), lambda u: atl.results(R=u[m:], Q=u[:m]), name="u")
    return atl.program("gramschmidt", [A], body)


def _gramschmidt(s: Sizes) -> dict[str, Any]:
    return {"A": table(s.m, s.n, of=lambda i, j: i * j % s.m / s.m * 100 + 10)}


def _of_full_rank(s: Sizes) -> tuple[Sizes, dict[str, Any]]:
    """Exchange m and n: with more columns than rows, the last columns of Q are rounding errors."""
    other = Sizes(m=s.n, n=s.m)
    return other, {"A": np.eye(other.m, other.n) + _gramschmidt(other)["A"] / 1000}


def _well_conditioned(s: Sizes) -> tuple[Sizes, dict[str, Any]]:
    """Return decaying correlations. With PolyBench's, rounding errors grow by a factor of 10,000."""
    return s, {"r": table(s.n, of=lambda i: 1 / (i + 2))}


BENCHMARKS: Final = (
    Benchmark("cholesky", cholesky, SIZES, lambda s: {"A": _definite(s)}),
    Benchmark("durbin", durbin, SIZES, lambda s: {"r": table(s.n, of=lambda i: s.n + 1 - i)}, _well_conditioned),
    Benchmark("gramschmidt", gramschmidt, SQUARE, _gramschmidt, _of_full_rank),
    Benchmark("lu", lu, SIZES, lambda s: {"A": _definite(s)}),
    Benchmark("ludcmp", ludcmp, SIZES, _ludcmp),
    Benchmark("trisolv", trisolv, SIZES, _trisolv),
)
