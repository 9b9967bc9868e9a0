"""Recurrences in blocks of rows: equal results at every size, replayed certificates, and sums of earlier blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from examples import solvers
from examples.polybench.solvers import cholesky, lu
from examples.recurrences import prefix_sum
from lowering import lower, print_nest
from rewrites import reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply

random = np.random.default_rng(0)


def definite(n: int) -> np.ndarray[Any, Any]:
    made = random.random((n, n))
    return made @ made.T + n * np.eye(n)


def inputs(program: atl.Program, n: int) -> list[np.ndarray[Any, Any]]:
    return [np.tril(definite(n)), random.random((n, 3))] if program.name == "triangular" else [definite(n)]


PROGRAMS = {"x": solvers.triangular, "r": solvers.cholesky, "f": solvers.lu}
NAMES = ["x", *(pytest.param(name, marks=pytest.mark.long) for name in "rf")]


@pytest.mark.parametrize("name", NAMES)
def test_blocks_of_blocks_have_the_same_rows(name: str) -> None:
    program = PROGRAMS[name]()
    kernel = reschedule(program).block_rows(name, 4).block_rows(name, 2).compile()
    for n in (0, 1, 4, 11):
        arrays = inputs(program, n)
        np.testing.assert_allclose(kernel(*arrays), atl.evaluate(program, *arrays), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_certificate_of_blocks_is_replayed(name: str) -> None:
    s = reschedule(PROGRAMS[name]()).block_rows(name, 4)
    theorem = loads(dumps(s.done()))
    assert theorem.rhs == s.goal
    arrays = inputs(s.goal, 7)
    np.testing.assert_allclose(atl.evaluate(theorem.rhs, *arrays), atl.evaluate(theorem.lhs, *arrays), rtol=1e-12)


def test_rows_are_stored_once() -> None:
    nest = print_nest(lower(reschedule(solvers.triangular()).block_rows("x", 4).goal))
    assert nest.count("alloc") == 1
    assert "total += L[4*io + ii, j] * out[j, c]" in nest


def test_panels_contain_only_columns_that_are_read() -> None:
    goal = str(reschedule(solvers.cholesky()).block_rows("r", 4).goal)
    assert "⊞[pi < min(n - 4*po, 4)] ⊞[4*po <= i < n] Σ[q < 4*po]" in goal


def test_rows_of_each_column_can_be_blocks() -> None:
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n, m, dtype="float64")
    sums = atl.gen(m, lambda c: atl.rec(n, lambda p, y: x[p, c] + atl.sum(p, lambda q: y[q]) / 2))
    program = atl.program("sums", [x], sums)
    s = reschedule(program).block_rows("y", "m")
    array = random.random((7, 3))
    np.testing.assert_allclose(s.compile()(array), atl.evaluate(program, array))


def test_elements_within_a_row_can_be_blocks() -> None:
    """A branch of a selection is computed for a whole block, so its reads are guarded."""
    program = cholesky()
    s = reschedule(program).block_rows("r", 4)
    assert "[k < i] · F" in str(reschedule(lu()).block_rows("f", 4).goal)
    array = definite(9)
    np.testing.assert_allclose(s.compile()(array), atl.evaluate(program, array), rtol=1e-12)


def test_a_note_says_that_nothing_is_computed_for_a_block() -> None:
    s = reschedule(prefix_sum()).block_rows("y", 4)
    assert "nothing is computed for a whole block" in str(s)


def test_staging_a_term_of_all_rows() -> None:
    s = reschedule(solvers.triangular()).stage("L[i, i]", name="diagonal")
    assert "let diagonal := ⊞[i < n] L[i, i] in" in str(s.goal)


def test_first_rows_are_refused() -> None:
    n = atl.sizes("n", min=1)
    x = atl.tensor("x", n)
    first = atl.gen(1, lambda i: x[i])
    s = reschedule(atl.program("prefix", [x], atl.rec(first, n, lambda p, y: y[p - 1] + x[p])))
    with pytest.raises(DoesNotApply, match="the recurrence begins with 1 rows"):
        s.block_rows("y", 4)


def test_wrong_arguments_are_refused() -> None:
    s = reschedule(solvers.triangular())
    with pytest.raises(InvalidArgument, match="blocks of 0 rows"):
        s.block_rows("x", 0)
    with pytest.raises(InvalidArgument, match="blocks of m rows"):
        s.block_rows("x", "m")
    with pytest.raises(DoesNotApply, match="c' is not a recurrence"):
        s.block_rows("c", 4)


@pytest.mark.long
def test_panels_are_tiled_over_packed_rows() -> None:
    s = reschedule(solvers.cholesky()).block_rows("r", 32).optimize()
    assert "let rop := " in str(s.goal)
    arrays = inputs(s.goal, 45)
    np.testing.assert_allclose(s.compile()(*arrays), np.linalg.cholesky(*arrays).T, rtol=1e-10, atol=1e-12)


def test_fold_within_a_fold_of_one_row() -> None:
    """The inner fold is split first, and its parts are not computed again."""
    a, b = atl.tensor("a", 1, 1, dtype="int64"), atl.tensor("b", 1, dtype="int64")
    rows = atl.rec(1, lambda i, y: b[i] - atl.sum(i, lambda j: atl.sum(j, lambda q: y[q] + a[q, j])), dtype="int64")
    s = reschedule(atl.program("f", [a, b], rows)).block_rows("y", 4)
    np.testing.assert_array_equal(s.compile()(a=[[2]], b=[5]), [5])
