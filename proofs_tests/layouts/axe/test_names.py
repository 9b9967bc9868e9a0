"""Axes are identified by name: equality, fusing and splitting axes, refusals."""

from __future__ import annotations

from time import process_time
from typing import Any

import pytest

import layouts
from atl.errors import ATLError
from atl.prove import Proved, Refuted
from layouts import Layout, NoLayout, axe, composition, equal
from layouts.axe import R, S

lane, warp, thread, m = map(axe.axis, ("lane", "warp", "thread", "m"))


def test_layouts_along_different_axes_are_not_equal() -> None:
    assert isinstance(equal(S[4 : 1 @ lane], S[4 : 1 @ warp]), Refuted)
    assert isinstance(equal(S[4 : 1 @ lane], S[4:1]), Refuted)
    assert isinstance(equal(S[4 : 1 @ lane] + 3 @ warp, S[4 : 1 @ lane]), Refuted)
    assert isinstance(equal(S[(1, 4) : (2 @ lane, 1 @ warp)], S[(2, 2) : (2 @ warp, 1 @ warp)]), Proved)
    assert isinstance(equal(S[(2**20, 2**20) : (2**20 @ warp, 1 @ warp)], S[2**40 : 1 @ warp]), Proved)


def test_a_refutation_names_an_element_with_different_locations() -> None:
    first, second = S[(2, 3) : (1 @ lane, 2 @ warp)], S[(2, 3) : (1 @ lane, 1 @ warp)]
    answer = equal(first, second)
    assert isinstance(answer, Refuted)
    at = answer.model.numbers["i0"], answer.model.numbers["i1"]
    assert axe.locations(first, at) != axe.locations(second, at)


def test_all_locations_of_replicated_elements_are_compared() -> None:
    one = S[4 : 1 @ lane] + R[(2, 2) : (2 @ warp, 1 @ warp)]
    assert isinstance(equal(one, S[4 : 1 @ lane] + R[4 : -1 @ warp] + 3 @ warp), Proved)
    assert isinstance(equal(one, S[4 : 1 @ lane] + R[3 : 1 @ warp]), Refuted)


def test_overlapping_replicas_are_handled_quickly() -> None:
    before = process_time()
    many = S[2:1] + R[(40, 40) : (7, 11)]
    assert axe.same_locations(axe.canonicalize(many), many)
    assert axe.same_locations(S[8:1] + R[4096:1], S[8:1] + R[(64, 64) : (64, 1)])
    assert str(axe.canonicalize(S[8:1] + R[(64, 64) : (1, 64)])) == "S[8:1] + R[4096:1]"
    assert process_time() - before < 2


def test_an_axis_is_split_only_without_carries() -> None:
    sizes = [(lane, 16), (warp, 2)]
    with pytest.raises(NoLayout, match="locations 8 to 23 on lane"):
        axe.split(S[16 : 1 @ thread] + 8 @ thread, thread, sizes)
    with pytest.raises(NoLayout, match="locations 20 to 32 on lane"):
        axe.fuse(S[4 : 4 @ lane] + 20 @ lane, thread, sizes)
    with pytest.raises(NoLayout, match="already has locations along m"):
        axe.fuse(S[(4, 4) : (4 @ lane, 1)], m, sizes)
    with pytest.raises(ATLError, match="the axes"):
        axe.fuse(S[4 : 4 @ lane], thread, [(lane, 4), (lane, 8)])
    down = axe.split(S[32 : -1 @ thread] + 31 @ thread, thread, sizes)
    assert str(down) == "S[(2,16):(-1@warp,-1@lane)] + 15@lane + 1@warp"
    assert str(axe.split(S[2 : 3 @ thread], thread, sizes)) == "S[2:3@lane]"
    assert str(axe.split(S[(2, 4) : (5 @ thread, 3)], thread, sizes)) == "S[(2,4):(5@lane,3)]"


def test_tiles_with_replicas_are_found() -> None:
    inner, outer = S[2:1] + R[2 : 1 @ lane], S[2:1] + R[3 : 1 @ lane]
    assert axe.same_locations(axe.tile_of(axe.tile(outer, inner, (2,), (2,)), inner, (4,), (2,)), outer)


def test_a_composition_after_a_layout_over_axes_is_found() -> None:
    found = composition(S[(4, 4) : (4 @ lane, 1 @ warp)], Layout(4, 5))
    assert found.is_layout
    assert found.table().tolist() == [[0, 0], [4, 1], [8, 2], [12, 3]]


def test_names_may_be_given_as_text() -> None:
    assert (
        axe.fuse(S[(4, 4) : (4 @ lane, 1 @ warp)], "thread", [("lane", 16), ("warp", 4)])
        == S[(4, 4) : (4 @ thread, 16 @ thread)]
    )
    assert 3 @ lane + S[2:1] == S[2:1] + 3 @ lane


def _of_others(wrong: Any) -> dict[str, Any]:
    one = S[4:1]
    return {
        "canonicalize": lambda: axe.canonicalize(wrong),
        "span": lambda: axe.span(wrong),
        "group": lambda: axe.group(wrong, (4,)),
        "shape": lambda: axe.group(one, wrong),
        "tile": lambda: axe.tile(one, wrong, (4,), (4,)),
        "tile_of": lambda: axe.tile_of(one, one, (4,), wrong),
        "same_locations": lambda: axe.same_locations(one, wrong),
        "slice_of": lambda: axe.slice_of(one, (4,), [wrong]),
        "sizes": lambda: axe.split(S[4 : 1 @ lane], lane, [(warp, wrong)]),
        "no sizes": lambda: axe.fuse(one, warp, wrong),
        "places": lambda: axe.locations(one, wrong + 0.5),
    }


@pytest.mark.parametrize("name", list(_of_others(0)))
def test_non_axe_arguments_are_refused(name: str) -> None:
    with pytest.raises(ATLError):
        _of_others(0)[name]()


def test_conversions_accept_all_integer_sums() -> None:
    assert layouts.as_axe(Layout(8, layouts.F2(1))) == S[8:1]
    with pytest.raises(NoLayout, match=r"at \(1, 1\) the location is 2"):
        layouts.as_axe(Layout((2, 2), (layouts.F2(1), layouts.F2(3))))
    back = layouts.as_function(Layout((4, 8), (10, 1))).inverse
    assert back is not None
    with pytest.raises(NoLayout, match="no element at 9"):
        back(9)
