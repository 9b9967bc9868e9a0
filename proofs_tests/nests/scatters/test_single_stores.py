"""Cells accumulated into once become plain stores, and complete outputs are not cleared."""

from __future__ import annotations

from dataclasses import replace

import pytest

import atl
from layouts import blocked
from lowering import lower, print_c, print_nest
from lowering.nest.loopnest import Accumulate, LoopNest, statements
from lowering.passes.stores import with_single_stores
from proofs_tests.nests.by_hand import at, cell, i, j, loop, m, n, nest, output, tensor, vi, vj
from proofs_tests.nests.scatters.nests import ONCE, TWICE, scatters
from proofs_tests.storages.storages import STORAGES, T, faults_in_c
from rewrites import reschedule


def after_pass(name: str) -> LoopNest:
    return next(with_single_stores(of) for of, *_ in scatters() if of.name == name.replace(" ", "_"))


def adds(of: LoopNest) -> int:
    return sum(isinstance(statement, Accumulate) for statement in statements(of.body))


@pytest.mark.parametrize("name", ONCE)
def test_cells_reached_once_are_stored(name: str) -> None:
    assert adds(after_pass(name)) == 0


@pytest.mark.parametrize("name", TWICE)
def test_cells_reached_twice_are_accumulated(name: str) -> None:
    assert adds(after_pass(name)) == 1


def test_complete_outputs_are_not_cleared() -> None:
    found = {of.name for of, *_ in scatters() if with_single_stores(of).complete and not of.complete}
    assert found == {"transposed", "turned", "backwards", "in_one_row", "tiles"}


def test_buffer_filled_by_each_iteration_is_stored() -> None:
    assert [adds(after_pass(name)) for name in ("buffer for each", "buffer for all", "half")] == [0, 1, 1]
    assert "clear" not in print_nest(after_pass("buffer for each"))


def test_buffer_with_two_accumulations_is_unchanged() -> None:
    x, X = tensor("x", n, m)  # noqa: N806
    out = output(n, m)
    adding = Accumulate(cell(out, i, j), "add", at(X, i, j))
    loops = loop(vi, n, loop(vj, m, adding))
    of = nest("twice", [x], out, loops, loops, sizes="n m", complete=False)
    assert with_single_stores(of) is of
    less = nest("less", [x], out, loop(vi, n, loop(vj, m, replace(adding, op="sub"))), sizes="n m", complete=False)
    assert with_single_stores(less) is less


@pytest.mark.sampled
@pytest.mark.parametrize("name", sorted(set(STORAGES) - {"turning", "swizzled in chunks", "padded", "column-major"}))
def test_generation_in_the_order_of_a_layout_is_stored(name: str) -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * A[i, j]")
    s = reschedule(program, given=[T >= 1]).reorder(["i", "j"], STORAGES[name])
    of = lower(s.goal)
    assert (adds(of), of.complete) == (0, True)


@pytest.mark.long
def test_c_of_a_reordered_generation_has_no_clears_or_sums() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * A[i, j]")
    s = reschedule(program).reorder(["i", "j"], blocked(4, 8))
    text = print_c(lower(s.goal))
    assert "+=" not in text
    assert "memset" not in text
    sizes = [{"n": a, "m": b} for a, b in ((3, 5), (8, 16), (0, 2))]
    assert faults_in_c([s], sizes) == []
