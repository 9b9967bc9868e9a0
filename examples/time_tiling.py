"""Stencils in blocks of several steps, whose states stay in the cache: in tiles (overlapped time tiling) or row by row.

The tiles fit a second-level cache of 1 MB. `docs/recurrences.md` explains the tactics.
"""

from __future__ import annotations

import atl
from atl import IndexExpr, Program, Session, Tensor


def jacobi_2d() -> Program:
    """Return the state after T steps: each inner cell becomes the mean of itself and its four neighbours."""
    n, T = atl.sizes("n T")  # noqa: N806
    a = atl.tensor("a", n, n, dtype="float64")

    def cell(u: Tensor, i: IndexExpr, j: IndexExpr) -> Tensor:
        cross = u[i, j] + u[i, j - 1] + u[i, j + 1] + u[i + 1, j] + u[i - 1, j]
        return atl.select((i >= 1) & (i < n - 1) & (j >= 1) & (j < n - 1), 0.2 * cross, u[i, j])

    return atl.program("jacobi_2d", [a], atl.iterate(T, a, lambda t, u: atl.gen(n, n, lambda i, j: cell(u, i, j))))


def heat_3d() -> Program:
    """Return the temperature after T steps of the heat equation, with the `heat_3d` step of PolyBench."""
    n, T = atl.sizes("n T")  # noqa: N806
    a = atl.tensor("a", n, n, n, dtype="float64")

    def cell(u: Tensor, i: IndexExpr, j: IndexExpr, k: IndexExpr) -> Tensor:
        x = 0.125 * (u[i + 1, j, k] - 2 * u[i, j, k] + u[i - 1, j, k])
        y = 0.125 * (u[i, j + 1, k] - 2 * u[i, j, k] + u[i, j - 1, k])
        z = 0.125 * (u[i, j, k + 1] - 2 * u[i, j, k] + u[i, j, k - 1])
        inside = (i >= 1) & (i < n - 1) & (j >= 1) & (j < n - 1) & (k >= 1) & (k < n - 1)
        return atl.select(inside, x + y + z + u[i, j, k], u[i, j, k])

    step = lambda t, u: atl.gen(n, n, n, lambda i, j, k: cell(u, i, j, k))  # noqa: E731
    return atl.program("heat_3d", [a], atl.iterate(T, a, step))


def tiled_jacobi_2d(steps: int = 10, i: int = 64, j: int = 1000) -> Session:
    """Tile jacobi_2d in blocks of some steps, for numbers of steps that are a multiple of it."""
    return atl.reschedule(jacobi_2d(), given=[atl.sizes("T") % steps == 0]).time_tile("u", steps, i=i, j=j)


def tiled_heat_3d(steps: int = 5, i: int = 24, j: int = 24) -> Session:
    """Tile the two outer dimensions of heat_3d in blocks of some steps."""
    return atl.reschedule(heat_3d(), given=[atl.sizes("T") % steps == 0]).time_tile("u", steps, i=i, j=j)


def pipelined_jacobi_2d(steps: int = 8) -> Session:
    """Make some steps of jacobi_2d at once, row by row."""
    return atl.reschedule(jacobi_2d()).pipeline_steps("u", steps)


def pipelined_heat_3d(steps: int = 4) -> Session:
    """Make some steps of heat_3d at once, plane by plane."""
    return atl.reschedule(heat_3d()).pipeline_steps("u", steps)
