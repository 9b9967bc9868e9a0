"""Error messages of layout operations, each with its requirement."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import layouts
from atl import sizes
from atl.errors import ATLError
from layouts import F2, Box, ColumnAction, Coordinate, E, IndexFunction, Layout
from layouts.axe import R, S, axis, direct_sum, group, slice_of, split
from layouts.lego import ExpandBy, GenP, GroupBy, OrderBy, Row
from layouts.templates import fill

N, M = sizes("N M")
L = Layout((4, 8), (8, 1))
SWIZZLED = layouts.composition(layouts.Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))
LINEAR = layouts.LinearLayout.identity_1d(4, "lane", "i")
LANE = axis("lane")
of: Any = layouts
"""The package, for calls with arguments of wrong types."""

REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: Layout(0), "an extent of 0 in a shape"),
    (lambda: Layout((4, N)).where(N=0), "an extent of 0 in a shape"),
    (lambda: Layout((N, 4), (M, 1), given=[M >= 4]).where(M=1), "M = 1 contradicts what is known of the sizes"),
    (lambda: Layout("four"), ".four. is a string"),
    (lambda: Layout((4, 8), (8,)), "a shape and its strides: .* are nested differently"),
    (lambda: Layout((2, 2), (F2(1), 3)), "strides of different kinds in one layout"),
    (lambda: Layout((4, N), (F2(1), F2(4)))(N), "digits over F2 cannot be symbolic"),
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
    (
        lambda: layouts.complement(Layout((2, 3), (1, 1))),
        "2, the reach of the modes with smaller strides, is at most 1",
    ),
    (lambda: layouts.complement(Layout(4, E(0))), "positive integer strides"),
    (lambda: layouts.complement(L, 0), "in 0 locations"),
    (lambda: LINEAR.compose(L), "is not a LinearLayout"),  # type: ignore[arg-type]
    (lambda: LINEAR.invert_and_compose(L), "is not a LinearLayout"),  # type: ignore[arg-type]
    (lambda: LINEAR.divide_left(3), "3 is not a LinearLayout"),  # type: ignore[arg-type]
    (lambda: LINEAR.divide_right(3), "3 is not a LinearLayout"),  # type: ignore[arg-type]
    (lambda: LINEAR.apply(lanes=3), "the digits given are lanes"),
    (lambda: fill("{{ a }}", "triton", {"a": GroupBy([6, 4])}), r"a slice of it: layout\[i, k, :, :\]"),
    (lambda: GroupBy([]), r"GroupBy\(\)"),
    (lambda: GroupBy([4, 4]).apply("1", 2), "'1' is not an index"),
    (lambda: GroupBy([4, 4]).apply(1.5, 2), "1.5 is not an index"),
    (lambda: GroupBy([4, 4]).inv("1"), "'1' is not an index"),
    (lambda: layouts.logical_divide(L, Layout((2, 2), (1, 5))), "has no complement without gaps"),
    (lambda: layouts.logical_divide(L, 5), "no strides give 1, the value at"),
    (lambda: layouts.left_inverse(Layout((4, 2), (1, 0))), "mode 2:0 has stride zero"),
    (lambda: layouts.right_inverse(Layout(4, offset=1)), "the first of them 0"),
    (lambda: layouts.inverse(Layout((2, 2), (1, 1))), "breaks at: i0 = .*, j1 ="),
    (lambda: layouts.inverse(Layout(2, E(0))), "are coordinates"),
    (lambda: layouts.cosize(Layout(2, E(0))), "are coordinates"),
    (lambda: layouts.upcast(L, 3), "3 divides the stride 8, or is a multiple of it"),
    (lambda: layouts.upcast(L, 0), "units of 0 elements"),
    (lambda: layouts.image(Layout((4, N))), "has 4\\*N elements"),
    (lambda: Layout(4, N).table(), "the strides of 4:N are not numbers"),
    (lambda: layouts.equal(L, 3), "3 is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.injective((4, 8)), "is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.make_layout(L, 3), "3 is not a layout"),  # type: ignore[arg-type]
    (lambda: layouts.Swizzle(3, 0, 1), "a distance of at least 3 bits"),
    (lambda: IndexFunction(4, 3), "3 is not callable"),  # type: ignore[arg-type]
    (lambda: Box((2, 3)).join((1,)), "1 digits in"),
    (lambda: layouts.explain(layouts.composition, L), "composition of"),
    (lambda: layouts.explain(3), "3 is not an operation"),  # type: ignore[arg-type]
    (lambda: layouts.read_layout(3), "3 is not a string"),  # type: ignore[arg-type]
    (lambda: layouts.size(L, 7), "has no mode 7"),
    (lambda: Layout("(4,8):(8,1)"), r'layouts\.read_layout\("\(4,8\):\(8,1\)"\)'),
    (lambda: layouts.coalesce("(4,8):(8,1)"), r"layouts\.read_layout"),  # type: ignore[arg-type]
    (
        lambda: layouts.logical_divide(SWIZZLED, (4, 4)),  # type: ignore[arg-type]
        r"apply the operation to \(8,64\):\(64,1\), then composition\(Swizzle<3,3,3>",
    ),
    (lambda: layouts.coalesce(GroupBy([4])), r"layouts\.as_layout"),  # type: ignore[arg-type]
    (lambda: layouts.logical_divide(L, (2, 2, 2)), "a tiler of 3 modes for"),
    (lambda: layouts.composition(SWIZZLED, (2, 2)), "has no modes to tile"),
    (lambda: layouts.complement(Layout((N, M), (M, N))), "no complement of .* is known"),
    (lambda: layouts.left_inverse(Layout((2, 2), (F2(1), F2(1)))), "its columns are linearly dependent"),
    (lambda: layouts.left_inverse(Layout((3, 2), (F2(1), F2(4)))), "a power of two instead of 3"),
    (lambda: of.Coordinate(3), "a tuple of integers, one for each axis"),
    (lambda: of.Box(4).digits("3"), "an integer, an array of integers, or an index expression"),
    (lambda: L(np.array([1.5])), "an array of float64"),
    (lambda: layouts.as_axe(Layout((4, N), (F2(1), F2(4)))), "is not known to be a sum of steps along axes"),
    (lambda: layouts.as_axe(Layout((2, 2), (E(0), E(1))), ["lane"]), "1 axes for 2 coordinates"),
    (lambda: layouts.as_lego(Layout((N, M), (M + 1, 1))), "is not a permutation of dimensions"),
    (lambda: layouts.as_layout(IndexFunction((N,), lambda i: i * i)), "has N elements"),
    (lambda: layouts.as_linear(L, ["a"]), "1 names for 2 dimensions"),
    (lambda: layouts.Swizzle(3, 60, 3), "a swizzle that reads 66 bits"),
    (lambda: of.supremum("ab", ["a"]), "the order 'ab'"),
    (lambda: of.ColumnAction(3, "a", 2), r"ColumnAction\(3, 'a', 2\)"),
    (lambda: ColumnAction((0, 0), "a", 2), r"the order \(0, 0\)"),
    (lambda: ColumnAction((1, 0), "x", 2).apply(LINEAR), "has no digit 'x' with 2 bits"),
    (lambda: ColumnAction((1, 0), "lane", 2).of_values([1, 2, 3]), "3 values"),
    (lambda: of.LinearLayout.from_bases([("a",)], ["o"]), r"bases: \('a',\)"),
    (lambda: of.LinearLayout.from_bases([("a", 3)], ["o"]), "a list of bases"),
    (lambda: of.LinearLayout.from_bases([("a", [1]), ("a", [1])], ["o"]), "bases: 'a' twice"),
    (lambda: of.LinearLayout.from_bases([("a", [1])], [("o",)]), r"\('o',\) is not a dimension"),
    (lambda: of.LinearLayout.from_bases([("a", [1])], [("o", 2), ("o", 2)]), "'o' twice"),
    (lambda: of.BankConflicts(3, 4, 5), "BankConflicts is not made by users"),
    (lambda: of.Explanation((3,)), r"an explanation of \(3,\)"),
    (lambda: layouts.explain(layouts.logical_divide, L, 5), "divided by 5:1 is not a layout"),
    (lambda: of.Picture((), (), ""), r"a picture of \(\)"),
    (lambda: layouts.draw(LINEAR, colour="x"), r"colour='x'(.|\n)*or a function"),
    (lambda: of.ask([]), r"the query \[\]"),
    (lambda: of.read_function(3), "3 is not a string"),
    (lambda: of.apply_operation("no", [L]), "unknown operation 'no'"),
    (lambda: of.apply_operation("coalesce", [3]), "coalesce of 3"),
    (lambda: of.explain_operation("no", [L]), "unknown operation 'no'"),
    (lambda: of.verdict(3), "3 is not an answer"),
    (lambda: of.padded(3)("x"), "the shape of a tensor, a tuple of extents"),
    (lambda: group(S[4:1], ("x",)), r"the shape \('x',\)"),
    (lambda: split(S[4 : 1 @ LANE], LANE, [3]), "3 is not an axis with its size"),  # type: ignore[list-item]
    (lambda: 1.5 @ LANE, "1.5 @ lane"),
    (lambda: axis("a b"), "axis.'a b'."),
    (lambda: S[4:1] + "x", "'x' is not a location"),
    (lambda: S[4], "S.4."),
    ((S[2:1] + R[(256, 257) : (1, 1 @ LANE)]).replicas, "has 65792 locations"),
    (lambda: direct_sum(S[4:1], S[4:1], (4,), (2, 2)), r"\(4,\) and \(2, 2\)"),
    (lambda: slice_of(S[4:1], (5,), [(0, 1)]), "4 elements, a range for each"),
    (lambda: of.lego.ExpandBy([5], [8], 3), "ExpandBy of 3"),
    (lambda: ExpandBy([5], [8, 4], GroupBy([8, 4])), "the same number of extents"),
    (lambda: ExpandBy([5], [8], GroupBy([8])).inv(7), "a location from 0 to 5 - 1"),
    (lambda: of.lego.GenP([2], 3), "a function of digits, and its inverse"),
    (lambda: GenP([1 << 30], lambda i: i), "a GenP of 1073741824 elements"),
    (lambda: GenP([2, 2], lambda i, j: 2 * i + j, lambda x: (x,)), r"the inverse of a GenP returns \(0,\)"),
    (lambda: GenP([N, M], lambda i, j: M * i + j, lambda x: (x,)), "returns 1 digits"),
    (OrderBy, "a permutation for each level of tiles"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[f"{k} {text[:40]}" for k, (_, text) in enumerate(REFUSED)])
def test_invalid_arguments_are_refused(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ATLError, match=message) as caught:
        call()
    assert caught.value.required


def test_numeric_sizes_suggest_no_facts() -> None:
    with pytest.raises(ATLError) as caught:
        GroupBy([6, 4]).OrderBy(Row(4, 4))
    assert caught.value.suggestions == ("ExpandBy, for partial tiles",)


def test_unsupported_operands_raise_type_error() -> None:
    place: Any = Coordinate((1, 2))
    bits: Any = LINEAR
    with pytest.raises(TypeError):
        place + "x"
    with pytest.raises(TypeError):
        place * "x"
    with pytest.raises(TypeError):
        bits * 3


@pytest.mark.parametrize(
    ("made", "same"),
    [
        (L, Layout((4, 8), (8, 1))),
        (S[(8, 4) : (4, 1 @ LANE)] + R[(2, 3) : (7, 11)], S[(8, 4) : (4, 1 @ LANE)] + R[(2, 3) : (7, 11)]),
        (LINEAR, layouts.LinearLayout.identity_1d(4, "lane", "i")),
    ],
    ids=["strides", "axes", "bits"],
)
def test_equal_layouts_have_equal_hashes(made: object, same: object) -> None:
    assert made == same
    assert made is not same
    assert len({made, same}) == 1
    assert made != 3
