"""Inverses of layouts over F2, compared with exhaustive search."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice, product
from math import prod
from random import Random
from typing import TypeAlias

import pytest

from layouts import F2, Layout, NoLayout, left_inverse, right_inverse

Flat: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Extents, and strides as the integers of their bits."""


def times(digit: int, stride: int) -> int:
    """Multiply without carries."""
    total = 0
    while digit:
        digit, odd = divmod(digit, 2)
        total, stride = total ^ stride * odd, stride * 2
    return total


def values(flat: Flat) -> list[int]:
    """Return the value at each index, first digit fastest."""
    extents, strides = flat
    found = []
    for digits in product(*map(range, reversed(extents))):
        total = 0
        for digit, stride in zip(reversed(digits), strides, strict=True):
            total ^= times(digit, stride)
        found.append(total)
    return found


def is_undone_linearly(table: list[int]) -> bool:
    """Return whether a linear function over F2 maps each value to its index."""
    known = {0: 0}
    for at, value in enumerate(table):
        if known.setdefault(value, at) != at:
            return False
        known |= {other ^ value: before ^ at for other, before in known.items() if other ^ value not in known}
        if any(known[other ^ value] != before ^ at for other, before in known.items()):
            return False
    return True


def largest_right_inverse(table: list[int]) -> int:
    """Return the size of the largest right inverse over F2, by trying all modes."""
    best = 1

    def grow(places: list[int]) -> None:
        nonlocal best
        best = max(best, len(places))
        for stride in range(1, len(table)):
            more, digit = list(places), 1
            while True:
                block = [place ^ times(digit, stride) for place in places]
                if any(at >= len(table) or table[at] != len(more) + k for k, at in enumerate(block)):
                    break
                more, digit = more + block, digit + 1
                grow(more)

    grow([0])
    return best


def drawn() -> Iterator[Flat]:
    """Yield random layouts of up to 40 elements, some with extents that are not powers of two."""
    random = Random(1)
    while True:
        count = random.randint(1, 3)
        extents = tuple(random.choice((2, 2, 3, 4, 4, 5)) for _ in range(count))
        if prod(extents) <= 40:
            yield extents, tuple(random.choice((1, 2, 4, 5, 8, 16, random.randrange(16))) for _ in extents)


CASES = [((4, 4, 3), (1, 5, 16)), ((3,), (1,)), ((2, 3), (1, 1)), *islice(drawn(), 400)]


def of(flat: Flat) -> Layout:
    extents, strides = flat
    return Layout(extents, tuple(map(F2, strides)))


def test_left_inverse_is_refused_only_if_none_exists() -> None:
    found = 0
    for flat in CASES:
        table = values(flat)
        try:
            back = left_inverse(of(flat))
        except NoLayout:
            assert not is_undone_linearly(table), flat
            continue
        found += 1
        assert [int(back(value)) for value in table] == list(range(len(table))), flat
    assert found > 40


def test_a_right_inverse_over_f2_is_the_largest_one() -> None:
    for flat in CASES:
        table = values(flat)
        right = right_inverse(of(flat))
        assert [table[int(right(at))] for at in range(right.size)] == list(range(right.size)), flat  # type: ignore[arg-type]
        assert right.size == largest_right_inverse(table), flat


@pytest.mark.parametrize("inverse", [left_inverse, right_inverse])
def test_outer_extent_of_three_has_an_inverse(inverse: Callable[[Layout], Layout]) -> None:
    layout = of(CASES[0])
    back = inverse(layout)
    assert [int(back(int(layout(at)))) for at in range(48)] == list(range(48))
