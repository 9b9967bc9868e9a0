"""Relations of layouts are sets of pairs, with the operations of sets."""

from __future__ import annotations

import re
from functools import reduce
from itertools import product
from random import Random
from typing import Any

import pytest

import atl
from atl.errors import ATLError
from layouts import (
    F2,
    Box,
    Chain,
    E,
    IndexFunction,
    Layout,
    LinearLayout,
    NoLayout,
    NoneExists,
    Relation,
    Swizzle,
    as_linear,
    ask,
    coordinate_maps,
    integral_to_binary,
    natural_to_integral,
)
from layouts.axe import Axe, R, S, axis, locations
from layouts.axe.replicas import number as as_number
from layouts.foundation.function import Function
from layouts.foundation.semimodule import COORDINATES, Coordinate
from layouts.lego import CoverBy, GenP, GroupBy, Row, TileBy
from layouts.pictures.support_table import families
from layouts.proofs import relation
from layouts.proofs.layout_of_pairs import layout_of_pairs
from proofs_tests.layouts.axe.test_enumeration import drawn
from proofs_tests.layouts.lego.reference import any_chain
from proofs_tests.layouts.linear import random_layouts

pytest.importorskip("islpy", reason="isl, which is not needed: pip install 'atl-tensor[layouts]'")
n, m, b = atl.sizes("n m b")


def pairs(function: Function) -> set[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return the pairs by enumeration; an element outside the array has none."""
    found = set()
    size = function.size
    assert isinstance(size, int)
    for at in range(size):
        digits = tuple(int(d) for d in function.box.digits(at))
        if isinstance(function, Axe):
            axes = function.axes
            for place in locations(function, digits if len(digits) > 1 else digits[0]):
                found.add((digits, tuple(as_number(place[each]) for each in axes) or (0,)))
            continue
        value = function.at(digits)
        if isinstance(function, Layout) and function.semimodule is COORDINATES:
            at_each = value if isinstance(value, Coordinate) else Coordinate(())
            numbers = tuple(int(at_each[k]) for k in range(function.width))  # type: ignore[arg-type]
        else:
            numbers = (int(value),)
        if numbers != (-1,):
            found.add((digits, numbers))
    return found


def same(made: Relation, wanted: set[Any]) -> bool:
    """Return whether a relation has exactly these pairs."""
    found: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for digits, place in sorted(wanted):
        found.setdefault(digits, []).append(place)
    return made.count() == len(wanted) and all(made.locations(*digits) == out for digits, out in found.items())


def width(made: Relation) -> tuple[int, int]:
    import islpy

    return made.map.dim(islpy.dim_type.in_), made.map.dim(islpy.dim_type.out)


@pytest.mark.parametrize("name", [each for each in families() if "sizes" not in each])
def test_relation_of_each_family_has_its_pairs(name: str) -> None:
    function = families()[name]
    assert same(Relation(function), pairs(function))


def test_relations_of_random_layouts_have_their_pairs() -> None:
    random = Random(31)
    for _ in range(12):
        for function in (random_layouts.any_layout(random, 2), drawn(random), any_chain(random)[0]):
            size = function.size
            if (
                isinstance(size, int)
                and 0 < size <= 48
                and (not isinstance(function, LinearLayout) or function.in_dims)
            ):
                made = Relation(function)
                wanted = pairs(function)
                if width(made)[1] == len(next(iter(wanted))[1]):
                    assert same(made, wanted), str(function)


def test_overlapping_replicas_count_once() -> None:
    lane = axis("lane")
    made = Relation(S[4 : 1 @ lane] + R[3 : 1 @ lane] + R[2 : 2 @ lane])
    assert made.locations(0) == [(0,), (1,), (2,), (3,), (4,)]
    assert not made.is_single_valued()


@pytest.mark.parametrize(
    "layout",
    [
        GroupBy([n, 8]).OrderBy(Row(n, 8)),
        TileBy([n, 4], [2, 8]).OrderBy(Row(2 * n, 32)),
        CoverBy([n], [4]),
        Layout((4, n), (1, 4)),
        Layout((4, n), (E(0), E(1))),
        IndexFunction((n, 8), lambda i, j: (i, (i + j) % 8), onto=Box((n, 8), row_major=True)),
        IndexFunction((n, 8), lambda i, j: 8 * i + (i % 8 ^ j)),
    ],
    ids=range(7),
)
def test_extents_may_be_sizes(layout: Function) -> None:
    made = Relation(layout)
    assert made.is_injective()
    for number in (1, 3, 5):
        placed = layout.where(n=number)
        fixed = made.map.intersect_params(Relation.of(f"[n] -> {{ [] -> [] : n = {number} }}").map.params())
        assert Relation(placed).is_equal(Relation._made(fixed.project_out(_parameter(), 0, 1)))


def _parameter() -> Any:
    import islpy

    return islpy.dim_type.param


def test_products_of_sizes_are_refused_for_isl() -> None:
    for layout in (GroupBy([n, m]).OrderBy(Row(n, m)), TileBy([n], [b]).OrderBy(Row(n * b))):
        with pytest.raises(NoLayout, match=r"cannot express .*products"):
            Relation(layout)


def test_compositions_are_those_of_functions() -> None:
    swizzle, rows = Swizzle(2, 0, 2), Layout(16, 1)
    made = Relation(rows).compose(Relation(swizzle))
    assert same(made, {((i,), (int(swizzle(rows(i))),)) for i in range(16)})
    assert made.is_equal(Relation(Chain(swizzle, rows)))
    assert Relation(swizzle).compose(Relation(swizzle)).is_equal(Relation(Layout(16, 1)))


def test_union_intersection_and_difference() -> None:
    one, other = Layout((3, 4), (4, 1)), Layout((3, 4), (1, 3))
    a, c = pairs(one), pairs(other)
    x, y = Relation(one), Relation(other)
    assert same(x.union(y), a | c)
    assert same(x.intersect(y), a & c)
    assert same(x.subtract(y), a - c)
    assert x.subtract(x).is_empty()
    assert x.subtract(x).witness() is None
    assert x.section().compose(x).is_equal(Relation(Layout(12, 1)))
    left = Relation(Layout(4, 3)).complement(12)
    assert same(left, {((p,), (p,)) for p in range(12) if p % 3})


def test_a_witness_is_a_pair_with_numbers_for_sizes() -> None:
    both = Relation(Layout((2, n), (1, 2))).subtract(Relation(Layout((2, n), (1, 3))))
    sizes, digits, place = both.witness() or ({}, (), ())
    assert sizes["n"] > digits[1] >= 1
    assert place == (digits[0] + 2 * digits[1],)


def test_bits_are_related_where_functions_are_linear() -> None:
    for layout in (Swizzle(3, 4, 3), Layout((8, 8), (F2(9), F2(1))), as_linear(Layout((4, 8), (8, 1)))):
        made = Relation(layout, bits=True)
        assert made.is_injective()
        assert width(made)[0] == sum(len(each) for each in as_linear(layout).bases.values())
        assert made.count() == layout.size
    with pytest.raises(NoLayout):
        Relation(Layout(6, 1), bits=True)


def test_functions_without_formula_are_listed_as_pairs() -> None:
    assert same(Relation(Layout((3, 2), (F2(5), F2(1)))), pairs(Layout((3, 2), (F2(5), F2(1)))))
    table = [3, 1, 0, 2]
    made = GroupBy([4]).OrderBy(GenP([4], lambda i: table[i], lambda x: (table.index(x),)))
    assert same(Relation(made), pairs(made))


@pytest.mark.parametrize(
    "call",
    [
        lambda: Relation(3),  # type: ignore[arg-type]
        lambda: Relation.of("no relation"),
        lambda: Relation.of(3),  # type: ignore[arg-type]
        lambda: ask(["relation", 3]),  # type: ignore[list-item]
        lambda: coordinate_maps(3),  # type: ignore[arg-type]
        lambda: Relation(Layout(4)).compose(3),  # type: ignore[arg-type]
        lambda: Relation(Layout((4, n), (1, 4))).count(),
        lambda: Relation.of("{ [i] -> [i] }").count(),
        lambda: Relation.of("{ [i] -> [j] }").locations(3),
        lambda: Relation(Layout(4)).locations(1, 2),
        lambda: Relation(Layout(4)).locations("1"),  # type: ignore[arg-type]
        lambda: Relation(Layout(4)).complement("x"),  # type: ignore[arg-type]
        lambda: Relation(Layout(4)).union(Relation(Layout((2, 2)))),
    ],
    ids=range(13),
)
def test_non_relations_are_refused(call: Any) -> None:
    with pytest.raises(ATLError):
        call()


def test_operations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Relation(Swizzle(3, 0, 3))
    monkeypatch.setattr(relation, "MAX_OPERATIONS", 10)
    with pytest.raises(NoLayout, match="within 10 operations"):
        made.compose(made).is_injective()


# -- back to a layout -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "made",
    [
        Layout((4, 3), (3, 1)),
        Layout(((2, 3), 4), ((1, 8), 2)),
        Layout((2, (2, 2)), (0, (5, -3)), offset=7),
        Layout((1, 5), (3, 2)),
    ],
    ids=str,
)
def test_relation_of_a_layout_has_one_with_its_pairs(made: Layout) -> None:
    found = Relation(made).layout()
    assert isinstance(found, Layout)
    assert Relation(found).is_equal(Relation(made))


def test_flat_relation_has_a_layout_of_several_modes() -> None:
    made = Relation.of("{ [i] -> [8*(i mod 2) + 3*floor(i/2)] : 0 <= i < 6 }").layout()
    assert isinstance(made, Layout)
    assert str(made) == "(2,3):(8,3)"
    assert [made(at) for at in range(6)] == [0, 8, 3, 11, 6, 14]


def test_swizzled_relation_has_a_matrix_over_f2() -> None:
    swizzled = Relation(Layout(32, 1)).compose(Relation(Swizzle(2, 0, 3)))
    made = swizzled.layout()
    assert isinstance(made, LinearLayout)
    assert [(made(at),) for at in range(32)] == [swizzled.locations(at)[0] for at in range(32)]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{ [i] -> [i + 2*floor(i/3)] : 0 <= i < 4 }", "0, 1, 2, 5 of digit 0 have no strides; .* it would be 3"),
        ("{ [i] -> [i] : 0 <= i < 8 and i != 3 }", r"7 of the 8 tuples of digits below \(8\)"),
        ("{ [i] -> [i] : 1 <= i < 4 }", "3 of the 4 tuples"),
        ("{ [i] -> [i] : -1 <= i < 3 }", r"digits \(-1\) are negative"),
        ("{ [i] -> [p] : 0 <= i < 4 and p = 3 or i = 0 and p = 4 }", r"\(0\) have the locations (3 and 4|4 and 3)"),
        ("{ [i] -> [1 + i + 2*floor(i/2)] : 0 <= i < 3 }", "strides; the extent 3 of digit 0"),
        ("{ [i] -> [1 + i + 2*floor(i/3)] : 0 <= i < 4 }", "the location 1, over F2 it would be 0"),
        ("{ [i, j] -> [i + j] : 0 <= i < 4 and 0 <= j <= i }", "10 of the 16 tuples"),
        ("{ [i, j] -> [i + 2 j] : 0 <= i, j < 2 and i + j < 2; [1, 1] -> [7] }", "sum of the strides is 3.* be 3"),
        ("{ [i] -> [i - 8*floor(i/3)] : 0 <= i < 4 }", "are not negative"),
        ("{ [i] -> [i] : 1 = 0 }", "the relation is empty"),
    ],
)
def test_relation_that_is_no_layout_has_none_with_the_reason(text: str, reason: str) -> None:
    made = Relation.of(text).layout()
    assert isinstance(made, NoneExists)
    assert re.search(reason, str(made))


def test_every_changed_pair_of_a_layout_is_found() -> None:
    for layout in (Layout((4, 3), (3, 1)), Swizzle(1, 0, 1), Layout((2, 2, 2), (F2(5), F2(6), F2(1)))):
        right = sorted((digits, place) for digits, (place,) in pairs(layout))
        for at, (digits, place) in enumerate(right):
            changed = [*right[:at], (digits, place + 16), *right[at + 1 :]]
            made = layout_of_pairs(changed)
            if not isinstance(made, NoneExists):
                assert pairs(made) == {(digits, (place,)) for digits, place in changed}
        assert not isinstance(layout_of_pairs(right), NoneExists)


# -- digits, indices and bits -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(each, marks=pytest.mark.long if each == "over F2" else ())
        for each in families()
        if "sizes" not in each
    ],
)
def test_coordinate_maps_compose_to_the_relation(name: str) -> None:
    function = families()[name]
    maps = coordinate_maps(function)
    if isinstance(function, LinearLayout):
        maps.pop("integral_to_natural", None)
    assert same(reduce(Relation.compose, maps.values()), pairs(function))


def test_coordinate_maps_of_a_matrix_end_with_its_coordinates() -> None:
    tile = LinearLayout.from_bases([("reg", [[0, 1], [2, 1]]), ("lane", [[1, 0], [0, 2]])], [("row", 4), ("col", 8)])
    maps = coordinate_maps(tile)
    assert list(maps)[-1] == "integral_to_natural"
    wanted = {((r, i), tuple(tile.apply(reg=r, lane=i).values())) for r in range(4) for i in range(4)}
    assert same(reduce(Relation.compose, maps.values()), wanted)
    other = LinearLayout.from_bases([("reg", [[0, 1], [2, 1]]), ("lane", [[1, 0], [2, 2]])], [("row", 4), ("col", 8)])
    maps["binary"] = Relation(other, bits=True)
    assert not same(reduce(Relation.compose, maps.values()), wanted)


def test_digits_and_bits_of_indices_are_colexicographic() -> None:
    box = Box((3, (2, 4)))
    made = natural_to_integral(box.shape)
    assert same(made, {(tuple(map(int, box.digits(at))), (at,)) for at in range(24)})
    assert same(integral_to_binary(3), {((at,), (at & 1, at >> 1 & 1, at >> 2)) for at in range(8)})
    assert same(integral_to_binary(0), {((0,), ())})
    assert same(
        natural_to_integral((2, 2, 2)).compose(integral_to_binary(3)), {(d, d) for d in product((0, 1), repeat=3)}
    )
    assert natural_to_integral((4, n)).is_injective()
    for bits in (-1, 63, True, "3"):
        with pytest.raises(ATLError):
            integral_to_binary(bits)  # type: ignore[arg-type]
    with pytest.raises(NoLayout, match="products"):
        natural_to_integral((n, m))


def test_relation_command_goes_both_ways() -> None:
    forth = ask(["relation", "(2,4):(4,1)"])
    first, *maps = forth.text.split("\n\n")
    assert [line.split()[0] for line in maps[0].splitlines()] == list(coordinate_maps(Layout((2, 4), (4, 1))))
    assert ask(["relation", first]).result == Layout((2, 4), (4, 1))
    none = ask(["relation", "{ [i] -> [i] : 1 <= i < 3 }"])
    assert none.text == "none exists: 2 of the 3 tuples of digits below (3) have a location"
    assert none.data["none exists"] in none.text


@pytest.mark.parametrize(
    "made",
    [
        Layout((4, n), (1, 4)),
        Layout(n, 3),
        Layout((n, m), (2, 3), offset=n + 1),
        Layout((2 * n + 1, 4), (-4, 0)),
        Layout((n, m), (1, 7), given=[n <= 7, m % 2 == 0]),
    ],
    ids=str,
)
def test_relation_with_sizes_has_a_layout_for_all_of_them(made: Layout) -> None:
    assert Relation(made).layout() == made


@pytest.mark.parametrize(
    "text",
    [
        "[n] -> { [i] -> [i + floor(i/2)] : 0 <= i < n }",
        "[n] -> { [i] -> [p] : 0 <= i < n and i <= p <= i + 1 }",
        "[n] -> { [i, j] -> [i + 4j] : 0 <= i < 4 and 0 <= j < n and i + j < n }",
        "[n] -> { [i, j] -> [i + 4j + n*0] : 0 <= i < 4 and 0 <= j < n and (i < 3 or j < 2) }",
        "[n] -> { [i] -> [i, i] : 0 <= i < n }",
        "[n] -> { [i] -> [i] : 0 <= i }",
        "[n] -> { [i] -> [i] : 1 <= i < n }",
        "[n] -> { [i] -> [i] : 1 = 0 }",
    ],
)
def test_no_layout_is_found_for_other_relations_with_sizes(text: str) -> None:
    with pytest.raises(NoLayout):
        Relation.of(text).layout()


def test_layout_of_coordinates_or_large_relations_is_refused() -> None:
    with pytest.raises(NoLayout, match="pairs"):
        Relation.of("{ [i] -> [i] : 0 <= i < 100000 }").layout()
    with pytest.raises(NoLayout, match="2 components"):
        Relation.of("{ [i] -> [i, i] : 0 <= i < 4 }").layout()
