"""Schedules of programs beyond the paper: agreement with NumPy, number of calls, and certificates."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from examples import beyond_the_paper as beyond
from examples.schedules.layers import Array, numpy_attention, numpy_batched, numpy_stencils
from lowering import Kernel
from lowering import compile as compile_kernel
from rewrites import Session
from rewrites.certificates.certificate import dumps, loads

Shapes = tuple[tuple[int, ...], ...]
PICTURES: list[Shapes] = [((1, 1),), ((1, 7),), ((2, 2),), ((5, 3),), ((13, 17),), ((31, 33),)]
LARGER: list[Shapes] = [((4, 5),), ((5, 7),), ((9, 13),), ((16, 23),)]
PRODUCTS: list[Shapes] = [
    ((b, m, k), (b, k, n))
    for b, m, k, n in (
        (1, 1, 1, 1), (2, 3, 5, 7), (0, 4, 2, 3), (3, 8, 4, 16), (2, 17, 9, 33), (1, 5, 0, 2),
    )
]  # fmt: skip
HEADS: list[Shapes] = [
    ((rows, d), (s, d), (s, e))
    for rows, s, d, e in ((1, 1, 1, 1), (2, 3, 5, 7), (8, 16, 4, 8), (17, 19, 8, 5), (33, 40, 9, 23))
]

SCHEDULES: dict[str, tuple[Callable[[], Session], Callable[..., Array], list[Shapes], int]] = {
    # name: (derivation, what it computes, the shapes of its inputs, how many calls it takes)
    "stencils, fused": (beyond.stencils_fused, numpy_stencils, PICTURES, 1),
    "stencils, by rows": (beyond.stencils_by_rows, numpy_stencils, PICTURES, 1),
    "stencils, tiled": (lambda: beyond.stencils_tiled(2, 3), numpy_stencils, LARGER, 4),
    "batched product, blocked": (beyond.batched_product_blocked, numpy_batched, PRODUCTS, 8),
    "batched product, one row": (beyond.batched_product_one_row, numpy_batched, PRODUCTS, 1),
    "batched product, flat": (beyond.batched_product_flat, numpy_batched, [s for s in PRODUCTS if s[0][1]], 2),
    "attention, by rows": (beyond.attention_by_rows, numpy_attention, HEADS, 7),
    "attention, in blocks": (beyond.attention_in_blocks, numpy_attention, HEADS, 8),
}


@cache
def derived(name: str) -> tuple[Session, Kernel, Kernel]:
    session = SCHEDULES[name][0]()
    theorem = session.done()
    return session, compile_kernel(theorem.lhs), compile_kernel(theorem.rhs)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_agrees_with_numpy(name: str) -> None:
    _, _, kernel = derived(name)
    numbers = np.random.default_rng(7)
    for shapes in SCHEDULES[name][2]:
        arrays = [numbers.random(shape, np.float32) for shape in shapes]
        wanted = SCHEDULES[name][1](*(array.astype(np.float64) for array in arrays))
        np.testing.assert_allclose(kernel(*arrays), wanted, rtol=2e-5, atol=1e-6, err_msg=str(shapes))


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", [name for name in SCHEDULES if "attention" not in name])
def test_schedule_agrees_exactly_with_its_start_on_integers(name: str) -> None:
    _, start, kernel = derived(name)
    numbers = np.random.default_rng(7)
    for shapes in SCHEDULES[name][2]:
        arrays = [numbers.integers(-8, 9, shape).astype(np.float32) for shape in shapes]
        np.testing.assert_array_equal(kernel(*arrays), start(*arrays), err_msg=str(shapes))


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCHEDULES)
def test_schedule_takes_few_calls_and_replays(name: str) -> None:
    session, _, _ = derived(name)
    assert len(session.steps) <= SCHEDULES[name][3]
    theorem = session.done()
    again = loads(dumps(theorem))
    assert (again.lhs, again.rhs) == (theorem.lhs, theorem.rhs)
    made: dict[str, Any] = {}
    exec(theorem.as_python(), made)
    assert (made["theorem"].lhs, made["theorem"].rhs) == (theorem.lhs, theorem.rhs)


@pytest.mark.long
def test_inner_stencil_tiles_run_without_tests() -> None:
    text = str(derived("stencils, tiled")[0].goal)
    inner = text.split("⊞[1 <= yo <")[1].split("⊞[1 <= xo <")[1].split("++", maxsplit=1)[0]
    assert "once[yi, xi + 1]" in inner
    assert "] ·" not in inner


@pytest.mark.long
def test_attention_buffers_have_the_size_of_a_row() -> None:
    lets = [line for line in str(derived("attention, by rows")[0].goal).splitlines() if "let " in line]
    assert len(lets) == 5
    assert not any("< L]" in line for line in lets)
