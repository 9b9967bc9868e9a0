"""Chains of products: 2mm, 3mm, atax, bicg, doitgen, mvt."""

from __future__ import annotations

from typing import Any, Final

import atl
from atl import Program
from examples.polybench.benchmark import Benchmark, Sizes, real, table
from examples.polybench.blas import SCALARS

VECTORS: Final = {"m": (38, 116, 390, 1900), "n": (42, 124, 410, 2100)}


def two_products() -> Program:
    """Return alpha A B C + beta D."""
    ni, nj, nk, nl = atl.sizes("ni nj nk nl")
    alpha, beta = real("alpha"), real("beta")
    A, B, C, D = real("A", ni, nk), real("B", nk, nj), real("C", nj, nl), real("D", ni, nl)  # noqa: N806
    body = atl.let(alpha * (A @ B), lambda AB: AB @ C + beta * D, name="AB")  # noqa: N803
    return atl.program("two_products", [alpha, beta, A, B, C, D], body)


def _two_products(s: Sizes) -> dict[str, Any]:
    return {
        **SCALARS,
        "A": table(s.ni, s.nk, of=lambda i, j: (i * j + 1) % s.ni / s.ni),
        "B": table(s.nk, s.nj, of=lambda i, j: i * (j + 1) % s.nj / s.nj),
        "C": table(s.nj, s.nl, of=lambda i, j: (i * (j + 3) + 1) % s.nl / s.nl),
        "D": table(s.ni, s.nl, of=lambda i, j: i * (j + 2) % s.nk / s.nk),
    }


def three_products() -> Program:
    """Return (A B) (C D)."""
    ni, nj, nk, nl, nm = atl.sizes("ni nj nk nl nm")
    A, B, C, D = real("A", ni, nk), real("B", nk, nj), real("C", nj, nm), real("D", nm, nl)  # noqa: N806
    body = atl.let(A @ B, lambda E: atl.let(C @ D, lambda F: E @ F, name="F"), name="E")  # noqa: N803
    return atl.program("three_products", [A, B, C, D], body)


def _three_products(s: Sizes) -> dict[str, Any]:
    return {
        "A": table(s.ni, s.nk, of=lambda i, j: (i * j + 1) % s.ni / (5 * s.ni)),
        "B": table(s.nk, s.nj, of=lambda i, j: (i * (j + 1) + 2) % s.nj / (5 * s.nj)),
        "C": table(s.nj, s.nm, of=lambda i, j: i * (j + 3) % s.nl / (5 * s.nl)),
        "D": table(s.nm, s.nl, of=lambda i, j: (i * (j + 2) + 2) % s.nk / (5 * s.nk)),
    }


def atax() -> Program:
    """Return Aᵀ (A x)."""
    m, n = atl.sizes("m n")
    A, x = real("A", m, n), real("x", n)  # noqa: N806
    return atl.program("atax", [A, x], atl.let(A @ x, lambda Ax: A.T @ Ax, name="Ax"))  # noqa: N803


def _atax(s: Sizes) -> dict[str, Any]:
    return {
        "A": table(s.m, s.n, of=lambda i, j: (i + j) % s.n / (5 * s.m)),
        "x": table(s.n, of=lambda i: 1 + i / s.n),
    }


def bicg() -> Program:
    """Return Aᵀ r and A p."""
    n, m = atl.sizes("n m")
    A, p, r = real("A", n, m), real("p", m), real("r", n)  # noqa: N806
    return atl.program("bicg", [A, p, r], atl.results(s=A.T @ r, q=A @ p))


def _bicg(s: Sizes) -> dict[str, Any]:
    return {
        "A": table(s.n, s.m, of=lambda i, j: i * (j + 1) % s.n / s.n),
        "p": table(s.m, of=lambda i: i / s.m),
        "r": table(s.n, of=lambda i: i / s.n),
    }


def doitgen() -> Program:
    """Return the product of each row A[r, q] with C."""
    nq, nr, np = atl.sizes("nq nr np")
    A, C = real("A", nr, nq, np), real("C", np, np)  # noqa: N806
    return atl.program("doitgen", [A, C], A @ C)


def _doitgen(s: Sizes) -> dict[str, Any]:
    return {
        "A": table(s.nr, s.nq, s.np, of=lambda i, j, k: (i * j + k) % s.np / s.np),
        "C": table(s.np, s.np, of=lambda i, j: i * j % s.np / s.np),
    }


def mvt() -> Program:
    """Return x1 + A y1 and x2 + Aᵀ y2."""
    n = atl.sizes("n")
    x1, x2, y1, y2, A = (*(real(name, n) for name in ("x1", "x2", "y1", "y2")), real("A", n, n))  # noqa: N806
    return atl.program("mvt", [x1, x2, y1, y2, A], atl.results(x1=x1 + A @ y1, x2=x2 + A.T @ y2))


def _mvt(s: Sizes) -> dict[str, Any]:
    def shifted(by: int) -> Any:
        return table(s.n, of=lambda i: (i + by) % s.n / s.n)

    return {
        "x1": shifted(0),
        "x2": shifted(1),
        "y1": shifted(3),
        "y2": shifted(4),
        "A": table(s.n, s.n, of=lambda i, j: i * j % s.n / s.n),
    }


BENCHMARKS: Final = (
    Benchmark(
        "2mm",
        two_products,
        {"ni": (16, 40, 180, 800), "nj": (18, 50, 190, 900), "nk": (22, 70, 210, 1100), "nl": (24, 80, 220, 1200)},
        _two_products,
    ),
    Benchmark(
        "3mm",
        three_products,
        {
            "ni": (16, 40, 180, 800),
            "nj": (18, 50, 190, 900),
            "nk": (20, 60, 200, 1000),
            "nl": (22, 70, 210, 1100),
            "nm": (24, 80, 220, 1200),
        },
        _three_products,
    ),
    Benchmark("atax", atax, VECTORS, _atax),
    Benchmark("bicg", bicg, VECTORS, _bicg),
    Benchmark("doitgen", doitgen, {"nr": (10, 25, 50, 150), "nq": (8, 20, 40, 140), "np": (12, 30, 60, 160)}, _doitgen),
    Benchmark("mvt", mvt, {"n": (40, 120, 400, 2000)}, _mvt),
)
