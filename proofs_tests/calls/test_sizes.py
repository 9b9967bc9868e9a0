"""Sizes of a call that extents with several sizes determine, as those of convolutions do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import ArgumentError, ArrayError
from lowering import compile as compiled

W, KW, n = atl.sizes("W KW n")
S, D = atl.sizes("S", min=1), atl.sizes("D", min=1)


def convolution(stride: Any = 1, dilation: Any = 1) -> atl.Program:
    x, taps = atl.tensor("x", stride * (W - 1) + dilation * (KW - 1) + 1), atl.tensor("taps", KW)
    body = atl.gen(W, lambda i: atl.sum(KW, lambda r: x[stride * i + dilation * r] * taps[r]))
    return atl.program("convolution", [x, taps], body, given=[W >= 1, KW >= 1])


CASES: Final[dict[str, tuple[Callable[[], atl.Program], int, dict[str, int]]]] = {
    "plain": (convolution, 8, {}),
    "strided": (lambda: convolution(2), 13, {}),
    "dilated": (lambda: convolution(1, 3), 12, {}),
    "strided and dilated": (lambda: convolution(2, 3), 17, {}),
    "by keywords": (lambda: convolution(S, D), 17, {"S": 2, "D": 3}),
}


@pytest.mark.parametrize("name", CASES)
def test_width_of_a_convolution_is_found(name: str) -> None:
    make, extent, named = CASES[name]
    program = make()
    stride = named.get("S", 2 if "strided" in name else 1)
    dilation = named.get("D", 3 if "dilated" in name else 1)
    assert set(program.free_sizes) == set(named)
    x, taps = np.arange(extent, dtype=np.float32), np.array([1, 10, 100], np.float32)
    window = np.stack([x[r * dilation : extent - (2 - r) * dilation : stride] for r in range(3)], 1)
    calls: list[Any] = [compiled(program), partial(atl.evaluate, program)]
    for call in calls:
        np.testing.assert_array_equal(call(x, taps, **named), window @ taps)


def test_keyword_must_agree_with_the_extents() -> None:
    kernel = compiled(convolution())
    x, taps = np.zeros(8, np.float32), np.zeros(3, np.float32)
    assert kernel(x, taps, W=6).shape == (6,)
    with pytest.raises(ArrayError, match="dimension 0 of x has 8 elements, not 7"):
        kernel(x, taps, W=5)


def test_extent_that_no_size_has_is_refused_with_the_other_sizes() -> None:
    with pytest.raises(ArrayError, match=r"(?s)has 8 elements, which is not 2\*W \+ KW - 2 for any W.*KW = 3"):
        compiled(convolution(2))(np.zeros(8, np.float32), np.zeros(3, np.float32))
    with pytest.raises(ArrayError, match="has 1 element, which is not"):
        compiled(convolution())(np.zeros(1, np.float32), np.zeros(3, np.float32))


def test_sizes_that_depend_on_each_other_are_keywords() -> None:
    # Neither extent determines one of the sizes; each does once the other size is known.
    x, y = atl.tensor("x", n + W), atl.tensor("y", n + 2 * W)
    program = atl.program("both", [x, y], atl.gen(n, lambda i: x[i] + y[i]))
    assert set(program.free_sizes) == {"n", "W"}
    with pytest.raises(ArgumentError, match="no array determines the sizes"):
        compiled(program)(np.zeros(5, np.float32), np.zeros(7, np.float32))
    assert compiled(program)(np.zeros(5, np.float32), np.zeros(7, np.float32), n=3).shape == (3,)


def test_size_with_a_factor_that_may_be_zero_is_a_keyword() -> None:
    x, y = atl.tensor("x", n * W), atl.tensor("y", n)
    assert atl.program("f", [x, y], atl.gen(W, lambda i: y[0] + x[0] * 0), given=[n >= 1]).free_sizes == ("W",)
