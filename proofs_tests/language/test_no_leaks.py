"""Nothing that is known of one program is used for another that has equal names."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl import Program
from atl.errors import UnsafeAccess
from lowering import compile as compile_kernel

n, k = atl.sizes("n k")
A = atl.tensor("A", k)


def gather(f: atl.Tensor) -> Program:
    return atl.program("gather", [A, f], atl.gen(n, lambda i: A[f[i]]))


def test_the_range_of_an_array_is_not_taken_from_another_of_the_same_name() -> None:
    atl.check_safe(gather(atl.tensor("f", n, dtype="int32", range=(0, k))))
    with pytest.raises(UnsafeAccess):
        atl.check_safe(gather(atl.tensor("f", n, dtype="int32")))
    atl.check_safe(gather(atl.tensor("f", n, dtype="int32", range=(0, k))))


@pytest.mark.parametrize("order", [(2, 0), (0, 2)])
def test_the_least_value_of_a_size_is_not_taken_from_another_of_the_same_name(order: tuple[int, int]) -> None:
    for least in order:
        m = atl.sizes("m", min=least)
        made = atl.program("p", [], atl.gen(m, lambda i, m=m: atl.guard(~(m == i), 1.0)))
        assert bool(made.assumptions) == (least > 0)


def test_a_flattening_of_rows_without_elements_is_empty() -> None:
    x = atl.tensor("x", n, 0)
    kernel = compile_kernel(atl.program("none", [x], atl.abs(atl.flatten(x))))
    assert kernel(np.zeros((3, 0), np.float32)).shape == (0,)
