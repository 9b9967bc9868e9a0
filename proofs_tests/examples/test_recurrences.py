"""The example programs with recurrences agree with NumPy and SciPy in C and in the interpreter, in linear work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atl
from bench.workloads import recurrences as workloads
from bench.workloads.recurrences import INPUTS, UNITS
from examples import recurrences
from lowering import lower, print_nest
from lowering.timing.operations import operations

numbers = np.random.default_rng(0)


def both(program: atl.Program, *arrays: Any) -> Any:
    """Return the result in C, after a comparison with the interpreter."""
    result = atl.compile(program)(*arrays)
    np.testing.assert_allclose(result, atl.evaluate(program, *arrays), rtol=1e-5, atol=1e-6)
    return result


@pytest.mark.long
@pytest.mark.parametrize("n", [0, 1, 2, 50])
def test_prefix_sum_and_filter(n: int) -> None:
    x = numbers.random(n)
    np.testing.assert_allclose(both(recurrences.prefix_sum(), x.astype("float32")), np.cumsum(x), rtol=1e-5)
    b, a = numbers.random(3), np.array([1.0, -0.5, 0.25])
    expected = workloads.BIQUAD.pose(n).reference(b, a, x) if n else x
    np.testing.assert_allclose(both(recurrences.biquad(), b, a, x), expected, rtol=1e-12)


def test_gated_recurrent_unit() -> None:
    problem = workloads.GRU.pose(3)
    assert [each.shape[-1] for each in problem.inputs] == [INPUTS, INPUTS, UNITS, UNITS, UNITS, UNITS]
    found = atl.compile(recurrences.gru())(*problem.inputs)
    np.testing.assert_allclose(found, problem.expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("n", "m"), [(0, 0), (1, 4), (9, 7)])
def test_alignment(n: int, m: int) -> None:
    a, b = (numbers.integers(0, 3, length, dtype="int32") for length in (n, m))
    scores = -np.add.outer(np.arange(n + 1), np.arange(m + 1))
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            pair = scores[i - 1, j - 1] + (1 if a[i - 1] == b[j - 1] else -1)
            scores[i, j] = max(pair, scores[i - 1, j] - 1, scores[i, j - 1] - 1)
    np.testing.assert_array_equal(both(recurrences.alignment(), a, b), scores)


def test_shortest_paths() -> None:
    d = numbers.random((12, 12), dtype="float32")
    expected = d.copy()
    for k in range(12):
        expected = np.minimum(expected, expected[:, k, None] + expected[k])
    np.testing.assert_allclose(both(recurrences.shortest_paths(), d), expected, rtol=1e-6)


@pytest.mark.parametrize("make", [recurrences.prefix_sum, recurrences.biquad])
def test_work_is_linear(make: Any) -> None:
    program = make()
    small, large = (operations(program, {"n": n}, {}) for n in (1_000, 2_000))
    assert large <= 2 * small + 10
    assert "alloc" not in print_nest(lower(program))
