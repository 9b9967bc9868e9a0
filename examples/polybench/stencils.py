"""Stencils over time: adi, fdtd-2d, heat-3d, jacobi-1d, jacobi-2d, seidel-2d."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import and_
from typing import Any, Final

import atl
from atl import Condition, IndexExpr, Program, Tensor
from examples.polybench.benchmark import REAL, Benchmark, Sizes, number, real, table


def _inside(n: IndexExpr, *position: IndexExpr) -> Condition:
    """Return the condition that a cell has neighbours on both sides in each dimension."""
    return reduce(and_, ((i >= 1) & (i < n - 1) for i in position))


def jacobi_1d() -> Program:
    """Return A after T times two steps; every other state has the ends of B."""
    n, T = atl.sizes("n T")  # noqa: N806
    A, B = real("A", n), real("B", n)  # noqa: N806

    def mean(u: Tensor, ends: Tensor) -> Tensor:
        def cell(i: IndexExpr) -> Tensor:
            return atl.select(_inside(n, i), 0.33333 * (u[i - 1] + u[i] + u[i + 1]), ends[i])

        return atl.gen(n, cell)

    body = atl.iterate(T, A, lambda t, u: atl.let(mean(u, B), lambda v: mean(v, u), name="v"))
    return atl.program("jacobi_1d", [A, B], body)


def jacobi_2d() -> Program:
    """Return A after T times two steps; every other state has the borders of B."""
    n, T = atl.sizes("n T")  # noqa: N806
    A, B = real("A", n, n), real("B", n, n)  # noqa: N806

    def mean(u: Tensor, borders: Tensor) -> Tensor:
        def cell(i: IndexExpr, j: IndexExpr) -> Tensor:
            cross = u[i, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] + u[i - 1, j]
            return atl.select(_inside(n, i, j), 0.2 * cross, borders[i, j])

        return atl.gen(n, n, cell)

    body = atl.iterate(T, A, lambda t, u: atl.let(mean(u, B), lambda v: mean(v, u), name="v"))
    return atl.program("jacobi_2d", [A, B], body)


def heat_3d() -> Program:
    """Return A after 2 T steps."""
    n, T = atl.sizes("n T")  # noqa: N806
    A = real("A", n, n, n)  # noqa: N806

    def step(_: IndexExpr, u: Tensor) -> Tensor:
        def cell(i: IndexExpr, j: IndexExpr, k: IndexExpr) -> Tensor:
            x = 0.125 * (u[i + 1, j, k] - 2 * u[i, j, k] + u[i - 1, j, k])
            y = 0.125 * (u[i, j + 1, k] - 2 * u[i, j, k] + u[i, j - 1, k])
            z = 0.125 * (u[i, j, k + 1] - 2 * u[i, j, k] + u[i, j, k - 1])
            return atl.select(_inside(n, i, j, k), x + y + z + u[i, j, k], u[i, j, k])

        return atl.gen(n, n, n, cell)

    return atl.program("heat_3d", [A], atl.iterate(2 * T, A, step))


def seidel_2d() -> Program:
    """Return A after T sweeps, each of which reads the new values of the cells before it."""
    n, T = atl.sizes("n T")  # noqa: N806
    A = real("A", n, n)  # noqa: N806

    def sweep(_: IndexExpr, u: Tensor) -> Tensor:
        def row(i: IndexExpr, v: Tensor) -> Tensor:
            def cell(j: IndexExpr, r: Tensor) -> Tensor:
                above = v[i - 1, j - 1] + v[i - 1, j] + v[i - 1, j + 1]
                below = u[i + 1, j - 1] + u[i + 1, j] + u[i + 1, j + 1]
                mean = (above + r[j - 1] + u[i, j] + u[i, j + 1] + below) / 9
                return atl.select(_inside(n, i, j), mean, u[i, j])

            return atl.rec(n, cell, dtype=REAL)

        return atl.rec(n, row, of=(n,), dtype=REAL)

    return atl.program("seidel_2d", [A], atl.iterate(T, A, sweep))


def fdtd_2d() -> Program:
    """Return an electric field (ex, ey) and a magnetic field hz after T steps, with a source in row 0 of ey."""
    nx, ny, T = atl.sizes("nx ny T")  # noqa: N806
    ex, ey, hz = (real(name, nx, ny) for name in ("ex", "ey", "hz"))
    source = real("source", T)

    def step(t: IndexExpr, old: dict[str, Tensor], new: dict[str, Tensor]) -> dict[str, Tensor]:
        ex, ey, hz = old["ex"], old["ey"], old["hz"]

        def of_ex(i: IndexExpr, j: IndexExpr) -> Tensor:
            return atl.select(j >= 1, ex[i, j] - 0.5 * (hz[i, j] - hz[i, j - 1]), ex[i, j])

        def of_ey(i: IndexExpr, j: IndexExpr) -> Tensor:
            return atl.select(i >= 1, ey[i, j] - 0.5 * (hz[i, j] - hz[i - 1, j]), source[t])

        def of_hz(i: IndexExpr, j: IndexExpr) -> Tensor:
            curl = new["ex"][i, j + 1] - new["ex"][i, j] + new["ey"][i + 1, j] - new["ey"][i, j]
            return atl.select((i < nx - 1) & (j < ny - 1), hz[i, j] - 0.7 * curl, hz[i, j])

        return {"ex": atl.gen(nx, ny, of_ex), "ey": atl.gen(nx, ny, of_ey), "hz": atl.gen(nx, ny, of_hz)}

    body = atl.iterate(T, {"ex": ex, "ey": ey, "hz": hz}, step)
    return atl.program("fdtd_2d", [ex, ey, hz, source], body)


def _fdtd_2d(s: Sizes) -> dict[str, Any]:
    return {
        "ex": table(s.nx, s.ny, of=lambda i, j: i * (j + 1) / s.nx),
        "ey": table(s.nx, s.ny, of=lambda i, j: i * (j + 2) / s.ny),
        "hz": table(s.nx, s.ny, of=lambda i, j: i * (j + 3) / s.nx),
        "source": table(s.T, of=lambda t: t),
    }


def _line(n: IndexExpr, a: Tensor, p: Tensor, right: Callable[[IndexExpr], Tensor]) -> Tensor:
    """Return x of a x[j - 1] + (1 - 2 a) x[j] + a x[j + 1] = right(j), whose ends are 1, with the factors p."""

    def forward(j: IndexExpr, q: Tensor) -> Tensor:
        return atl.select(j >= 1, (right(j) - a * q[j - 1]) / (a * p[j - 1] + (1 - 2 * a)), 1)

    def backward(q: Tensor) -> Tensor:
        def element(z: IndexExpr, x: Tensor) -> Tensor:
            j = n - 1 - z
            return atl.select(_inside(n, j), p[j] * x[z - 1] + q[j], 1)

        return atl.let(atl.rec(n, element, dtype=REAL), lambda x: atl.gen(n, lambda j: x[n - 1 - j]), name="x")

    return atl.let(atl.rec(n - 1, forward, dtype=REAL), backward, name="q")


def _lines(n: IndexExpr, a: Tensor, right: Callable[[IndexExpr, IndexExpr], Tensor]) -> Tensor:
    """Return the solutions of the lines 1 to n - 2, where line i has the right sides right(i, j)."""
    factors = atl.rec(n - 1, lambda j, p: atl.select(j >= 1, -a / (a * p[j - 1] + (1 - 2 * a)), 0), dtype=REAL)
    solved = lambda p: atl.gen((1, n - 1), lambda i: _line(n, a, p, lambda j: right(i, j)))  # noqa: E731
    return atl.let(factors, solved, name="p")


def adi() -> Program:
    """Return u after T steps of alternating directions: along its columns, then along the rows of the result."""
    n, T = atl.sizes("n", min=2), atl.sizes("T")  # noqa: N806
    u = real("u", n, n)

    def steps(a: Tensor, d: Tensor) -> Tensor:
        def step(_: IndexExpr, u: Tensor) -> Tensor:
            def of_u(i: IndexExpr, j: IndexExpr) -> Tensor:
                return -d * u[j, i - 1] + (1 + 2 * d) * u[j, i] - d * u[j, i + 1]

            def along_rows(v: Tensor) -> Tensor:
                def of_v(i: IndexExpr, j: IndexExpr) -> Tensor:
                    return -a * v[j - 1, i - 1] + (1 + 2 * a) * v[j - 1, i] - a * v[j - 1, i + 1]

                return atl.let(_lines(n, d, of_v), inserted, name="w")

            def inserted(w: Tensor) -> Tensor:
                return atl.gen(n, n, lambda i, j: atl.select(_inside(n, i), w[i - 1, j], u[i, j]))

            return atl.let(_lines(n, a, of_u), along_rows, name="v")

        return atl.iterate(T, u, step)

    wide = -number(n) * number(n) / number(T)
    body = atl.let(wide, lambda a: atl.let(a / 2, lambda d: steps(a, d), name="d"), name="a")
    return atl.program("adi", [u], body)


def _jacobi_2d(s: Sizes) -> dict[str, Any]:
    return {
        "A": table(s.n, s.n, of=lambda i, j: (i * (j + 2) + 2) / s.n),
        "B": table(s.n, s.n, of=lambda i, j: (i * (j + 3) + 3) / s.n),
    }


STEPS: Final = (20, 40, 100, 500)

BENCHMARKS: Final = (
    Benchmark(
        "adi",
        adi,
        {"n": (20, 60, 200, 1000), "T": STEPS},
        lambda s: {"u": table(s.n, s.n, of=lambda i, j: (i + s.n - j) / s.n)},
    ),
    Benchmark("fdtd-2d", fdtd_2d, {"nx": (20, 60, 200, 1000), "ny": (30, 80, 240, 1200), "T": STEPS}, _fdtd_2d),
    Benchmark(
        "heat-3d",
        heat_3d,
        {"n": (10, 20, 40, 120), "T": STEPS},
        lambda s: {"A": table(s.n, s.n, s.n, of=lambda i, j, k: (i + j + s.n - k) * 10 / s.n)},
    ),
    Benchmark(
        "jacobi-1d",
        jacobi_1d,
        {"n": (30, 120, 400, 2000), "T": STEPS},
        lambda s: {"A": table(s.n, of=lambda i: (i + 2) / s.n), "B": table(s.n, of=lambda i: (i + 3) / s.n)},
    ),
    Benchmark("jacobi-2d", jacobi_2d, {"n": (30, 90, 250, 1300), "T": STEPS}, _jacobi_2d),
    Benchmark(
        "seidel-2d",
        seidel_2d,
        {"n": (40, 120, 400, 2000), "T": STEPS},
        lambda s: {"A": table(s.n, s.n, of=lambda i, j: (i * (j + 2) + 2) / s.n)},
    ),
)
