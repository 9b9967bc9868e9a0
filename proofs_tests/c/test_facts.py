"""What is declared of elements is checked by C once a kernel remembers the shapes; what is said stays the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ArrayError
from lowering import compile as compiled
from lowering import facts

n, m = atl.sizes("n m")
x = atl.tensor("x", m)


def gathering(dtype: str, **declared: Any) -> atl.Program:
    """The elements of x at the indices in A, in rows of three."""
    indices = atl.tensor("A", n, 3, dtype=dtype, **declared)
    return atl.program("gathering", [indices, x], atl.gen(n, 3, lambda i, j: x[indices[i, j]]))


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("at", [0, 1, 7, 63, 1000, 2999])
@pytest.mark.parametrize("fault", [-1, 100, 2**31 - 1, -(2**31)])
def test_one_element_out_of_range_is_found_wherever_it_stands(dtype: str, at: int, fault: int) -> None:
    kernel = compiled(gathering(dtype, range=(0, m)))
    held = np.random.default_rng(1).integers(0, 100, (1000, 3)).astype(dtype)
    values = np.arange(100, dtype=np.float32)
    for _ in range(2):
        assert np.array_equal(kernel(held, values), values[held])
    held.flat[at] = fault
    with pytest.raises(ArrayError, match=rf"A\[{at // 3}, {at % 3}\] is out of the declared range"):
        kernel(held, values)


def test_a_row_that_falls_is_found_and_one_that_begins_lower_than_the_last_ended_is_none() -> None:
    kernel = compiled(gathering("int32", range=(0, m), order="strict"))
    values = np.arange(9, dtype=np.float32)
    right = np.array([[6, 7, 8], [0, 4, 5]], np.int32)
    for _ in range(2):
        assert np.array_equal(kernel(right, values), values[right])
    with pytest.raises(ArrayError, match="do not increase strictly"):
        kernel(np.array([[6, 7, 8], [0, 4, 4]], np.int32), values)


def test_shapes_that_were_right_are_remembered_though_elements_have_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = compiled(gathering("int64", range=(0, m)))
    values, held = np.arange(9, dtype=np.float32), np.array([[0, 1, 8]])
    first = kernel(held, values)
    monkeypatch.setattr("lowering.compiled.bind", None)
    assert np.array_equal(kernel(held, values), first)


def test_a_range_that_no_element_can_be_in_is_met_by_no_elements_only() -> None:
    kernel = compiled(gathering("int32", range=(5, 5)))
    values = np.zeros(9, np.float32)
    for _ in range(2):
        assert kernel(np.zeros((0, 3), np.int32), values).shape == (0, 3)
    with pytest.raises(ArrayError, match="out of the declared range"):
        kernel(np.full((1, 3), 5, np.int32), values)


def test_a_check_that_is_off_by_one_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: an element equal to the upper bound passes, so that the kernel would read behind the end."""
    original = facts.Facts.limits

    def wider(self: facts.Facts, sizes: Any) -> Any:
        return tuple((at, finds, (told[0], told[1], told[2] + 1)) for at, finds, told in original(self, sizes))

    monkeypatch.setattr(facts.Facts, "limits", wider)
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        test_one_element_out_of_range_is_found_wherever_it_stands("int32", 63, 100)
