"""Schedules of `examples.fast_layers` and `examples.fast_images`: agreement with NumPy, and accepted certificates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import pytest

from examples import fast_images, fast_layers
from examples.schedules import images, networks
from lowering import Kernel
from lowering import compile as compile_kernel
from proofs_tests.examples.shapes import Shapes, Size, dims
from rewrites import Session
from rewrites.certificates.certificate import dumps, loads

pytestmark = pytest.mark.sampled

SIZES: Final = (0, 1, 7, 64, 97)
FEW: Final = (0, 1, 2, 5)


@dataclass(frozen=True)
class Case:
    """A schedule, its meaning, the shapes of its inputs for a choice of sizes, and the number of its calls.

    `size` returns any of the sizes, `few` a small one. `least` is the smallest size for which the program is meant.
    `error` bounds the error of float32 results, relative to the greatest element.
    """

    schedule: Callable[[], Session]
    numpy: Callable[..., Any]
    shapes: Callable[[Size, Size], Shapes]
    calls: int
    least: int = 0
    error: float = 2e-6


CASES: Final = {
    "dense layer": Case(fast_layers.dense_gelu_by_panels, networks.numpy_dense_gelu, dims("nd dh h"), 8),
    "dense layer, small tiles": Case(
        lambda: fast_layers.dense_gelu_by_panels(2, 4), networks.numpy_dense_gelu, dims("nd dh h"), 8
    ),
    "attention": Case(
        lambda: fast_layers.multi_head_attention_in_registers(4, 8),
        networks.numpy_multi_head_attention,
        dims("Bqe Bke Bkv"),
        17,
        least=1,
        error=1e-5,
    ),
    "unsharp mask, rows": Case(fast_images.unsharp_mask_by_rows, images.numpy_unsharp_mask, dims("nm"), 7, least=1),
    "unsharp mask, ring": Case(fast_images.unsharp_mask_by_ring, images.numpy_unsharp_mask, dims("nm"), 4, least=1),
    "unsharp mask, strips": Case(
        lambda: fast_images.unsharp_mask_in_strips(3), images.numpy_unsharp_mask, dims("nm"), 7, least=1
    ),
    "corners": Case(lambda: fast_images.harris_in_strips(5), images.numpy_harris, dims("nm"), 15, least=1),
}


@cache
def derived(name: str) -> tuple[Session, Kernel]:
    session = CASES[name].schedule()
    return session, compile_kernel(session.goal)


@pytest.mark.parametrize("size", [*SIZES, "mixed"])
@pytest.mark.parametrize("name", CASES)  # varies more slowly, so one process runs all sizes of a schedule
def test_schedule_agrees_with_numpy_at_every_size(name: str, size: int | str) -> None:
    case, (_, kernel) = CASES[name], derived(name)
    random = np.random.default_rng(5)
    for _ in range(6 if size == "mixed" else 1):
        shapes = case.shapes(
            lambda: max(case.least, int(random.choice(SIZES)) if size == "mixed" else int(size)),
            lambda: max(case.least, int(random.choice(FEW)) if size == "mixed" else min(int(size), FEW[-1])),
        )
        arrays = [random.standard_normal(shape).astype(np.float32) for shape in shapes]
        wanted = case.numpy(*(array.astype(np.float64) for array in arrays))
        allowed = case.error * float(np.abs(wanted).max(initial=1.0))
        np.testing.assert_allclose(kernel(*arrays), wanted, rtol=0, atol=allowed)


@pytest.mark.parametrize("name", CASES)
def test_schedule_takes_few_calls_and_its_certificate_is_accepted(name: str) -> None:
    session, _ = derived(name)
    assert len(session.steps) == CASES[name].calls
    theorem = session.done()
    again = loads(dumps(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)
