"""Recipes for recurrences: solvers in blocks of rows, stencils in blocks of steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import atl
from examples.solvers import cholesky, triangular
from examples.time_tiling import jacobi_2d
from lowering.targets.machine import KIB
from proofs_tests.recipes.machines import AVX2, TINY
from rewrites import Session, reschedule
from rewrites.recipes import Context, Report, recurrences

pytestmark = pytest.mark.usefixtures("private_cache")

SMALL = replace(AVX2, l2=32 * KIB, l3=0)
"""A machine with a small second-level cache, and no other, so that small states do not fit in it."""
ONLY = [recurrences.block_solvers, recurrences.tile_time]


def report_of(s: Session) -> Report:
    assert s.report is not None
    return s.report


def calls(program: atl.Program, **sizes: int) -> list[str]:
    """Return the calls of the recipes for recurrences."""
    s = reschedule(program).optimize(sizes, machine=AVX2, recipes=ONLY)
    return [call for outcome in report_of(s).applied for call in outcome.calls]


def reasons(program: atl.Program, **sizes: int) -> str:
    """Return the report of the recipes for recurrences that do not fit."""
    s = reschedule(program).optimize(sizes, machine=AVX2, recipes=ONLY)
    assert not report_of(s).applied
    return str(report_of(s))


@pytest.mark.long
def test_textbook_solver_becomes_a_blocked_one() -> None:
    s = reschedule(triangular()).optimize(machine=AVX2)
    assert {"block_solvers", "tile_sums"} <= {outcome.recipe.name for outcome in report_of(s).applied}
    draw = np.random.default_rng(0)
    for n, m in ((150, 37), (3, 2), (0, 5)):
        matrix, sides = np.tril(draw.random((n, n))) + 10 * np.eye(n), draw.random((n, m))
        np.testing.assert_allclose(matrix @ s.compile()(matrix, sides), sides)


def test_blocks_fit_the_machine() -> None:
    assert calls(cholesky()) == ["block_rows('r', 64)", "block_rows('r', 6)"]
    s = reschedule(cholesky()).optimize(machine=TINY, recipes=ONLY)
    rows = recurrences.block_solvers.values("rows", Context(TINY, "float64"))[0]
    assert s.steps[0].text == f"block_rows('r', {rows})"
    assert rows * rows * 8 <= TINY.l1


def test_small_or_single_systems_are_left() -> None:
    assert "i has 64 rows" in reasons(triangular(), n=64)
    assert "the rows of x have one element" in reasons(triangular(), m=1)
    n = atl.sizes("n")
    L, b = atl.tensor("L", n, n), atl.tensor("b", n)  # noqa: N806
    one = atl.rec(n, lambda i, x: (b[i] - atl.sum(i, lambda j: L[i, j] * x[j])) / L[i, i])
    assert "the goal lacks a recurrence of vectors" in reasons(atl.program("one", [L, b], one))
    x = atl.tensor("x", n, n)
    sums = atl.rec(n, lambda p, y: atl.gen(n, lambda c: atl.select(p >= 1, y[p - 1, c], 0) + x[p, c]), of=(n,))
    assert "the goal lacks a recurrence of vectors" in reasons(atl.program("sums", [x], sums))


@pytest.mark.long
def test_stencil_in_memory_is_tiled_in_time() -> None:
    (call,) = calls(jacobi_2d(), n=3000, T=200)
    assert call.startswith("time_tile('u', ")
    assert "two states of u have 4000000 bytes" in reasons(jacobi_2d(), n=500, T=200)
    assert "no tiles of several steps are faster" in reasons(jacobi_2d(), n=3000, T=1)
    assert "the sizes of u are not known" in reasons(jacobi_2d())


@pytest.mark.long
def test_stencil_in_memory_is_made_row_by_row() -> None:
    """The rings fit in L2 or in the last cache; threads need tiles, and reads at all distances have no ring."""

    def made(program: atl.Program, *, parallel: bool = False, **sizes: int) -> str:
        s = reschedule(program).optimize(
            sizes, machine=AVX2, parallel=parallel, recipes=[recurrences.pipeline_time, recurrences.tile_time]
        )
        return "; ".join(step.text for step in s.steps) or str(report_of(s))

    assert made(jacobi_2d(), n=3000, T=200) == "pipeline_steps('u', 5)"
    assert made(jacobi_2d(), n=3000, T=2) == "pipeline_steps('u', 2)"
    assert made(jacobi_2d(), parallel=True, n=3000, T=200).startswith("time_tile('u', ")
    assert "two states of u have 4000000 bytes" in made(jacobi_2d(), n=500, T=200)
    everything = reschedule(jacobi_2d()).optimize({"n": 3000, "T": 200}, machine=AVX2)
    assert [step.text for step in everything.steps] == ["normalize()", "pipeline_steps('u', 5)"]
    n = atl.sizes("n")
    a = atl.tensor("a", n, n, dtype="float64")
    turned = atl.iterate(8, a, lambda _, u: atl.gen(n, n, lambda i, j: 2 * u[n - 1 - i, j]))
    assert "is marked ring" in made(atl.program("turned", [a], turned), n=3000)


@pytest.mark.parametrize("extents", [(20000,), (400, 70), (30, 200, 25)])
def test_windows_fit_the_cache(extents: tuple[int, ...]) -> None:
    found = recurrences.tilings(Context(AVX2, "float64"), extents)
    assert found
    for each in found:
        assert 2 * 8 * np.prod([width + 2 * each.steps for width in each.widths]) <= AVX2.l2
        assert all(width <= extent for width, extent in zip(each.widths, extents, strict=True))


def test_stencil_in_tiles_has_the_values_of_the_formula() -> None:
    s = reschedule(jacobi_2d()).optimize({"n": 80, "T": 9}, machine=SMALL, recipes=ONLY)
    assert "tile_time" in {outcome.recipe.name for outcome in report_of(s).applied}
    state = np.random.default_rng(0).random((80, 80))
    for steps in (9, 1, 0):
        np.testing.assert_allclose(s.compile()(state, T=steps), atl.compile(jacobi_2d())(state, T=steps))
