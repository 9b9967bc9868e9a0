"""Inputs passed in a layout: read at their locations, copies too, with a theorem about their meaning."""

from __future__ import annotations

from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl import load
from atl.errors import ATLError, InvalidArgument
from layouts import Box, IndexFunction, Layout, blocked, column_major
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import body, k, m, matmul
from proofs_tests.storages.storages import STORAGES, T, at_sizes, variables
from rewrites import DoesNotApply, reschedule
from rewrites.errors import NotInjective

A = np.random.default_rng(0).integers(-4, 5, (5, 9)).astype(np.float32)
B = np.random.default_rng(1).integers(-4, 5, (9, 13)).astype(np.float32)


@pytest.mark.sampled
@pytest.mark.parametrize("name", STORAGES)
def test_viewed_operand_is_read_in_place(name: str) -> None:
    layout = STORAGES[name]
    s = reschedule(matmul(), given=[T >= 1]).view("B", layout)
    made = _stored(layout)
    known = {"k": 9, "m": 13, "T": 3}
    sizes: dict[str, Any] = {size: known[size] for size in s.goal.free_sizes}
    assert np.array_equal(atl.evaluate(s.goal, A=A, B_laid=made, **sizes), A @ B)
    assert np.array_equal(compiled(s.goal)(A=A, B_laid=made, **sizes), A @ B)


def _stored(layout: Any) -> np.ndarray[Any, Any]:
    """Return B in the layout, element by element."""
    formulas = layout((k.node, m.node)).stored((k.node, m.node))
    sizes = {"k": 9, "m": 13, "T": 3}
    laid = np.full([at_sizes(extent, sizes) for extent in formulas.places], np.nan, np.float32)
    for element, value in np.ndenumerate(B):
        laid[tuple(at_sizes(formula, sizes, element) for formula in formulas.place(variables(2)))] = value
    return laid


def test_view_replays_earlier_steps(tmp_path: Path) -> None:
    s = reschedule(matmul()).tile("p", 4).view("B", column_major)
    assert body(s).endswith("[4*po + pi < k] · A[i, 4*po + pi] * B_laid[j, 4*po + pi]")
    theorem = s.done()
    assert "let B := ⊞[i0 < k] ⊞[i1 < m] B_laid[i1, i0] in" in str(theorem.lhs)
    theorem.save(tmp_path / "viewed.atl.json")
    assert load(tmp_path / "viewed.atl.json").rhs == theorem.rhs
    kernel = compiled(s.goal)
    assert np.array_equal(kernel(A=A, B_laid=np.asfortranarray(B).T), A @ B)


def test_view_may_read_copies() -> None:
    row = compiled(reschedule(matmul()).view("B", Layout((k, m), (0, 1))).goal)
    assert np.array_equal(row(A=A, B_laid=B[0]), A @ np.broadcast_to(B[0], B.shape))
    shared = IndexFunction((k, m), lambda i, j: (i // 2, j), onto=Box(((k + 1) // 2, m), row_major=True))
    pairs = compiled(reschedule(matmul()).view("B", shared).goal)
    assert np.array_equal(pairs(A=A, B_laid=B[:5], k=9), A @ B[np.arange(9) // 2])


def test_overlapping_or_offset_strides_use_flat_addresses() -> None:
    hankel = compiled(reschedule(matmul()).view("B", Layout((k, m), (1, 1))).goal)
    row = np.arange(21, dtype=np.float32)
    assert np.array_equal(hankel(A=A, B_laid=row, k=9, m=13), A @ np.lib.stride_tricks.sliding_window_view(row, 13))
    small = atl.parse("f (x : float32[2, 4]) : float32[2, 4] := 2 * x")
    flat = np.arange(12, dtype=np.float32)
    for strides, offset in (((4, -1), 3), ((-4, 1), 4), ((1, 2), 0), ((6, 1), 2)):
        s = reschedule(small).view("x", Layout((2, 4), strides, offset=offset))
        (laid,) = s.goal.inputs
        wanted = [[flat[offset + i * strides[0] + j * strides[1]] for j in range(4)] for i in range(2)]
        extents = [extent.constant or 0 for extent in laid.shape]
        given = flat[: prod(extents)].reshape(extents)
        assert np.array_equal(atl.evaluate(s.goal, x_laid=given), 2 * np.array(wanted))
    with pytest.raises(NotInjective, match="is not within"):
        reschedule(small).view("x", Layout((2, 4), (4, -1)))


def test_invalid_views_are_refused() -> None:
    outside = IndexFunction((k, m), lambda i, j: (i + 1, j), onto=Box((k, m), row_major=True))
    with pytest.raises(NotInjective, match=r"the element at \(0, 0\) would be lost"):
        reschedule(matmul()).view("B", outside)
    shifted = IndexFunction((k, m), lambda i, j: (i // 2 + 1, j), onto=Box(((k + 1) // 2, m), row_major=True))
    with pytest.raises(NotInjective, match=r"would be lost: its place \(\d+, \d+\) is not within"):
        reschedule(matmul()).view("B", shifted)  # elements may share a location
    with pytest.raises(InvalidArgument, match="no layout"):
        reschedule(atl.parse("f (x : float32) : float32 := 2 * x")).view("x", blocked(4))
    with pytest.raises(ATLError, match="input"):
        reschedule(matmul()).view("C", column_major)
    gathered = atl.parse("f (at : int32[n] in [0, n), x : float32[n]) : float32[n] := ⊞[i < n] x[at[i]]")
    with pytest.raises(DoesNotApply, match="used as indices"):
        reschedule(gathered).view("at", blocked(4))
