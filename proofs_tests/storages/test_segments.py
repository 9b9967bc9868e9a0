"""Places in segments: the antidiagonals of a square one after the other, proved for every size, and faults in them."""

from __future__ import annotations

from typing import Any

import pytest

import atl
from atl.prove import Proved, Refuted, Unknown
from layouts import IndexFunction, NoLayout, NotByTable, Segments, column_major, injective
from layouts.errors import LayoutError
from rewrites import reschedule

n, m = atl.sizes("n m")


def square(size: Any, *, begins: int = 0, length: int = 0, back: int = 0) -> IndexFunction:
    """Antidiagonal d has min(d, n - 1) - max(0, d - n + 1) + 1 elements, and begins after those before it."""

    def first(d: Any) -> Any:
        return atl.imax(0, d - size + 1)

    def beyond(d: Any) -> Any:
        return atl.imax(0, d - size)

    diagonals = Segments(
        2 * size - 1,
        lambda d: d * (d + 1) // 2 - beyond(d) * (beyond(d) + 1) + begins * d,
        lambda d: atl.imin(d, size - 1) - first(d) + 1 + length,
    )
    return IndexFunction(
        (size, size),
        lambda i, j: (i + j, i - first(i + j)),
        lambda d, q: (q + first(d) + back, d - q - first(d)),
        onto=diagonals,
        name="antidiagonals",
    )


def test_the_antidiagonals_of_a_square_have_places_of_their_own_for_every_size() -> None:
    assert isinstance(injective(square(n)), Proved)
    assert isinstance(injective(square(4)), Proved)


@pytest.mark.parametrize("size", [1, 2, 5])
def test_they_lie_one_after_the_other(size: int) -> None:
    elements = sorted(((i, j) for i in range(size) for j in range(size)), key=lambda at: (sum(at), at[0]))
    layout = square(n).where(n=size)
    assert [layout(i, j) for i, j in elements] == list(range(size * size))
    assert sorted(layout.table().tolist()) == list(range(size * size))


def test_segments_that_meet_are_refuted_and_room_between_them_is_none_of_a_proof_s_concern() -> None:
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
    [({"length": 1}, "of the segments"), ({"length": -1}, "of the segments"), ({"back": 1}, "way back")],
    ids=["too long", "too short", "back"],
)
def test_what_does_not_follow_is_not_proved(fault: dict[str, int], reason: str) -> None:
    """The functions are injective all the same: what is wrong is what is said of them."""
    answer = injective(square(n, **fault))
    assert isinstance(answer, Unknown)
    assert reason in answer.reason


def test_a_key_that_is_none_of_a_segment_is_not_proved() -> None:
    rows = Segments(n - 1, lambda i: m * i, lambda _: m)
    answer = injective(IndexFunction((n, m), lambda i, j: (i, j), lambda i, j: (i, j), onto=rows))
    assert isinstance(answer, Unknown)
    assert "i0 + 1 < n, of the segments" in answer.reason


def test_rows_whose_pitch_grows_are_segments() -> None:
    growing = Segments(n, lambda i: i * m + i * i, lambda _: m)
    rows = IndexFunction((n, m), lambda i, j: (i, j), lambda i, j: (i, j), onto=growing)
    assert injective(rows) == Proved("linear")
    assert [rows.where(n=3, m=2)(i, j) for i in range(3) for j in range(2)] == [0, 1, 3, 4, 8, 9]
    with pytest.raises(NotByTable, match="m is not known"):
        IndexFunction((n, 2), lambda i, j: (i, j), onto=growing).where(n=3).table()
    shrinking = Segments(n, lambda i: -2 * i * m, lambda _: 2)  # made of a size that the shape has not
    met = injective(IndexFunction((n, 2), lambda i, j: (i, m * j), lambda i, q: (i, q), onto=shrinking))
    assert isinstance(met, Refuted)


def test_what_is_no_segment_is_refused_and_so_is_storing_in_them() -> None:
    with pytest.raises(atl.errors.WrongArgument, match="3 is no function"):
        Segments(n, 3, lambda _: m)  # type: ignore[arg-type]
    with pytest.raises(LayoutError, match="3 digits of a place in segments"):
        Segments(n, lambda i: i, lambda _: m).join((1, 2, 3))
    program = atl.program("f", [atl.tensor("A", n, n)], 2 * atl.tensor("A", n, n))
    with pytest.raises(NoLayout, match="a place that is joined of segments"):
        reschedule(program).store("A", square(n))
    assert reschedule(program).store("A", column_major).check()


def test_a_formula_that_chooses_is_computed_for_arrays_as_for_numbers() -> None:
    """The greater of two indices, a quotient by an index, an exclusive or, put for sizes."""
    made = IndexFunction((n, m), lambda i, j: atl.imax(i, 2 * j) * 5 + (i + 7) // (j + 1) + (i ^ j)).where(n=4, m=3)
    wanted = [max(i, 2 * j) * 5 + (i + 7) // (j + 1) + (i ^ j) for j in range(3) for i in range(4)]
    assert made.table().tolist() == wanted
    assert [made(i, j) for j in range(3) for i in range(4)] == wanted
