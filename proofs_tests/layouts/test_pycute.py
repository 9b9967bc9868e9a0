"""The ten tests of pycute, through the adapter."""

from __future__ import annotations

from typing import Any

import pytest

from proofs_tests.layouts import pycute_adapter as pycute

Written = tuple[Any, ...]
"""A shape, followed by strides if the layout is not compact."""

TWOS = ((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32))

COALESCED: list[Written] = [
    (1, 0), (1, 1), ((2, 4),), ((2, 4, 6),), ((2, 4, 6), (1, 6, 2)), ((2, 1, 6), (1, 7, 2)), ((2, 1, 6), (4, 7, 8)),
    ((2, (4, 6)),), ((2, 4), (4, 1)), ((2, 4, 6), (24, 6, 1)), ((2, 1, 3), (2, 4, 4)),
    (((2, 2), (2, 2)), ((1, 4), (8, 32))),
]  # fmt: skip
COMPOSED: list[tuple[Written, Written]] = [
    ((1, 0), (1, 0)), ((1, 0), (1, 1)), ((1, 1), (1, 0)), ((1, 1), (1, 1)), ((4,), (4,)), ((4, 2), (4,)),
    ((4,), (4, 2)), ((4, 0), (4,)), ((4,), (4, 0)), ((1, 0), (4,)), ((4,), (1, 0)), ((4,), (2,)), ((4, 2), (2,)),
    ((4,), (2, 2)),
    ((4, 2), (2, 2)), ((12,), ((4, 3),)), ((12, 2), ((4, 3),)), ((12,), ((4, 3), (3, 1))), ((12, 2), ((4, 3), (3, 1))),
    ((12,), ((2, 3), (2, 4))), (((4, 3),), ((4, 3),)), (((4, 3),), (12,)), (((4, 3),), (6, 2)),
    (((4, 3),), ((6, 2), (2, 1))), (((4, 3), (3, 1)), ((4, 3),)), (((4, 3), (3, 1)), (12,)), (((4, 3), (3, 1)), (6, 2)),
    (((4, 3), (3, 1)), ((6, 2), (2, 1))), (((8, 8),), TWOS), (((8, 8), (8, 1)), TWOS), (TWOS, (8, 4)),
    (((4, 2), (1, 16)), ((4, 2), (2, 1))), (((2, 2), (2, 1)), ((2, 2), (2, 1))), (((4, 8, 2),), ((2, 2, 2), (2, 8, 1))),
    (((4, 8, 2), (2, 8, 1)), ((2, 2, 2), (1, 8, 2))), (((4, 8, 2), (2, 8, 1)), ((4, 2, 2), (2, 8, 1))),
    (((4, 6, 8), (1, 4, 7)), (6, 1)), (((4, 6, 8, 10), (2, 3, 5, 7)), (6, 12)),
]  # fmt: skip
COMPLEMENTED: list[Written] = [
    (1, 0), (1, 1), (4, 0), ((2, 4), (1, 2)), ((2, 3), (1, 2)), ((2, 4), (1, 4)), ((2, 4, 8), (8, 1, 64)),
    (((2, 2), (2, 2)), ((1, 4), (8, 32))), ((2, (3, 4)), (3, (1, 6))), ((4, 6), (1, 6)), ((4, 10), (1, 10)),
]  # fmt: skip
UNDONE: list[Written] = [
    (1, 0), ((1, 1), (0, 0)), (1, 1), (4, 1), (4, 2), ((8, 4), (1, 8)), ((8, 4), (4, 1)), ((2, 4, 6), (1, 2, 8)),
    ((2, 4, 6), (4, 1, 8)), ((4, 2), (1, 16)),
]  # fmt: skip
UNDONE_BEFORE: list[Written] = [*UNDONE, ((3, 7), (0, 0)), (4, 0), ((2, 4), (0, 2))]


def made(written: Written) -> pycute.Layout:
    return pycute.Layout(*written)


def test_coalesce() -> None:
    for written in COALESCED:
        layout = made(written)
        merged = pycute.coalesce(layout)
        assert pycute.size(merged) == pycute.size(layout)
        assert [merged(i) for i in range(pycute.size(layout))] == [layout(i) for i in range(pycute.size(layout))]


def test_complement() -> None:
    for written in COMPLEMENTED:
        layout = made(written)
        places = {layout(i) for i in range(pycute.size(layout))}
        rest = pycute.complement(layout)
        assert places & {rest(i) for i in range(pycute.size(rest))} <= {0}


def test_composition() -> None:
    for outer, inner in COMPOSED:
        a, b = made(outer), made(inner)
        both = pycute.composition(a, b)
        assert both.is_layout
        assert [both(i) for i in range(pycute.size(b))] == [a(b(i)) for i in range(pycute.size(b))]


def test_left_inverse() -> None:
    for written in UNDONE:
        layout = made(written)
        back = pycute.left_inverse(layout)
        assert [back(layout(i)) for i in range(pycute.size(layout))] == list(range(pycute.size(layout)))


def test_right_inverse() -> None:
    for written in UNDONE_BEFORE:
        layout = made(written)
        back = pycute.right_inverse(layout)
        assert [layout(back(i)) for i in range(pycute.size(back))] == list(range(pycute.size(back)))


def test_product() -> None:
    assert (pycute.product(2), pycute.product((3, 2)), pycute.product(((2, 3), 4))) == (2, 6, 24)


def test_inner_product() -> None:
    assert pycute.inner_product(2, 3) == 6
    assert pycute.inner_product((1, 2), (3, 2)) == 7
    assert pycute.inner_product(((2, 3), 4), ((2, 1), 2)) == 15


def test_shape_div() -> None:
    assert [pycute.shape_div((3, 4), by) for by in (6, 12, 36)] == [(1, 2), (1, 1), (1, 1)]
    assert pycute.shape_div(((3, 4), 6), 36) == ((1, 1), 2)
    assert pycute.shape_div((6, (3, 4)), 36) == (1, (1, 2))


def test_prefix_product() -> None:
    assert pycute.prefix_product(2) == 1
    assert pycute.prefix_product((3, 2, 4)) == (1, 3, 6)
    nested = (2, 3), (2, 1, 2), (5, 2, 1)
    assert pycute.prefix_product(nested) == ((1, 2), (6, 12, 12), (24, 120, 240))


@pytest.mark.parametrize(("kind", "value", "is_one"), [(int, 1, True), (float, 1.0, False), (str, "", False)])
def test_typing(kind: type, value: object, is_one: bool) -> None:
    assert issubclass(kind, pycute.Integer) == is_one
    assert isinstance(value, pycute.Integer) == is_one
    assert not isinstance(False, pycute.Integer)
