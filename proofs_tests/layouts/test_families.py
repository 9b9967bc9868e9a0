"""Conversions between layout families keep all locations, or name an element that prevents the conversion."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest

import atl
import layouts
from atl.prove import Proved, Refuted
from layouts.axe import Axe, Iter, R, S, axis
from layouts.axe import locations as locations_of
from layouts.foundation.function import Function
from layouts.foundation.semimodule import Coordinate
from layouts.foundation.tuples import modes_of
from layouts.foundation.tuples import product as size_of
from layouts.lego import GenP, GroupBy, RegP
from proofs_tests.layouts.axe.test_enumeration import drawn
from proofs_tests.layouts.lego.reference import any_chain
from proofs_tests.layouts.linear import random_layouts

CONVERSIONS: dict[str, Callable[[Function], Any]] = {
    "layout": layouts.as_layout,
    "linear": layouts.as_linear,
    "axe": layouts.as_axe,
    "lego": layouts.as_lego,
    "function": layouts.as_function,
}


def drawn_of(family: str, random: Random) -> Function:
    """Return a random layout of a family."""
    match family:
        case "layout":
            extents = [random.choice((1, 2, 3, 4, 8)) for _ in range(random.randint(1, 3))]
            if random.random() < 0.5:
                order = random.sample(range(len(extents)), len(extents))
                strides, step = [0] * len(extents), 1
                for place in order:
                    strides[place], step = step, step * extents[place]
                return layouts.Layout(tuple(extents), tuple(strides), offset=random.choice((0, 0, 3)))
            if random.random() < 0.3:
                return layouts.Layout(tuple(extents), tuple(layouts.F2(random.randrange(16)) for _ in extents))
            return layouts.Layout(tuple(extents), tuple(random.randint(0, 8) for _ in extents))
        case "linear":
            return random_layouts.any_layout(random, 2)
        case "axe":
            return drawn(random)
        case _:
            return any_chain(random)[0]


def place(function: Function, at: tuple[int, ...]) -> object:
    """Return the location of a coordinate as its nonzero steps, comparable across families."""
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
        for name, way in CONVERSIONS.items():
            try:
                made = way(function)
            except layouts.NoLayout:
                came[f"no {name}"] += 1
                continue
            came[name] += 1
            if isinstance(function, Axe) and len(function.replicas()) > 1:
                assert name == "axe"
                continue
            if name == "axe" and made is not function:
                made = layouts.as_layout(made)
                digits = product(*(range(n) for n, _ in made.modes if isinstance(n, int)))
                assert [place(made, at) for at in digits] == [place(function, at) for at in coordinates], function
                continue
            kept = [place(made, at) for at in coordinates] == [place(function, at) for at in coordinates]
            assert kept, (function, made)
    assert all(came[name] >= 2 for name in CONVERSIONS), came


def test_refusals_name_the_obstacle() -> None:
    lane = axis("lane")
    with pytest.raises(layouts.NoLayout, match=r"element 0 of .* has the locations"):
        layouts.as_layout(S[4:1] + R[2 : 4 @ lane])
    with pytest.raises(layouts.NoLayout, match=r"maps \(0,\) and \(1,\) to 0"):
        layouts.as_lego(layouts.Layout(4, 0))
    with pytest.raises(layouts.NoLayout, match=r"maps \(2,\) to 4"):
        layouts.as_lego(layouts.Layout(4, 2))
    with pytest.raises(layouts.NoLayout, match=r"4:0 in"):
        layouts.as_axe(layouts.Layout((4, 2), (0, 1)))
    with pytest.raises(layouts.NoLayout, match="not a sum of steps"):
        layouts.as_axe(layouts.Layout((4, 4), (layouts.F2(5), layouts.F2(1))))
    with pytest.raises(layouts.NoLayout, match="is not linear over F2"):
        layouts.as_linear(layouts.as_lego(layouts.Layout((2, 2), (2, 1), offset=0)).OrderBy(shifted(4)))


def shifted(size: int) -> GenP:
    """Return a rotation by one."""
    return GenP([size], lambda i: (i + 1) % size, lambda x: ((x - 1) % size,))


def test_symbolic_conversions() -> None:
    n, m = atl.sizes("n m")
    lego = layouts.as_lego(layouts.Layout((n, m), (m, 1)))
    assert str(lego) == "GroupBy([n,m]).OrderBy(RegP([n,m], [1,2]))"
    assert str(layouts.as_layout(GroupBy([n, m]).OrderBy(RegP([n, m], [2, 1])))) == "(n,m):(1,n)"
    assert layouts.as_layout(layouts.Layout((n, m), (m, 1))) == layouts.Layout((n, m), (m, 1))


def test_a_triton_tile_as_an_axe_layout() -> None:
    tile = layouts.LinearLayout.from_bases([("reg", [1, 8]), ("lane", [2, 4, 16])], ["at"])
    assert isinstance(layouts.as_axe(layouts.as_layout(tile)), Axe)
    assert layouts.as_axe(layouts.LinearLayout.identity_1d(8, "lane", "i"), ["lane"]) == Axe([Iter(8, 1, axis("lane"))])


@pytest.mark.parametrize(
    "layout",
    [layouts.Layout((4, 8), (8, 1)), layouts.Layout((4, 8)), layouts.Layout((2, 3, 4), (1, 8, 2)), layouts.Layout(6)],
)
def test_a_layout_equals_its_row_major_conversions(layout: layouts.Layout) -> None:
    assert isinstance(layouts.equal(layouts.as_axe(layout), layout), Proved)
    assert isinstance(layouts.equal(layout, layouts.as_axe(layout)), Proved)
    if isinstance(layouts.bijective(layout), Proved):
        assert isinstance(layouts.equal(layouts.as_lego(layout), layout), Proved)
        assert isinstance(layouts.equal(layouts.as_layout(layouts.as_lego(layout)), layouts.as_lego(layout)), Proved)


def test_row_major_families_are_compared_by_coordinate() -> None:
    n, m = atl.sizes("n m")
    by_columns = GroupBy([4, 8]).OrderBy(RegP([4, 8], [2, 1]))
    assert layouts.equal(by_columns, layouts.Layout((4, 8), (8, 1))).model.numbers == {"i0": 1, "i1": 0}  # type: ignore[union-attr]
    assert isinstance(layouts.equal(GroupBy([n, m]).OrderBy(RegP([n, m], [2, 1])), layouts.Layout((n, m))), Proved)
    assert isinstance(
        layouts.equal(GroupBy([n, m]).OrderBy(RegP([n, m], [2, 1])), layouts.Layout((n, m), (m, 1))), Refuted
    )


FRAGMENT = layouts.Layout(((4, 8), (2, 2, 2)), ((32, 1), (16, 8, 128)))
"""Left operand of a tensor core: (thread, value) to element of a 16 x 16 tile."""


@pytest.mark.parametrize(
    "layout", [FRAGMENT, layouts.Layout((4, (2, 4)), (8, (1, 2))), layouts.Layout(((3, 2), 1, (1, 5)))]
)
def test_nested_layouts_equal_their_flat_conversions(layout: layouts.Layout) -> None:
    assert isinstance(layouts.equal(layout, layouts.as_axe(layout)), Proved)
    assert isinstance(layouts.equal(layouts.as_axe(layout), layout), Proved)
    moved = layouts.Layout(layout.shape, layout.stride, offset=1)
    assert isinstance(layouts.equal(layouts.as_axe(layout), moved), Refuted)


def test_differences_within_a_mode_are_found() -> None:
    layout, other = layouts.Layout((4, 8), (8, 1)), S[(4, 2, 4) : (8, 4, 2)]
    for a, b in ((layout, other), (other, layout)):
        digits = tuple(layouts.equal(a, b).model.numbers.values())  # type: ignore[union-attr]
        row, column = digits if a is layout else (digits[0], 4 * digits[1] + digits[2])
        assert layout(row, column) != layouts.as_layout(other)(row, column // 4, column % 4)
    n, m = atl.sizes("n m")
    split = S[(3, 2, n) : (2 * n, n, 1)]
    assert isinstance(layouts.equal(split, layouts.Layout((6, n), (n, 1))), Proved)
    assert isinstance(layouts.equal(split, layouts.Layout((6, n), (n, 2))), Refuted)
    assert isinstance(layouts.equal(layouts.Layout((n, (2, m)), (2 * m, (1, 2))), S[(n, m, 2) : (2 * m, 2, 1)]), Proved)


def test_indices_are_compared_where_coordinates_are_not_the_same() -> None:
    assert isinstance(layouts.equal(S[(4, 8) : (8, 1)], layouts.Layout(32)), Proved)
    assert isinstance(layouts.equal(GroupBy([32]), GroupBy([4, 8])), Proved)


def test_chains_of_permutations_are_bijective_for_all_sizes() -> None:
    p, q, g = atl.sizes("p q g")
    grouped = GroupBy([p, q], given=[p % g == 0]).OrderBy(RegP([p // g, g, q], [1, 3, 2]))
    assert isinstance(layouts.bijective(grouped), Proved)
    assert isinstance(layouts.bijective(grouped, (p, q)), Proved)
    assert isinstance(layouts.bijective(grouped, p + q), Refuted)
    assert isinstance(layouts.bijective(GroupBy([4]).OrderBy(GenP([4], lambda i: 2 * i))), Refuted)


def test_conflict_counts_do_not_depend_on_the_family() -> None:
    storage, down, across = layouts.Layout((32, 32), (32, 1)), layouts.Layout(32, 1), layouts.Layout(32, 32)
    for access in (down, across):
        ways = layouts.bank_conflicts(storage, access).ways
        assert layouts.bank_conflicts(layouts.as_lego(storage), access).ways == ways
        assert isinstance(layouts.conflict_free(layouts.as_lego(storage), access), Proved) == (ways == 1)
