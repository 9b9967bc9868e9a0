"""Predicate tensors: equal to the guards of tiling and storing, and compared with enumeration."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.terms import Let
from layouts import (
    CannotTabulate,
    E,
    IndexFunction,
    Layout,
    LayoutError,
    PredicateTensor,
    blocked,
    composition,
    coordinates,
    flat_divide,
    local_tile,
    zipped_divide,
)
from rewrites import reschedule

n, m, T = atl.sizes("n m T")
A = atl.tensor("A", n, m)

Loop = Callable[[Any, Callable[[Any], Any]], Any]


def in_tiles(loop: Loop, tile: tuple[Any, Any]) -> atl.Program:
    """Return tiled loops over A, with indices and guard from tiled coordinates."""
    cut = zipped_divide(coordinates((n, m)), tile)
    inside = PredicateTensor(cut, (n, m), given=[T >= 1])

    def element(io: Any, jo: Any, ii: Any, ji: Any) -> Any:
        at = (ii, ji), (io, jo)
        return atl.guard(inside(*at), A[tuple(map(atl.IndexExpr, cut(*at)))])

    shape: Any = cut.shape
    (rows, columns), (height, width) = shape[1], tile
    body = loop(
        atl.IndexExpr(rows),
        lambda io: loop(
            atl.IndexExpr(columns), lambda jo: loop(height, lambda ii: loop(width, lambda ji: element(io, jo, ii, ji)))
        ),
    )
    return atl.program("f", [A], body, given=[T >= 1])


TILES: Final = [(8, 4), (T, 4), (4, T), (1, 4)]


@pytest.mark.parametrize("tile", TILES)
def test_predicate_equals_the_guard_of_tile(tile: tuple[Any, Any]) -> None:
    program = atl.program("f", [A], atl.sum(n, lambda i: atl.sum(m, lambda j: A[i, j])), given=[T >= 1])
    assert reschedule(program).tile(["i", "j"], list(tile)).goal.body == in_tiles(atl.sum, tile).body


@pytest.mark.parametrize("tile", TILES)
def test_predicate_equals_the_guard_of_blocked_storage(tile: tuple[Any, Any]) -> None:
    program = atl.program("f", [A], atl.gen(n, lambda i: atl.gen(m, lambda j: 2 * A[i, j])), given=[T >= 1])
    stored = reschedule(program).store("A", blocked(*tile)).goal.body
    assert isinstance(stored, Let)
    assert stored.value == in_tiles(atl.gen, tile).body


def test_tiles_contain_each_element_once() -> None:
    """Test tiles by mode, and the elements of threads in a tile of 4 x 4."""
    threads = Layout((8, 2), (1, 8))
    for rows, columns, height, width in product((1, 3, 4, 5), (1, 2, 7), (1, 2, 4), (3, 4)):
        cuts = [divide(coordinates((rows, columns)), (height, width)) for divide in (zipped_divide, flat_divide)]
        if (height, width) == (4, 4):
            grid = product(range(-(-rows // 4)), range(-(-columns // 4)))
            tiles = [local_tile(coordinates((rows, columns)), (4, 4), at) for at in grid]
            held = [made for tile in tiles if isinstance(made := composition(tile, threads), Layout)]
            assert len(held) == len(tiles)
            _check_each_once(held, (rows, columns))
        for cut in cuts:
            _check_each_once([cut], (rows, columns))


def _check_each_once(cuts: list[Layout], shape: tuple[int, int]) -> None:
    found = []
    for cut in cuts:
        predicate = PredicateTensor(cut, shape)
        table = predicate.table()
        inside = [bool((place < shape).all()) for place in cut.table()]
        assert table.tolist() == inside
        size = cut.size
        assert isinstance(size, int)
        assert [predicate(at) for at in range(size)] == inside
        assert predicate(np.arange(size)).tolist() == inside
        found += [tuple(place) for place, is_there in zip(cut.table().tolist(), inside, strict=True) if is_there]
    assert sorted(found) == sorted(product(*map(range, shape)))


def test_predicate_at_numbers_has_the_truth_values() -> None:
    inside = PredicateTensor(zipped_divide(coordinates((n, m)), (T, 4)), (n, m), given=[T >= 2])
    at_numbers = inside.where(n=5, m=6, T=3)
    assert str(at_numbers) == "((3,4),(2,2)):((E(0),E(1)),(3*E(0),4*E(1))) within (5,6)"
    for ii, ji, io, jo in product(range(3), range(4), range(2), range(2)):
        assert at_numbers((ii, ji), (io, jo)) is (3 * io + ii < 5 and 4 * jo + ji < 6)
    with pytest.raises(LayoutError, match="n = 5, m = 6, T = 1 contradicts"):
        inside.where(n=5, m=6, T=1)


def test_known_conditions_are_omitted() -> None:
    io, ii = atl.sizes("io ii")
    cut = zipped_divide(coordinates(n), 8)
    assert str(PredicateTensor(cut, n)(ii, io)) == "8*io + ii < n"
    assert str(PredicateTensor(cut, n, given=[n % 8 == 0])(ii, io)) == "true"
    assert (
        str(PredicateTensor(Layout((8, 4), (E(0), -8 * E(0)), offset=E(0) * (n - 8)), n)(ii, io)) == "8*io + 7 < ii + n"
    )
    assert str(PredicateTensor(cut, n)(9, io)) == "8*io + 9 < n"


def test_zero_strides_test_the_first_element() -> None:
    assert PredicateTensor(Layout(3, 0), (4, 2)).table().tolist() == [True] * 3
    assert PredicateTensor(Layout(3, E(0)), (2, 2)).table().tolist() == [True, True, False]
    assert PredicateTensor(Layout(3, 0), (4, 2))(1) is True


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: PredicateTensor(Layout(3, 2), 4), LayoutError, "the values of 3:2 are not coordinates"),
        (lambda: PredicateTensor(coordinates((3, 4)), 4), LayoutError, r"has 2 axes, the shape \(4\) has 1"),
        (lambda: PredicateTensor(coordinates(n), n).table(), CannotTabulate, "depends on symbolic sizes"),
        (lambda: PredicateTensor(coordinates(n), n)(np.arange(3)), CannotTabulate, "depends on symbolic sizes"),
        (lambda: PredicateTensor(coordinates((3, n)), (3, n))(np.arange(3), n), LayoutError,
            "arrays and index expressions"),
        (lambda: PredicateTensor(coordinates((3, n)), (3, n))(n - n - 1 + 0 * n, n), LayoutError, "is outside"),
        (
            lambda: PredicateTensor(IndexFunction(3, lambda i: i), 3),  # type: ignore[arg-type]
            atl.errors.InvalidArgument,
            "is not a layout with strides",
        ),
    ],
    ids=["no coordinates", "too many axes", "a table of sizes", "arrays of sizes", "both", "outside", "no strides"],
)  # fmt: skip
def test_invalid_predicate_tensors_are_refused(
    call: Callable[[], object], error: type[atl.ATLError], message: str
) -> None:
    with pytest.raises(error, match=message):
        call()
