"""Relations of layouts are sets of pairs, with the operations of sets."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

import atl
from atl.errors import ATLError
from layouts import F2, Box, Chain, E, IndexFunction, Layout, LinearLayout, NoLayout, Relation, Swizzle, as_linear
from layouts.axe import Axe, R, S, axis, locations
from layouts.axe.replicas import number as as_number
from layouts.foundation.function import Function
from layouts.foundation.semimodule import COORDINATES, Coordinate
from layouts.lego import CoverBy, GenP, GroupBy, Row, TileBy
from layouts.pictures.support_table import families
from layouts.proofs import relation
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
        lambda: Relation(Layout(4)).compose(3),  # type: ignore[arg-type]
        lambda: Relation(Layout((4, n), (1, 4))).count(),
        lambda: Relation.of("{ [i] -> [i] }").count(),
        lambda: Relation.of("{ [i] -> [j] }").locations(3),
        lambda: Relation(Layout(4)).locations(1, 2),
        lambda: Relation(Layout(4)).locations("1"),  # type: ignore[arg-type]
        lambda: Relation(Layout(4)).complement("x"),  # type: ignore[arg-type]
        lambda: Relation(Layout(4)).union(Relation(Layout((2, 2)))),
    ],
    ids=range(10),
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
    assert made is not None
    assert str(made) == "(2,3):(8,3)"
    assert [made(at) for at in range(6)] == [0, 8, 3, 11, 6, 14]


def test_swizzled_relation_has_a_matrix_over_f2() -> None:
    swizzled = Relation(Layout(32, 1)).compose(Relation(Swizzle(2, 0, 3)))
    made = swizzled.layout()
    assert isinstance(made, LinearLayout)
    assert [(made(at),) for at in range(32)] == [swizzled.locations(at)[0] for at in range(32)]


@pytest.mark.parametrize(
    "text",
    [
        "{ [i] -> [i + 2*floor(i/3)] : 0 <= i < 4 }",  # neither sums of strides nor images of bits
        "{ [i] -> [i] : 0 <= i < 8 and i != 3 }",  # no box
        "{ [i] -> [i] : 1 <= i < 4 }",
        "{ [i] -> [p] : 0 <= i < 4 and i <= p <= i + 1 }",  # several locations
        "{ [i] -> [1 + i + 2*floor(i/2)] : 0 <= i < 3 }",
        "{ [i, j] -> [i + j] : 0 <= i < 4 and 0 <= j <= i }",  # a triangle
    ],
)
def test_relation_that_is_no_layout_has_none(text: str) -> None:
    assert Relation.of(text).layout() is None


def test_layout_of_symbolic_or_large_relations_is_refused() -> None:
    n = atl.sizes("n")
    with pytest.raises(NoLayout, match="symbolic"):
        Relation(Layout((4, n), (1, 4))).layout()
    with pytest.raises(NoLayout, match="pairs"):
        Relation.of("{ [i] -> [i] : 0 <= i < 100000 }").layout()
    with pytest.raises(NoLayout, match="2 components"):
        Relation.of("{ [i] -> [i, i] : 0 <= i < 4 }").layout()
