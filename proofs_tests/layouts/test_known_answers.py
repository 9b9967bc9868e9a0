"""Known answers: cases that other systems get wrong, and examples from CuTe's documentation."""

from __future__ import annotations

import pytest

import layouts
from atl import sizes
from atl.prove import Proved, Refuted
from layouts import (
    F2,
    E,
    Layout,
    NoLayout,
    coalesce,
    common_coarsening,
    common_refinement,
    complement,
    composition,
    injective,
    left_inverse,
    logical_product,
    right_inverse,
)


def test_a_carry_between_modes_is_not_a_layout() -> None:
    """NVIDIA/cutlass#2955: pycute, CuTe and tensor-layouts give (3,2):(2,3), whose value at (2, 1) is 7."""
    made = composition(Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    assert not made.is_layout
    assert made(2, 1) == 8
    assert "(2, 1)" in made.reason


def test_inexact_steps_are_not_rounded() -> None:
    """NVIDIA/cutlass#3177: CuTe gives a layout with another function."""
    a = Layout((4, 6, 8), (2, 3, 5))
    made = composition(a, Layout(6, 3))
    assert not made.is_layout
    assert [made(i) for i in range(6)] == [a(3 * i) for i in range(6)]


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        (Layout((23, 5), (2, 120)), Layout(7, 3), Layout(7, 6)),
        (Layout((4, 4), (12, 2)), Layout(2, 6), Layout(2, 26)),
        (Layout((5, 3), (7, 1)), Layout(2, 3), Layout(2, 21)),
    ],
    ids=str,
)
def test_composition_with_strides_is_not_refused(outer: Layout, inner: Layout, expected: Layout) -> None:
    """Refused by pycute, by all three, and by PyCuTe."""
    assert composition(outer, inner) == expected


@pytest.mark.parametrize("inner", [Layout(2, 3), Layout(7, 1)], ids=str)
def test_strict_composition_refuses_what_cute_does_not_admit(inner: Layout) -> None:
    with pytest.raises(NoLayout, match="does not admit"):
        composition(Layout((5, 3), (7, 1)), inner, strict=True)


def test_right_inverses_skip_stride_zero() -> None:
    """pycute gives 1:0 for both."""
    assert right_inverse(Layout((2, 3), (0, 1))) == Layout(3, 2)
    found = right_inverse(Layout((4, 2, 5), (1, 20, 4)))
    assert found == Layout((4, 5, 2), (1, 8, 4))
    assert right_inverse(Layout((2, 2, 3, 2), (0, 1, 0, 2))).size == 4


def test_the_product_with_a_number_is_a_product() -> None:
    """pycute divides."""
    assert logical_product(Layout(4, 1), 3) == Layout((4, 3), (1, 4))


def test_coalescing_by_mode_keeps_the_modes() -> None:
    """tensor-layouts gives (1,1):(0,0)."""
    assert coalesce(Layout((2, (1, 6)), (1, (6, 2))), (1, 1)) == Layout((2, 6), (1, 2))


def test_a_slice_across_rows_is_found() -> None:
    """TVM finds none for the flat region from 5 to 25 of rows of ten at pitch seven."""
    made = composition(Layout((10, 6), (1, 7)), Layout(20, 1, offset=5))
    assert made == Layout((5, 2, 2), (1, 2, 7), offset=5)


def test_a_trailing_mode_of_extent_one_matters_beyond_the_domain() -> None:
    a = Layout((4, 1), (1, 7))
    assert coalesce(a) == Layout(4, 1)
    assert composition(a, Layout(2, 4)) == Layout(2, 7)


@pytest.mark.parametrize(
    "layout",
    [
        Layout((63, 2), (1, 1)),
        Layout((2, 2), (1, 1)),
        Layout((2, 3), (2, 1)),
        Layout((2, 2), (2, 3)),
        Layout((2, 2), (2, 5)),
    ],
    ids=str,
)
def test_left_inverses_need_ordered_strides(layout: Layout) -> None:
    with pytest.raises(NoLayout, match="divides the stride"):
        left_inverse(layout)


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        (Layout((8, 8), (F2(9), F2(1))), Layout((8, 8), (F2(8), F2(9)))),
        (Layout((8, 8), (F2(1), F2(9))), Layout((8, 8), (F2(1), F2(9)))),
        (Layout((4, 4), (F2(1), F2(5))), Layout((4, 4), (F2(1), F2(5)))),
    ],
    ids=str,
)
def test_right_inverses_over_f2(layout: Layout, expected: Layout) -> None:
    assert right_inverse(layout) == expected
    assert left_inverse(layout) == expected


def test_right_inverse_over_f2_has_full_rank() -> None:
    """PyCuTe stops at 8 places; all 64 can be undone."""
    found = right_inverse(Layout((8, 8), (F2(1), F2(13))))
    assert found.size == 64
    assert all(int(Layout((8, 8), (F2(1), F2(13)))(int(found(i)))) == i for i in range(64))


def test_carrying_steps_are_not_multiples_over_f2() -> None:
    """With steps of three over F2 the digit at 3 is 9, not 5 as without carries."""
    a = Layout(16, F2(1))
    made = composition(a, Layout(4, 3))
    assert not made.is_layout
    assert [int(made(i)) for i in range(4)] == [0, 3, 6, 9]
    assert composition(a, Layout(4, 4)) == Layout(4, F2(4))


def test_refinements_and_coarsenings() -> None:
    assert common_refinement(((2, 3), 20), (6, (4, 5))) == ((2, 3), (4, 5))
    assert common_refinement((2, (3, 5)), ((3, 2), 5)) is None
    assert common_coarsening((2, (3, 5)), ((3, 2), 5)) == 30
    assert common_coarsening(((2, 3), 4), ((3, 2), 4)) == (6, 4)
    assert common_coarsening(6, 7) is None


def test_complements_and_coalescing_with_symbolic_extents() -> None:
    n, m, x = sizes("N M X")
    assert str(complement(Layout((4, n), (1, 4)))) == "1:4*N"
    assert str(complement(Layout(n, x, given=[x >= 1]))) == "(X,1):(1,N*X)"
    assert str(coalesce(Layout((n, m), (1, n)))) == "M*N:1"
    assert str(coalesce(Layout((4, n), (1, 4)))) == "4*N:1"  # the extent keeps the 4 for later divisions
    assert str(composition(Layout((4, n), (1, 4)), Layout((4, n), (n, 1)))) == "(4,N):(N,1)"


def test_divisions_of_the_documentation() -> None:
    assert layouts.logical_divide(Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)) == Layout(
        ((2, 2), (2, 3)), ((4, 1), (2, 8))
    )
    tiled = layouts.logical_divide(Layout((9, (4, 8)), (59, (13, 1))), (Layout(3, 3), Layout((2, 4), (1, 8))))
    assert tiled == Layout(((3, 3), ((2, 4), (2, 2))), ((177, 59), ((13, 2), (26, 1))))
    zipped = layouts.zipped_divide(Layout((9, (4, 8)), (59, (13, 1))), (Layout(3, 3), Layout((2, 4), (1, 8))))
    assert zipped.shape == ((3, (2, 4)), (3, (2, 2)))
    flat = layouts.flat_divide(Layout((9, (4, 8)), (59, (13, 1))), (Layout(3, 3), Layout((2, 4), (1, 8))))
    assert flat.shape == (3, (2, 4), 3, (2, 2))


def test_products_of_the_documentation() -> None:
    assert layouts.logical_product(Layout((2, 2), (4, 1)), Layout(6, 1)) == Layout(((2, 2), (2, 3)), ((4, 1), (2, 8)))
    assert layouts.blocked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))) == Layout(
        ((2, 3), (5, 4)), ((5, 10), (1, 30))
    )
    assert layouts.raked_product(Layout((2, 5), (5, 1)), Layout((3, 4), (1, 3))) == Layout(
        ((3, 2), (4, 5)), ((10, 5), (30, 1))
    )


def test_coordinates_are_tiled_like_integers() -> None:
    """A predicate tensor is the tiled identity; its comparison with the extents guards a partial tile."""
    tiled = layouts.zipped_divide(layouts.coordinates((10, 6)), (4, 4))
    inside = [all(part < n for part, n in zip(_pair(tiled(at)), (10, 6), strict=True)) for at in range(12 * 8)]
    assert tiled.size == 12 * 8
    assert sum(inside) == 60
    assert layouts.injective(tiled) == Proved("structure")


def _pair(at: object) -> tuple[int, int]:
    assert isinstance(at, layouts.Coordinate)
    return at[0], at[1]  # type: ignore[return-value]


def test_strides_of_axes_give_coordinates() -> None:
    tall = Layout((4, 8), (E(1), E(0)))
    assert tuple(tall(3, 5)) == (5, 3)
    assert layouts.bijective(tall, (8, 4)) == Proved("structure")
    assert composition(Layout((8, 4), (4, 1)), tall) == Layout((4, 8), (1, 4))


def test_collisions_near_zero_are_found_in_large_modes() -> None:
    layout = Layout((64, 64, 64, 64), (101, 103, 107, 109))
    answer = injective(layout)
    assert isinstance(answer, Refuted)
    numbers = answer.model.numbers
    one, other = (tuple(numbers[f"{name}{k}"] for k in range(4)) for name in "ij")
    assert one != other
    assert layout(one) == layout(other)


def test_products_do_not_depend_on_grouping_of_modes() -> None:
    """A by-mode tiler puts copies into the gaps of its own mode: of 2:10 into its gap."""
    block, tiler = Layout((2, 2), (1, 10)), (3, 5)
    zipped = layouts.zipped_product(block, tiler)
    assert zipped == Layout(((2, 2), (3, 5)), ((1, 10), (2, 1)))
    assert layouts.tiled_product(block, tiler) == Layout(((2, 2), 3, 5), ((1, 10), 2, 1))
    assert layouts.flat_product(block, tiler) == Layout((2, 2, 3, 5), (1, 10, 2, 1))
    assert logical_product(block, (3,)) == Layout(((2, 3), 2), ((1, 2), 10))
    copies = Layout(4)
    assert layouts.zipped_product(block, copies) == logical_product(block, copies)
    assert layouts.flat_product(block, copies)(1, 1, 3) == logical_product(block, copies)((1, 1), 3)


def test_tiler_of_fewer_modes_keeps_the_others() -> None:
    rows = Layout((4, 8), (8, 1))
    assert layouts.zipped_divide(rows, (2,)) == Layout(((2,), (2, 8)), ((8,), (16, 1)))
    assert layouts.logical_divide(rows, (None, 2)) == Layout(((4, 1), (2, 4)), ((8, 0), (1, 2)))
    assert composition(rows, (2,)) == composition(rows, (2, None)) == Layout((2, 8), (8, 1))
    assert coalesce(Layout(((2, 3), 4), ((1, 2), 6)), (1,)) == Layout((6, 4), (1, 6))


def test_tiled_mode_without_strides_keeps_its_values() -> None:
    outer = Layout((6, (2, 4)), (8, (7, 1)))
    for tiler in ((None, Layout(3, 1)), (Layout(2, 3), Layout((3,), (1,)))):
        made = composition(outer, tiler)
        assert not made.is_layout
        assert "in mode 1" in made.reason
        first = Layout(6) if tiler[0] is None else tiler[0]
        for i, j in ((i, j) for i in range(2) for j in range(3)):
            assert made(i, j) == outer(first(i), j)


def test_congruence_and_compatibility() -> None:
    weakly, divides = layouts.weakly_congruent, layouts.weakly_compatible
    assert weakly(4, (2, 2))
    assert weakly((4, 4), (2, (2, 2)))
    assert not weakly((4, 4), 4)
    assert not weakly((4, 4), (2, 2, 2))
    assert divides(4, (2, 6))
    assert not divides(5, (2, 2))
    assert divides((2, 5), (4, 5))
    assert not divides((4, 5), (2, 5))
    assert not divides((2, 2), 4)
    assert common_refinement((2, 2), (2, 2, 1)) is None
    assert (layouts.rank((1, 2)), layouts.rank(4)) == (2, 1)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Layout((2, 4), (1, 10)), Layout((2, 8), (1, 10))),
        (Layout((4, 2), (1, 10)), Layout((2, 8), (1, 10))),
        (Layout(4, 1), Layout((4, 2), (1, 10))),
        (Layout((2, 2, 3), (1, 5, 50)), Layout((2, 2, 3), (1, 5, 60))),
    ],
    ids=str,
)
def test_the_first_difference_is_reported(first: Layout, second: Layout) -> None:
    found = layouts.equal(first, second)
    assert isinstance(found, Refuted)
    digits = list(found.model.numbers.values())
    at = digits[0] if len(digits) == 1 else layouts.Box(first.shape).join(digits)
    before = [(first(i), second(i)) for i in range(at)]
    assert [a for a, _ in before] == [b for _, b in before]
    ends = [layout.size for layout in (first, second)]
    assert at in ends or first(at) != second(at)


def test_coordinates_beyond_machine_integers_are_in_an_image() -> None:
    high = 1 << 70
    assert layouts.image(Layout((2, 2), (E(0) * high, E(1)))).tolist() == [[0, 0], [0, 1], [high, 0], [high, 1]]


def test_slices_keep_open_digits() -> None:
    nested = Layout(((2, 2, 2), 4), ((1, 2, 4), 8))
    kept = nested((None, 1, None), 1)
    assert kept == Layout((2, 2), (1, 4), offset=10)
    assert [kept(i, j) for j in range(2) for i in range(2)] == [
        nested((i, 1, j), 1) for j in range(2) for i in range(2)
    ]


def test_cosize_counts_negative_strides() -> None:
    n = sizes("n")
    layout = Layout((n, 4), (-4, 1))
    assert str(layouts.cosize(layout)) == "4*n"
    at_five = layout.where(n=5)
    assert layouts.cosize(at_five) == at_five.table().max() - at_five.table().min() + 1
