"""Argument checks of a kernel after calls that filled its validation cache."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import ATLError
from lowering import compile as compiled

n, m = atl.sizes("n m")


def _misaligned(array: Any) -> Any:
    held = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    held[...] = array
    return held


CHANGES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "of float32": (lambda a: a.astype(np.float32), "float32, not float64"),
    "of integers": (lambda a: a.view(np.int64), "int64, not float64"),
    "of swapped bytes": (lambda a: a.astype(">f8"), ">f8, not float64"),
    "of three dimensions": (lambda a: a[:, :, None], "3 dimensions, not 2"),
    "flat": (lambda a: a.reshape(-1), "1 dimension, not 2"),
    "a row less": (lambda a: a[:-1], "different n"),
    "lists": (lambda a: a.tolist(), ""),
    "by columns": (np.asfortranarray, ""),
    "every second row": (lambda a: np.repeat(a, 2, axis=0)[::2], ""),
    "backwards": (lambda a: a[::-1, ::-1].copy()[::-1, ::-1], ""),
    "misaligned": (_misaligned, ""),
    "one row again and again": (lambda a: np.broadcast_to(a[0], a.shape), ""),
    "of another class": (lambda a: a.view(type("Mine", (np.ndarray,), {})), ""),
}


@pytest.mark.parametrize("named", CHANGES)
def test_arguments_are_checked_after_valid_calls(named: str) -> None:
    change, refused = CHANGES[named]
    rows, by = atl.tensor("A", n, m, dtype="float64"), atl.tensor("B", n, dtype="float64")
    kernel = compiled(atl.program("scaled", [rows, by], atl.gen(n, m, lambda i, j: rows[i, j] * by[i])))
    matrix, vector = np.arange(15.0).reshape(5, 3), np.arange(1.0, 6.0)
    for _ in range(2):
        assert np.array_equal(kernel(matrix, vector), matrix * vector[:, None])
    given = change(matrix)
    for _ in range(2):
        if refused:
            with pytest.raises(ATLError, match=refused):
                kernel(given, vector)
        else:
            assert np.array_equal(kernel(given, vector), np.asarray(given) * vector[:, None])


def test_cached_scalar_argument_is_converted_as_in_c() -> None:
    x, s = atl.tensor("x", n), atl.tensor("s")
    kernel = compiled(atl.program("scaled", [x, s], atl.gen(n, lambda i: x[i] * s)))
    ones = np.ones(3, np.float32)
    for _ in range(2):
        assert np.array_equal(kernel(ones, 2.0), [2, 2, 2])
    assert np.isnan(kernel(ones, float("nan"))).all()
    assert np.array_equal(kernel(ones, float("inf")), [np.inf] * 3)
    for wrong in (1e39, -1e300, np.ones(1, np.float32), "1", 2**70 + 1):
        with pytest.raises(ATLError):
            kernel(ones, wrong)
