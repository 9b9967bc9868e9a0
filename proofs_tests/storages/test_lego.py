"""Tensors stored by LEGO chains: values in C, certificates and refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import atl
from atl import load
from atl.errors import ATLError
from layouts import NoLayout
from layouts.lego import Col, GenP, GroupBy, RegP, Row, TileBy
from lowering import compile as compile_kernel
from rewrites import reschedule

a, b, n, m = atl.sizes("a b n m")

WHOLE = atl.parse("f (A : float32[8*a, 8*b]) : float32[8*a, 8*b] := ⊞[i < 8*a] ⊞[j < 8*b] 2 * A[i, j]")


def turned(tile: int) -> GenP:
    """Return the reversed order of a square."""
    last = tile - 1
    return GenP(
        [tile, tile],
        lambda i, j: (last - i) * tile + last - j,
        lambda x: ((tile * tile - 1 - x) // tile, (tile * tile - 1 - x) % tile),
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    "made",
    [
        lambda: GroupBy([8 * a, 8 * b]).OrderBy(Col(8 * a, 8 * b)),
        lambda: GroupBy([8 * a, 8 * b]).TileOrderBy(Row(a, b), Col(8, 8)),
        lambda: GroupBy([8 * a, 8 * b]).OrderBy(RegP([a, 8, b, 8], [1, 3, 2, 4])).OrderBy(Col(a, b), turned(8)),
        lambda: GroupBy([8 * a, 8 * b]).OrderBy(RegP([2, 4 * a, 8 * b], [2, 1, 3])).OrderBy(Row(4 * a, 16 * b)),
    ],
    ids=["columns", "tiles", "turned tiles", "halves"],
)
def test_tensor_is_stored_by_a_chain(made: Callable[[], GroupBy], tmp_path: Path) -> None:
    theorem = reschedule(WHOLE).store("A", made()).done()
    theorem.save(tmp_path / "stored.atl.json")
    assert load(tmp_path / "stored.atl.json").rhs == theorem.rhs
    kernel = compile_kernel(theorem.rhs)
    for rows, columns in ((1, 1), (2, 3)):
        given = np.random.default_rng(1).random((8 * rows, 8 * columns), dtype=np.float32)
        assert np.array_equal(kernel(given), 2 * given)


def test_unsuitable_lego_layouts_are_refused() -> None:
    with pytest.raises(NoLayout, match="required: 2, as the tensor"):
        reschedule(WHOLE).store("A", TileBy([a, b], [8, 8]))
    with pytest.raises(ATLError, match=r"the layout is for n x m elements, the tensor has 8\*a x 8\*b"):
        reschedule(WHOLE).store("A", GroupBy([n, m]).OrderBy(Row(n, m)))
    copies = GroupBy([4]).OrderBy(GenP([4], lambda i: i // 2))
    vector = atl.parse("g (x : float32[4]) : float32[4] := 2 * x")
    with pytest.raises(NoLayout, match="injective permutations"):
        reschedule(vector).store("x", copies)
