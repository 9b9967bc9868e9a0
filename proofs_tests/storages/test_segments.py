"""Storages in segments, such as the antidiagonals of a square: proofs for all sizes, and planted faults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.index import constant
from atl.prove import Proved, Refuted, Unknown
from atl.surface.reindexing import Packing, Reindexing
from layouts import CannotTabulate, IndexFunction, NoLayout, Segments, bijective, injective
from layouts.errors import LayoutError
from proofs_tests.storages.storages import faults_in_c
from rewrites import reschedule
from rewrites.errors import NotInjective

n, m = atl.sizes("n m")


def square(size: Any, *, begins: int = 0, length: int = 0, back: int = 0, places: int = 0) -> IndexFunction:
    """Return consecutive antidiagonals; number d has min(d, n - 1) - max(0, d - n + 1) + 1 elements."""

    def first(d: Any) -> Any:
        return atl.imax(0, d - size + 1)

    def beyond(d: Any) -> Any:
        return atl.imax(0, d - size)

    diagonals = Segments(
        2 * size - 1,
        lambda d: d * (d + 1) // 2 - beyond(d) * (beyond(d) + 1) + begins * d,
        lambda d: atl.imin(d, size - 1) - first(d) + 1 + length,
        size=size * size + places,
    )
    return IndexFunction(
        (size, size),
        lambda i, j: (i + j, i - first(i + j)),
        lambda d, q: (q + first(d) + back, d - q - first(d)),
        onto=diagonals,
        name="antidiagonals",
    )


@pytest.mark.long
def test_antidiagonals_are_injective_for_all_sizes() -> None:
    assert isinstance(injective(square(n)), Proved)
    assert isinstance(injective(square(4)), Proved)
    assert isinstance(bijective(square(n)), Proved)
    assert isinstance(bijective(square(n, begins=1)), Refuted)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_antidiagonals_are_consecutive(size: int) -> None:
    elements = sorted(((i, j) for i in range(size) for j in range(size)), key=lambda at: (sum(at), at[0]))
    layout = square(n).where(n=size)
    assert [layout(i, j) for i, j in elements] == list(range(size * size))
    assert sorted(layout.table().tolist()) == list(range(size * size))


def test_overlapping_segments_are_refuted_and_gaps_allowed() -> None:
    met = injective(square(n, begins=-1))
    assert isinstance(met, Refuted)
    numbers = {name: int(str(value)) for name, value in met.model.numbers.items()}
    layout = square(n, begins=-1).where(n=numbers["n"])
    one, other = ((numbers[f"{x}0"], numbers[f"{x}1"]) for x in "ij")
    assert one != other
    assert layout(*one) == layout(*other)
    assert isinstance(injective(square(n, begins=1)), Proved)


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"length": 1}, "on the segments"),
        ({"length": -1}, "on the segments"),
        ({"back": 1}, "the inverse is not proved"),
    ],
    ids=["too long", "too short", "back"],
)
def test_wrong_segments_or_inverses_are_not_proved(fault: dict[str, int], reason: str) -> None:
    """The functions are injective, but their declared segments or inverse are wrong."""
    answer = injective(square(n, **fault))
    assert isinstance(answer, Unknown)
    assert reason in answer.reason


def test_segment_key_out_of_range_is_not_proved() -> None:
    rows = Segments(n - 1, lambda i: m * i, lambda _: m)
    answer = injective(IndexFunction((n, m), lambda i, j: (i, j), lambda i, j: (i, j), onto=rows))
    assert isinstance(answer, Unknown)
    assert "i0 + 1 < n on the segments" in answer.reason


def test_rows_with_growing_pitch_are_segments() -> None:
    growing = Segments(n, lambda i: i * m + i * i, lambda _: m)
    rows = IndexFunction((n, m), lambda i, j: (i, j), lambda i, j: (i, j), onto=growing)
    assert injective(rows) == Proved("linear")
    assert [rows.where(n=3, m=2)(i, j) for i in range(3) for j in range(2)] == [0, 1, 3, 4, 8, 9]
    with pytest.raises(CannotTabulate, match="the value of m is unknown"):
        IndexFunction((n, 2), lambda i, j: (i, j), onto=growing).where(n=3).table()
    shrinking = Segments(n, lambda i: -2 * i * m, lambda _: 2)  # depends on a size that is not in the shape
    met = injective(IndexFunction((n, 2), lambda i, j: (i, m * j), lambda i, q: (i, q), onto=shrinking))
    assert isinstance(met, Refuted)


def of_shape(function: Callable[..., IndexFunction], **fault: int) -> Callable[[Sequence[Any]], IndexFunction]:
    """Return the function as a storage, from the shape of a tensor."""
    return lambda shape: function(atl.IndexExpr(shape[0]), **fault)


@pytest.mark.long
def test_tensor_is_stored_in_segments() -> None:
    program = atl.parse(
        "f (A : float32[n, n]) : float32[n, n] := let y := 2 * A in ⊞[i < n] ⊞[j < n] y[j, i] + y[i, j]"
    )
    s = reschedule(program).store("y", of_shape(square))
    stored = " ".join(str(s.goal).split())
    assert "Σ[d < max(0, 2*n - 1)] Σ[q < min(n - 1, d) - max(0, d - n + 1) + 1] place (n*n)" in stored
    for size in (0, 1, 4):
        given = np.arange(size * size, dtype=np.float32).reshape(size, size)
        assert np.array_equal(atl.evaluate(s.goal, A=given), 2 * (given + given.T))
    assert faults_in_c([s]) == []
    with pytest.raises(atl.errors.InvalidArgument, match="packed segments"):
        reschedule(program).store("y", of_shape(square), loops="elements")
    without = IndexFunction((n, n), lambda i, j: (i, j), onto=Segments(n, lambda i: i * n, lambda i: n))
    with pytest.raises(NoLayout, match="inverse=, for locations in segments"):
        reschedule(program).store("y", without)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        ({"begins": -1}, "each segment ends before the next begins"),
        ({"length": 1}, "each segment is within the places"),
        ({"length": -1}, "would be lost"),
        ({"places": -1}, "each segment is within the places"),
        ({"back": 1}, "would both be stored|would be lost"),
    ],
    ids=["begins", "too long", "too short", "places", "back"],
)
def test_faulty_segments_are_refused_with_numbers(fault: dict[str, int], message: str) -> None:
    program = atl.parse("f (A : float32[n, n]) : float32[n, n] := 2 * A")
    with pytest.raises(NotInjective, match=message):
        reschedule(program).store("A", of_shape(square, **fault))


def test_input_in_segments_is_read_in_place() -> None:
    def lower(size: Any) -> IndexFunction:
        rows = Segments(size, lambda i: i * (i + 1) // 2, lambda i: i + 1)
        return IndexFunction((size, size), lambda i, j: (atl.imax(i, j), atl.imin(i, j)), onto=rows)

    program = atl.parse("f (A : float32[n, n], x : float32[n]) : float32[n] := ⊞[i < n] Σ[j < n] A[i, j] * x[j]")
    s = reschedule(program).view("A", of_shape(lower))
    packed = np.arange(1, 11, dtype=np.float32)
    whole = np.zeros((4, 4), dtype=np.float32)
    whole[np.tril_indices(4)] = packed
    whole = np.maximum(whole, whole.T)
    x = np.arange(4, dtype=np.float32)
    assert np.array_equal(atl.evaluate(s.goal, A_laid=packed, x=x), whole @ x)


def test_segment_formulas_have_a_key_and_a_position() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")
    shape = (n.node, m.node)
    pitch = Packing(lambda k: k * (m + 1), lambda _: m, (n * (m + 1)).node)
    s = reschedule(program).view("A", Reindexing(shape, shape, lambda i, j: (i, j), lambda k, q: (k, q), pitch))
    laid = np.arange(12, dtype=np.float32)
    assert np.array_equal(atl.evaluate(s.goal, A_laid=laid, n=3, m=3), 2 * laid.reshape(3, 4)[:, :3])
    one = constant(1)
    for places, packing in (((*shape, one), pitch), (shape, "pitch")):
        with pytest.raises(atl.errors.InvalidArgument, match="a key and a position"):
            Reindexing(shape, places, lambda i, j: (i, j, 0), None, packing)  # type: ignore[arg-type]


def test_invalid_segments_are_refused() -> None:
    with pytest.raises(atl.errors.InvalidArgument, match="3 is not callable"):
        Segments(n, 3, lambda _: m)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="3 digits for a location in segments"):
        Segments(n, lambda i: i, lambda _: m).join((1, 2, 3))
    program = atl.program("f", [atl.tensor("A", n, n)], 2 * atl.tensor("A", n, n))
    forward = IndexFunction((n, n), lambda i, j: (i, j), onto=Segments(n, lambda i: n * i, lambda _: n))
    with pytest.raises(NoLayout, match="inverse="):
        reschedule(program).store("A", forward)


def test_array_and_scalar_evaluation_agree() -> None:
    made = IndexFunction((n, m), lambda i, j: atl.imax(i, 2 * j) * 5 + (i + 7) // (j + 1) + (i ^ j)).where(n=4, m=3)
    wanted = [max(i, 2 * j) * 5 + (i + 7) // (j + 1) + (i ^ j) for j in range(3) for i in range(4)]
    assert made.table().tolist() == wanted
    assert [made(i, j) for j in range(3) for i in range(4)] == wanted
