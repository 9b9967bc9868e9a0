"""Unary operations on all small layouts, compared with enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from math import prod

import pytest

import layouts
from atl.prove import Proved, Refuted
from layouts import Layout
from proofs_tests.layouts.enumeration import Flat, flats, largest_right_inverse, value, values

STEP = 97
"""The default run takes one in STEP layouts of three modes."""


def some() -> Iterator[Flat]:
    """Yield all layouts of up to two modes and 24 elements, and some of three modes."""
    yield from flats(24, 2)
    yield from islice((flat for flat in flats(24, 3) if len(flat[0]) == 3), 0, None, STEP)


def check(flat: Flat) -> None:
    layout, table = Layout(*flat), values(flat)
    assert layout.table().tolist() == table
    beyond = len(table) + 5
    assert [layout(at) for at in range(beyond)] == [value(flat, at) for at in range(beyond)]
    check_coalesce(layout, table)
    check_filter(layout, table)
    check_verdicts(layout, table)
    check_complement(layout, table)
    check_inverses(flat, layout, table)
    null = layouts.nullspace(layout)
    assert {layout(place) for place in null.table().tolist()} <= {0}
    assert null.size == prod(n for n, d in zip(*flat, strict=True) if d == 0)


def check_coalesce(layout: Layout, table: list[int]) -> None:
    merged = layouts.coalesce(layout)
    assert merged.size == layout.size
    assert merged.table().tolist() == table
    assert layouts.depth(merged.shape) <= 1
    for (n, d), (m, e) in zip(merged.modes, merged.modes[1:], strict=False):
        assert n * d != e  # type: ignore[operator]
        assert n != 1
        assert m != 1
    assert layouts.equal(layout, merged) == Proved("structure")


def check_filter(layout: Layout, table: list[int]) -> None:
    kept = layouts.filter(layout)
    assert sorted(set(kept.table().tolist())) == sorted(set(table))
    assert all(d != 0 for n, d in kept.modes if n != 1)
    assert layouts.image(layout).tolist() == sorted(set(table))
    assert layouts.cosize(layout) == max(table) + 1


def check_verdicts(layout: Layout, table: list[int]) -> None:
    answer = layouts.injective(layout)
    assert isinstance(answer, Proved if len(set(table)) == len(table) else Refuted), (layout, answer)
    if isinstance(answer, Refuted):
        numbers = answer.model.numbers
        one, other = (tuple(v for name, v in numbers.items() if name[0] == letter) for letter in "ij")
        assert one != other
        assert layout.at(one) == layout.at(other)
    onto = layouts.bijective(layout)
    assert isinstance(onto, Proved) == (sorted(table) == list(range(len(table))))
    assert isinstance(onto, Proved | Refuted)
    changed = Layout(layout.shape, tuple(d + (k == 0) for k, (_, d) in enumerate(layout.modes)))
    same = layouts.equal(layout, changed)
    assert isinstance(same, Proved) == (changed.table().tolist() == table)
    if isinstance(same, Refuted):
        digits = tuple(same.model.numbers.values())
        assert layout.at(digits) != changed.at(digits)


def check_complement(layout: Layout, table: list[int]) -> None:
    kept = layouts.filter(layout)
    moved = kept.table().tolist()
    for size in (None, 1, len(table), 24):
        try:
            rest = layouts.complement(layout, size)
        except layouts.NoLayout:
            assert len(set(moved)) < len(moved) or not tiles(set(moved), layouts.cosize(kept))
            continue
        assert isinstance(rest.size, int)
        ascending = [rest(at) for at in range(rest.size + (10 if size is None else 0))]
        assert ascending == sorted(set(ascending)), (layout, rest)
        together = sorted(a + b for a in moved for b in ascending)
        reach = size or 1
        if not has_gaps(kept):
            assert together[:reach] == list(range(len(together)))[:reach]
        assert len(set(together)) == len(together)
        assert rest.size * len(moved) < reach + layouts.cosize(kept) * 2  # type: ignore[operator]


def has_gaps(layout: Layout) -> bool:
    """Return whether a stride is not a multiple of the reach of the modes with smaller strides."""
    reach = 1
    for n, d in sorted(layout.modes, key=lambda mode: mode[1]):  # type: ignore[arg-type, return-value]
        if n != 1 and d % reach:  # type: ignore[operator]
            return True
        reach = n * d  # type: ignore[assignment, operator]
    return False


def tiles(places: set[int], reach: object) -> bool:
    """Return whether copies of these locations, each at the first free one, tile the range."""
    assert isinstance(reach, int)
    free = set(range(reach))
    hit: set[int] = set()
    while free - hit:
        start = min(free - hit)
        copy = {start + place for place in places}
        if copy & hit:
            return False
        hit |= copy
    return True


def check_inverses(flat: Flat, layout: Layout, table: list[int]) -> None:
    right = layouts.right_inverse(layout)
    assert isinstance(right.size, int)
    assert [layout(right(at)) for at in range(right.size)] == list(range(right.size))
    assert right.size == largest_right_inverse(flat), (layout, right)
    try:
        left = layouts.left_inverse(layout)
        assert [left(place) for place in table] == list(range(len(table))), (layout, left)
    except layouts.NoLayout:
        kept = set(table)
        assert len(kept) < len(table) or not tiles(kept, max(table) + 1)
    if len(set(table)) == len(table):
        back = layouts.inverse(layout)
        assert [back(place) for place in table] == list(range(len(table)))
    else:
        with pytest.raises(layouts.NoLayout):
            layouts.inverse(layout)


@pytest.mark.long
def test_small_layouts_agree_with_enumeration() -> None:
    count = 0
    for flat in some():
        check(flat)
        count += 1
    assert count > 1_500


@pytest.mark.slow
def test_all_layouts_of_three_modes_agree_with_enumeration() -> None:
    for flat in flats(24, 3):
        check(flat)


def test_refutation_shows_its_numbers_by_name() -> None:
    found = layouts.injective(Layout((2, 2), (1, 1)))
    assert isinstance(found, Refuted)
    assert repr(found) == f"Refuted(model=Model({found.model.numbers}))"
