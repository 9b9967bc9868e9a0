"""LEGO: the paper's layouts, slices, partial tiles and refusals."""

from __future__ import annotations

from typing import Any

import pytest

import atl
from atl.core.index import value_at
from atl.prove import Proved
from layouts import injective
from layouts.errors import CannotTabulate, LayoutError, NoLayout
from layouts.lego import Col, CoverBy, ExpandBy, GenP, GroupBy, OrderBy, RegP, Row, TileBy

n, m = atl.sizes("n m")


def antidiagonal(size: int) -> GenP:
    """Return the order of a square by antidiagonals."""
    order = sorted(((i, j) for i in range(size) for j in range(size)), key=lambda at: (at[0] + at[1], at[0]))
    return GenP([size, size], lambda i, j: order.index((i, j)), lambda x: order[x])


def test_layouts_of_the_paper() -> None:
    reverse = GenP([3, 2], lambda i, j: (2 - i) * 2 + 1 - j, lambda x: ((5 - x) // 2, (5 - x) % 2))
    second = GroupBy([6, 4], OrderBy(RegP([2, 2], [2, 1]), reverse))
    assert second.apply(4, 1) == 6
    assert second.inv(6) == (4, 1)
    assert str(GroupBy([6, 6]).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).strides()) == "((3,2),(3,2)):((3,18),(1,9))"
    chain = GroupBy([6, 6]).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).OrderBy(RegP([2, 2], [2, 1]), antidiagonal(3))
    assert [chain.apply(0, j) for j in range(6)] == [0, 1, 3, 18, 19, 21]
    assert isinstance(injective(chain), Proved)
    bits = GroupBy([2, 2, 2, 2, 2]).OrderBy(RegP([2, 2, 2, 2, 2], [5, 2, 4, 3, 1]))
    assert str(bits.strides()) == "(2,2,2,2,2):(1,8,2,4,16)"
    assert TileBy([2, 2, 2], [3, 3, 3]).chain[0].permutations[0].order == (0, 3, 1, 4, 2, 5)  # type: ignore[attr-defined]
    bricks = TileBy([n, n, n], [4, 4, 4]).OrderBy(Row(n, n, n), Row(4, 4, 4))
    assert bricks.where(n=2).apply(0, 0, 0, 1, 1, 1) != 21
    assert GroupBy([n, n, n], [4, 4, 4]).OrderBy(Row(n, n, n), Row(4, 4, 4)).where(n=2).apply(0, 0, 1, 1, 1, 1) == 85


def test_tiles_level_by_level() -> None:
    layout = GroupBy([4, 6]).TileOrderBy(Row(2, 3), Col(2, 2))
    for i in range(4):
        for j in range(6):
            assert layout.apply(i, j) == ((i // 2) * 3 + j // 2) * 4 + (j % 2) * 2 + i % 2
    other = GroupBy([8, 4]).TileOrderBy(Row(2, 1), Row(2, 2), Row(2, 2))
    for i in range(8):
        for j in range(4):
            outer, middle, inner = i // 4, (i // 2 % 2, j // 2), (i % 2, j % 2)
            assert other.apply(i, j) == outer * 16 + (middle[0] * 2 + middle[1]) * 4 + inner[0] * 2 + inner[1]


@pytest.mark.parametrize(("size", "tile"), [(10, 4), (8, 4), (3, 8), (1, 1)])
def test_partial_tiles(size: int, tile: int) -> None:
    tiles = -(-size // tile)
    layout = ExpandBy([size, 3], [tiles * tile, 3], TileBy([tiles, 1], [tile, 3]).OrderBy(Row(tiles * tile, 3)))
    for at in range(tiles):
        for i in range(tile):
            for j in range(3):
                row = at * tile + i
                assert layout.apply(at, 0, i, j) == (row * 3 + j if row < size else -1)
    assert [layout.apply(*layout.inv(place)) for place in range(size * 3)] == list(range(size * 3))
    assert sorted(layout.table().tolist()).count(-1) == (tiles * tile - size) * 3


def test_partial_tiles_of_symbolic_size() -> None:
    i, x = atl.sizes("i x")
    layout = ExpandBy([n], [8 * m], TileBy([m], [8]).OrderBy(Row(8 * m)), given=[n <= 8 * m])
    condition, place = layout.guarded(i, x)
    assert str(place) == "8*i + x"
    assert str(condition) in ("0 <= 8*i + x < n", "8*i + x < n")
    small = layout.where(n=21, m=3)
    assert small.apply(2, 4) == 20
    assert small.apply(2, 5) == -1


def test_slices() -> None:
    tiles = TileBy([n, 2], [4, 8]).OrderBy(Row(4 * n, 16))
    part = tiles[0, 1, :, 3]
    assert str(part) == "16*i + 11 over [i < 4]"
    assert part.table().tolist() == [11, 27, 43, 59]
    i = atl.sizes("i")
    assert str(tiles[i, 1, :, 3]) == "64*i + 16*j + 11 over [j < 4]", "an index does not reuse the name of a size"
    whole = tiles[:, 1, 2, :]
    assert whole.table(n=2).shape == (2, 8)
    with pytest.raises(CannotTabulate, match="the sizes n"):
        whole.table()
    with pytest.raises(LayoutError, match="a colon for the whole dimension"):
        tiles[0, 0, 0:2, :]
    with pytest.raises(LayoutError, match="2 parts of a view"):
        tiles[0, 0]


def test_functions_without_an_inverse_have_apply_only() -> None:
    doubled = GroupBy([4]).OrderBy(GenP([4], lambda i: 2 * i))
    assert [doubled.apply(i) for i in range(4)] == [0, 2, 4, 6]
    assert isinstance(injective(doubled), Proved)
    with pytest.raises(LayoutError, match="has no inv"):
        doubled.inv(2)
    broadcast = GroupBy([2, 3]).OrderBy(GenP([2, 3], lambda i, j: i))
    assert not isinstance(injective(broadcast), Proved)
    with pytest.raises(NoLayout, match="has no inv"):
        broadcast.inv(0)


def test_symbolic_functions_are_proved() -> None:
    reverse = GenP([n], lambda i: n - 1 - i, lambda x: (n - 1 - x,))
    layout = GroupBy([n]).OrderBy(reverse)
    i = atl.sizes("i")
    assert str(layout.apply(i)) == "n - i - 1"
    assert layout.where(n=5).table().tolist() == [4, 3, 2, 1, 0]
    assert layout.where(n=5).inv(1) == 3
    with pytest.raises(LayoutError, match="is not proved to be bijective"):
        GenP([n], lambda i: n - 1 - i, lambda x: (n - x,))
    with pytest.raises(LayoutError, match="is not proved to be bijective"):
        GenP([n], lambda i: i + 1, lambda x: (x - 1,))


G, H = atl.sizes("G H")


def rows_of(group: Any) -> Any:
    return atl.imin(n - group * G, G)


def in_groups(i: Any, j: Any) -> Any:
    """Return the location of a tile in groups of G rows, of which the last may be smaller."""
    return i // G * G * m + j * rows_of(i // G) + i % G


def from_groups(x: Any) -> tuple[Any, Any]:
    group, at = x // (G * m), x % (G * m)
    return group * G + at % rows_of(group), at // rows_of(group)


@pytest.mark.long
def test_inverse_with_a_case_distinction_is_proved() -> None:
    layout = GroupBy([n, m]).OrderBy(GenP([n, m], in_groups, from_groups, given=[G >= 1]))
    assert isinstance(injective(layout), Proved)
    row, column = layout.inv(atl.sizes("at"))
    for rows, columns, group in ((7, 3, 3), (4, 2, 8), (6, 1, 2), (1, 5, 1)):
        placed = layout.where(n=rows, m=columns, G=group)
        assert sorted(placed.table().tolist()) == list(range(rows * columns))
        for at in range(rows * columns):
            sizes = {"n": rows, "m": columns, "G": group, "at": at}
            found = tuple(value_at(each.node, sizes) for each in (row, column))
            assert found == placed.inv(at)
            assert placed.apply(*found) == at


@pytest.mark.long
def test_inverse_with_two_case_distinctions_is_proved() -> None:
    def columns_of(block: Any) -> Any:
        return atl.imin(m - block * H, H)

    def to(i: Any, j: Any) -> Any:
        corner = i // G * G * m + j // H * H * rows_of(i // G)
        return corner + i % G * columns_of(j // H) + j % H

    def back(x: Any) -> tuple[Any, Any]:
        row, rest = x // (G * m), x % (G * m)
        column, at = rest // (H * rows_of(row)), rest % (H * rows_of(row))
        return row * G + at // columns_of(column), column * H + at % columns_of(column)

    order = GenP([n, m], to, back, given=[G >= 1, H >= 1])
    assert order.where({"n": 5, "m": 7, "G": 2, "H": 3}).inv(31) == (4, 3)
    with pytest.raises(LayoutError, match="is not proved to be bijective"):
        GenP([n, m], to, lambda x: back(x)[::-1], given=[G >= 1, H >= 1])


@pytest.mark.long
@pytest.mark.parametrize(
    ("to", "back"),
    [
        (lambda i, j: i // G * G * m + j * G + i % G, from_groups),
        (in_groups, lambda x: (x // (G * m) * G + x % (G * m) % G, x % (G * m) // G)),
        (in_groups, lambda x: (from_groups(x)[0], from_groups(x)[1] + n // G - n // G + x // (n * m - 1))),
        (lambda i, j: in_groups(i, j) + atl.imin(i, 1) - atl.imin(i, 1) + 1, lambda x: from_groups(x - 1)),
        (lambda i, j: i // G * G * m + j * atl.imax(n - i // G * G, G) + i % G, from_groups),
    ],
    ids=["whole groups", "inverse of whole groups", "last element", "beyond the tile", "maximum"],
)
def test_wrong_case_distinctions_are_refused(to: Any, back: Any) -> None:
    with pytest.raises(LayoutError, match="is not proved to be bijective"):
        GenP([n, m], to, back, given=[G >= 1, n * m >= 2])


@pytest.mark.long
def test_group_that_may_be_empty_is_refused() -> None:
    with pytest.raises(LayoutError, match="is not proved to be bijective"):
        GenP([n, m], in_groups, from_groups)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: RegP([2, 3], [1, 1]), "each of the dimensions 1 to 2 once"),
        (lambda: RegP([2, 3], [1, 2, 3]), "each of the dimensions 1 to 2 once"),
        (lambda: RegP([0], [1]), "extents of at least 1"),
        (lambda: GroupBy([6]).OrderBy(Row(4)), "has 4 elements, but the view 6 has 6|has 4 elements"),
        (lambda: GroupBy([n]).OrderBy(Row(m)), "equal sizes"),
        (lambda: TileBy([2, 2], [3]), "tiles of the same number of dimensions"),
        (lambda: GenP([2], lambda i: 0, lambda x: (x,)), r"maps \(0,\) and \(1,\) to 0"),
        (lambda: GenP([2], lambda i: i + 1, lambda x: (x - 1,)), "a location from 0 to 1"),
        (lambda: GenP([2], lambda i: 1 - i, lambda x: (x,)), r"maps \(0,\) to 1, and back to \(1,\)"),
        (lambda: GenP([2], lambda i: 0.5, lambda x: (x,)), "a flat location, an integer"),
        (lambda: GroupBy([2, 2]).apply(2, 0), "0 <= index < 2"),
        (lambda: GroupBy([2, 2]).inv(4), "a location from 0 to 3"),
        (lambda: GroupBy([2, 2]).apply(1), "1 indices for a view"),
        (lambda: ExpandBy([5], [4], GroupBy([4])), "is expanded to 4"),
        (lambda: ExpandBy([5], [8], GroupBy([4])), "8, the size of the expanded extents"),
        (lambda: ExpandBy([n], [8 * m], GroupBy([8 * m])), r"may be less(.|\n)*given=\[8\*m >= n\]"),
        (lambda: ExpandBy([n], [8], GroupBy([8])), "required: 8 >= n"),
        (lambda: ExpandBy([n], [8], GroupBy([8]), given=[n <= 8]).where(n=9), r"n = 9 contradicts"),
    ],
    ids=range(18),
)
def test_invalid_arguments_are_refused(made: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        made()


def test_facts_survive_partial_substitution() -> None:
    k, bm, bk = atl.sizes("k bm bk")
    tiles = TileBy([m // bm, k // bk], [bm, bk], given=[m % bm == 0, k % bk == 0]).OrderBy(Row(m, k))
    one_by_one = tiles.where(m=8, bm=4).where(k=32).where(bk=8)
    assert one_by_one.table().tolist() == tiles.where(m=8, bm=4, k=32, bk=8).table().tolist()
    with pytest.raises(LayoutError, match=r"m = 10, bm = 4 contradicts(.|\n)*required: m % bm = 0"):
        tiles.where(m=10, bm=4)
    with pytest.raises(LayoutError, match="required: 30 % bk = 0"):
        tiles.where(k=30).where(bk=8)


@pytest.mark.parametrize("sizes", [(5, 7, 2, 3), (4, 6, 2, 3), (1, 5, 4, 2), (7, 1, 3, 4)])
def test_symbolic_inverse_of_partial_tiles_is_that_of_numbers(sizes: tuple[int, int, int, int]) -> None:
    rows, columns, height, width, at = atl.sizes("rows columns height width at")
    found = CoverBy([rows, columns], [height, width]).inv(at)
    numbers = dict(zip(("rows", "columns", "height", "width"), sizes, strict=True))
    tiles = CoverBy(sizes[:2], sizes[2:])
    for location in range(sizes[0] * sizes[1]):
        assert tuple(value_at(part.node, {**numbers, "at": location}) for part in found) == tiles.inv(location)


def test_symbolic_inverse_follows_the_order_of_the_tiles() -> None:
    n, at = atl.sizes("n at")
    turned = ExpandBy([n], [8 * n], TileBy([n], [8]).OrderBy(Col(n, 8)))
    found = turned.inv(at)
    for extent in (1, 2, 5, 9):
        numbers = ExpandBy([extent], [8 * extent], TileBy([extent], [8]).OrderBy(Col(extent, 8)))
        for location in range(extent):
            assert tuple(value_at(part.node, {"n": extent, "at": location}) for part in found) == numbers.inv(location)
