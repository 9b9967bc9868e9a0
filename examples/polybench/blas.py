"""Products of BLAS: gemm, gemver, gesummv, symm, syr2k, syrk, trmm."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import atl
from atl import Program
from examples.polybench.benchmark import Benchmark, Sizes, real, table

SCALARS: Final = {"alpha": 1.5, "beta": 1.2}
SQUARE: Final = {"m": (20, 60, 200, 1000), "n": (30, 80, 240, 1200)}
LOWER: Final = {"n": SQUARE["n"], "m": SQUARE["m"]}


def gemm() -> Program:
    """Return alpha A B + beta C."""
    ni, nj, nk = atl.sizes("ni nj nk")
    alpha, beta = real("alpha"), real("beta")
    C, A, B = real("C", ni, nj), real("A", ni, nk), real("B", nk, nj)  # noqa: N806
    return atl.program("gemm", [alpha, beta, C, A, B], alpha * (A @ B) + beta * C)


def _gemm(s: Sizes) -> dict[str, Any]:
    return {
        **SCALARS,
        "C": table(s.ni, s.nj, of=lambda i, j: (i * j + 1) % s.ni / s.ni),
        "A": table(s.ni, s.nk, of=lambda i, j: i * (j + 1) % s.nk / s.nk),
        "B": table(s.nk, s.nj, of=lambda i, j: i * (j + 2) % s.nj / s.nj),
    }


def gemver() -> Program:
    """Return w = alpha M x of M = A + u1 v1ᵀ + u2 v2ᵀ and x = beta Mᵀ y + z."""
    n = atl.sizes("n")
    alpha, beta, A = real("alpha"), real("beta"), real("A", n, n)  # noqa: N806
    u1, v1, u2, v2, y, z = (real(name, n) for name in ("u1", "v1", "u2", "v2", "y", "z"))
    updated = atl.gen(n, n, lambda i, j: A[i, j] + u1[i] * v1[j] + u2[i] * v2[j])

    body = atl.let(
        updated,
        lambda M: atl.let(beta * (M.T @ y) + z, lambda x: alpha * (M @ x), name="x"),  # noqa: N803
        name="M",
    )
    return atl.program("gemver", [alpha, beta, A, u1, v1, u2, v2, y, z], body)


def _gemver(s: Sizes) -> dict[str, Any]:
    def part(by: float) -> Any:
        return table(s.n, of=lambda i: (i + 1) / s.n / by)

    return {
        **SCALARS,
        "A": table(s.n, s.n, of=lambda i, j: i * j % s.n / s.n),
        "u1": table(s.n, of=lambda i: i),
        "u2": part(2),
        "v1": part(4),
        "v2": part(6),
        "y": part(8),
        "z": part(9),
    }


def gesummv() -> Program:
    """Return alpha A x + beta B x."""
    n = atl.sizes("n")
    alpha, beta, A, B, x = real("alpha"), real("beta"), real("A", n, n), real("B", n, n), real("x", n)  # noqa: N806
    return atl.program("gesummv", [alpha, beta, A, B, x], alpha * (A @ x) + beta * (B @ x))


def _gesummv(s: Sizes) -> dict[str, Any]:
    return {
        **SCALARS,
        "A": table(s.n, s.n, of=lambda i, j: (i * j + 1) % s.n / s.n),
        "B": table(s.n, s.n, of=lambda i, j: (i * j + 2) % s.n / s.n),
        "x": table(s.n, of=lambda i: i / s.n),
    }


def symm() -> Program:
    """Return alpha S B + beta C, where A has the lower triangle of the symmetric matrix S."""
    m, n = atl.sizes("m n")
    alpha, beta = real("alpha"), real("beta")
    C, A, B = real("C", m, n), real("A", m, m), real("B", m, n)  # noqa: N806
    symmetric = atl.gen(m, m, lambda i, k: atl.select(k <= i, A[i, k], A[k, i]))
    return atl.program("symm", [alpha, beta, C, A, B], alpha * (symmetric @ B) + beta * C)


def _symm(s: Sizes) -> dict[str, Any]:
    return {
        **SCALARS,
        "C": table(s.m, s.n, of=lambda i, j: (i + j) % 100 / s.m),
        "B": table(s.m, s.n, of=lambda i, j: (s.n + i - j) % 100 / s.m),
        "A": table(s.m, s.m, of=lambda i, j: np.where(j <= i, (i + j) % 100 / s.m, -999)),
    }


def syrk() -> Program:
    """Return the lower triangle of alpha A Aᵀ + beta C, above which C is kept."""
    n, m = atl.sizes("n m")
    alpha, beta, C, A = real("alpha"), real("beta"), real("C", n, n), real("A", n, m)  # noqa: N806
    updated = alpha * (A @ A.T) + beta * C
    body = atl.gen(n, n, lambda i, j: atl.select(j <= i, updated[i, j], C[i, j]))
    return atl.program("syrk", [alpha, beta, C, A], body)


def _syrk(s: Sizes) -> dict[str, Any]:
    return {
        **SCALARS,
        "C": table(s.n, s.n, of=lambda i, j: (i * j + 2) % s.m / s.m),
        "A": table(s.n, s.m, of=lambda i, j: (i * j + 1) % s.n / s.n),
    }


def syr2k() -> Program:
    """Return the lower triangle of alpha (A Bᵀ + B Aᵀ) + beta C, above which C is kept."""
    n, m = atl.sizes("n m")
    alpha, beta = real("alpha"), real("beta")
    C, A, B = real("C", n, n), real("A", n, m), real("B", n, m)  # noqa: N806
    updated = alpha * (A @ B.T + B @ A.T) + beta * C
    body = atl.gen(n, n, lambda i, j: atl.select(j <= i, updated[i, j], C[i, j]))
    return atl.program("syr2k", [alpha, beta, C, A, B], body)


def _syr2k(s: Sizes) -> dict[str, Any]:
    return {
        **SCALARS,
        "C": table(s.n, s.n, of=lambda i, j: (i * j + 3) % s.n / s.m),
        "A": table(s.n, s.m, of=lambda i, j: (i * j + 1) % s.n / s.n),
        "B": table(s.n, s.m, of=lambda i, j: (i * j + 2) % s.m / s.m),
    }


def trmm() -> Program:
    """Return alpha Lᵀ B, where A has the part of L below its diagonal of ones."""
    m, n = atl.sizes("m n")
    alpha, A, B = real("alpha"), real("A", m, m), real("B", m, n)  # noqa: N806
    body = atl.gen(m, n, lambda i, j: alpha * (B[i, j] + atl.sum((i + 1, m), lambda k: A[k, i] * B[k, j])))
    return atl.program("trmm", [alpha, A, B], body)


def _trmm(s: Sizes) -> dict[str, Any]:
    return {
        "alpha": SCALARS["alpha"],
        "A": table(s.m, s.m, of=lambda i, j: np.where(j < i, (i + j) % s.m / s.m, i == j)),
        "B": table(s.m, s.n, of=lambda i, j: (s.n + i - j) % s.n / s.n),
    }


BENCHMARKS: Final = (
    Benchmark("gemm", gemm, {"ni": (20, 60, 200, 1000), "nj": (25, 70, 220, 1100), "nk": (30, 80, 240, 1200)}, _gemm),
    Benchmark("gemver", gemver, {"n": (40, 120, 400, 2000)}, _gemver),
    Benchmark("gesummv", gesummv, {"n": (30, 90, 250, 1300)}, _gesummv),
    Benchmark("symm", symm, SQUARE, _symm),
    Benchmark("syr2k", syr2k, LOWER, _syr2k),
    Benchmark("syrk", syrk, LOWER, _syrk),
    Benchmark("trmm", trmm, SQUARE, _trmm),
)
