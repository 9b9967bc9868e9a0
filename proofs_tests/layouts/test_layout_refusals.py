"""What cannot be is refused, each with the sentence that a person reads, and what is required."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import layouts
from atl import sizes
from atl.errors import ATLError
from layouts import F2, Box, E, IndexFunction, Layout
from layouts.lego import GroupBy, Row
from layouts.templates import fill

N, M = sizes("N M")
L = Layout((4, 8), (8, 1))
SWIZZLED = layouts.composition(layouts.Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))
LINEAR = layouts.LinearLayout.identity_1d(4, "lane", "i")

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Layout(0), "an extent of 0 in a shape"),
    (lambda: Layout((4, N)).where(N=0), "an extent of 0 in a shape"),
    (lambda: Layout((N, 4), (M, 1), given=[M >= 4]).where(M=1), "what is known of the sizes does not hold for M = 1"),
    (lambda: Layout("four"), ".four. is a text"),
    (lambda: Layout((4, 8), (8,)), "a shape and its strides: .* are not nested alike"),
    (lambda: Layout((2, 2), (F2(1), 3)), "strides of two kinds stand in one layout"),
    (lambda: Layout((4, N), (F2(1), F2(4)))(N), "digits over F2 are not symbolic"),
    (lambda: Layout(4, F2(3))(-1), "a digit of -1 with a stride over F2"),
    (lambda: layouts.composition(Layout(4, F2(3)), Layout(3, -1)), "a digit of -2 with a stride over F2"),
    (lambda: Layout(4, given=[3]), "3 is not a condition"),
    (lambda: L(1, 2, 3), r"the coordinate \(1, 2, 3\) does not fit the shape \(4,8\)"),
    (lambda: L(None, (None, 1)), r"does not slice 8"),
    (lambda: L[2], r"\(4,8\):\(8,1\) has no mode 2"),
    (lambda: L("3"), "'3' is not an index"),
    (lambda: layouts.coalesce(3), "3 is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.coalesce(L, (1, 1, 1)), "a profile of 3 modes"),
    (lambda: layouts.composition(L, (2, 2, 2)), "a tiler of 3 modes"),
    (lambda: layouts.composition(L, "x"), "'x' is not a layout"),
    (lambda: layouts.complement(Layout(4, -1)), "4:-1 has no complement"),
    (lambda: layouts.complement(Layout((2, 3), (1, 1))), "2 <= 1: so far do the modes of smaller strides reach"),
    (lambda: layouts.complement(Layout(4, E(0))), "positive integers as strides"),
    (lambda: layouts.complement(L, 0), "in 0 places"),
    (lambda: LINEAR.compose(L), "is no linear layout"),  # type: ignore[arg-type]
    (lambda: LINEAR.invert_and_compose(L), "is no linear layout"),  # type: ignore[arg-type]
    (lambda: LINEAR.divide_left(3), "3 is no linear layout"),  # type: ignore[arg-type]
    (lambda: LINEAR.divide_right(3), "3 is no linear layout"),  # type: ignore[arg-type]
    (lambda: LINEAR.apply(lanes=3), "the digits given are lanes"),
    (lambda: fill("{{ a }}", "triton", {"a": GroupBy([6, 4])}), r"a slice of it: layout\[i, k, :, :\]"),
    (lambda: GroupBy([]), r"GroupBy\(\)"),
    (lambda: GroupBy([4, 4]).apply("1", 2), "'1' is not an index"),
    (lambda: GroupBy([4, 4]).apply(1.5, 2), "1.5 is not an index"),
    (lambda: GroupBy([4, 4]).inv("1"), "'1' is not an index"),
    (lambda: layouts.logical_divide(L, Layout((2, 2), (1, 5))), "has no complement without gaps"),
    (lambda: layouts.logical_divide(L, 5), "no strides give 1, the value at"),
    (lambda: layouts.left_inverse(Layout((4, 2), (1, 0))), "the mode 2:0 does not move"),
    (lambda: layouts.right_inverse(Layout(4, offset=1)), "the first of them 0"),
    (lambda: layouts.inverse(Layout((2, 2), (1, 1))), "breaks at: i0 = .*, j1 ="),
    (lambda: layouts.inverse(Layout(2, E(0))), "are coordinates"),
    (lambda: layouts.cosize(Layout(2, E(0))), "are coordinates"),
    (lambda: layouts.upcast(L, 3), "3 divides the stride 8, or is a multiple of it"),
    (lambda: layouts.upcast(L, 0), "places of 0 elements"),
    (lambda: layouts.image(Layout((4, N))), "has 4\\*N places"),
    (lambda: Layout(4, N).table(), "the strides of 4:N are not numbers"),
    (lambda: layouts.equal(L, 3), "3 is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.injective((4, 8)), "is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.make_layout(L, 3), "3 is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.Swizzle(3, 0, 1), "a distance of at least 3 bits"),
    (lambda: IndexFunction(4, 3), "3 is not a function of digits"),  # type: ignore[arg-type]
    (lambda: Box((2, 3)).join((1,)), "1 digits in"),
    (lambda: layouts.explain(layouts.composition, L), "composition of"),
    (lambda: layouts.explain(3), "3 is no operation"),  # type: ignore[arg-type]
    (lambda: layouts.read_layout(3), "3 is not a text"),  # type: ignore[arg-type]
    (lambda: layouts.size(L, 7), "has no mode 7"),
    (lambda: Layout("(4,8):(8,1)"), r'layouts\.read_layout\("\(4,8\):\(8,1\)"\)'),
    (lambda: layouts.coalesce("(4,8):(8,1)"), r"layouts\.read_layout"),  # type: ignore[arg-type]
    (lambda: layouts.logical_divide(SWIZZLED, (4, 4)), r"take \(8,64\):\(64,1\), and put Swizzle<3,3,3>"),  # type: ignore[arg-type]
    (lambda: layouts.coalesce(GroupBy([4])), r"layouts\.as_layout"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "said"), REFUSED, ids=[f"{k} {said[:40]}" for k, (_, said) in enumerate(REFUSED)])
def test_what_cannot_be_is_refused(call: Callable[[], object], said: str) -> None:
    with pytest.raises(ATLError, match=said) as caught:
        call()
    assert caught.value.required


def test_of_numbers_no_fact_is_asked_for() -> None:
    with pytest.raises(ATLError) as caught:
        GroupBy([6, 4]).OrderBy(Row(4, 4))
    assert caught.value.suggestions == ("ExpandBy, for partial tiles",)
