"""Results in a layout: each element is at its place, as a theorem says, and places without an element are zero."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl import load
from atl.errors import ATLError
from layouts import Layout, blocked, column_major, sheared
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import m, matmul, n
from proofs_tests.storages.storages import at_sizes, variables
from rewrites import DoesNotApply, reschedule

A = np.random.default_rng(0).integers(-4, 5, (5, 9)).astype(np.float32)
B = np.random.default_rng(1).integers(-4, 5, (9, 13)).astype(np.float32)
SIZES = {"n": 5, "m": 13}
LAYOUTS: dict[str, Any] = {
    "column-major": column_major,
    "blocked": blocked(4, 8),
    "sheared": sheared,
    "strides": Layout((n, m), (1, n)),
}


@pytest.mark.parametrize("name", ["column-major", "blocked", "sheared"])
def test_elements_are_at_their_places(name: str) -> None:
    made = reschedule(matmul()).store_result(LAYOUTS[name])
    laid = compiled(made.program)(A, B)
    places = np.zeros(laid.shape, np.bool_)
    formulas = LAYOUTS[name]((n.node, m.node)).stored((n.node, m.node))
    for element, value in np.ndenumerate(A @ B):
        place = tuple(at_sizes(formula, SIZES, element) for formula in formulas.place(variables(2)))
        assert laid[place] == value
        assert not places[place]
        places[place] = True
    assert not laid[~places].any()


@pytest.mark.parametrize("name", LAYOUTS)
def test_meaning_is_a_theorem_about_the_program(name: str, tmp_path: Path) -> None:
    s = reschedule(matmul())
    made = s.store_result(LAYOUTS[name])
    assert made.meaning.lhs == s.goal
    assert made.meaning.rhs.body.value == made.program.body  # type: ignore[union-attr]
    np.testing.assert_array_equal(atl.evaluate(made.meaning.rhs, A=A, B=B), A @ B)
    made.meaning.save(tmp_path / "meaning.atl.json")
    assert load(tmp_path / "meaning.atl.json").rhs == made.meaning.rhs


def test_program_in_a_layout_is_scheduled_as_others() -> None:
    made = reschedule(matmul()).store_result(blocked(4, 8))
    s = reschedule(made.program).tails()
    np.testing.assert_array_equal(s.compile()(A, B), compiled(made.program)(A, B))


def test_results_without_one_dense_tensor_are_refused() -> None:
    x = atl.tensor("x", n)
    total = atl.program("total", [x], atl.sum(n, lambda i: x[i]))
    with pytest.raises(DoesNotApply, match="total has a scalar result"):
        reschedule(total).store_result(column_major)
    both = atl.program("both", [x], {"a": 2 * x, "b": 3 * x})
    with pytest.raises(DoesNotApply, match="both has several results"):
        reschedule(both).store_result(column_major)


def test_layout_with_two_elements_at_one_place_is_refused() -> None:
    with pytest.raises(ATLError, match="two elements at one location"):
        reschedule(matmul()).store_result(Layout((n, m), (1, 1)))
