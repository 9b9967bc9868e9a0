"""Programs in NumPy's spelling are optimized like those written with loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from proofs_tests.recipes.machines import AVX2

n, m, k = atl.sizes("n m k")
x, w, b, c = atl.tensor("x", n, k), atl.tensor("w", k, m), atl.tensor("b", m), atl.tensor("c", n, m)

SPELLINGS: dict[str, tuple[list[Any], Callable[[], Any], str]] = {
    "scaled": ([x, w], lambda: 2 * (x @ w), "tile_sums"),
    "activation": ([x, w], lambda: atl.maximum(x @ w, 0), "tile_sums"),
    "bias": ([x, w, b], lambda: x @ w + b, "tile_sums"),
    "sum": ([c, x, w], lambda: c + 0.5 * (x @ w), "tile_sums"),
    "let": ([x, w, b], lambda: atl.let(x @ w, lambda y: y + b), "fuse_epilogues"),
    "gram": ([x], lambda: x.T @ x, "tile_sums"),
    "softmax": ([c], lambda: atl.let(atl.exp(c), lambda e: e / e.sum(axis=1, keepdims=True)), "fuse_rows"),
}
SIZES = {"n": 19, "m": 35, "k": 7}


@pytest.mark.long
@pytest.mark.parametrize("name", SPELLINGS)
def test_spelling_of_numpy_is_optimized(name: str) -> None:
    inputs, body, fits = SPELLINGS[name]
    program = atl.program(name, inputs, body())
    s = atl.reschedule(program).optimize(machine=AVX2)
    assert s.report is not None
    assert fits in [outcome.recipe.name for outcome in s.report.applied]
    arrays = atl.random_inputs(program, {size: SIZES[size] for size in program.sizes})
    np.testing.assert_allclose(s.compile()(**arrays), atl.compile(program)(**arrays), rtol=1e-5)
    s.optimize(machine=AVX2)


def test_distances_are_left_as_written() -> None:
    """An element that is read twice would be packed once."""
    y = atl.tensor("y", m, k)
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: (x[i, p] - y[j, p]) ** 2))
    assert not atl.reschedule(atl.program("distances", [x, y], body)).optimize(machine=AVX2).steps


@pytest.mark.long
def test_empty_and_huge_sizes_are_accepted_and_unknown_options_refused() -> None:
    program = atl.program("product", [x, w], x @ w)
    for size in (0, 10**9):
        assert atl.reschedule(program).optimize(dict.fromkeys("nmk", size), machine=AVX2).steps
    with pytest.raises(atl.InvalidArgument, match="optimize has no parameter tile"):
        atl.reschedule(program).optimize(SIZES, 1, tile=(4, 16))
