"""Schedules of everyday programs: agreement with NumPy, number of calls, and branch-free inner loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from examples import everyday as scheduled
from examples.schedules import everyday
from examples.schedules.everyday import Array
from lowering import Kernel, lower
from lowering import compile as compile_kernel
from lowering.nest.loopnest import Choose, If, statements
from proofs_tests.examples.shapes import Size, dims
from proofs_tests.nests.by_hand import innermost, parts
from rewrites import Session
from rewrites.certificates.certificate import dumps, loads

SIZES = (0, 1, 7, 64, 97)


@dataclass(frozen=True)
class Case:
    """A schedule, its meaning, random inputs for a choice of sizes, and the number of its calls.

    `error` bounds the error of float32 sums: about one rounding error for each term, for terms of the order of one.
    Other results have an error of a few roundings.
    """

    schedule: Callable[[], Session]
    numpy: Callable[..., Array]
    arrays: Callable[[np.random.Generator, Size], tuple[Array, ...]]
    calls: int
    error: float = 0.0


def floats(random: np.random.Generator, *shape: int) -> Array:
    return random.standard_normal(shape).astype(np.float32)


def of_shapes(spec: str) -> Callable[[np.random.Generator, Size], tuple[Array, ...]]:
    return lambda random, size: tuple(floats(random, *shape) for shape in dims(spec)(size, size))


def _picture(random: np.random.Generator, size: Size) -> tuple[Array, ...]:
    return floats(random, size(), size()), floats(random, everyday.TAPS)


def _levels(random: np.random.Generator, size: Size) -> tuple[Array, ...]:
    return (random.integers(0, 11, size()),)


CASES = {
    "gaussian": Case(scheduled.gaussian_by_strips, everyday.numpy_gaussian, _picture, 4, 1e-5),
    "triangular product": Case(scheduled.triangular_by_rows, everyday.numpy_triangular, of_shapes("nn nm"), 1, 1e-4),
    "mttkrp": Case(scheduled.mttkrp_factored, everyday.numpy_mttkrp, of_shapes("ijk jr kr"), 2, 2e-3),
    "packed product": Case(
        lambda: scheduled.product_packed(8, 32), everyday.numpy_product, of_shapes("ik kj"), 5, 1e-4
    ),
    "perceptron": Case(scheduled.perceptron_in_blocks, everyday.numpy_perceptron, of_shapes("nd dh h hc c"), 3, 1e-3),
    "softmax": Case(scheduled.softmax_by_rows, everyday.numpy_softmax, of_shapes("ij"), 7),
    "two steps": Case(scheduled.two_steps_in_tiles, everyday.numpy_two_steps, of_shapes("ijk"), 4, 1e-5),
    "histogram": Case(scheduled.histogram_by_elements, lambda level: everyday.numpy_histogram(level, 11), _levels, 2),
}


@cache
def derived(name: str) -> tuple[Session, Kernel]:
    session = CASES[name].schedule()
    return session, compile_kernel(session.goal)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("size", [*SIZES, "mixed"])
@pytest.mark.parametrize("name", CASES)  # varies more slowly, so one process runs all sizes of a schedule
def test_schedule_agrees_with_numpy_at_every_size(name: str, size: int | str) -> None:
    case, (_, kernel) = CASES[name], derived(name)
    random = np.random.default_rng(5)
    for _ in range(4 if size == "mixed" else 1):
        arrays = case.arrays(random, lambda: int(random.choice(SIZES)) if size == "mixed" else int(size))
        keywords: dict[str, Any] = {"bins": 11} if name == "histogram" else {}
        wanted = case.numpy(*(array if array.dtype == np.int64 else array.astype(np.float64) for array in arrays))
        np.testing.assert_allclose(kernel(*arrays, **keywords), wanted, rtol=1e-5, atol=case.error)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_schedule_takes_few_calls_and_its_certificate_is_accepted(name: str) -> None:
    session, _ = derived(name)
    assert len(session.steps) <= CASES[name].calls
    theorem = session.done()
    again = loads(dumps(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)


@pytest.mark.sampled
@pytest.mark.parametrize("name", CASES)
def test_innermost_loops_are_branch_free(name: str) -> None:
    loops = list(innermost(lower(derived(name)[0].goal).body))
    assert loops
    assert not any(isinstance(inner, If) for loop in loops for inner in statements(loop.body))
    assert not any(isinstance(part, Choose) for loop in loops for part in parts(loop.body))
