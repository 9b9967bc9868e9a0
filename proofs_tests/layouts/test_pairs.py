"""Binary operations on pairs of small layouts, compared with enumeration."""

from __future__ import annotations

from random import Random

import pytest

import layouts
from atl.prove import Proved
from layouts import Chain, Layout
from proofs_tests.layouts.enumeration import Flat, flats, is_expressed, value, values
from proofs_tests.sampling import few_and_rest

SMALL = list(flats(8, 3))
"""All layouts of up to eight elements in up to three modes, with strides 0 or products of extents."""


def check_composition(a: Flat, b: Flat) -> None:
    wanted = [value(a, at) for at in values(b)]
    outer, inner = Layout(*a), Layout(*b)
    made = layouts.composition(outer, inner)
    assert [made(at) for at in range(len(wanted))] == wanted, (a, b, made)
    assert made.table().tolist() == wanted
    assert made.is_layout == is_expressed(wanted, b[0]), (a, b, made)
    if isinstance(made, Chain):
        assert made.reason
    else:
        assert layouts.compatible(inner.shape, made.shape)
        assert layouts.equal(made, Chain(outer, inner)) == Proved("table")


def check_admitted(a: Flat, b: Flat) -> None:
    """Check that a strict composition is a layout with the right values."""
    wanted = [value(a, at) for at in values(b)]
    try:
        made = layouts.composition(Layout(*a), Layout(*b), strict=True)
    except layouts.NoLayout:
        return
    assert made.is_layout
    assert made.table().tolist() == wanted


def check_division(a: Flat, tile: Flat) -> None:
    layout, tiler = Layout(*a), Layout(*tile)
    try:
        divided = layouts.logical_divide(layout, tiler)
    except layouts.NoLayout:
        return
    assert isinstance(divided.size, int)
    assert len(divided) == 2
    assert divided[0].table().tolist() == [value(a, at) for at in values(tile)]
    places = {divided(at) for at in range(divided.size)}
    assert set(values(a)) <= places
    assert layouts.zipped_divide(layout, tiler) == divided


def check_product(a: Flat, b: Flat) -> None:
    block, tiler = Layout(*a), Layout(*b)
    try:
        made = layouts.logical_product(block, tiler)
    except layouts.NoLayout:
        return
    assert made[0] == block
    assert layouts.compatible(tiler.shape, made[1].shape)
    if isinstance(layouts.injective(block), Proved) and isinstance(layouts.injective(tiler), Proved):
        assert isinstance(layouts.injective(made), Proved), (a, b, made)


def check(a: Flat, b: Flat) -> None:
    check_composition(a, b)
    check_admitted(a, b)
    check_division(a, b)
    check_product(a, b)


@pytest.mark.parametrize("numbers", few_and_rest(1_000))
def test_pairs_of_small_layouts_agree_with_enumeration(numbers: range) -> None:
    random = Random(numbers.start)
    for _ in numbers:
        check(random.choice(SMALL), random.choice(SMALL))


@pytest.mark.slow
def test_pairs_of_two_modes_compose_like_enumeration() -> None:
    small = list(flats(8, 2))
    for a in small:
        for b in small:
            check(a, b)


@pytest.mark.slow
def test_pairs_of_three_modes_compose_like_enumeration() -> None:
    random = Random(1)
    for _ in range(100_000):
        check_composition(random.choice(SMALL), random.choice(SMALL))
