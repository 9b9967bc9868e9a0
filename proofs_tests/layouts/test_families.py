"""The ways between the families keep every place of every coordinate, or refuse with an element that is in the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest

import atl
from atl.prove import Proved, Refuted
from layouts import (
    F2,
    Layout,
    LinearLayout,
    NoLayout,
    as_axe,
    as_function,
    as_layout,
    as_lego,
    as_linear,
    bank_conflicts,
    bijective,
    conflict_free,
    equal,
)
from layouts.axe import Axe, Iter, R, S, axis
from layouts.axe import locations as locations_of
from layouts.foundation.function import Function
from layouts.foundation.semimodule import Coordinate
from layouts.foundation.tuples import modes_of
from layouts.foundation.tuples import product as size_of
from layouts.lego import GenP, GroupBy, RegP
from proofs_tests.layouts.axe.test_enumeration import drawn
from proofs_tests.layouts.lego.by_hand import any_chain
from proofs_tests.layouts.linear import drawing

WAYS: dict[str, Callable[[Function], Any]] = {
    "layout": as_layout,
    "linear": as_linear,
    "axe": as_axe,
    "lego": as_lego,
    "function": as_function,
}


def drawn_of(family: str, random: Random) -> Function:
    """A random layout of a family."""
    match family:
        case "layout":
            extents = [random.choice((1, 2, 3, 4, 8)) for _ in range(random.randint(1, 3))]
            if random.random() < 0.5:
                order = random.sample(range(len(extents)), len(extents))
                strides, step = [0] * len(extents), 1
                for place in order:
                    strides[place], step = step, step * extents[place]
                return Layout(tuple(extents), tuple(strides), offset=random.choice((0, 0, 3)))
            if random.random() < 0.3:
                return Layout(tuple(extents), tuple(F2(random.randrange(16)) for _ in extents))
            return Layout(tuple(extents), tuple(random.randint(0, 8) for _ in extents))
        case "linear":
            return drawing.any_layout(random, 2)
        case "axe":
            return drawn(random)
        case _:
            return any_chain(random)[0]


def place(function: Function, at: tuple[int, ...]) -> object:
    """The place of a coordinate, in a form that all families share: nonzero steps by number, or by axis."""
    if isinstance(function, Axe):
        (only,) = locations_of(function, at if len(at) > 1 else at[0])
        return tuple(step for _, step in only.parts.items())
    found = function(at if len(at) > 1 else at[0])
    if isinstance(found, Coordinate):
        return tuple(int(part) for part in found if part)  # type: ignore[arg-type]
    return (int(found),) if int(found) else ()


@pytest.mark.sampled
@pytest.mark.parametrize("family", ["layout", "linear", "axe", "lego"])
def test_conversions_keep_every_location(family: str) -> None:
    came: Counter[str] = Counter()
    for seed in range(150):
        function = drawn_of(family, Random(seed))
        extents = [size_of(mode) for mode in modes_of(function.shape)]
        coordinates = list(product(*(range(n) for n in extents if isinstance(n, int))))
        for name, way in WAYS.items():
            try:
                made = way(function)
            except NoLayout:
                came[f"no {name}"] += 1
                continue
            came[name] += 1
            if isinstance(function, Axe) and len(function.replicas()) > 1:
                assert name == "axe"
                continue
            if name == "axe" and made is not function:
                made = as_layout(made)
                digits = product(*(range(n) for n, _ in made.modes if isinstance(n, int)))
                assert [place(made, at) for at in digits] == [place(function, at) for at in coordinates], function
                continue
            kept = [place(made, at) for at in coordinates] == [place(function, at) for at in coordinates]
            assert kept, (function, made)
    assert all(came[name] >= 2 for name in WAYS), came


def test_refusals_name_the_obstacle() -> None:
    lane = axis("lane")
    with pytest.raises(NoLayout, match=r"element 0 of .* has the locations"):
        as_layout(S[4:1] + R[2 : 4 @ lane])
    with pytest.raises(NoLayout, match=r"maps \(0,\) and \(1,\) to 0"):
        as_lego(Layout(4, 0))
    with pytest.raises(NoLayout, match=r"maps \(2,\) to 4"):
        as_lego(Layout(4, 2))
    with pytest.raises(NoLayout, match=r"4:0 in"):
        as_axe(Layout((4, 2), (0, 1)))
    with pytest.raises(NoLayout, match="not a sum of steps"):
        as_axe(Layout((4, 4), (F2(5), F2(1))))
    with pytest.raises(NoLayout, match="is not linear over F2"):
        as_linear(as_lego(Layout((2, 2), (2, 1), offset=0)).OrderBy(shifted(4)))


def shifted(size: int) -> GenP:
    """Everything moved on by one, in a ring."""
    return GenP([size], lambda i: (i + 1) % size, lambda x: ((x - 1) % size,))


def test_symbolic_conversions() -> None:
    n, m = atl.sizes("n m")
    lego = as_lego(Layout((n, m), (m, 1)))
    assert str(lego) == "GroupBy([n,m]).OrderBy(RegP([n,m], [1,2]))"
    assert str(as_layout(GroupBy([n, m]).OrderBy(RegP([n, m], [2, 1])))) == "(n,m):(1,n)"
    assert as_layout(Layout((n, m), (m, 1))) == Layout((n, m), (m, 1))


def test_a_triton_tile_as_an_axe_layout() -> None:
    tile = LinearLayout.from_bases([("reg", [1, 8]), ("lane", [2, 4, 16])], ["at"])
    assert isinstance(as_axe(as_layout(tile)), Axe)
    assert as_axe(LinearLayout.identity_1d(8, "lane", "i"), ["lane"]) == Axe([Iter(8, 1, axis("lane"))])


@pytest.mark.parametrize("layout", [Layout((4, 8), (8, 1)), Layout((4, 8)), Layout((2, 3, 4), (1, 8, 2)), Layout(6)])
def test_a_layout_equals_its_row_major_conversions(layout: Layout) -> None:
    assert isinstance(equal(as_axe(layout), layout), Proved)
    assert isinstance(equal(layout, as_axe(layout)), Proved)
    if isinstance(bijective(layout), Proved):
        assert isinstance(equal(as_lego(layout), layout), Proved)
        assert isinstance(equal(as_layout(as_lego(layout)), as_lego(layout)), Proved)


def test_row_major_families_are_compared_by_coordinate() -> None:
    n, m = atl.sizes("n m")
    by_columns = GroupBy([4, 8]).OrderBy(RegP([4, 8], [2, 1]))
    assert equal(by_columns, Layout((4, 8), (8, 1))).model.numbers == {"i0": 1, "i1": 0}  # type: ignore[union-attr]
    assert isinstance(equal(GroupBy([n, m]).OrderBy(RegP([n, m], [2, 1])), Layout((n, m))), Proved)
    assert isinstance(equal(GroupBy([n, m]).OrderBy(RegP([n, m], [2, 1])), Layout((n, m), (m, 1))), Refuted)


FRAGMENT = Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
"""Which element of a 16 x 16 tile each thread of a warp holds, as which value: the left operand of a tensor core."""


@pytest.mark.parametrize("layout", [FRAGMENT, Layout((4, (2, 4)), (8, (1, 2))), Layout(((3, 2), 1, (1, 5)))])
def test_nested_layouts_equal_their_flat_conversions(layout: Layout) -> None:
    assert isinstance(equal(layout, as_axe(layout)), Proved)
    assert isinstance(equal(as_axe(layout), layout), Proved)
    moved = Layout(layout.shape, layout.stride, offset=1)
    assert isinstance(equal(as_axe(layout), moved), Refuted)


def test_differences_within_a_mode_are_found() -> None:
    layout, other = Layout((4, 8), (8, 1)), S[(4, 2, 4) : (8, 4, 2)]
    for a, b in ((layout, other), (other, layout)):
        digits = tuple(equal(a, b).model.numbers.values())  # type: ignore[union-attr]
        row, column = digits if a is layout else (digits[0], 4 * digits[1] + digits[2])
        assert layout(row, column) != as_layout(other)(row, column // 4, column % 4)
    n, m = atl.sizes("n m")
    split = S[(3, 2, n) : (2 * n, n, 1)]
    assert isinstance(equal(split, Layout((6, n), (n, 1))), Proved)
    assert isinstance(equal(split, Layout((6, n), (n, 2))), Refuted)
    assert isinstance(equal(Layout((n, (2, m)), (2 * m, (1, 2))), S[(n, m, 2) : (2 * m, 2, 1)]), Proved)


def test_indices_are_compared_where_coordinates_are_not_the_same() -> None:
    assert isinstance(equal(S[(4, 8) : (8, 1)], Layout(32)), Proved)
    assert isinstance(equal(GroupBy([32]), GroupBy([4, 8])), Proved)


def test_chains_of_permutations_are_bijective_for_all_sizes() -> None:
    p, q, g = atl.sizes("p q g")
    grouped = GroupBy([p, q], given=[p % g == 0]).OrderBy(RegP([p // g, g, q], [1, 3, 2]))
    assert isinstance(bijective(grouped), Proved)
    assert isinstance(bijective(grouped, (p, q)), Proved)
    assert isinstance(bijective(grouped, p + q), Refuted)
    assert isinstance(bijective(GroupBy([4]).OrderBy(GenP([4], lambda i: 2 * i))), Refuted)


def test_conflict_counts_do_not_depend_on_the_family() -> None:
    storage, down, across = Layout((32, 32), (32, 1)), Layout(32, 1), Layout(32, 32)
    for access in (down, across):
        ways = bank_conflicts(storage, access).ways
        assert bank_conflicts(as_lego(storage), access).ways == ways
        assert isinstance(conflict_free(as_lego(storage), access), Proved) == (ways == 1)
