"""Expected values of the operations on Axe layouts."""

from __future__ import annotations

from typing import Any

import pytest

from layouts import LayoutError, NoLayout, axe
from layouts.axe import R, S

lane, warp, reg, tx, tid = map(axe.axis, ("lane", "warp", "reg", "tx", "tid"))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (S[(8, 8, 8, 4, 2) : (512, 64, 8, 2, 1)], "S[4096:1]"),
        (S[(1, 4, 1) : (7, 2, 3)], "S[4:2]"),
        (S[(8, 8, 1, 1, 1, 4) : (512, 64, 1, 1, 1, 2)], "S[(64,4):(64,2)]"),
        (S[(8, 2, 3, 6) : (6, 18, 6, 1)], "S[(8,36):(6,1)]"),
        (S[(8, 2, 3, 6) : (6, 24, 6, 1)], "S[(8,2,18):(6,24,1)]"),
        (S[(8, 2, 4, 2, 3, 6) : (2, 1, 4, 24, 6, 1)], "S[(16,4,2,18):(1,4,24,1)]"),
        (S[(3, 4, 5, 2, 3, 4) : (20, 5, 1, 60, 20, 5)], "S[(60,24):(1,5)]"),
        (S[(8, 4, 4, 8, 8, 8) : (4 @ lane, 1 @ lane, 16, 2, 8, 8)], "S[(32,32,8,8):(1@lane,2,8,8)]"),
        (S[(1, 1) : (5, 3)], "S[1:1]"),
        (S[4:1] + R[(2, 2) : (8 @ warp, 4 @ lane)], "S[4:1] + R[(2,2):(4@lane,8@warp)]"),
        (S[4:1] + R[(2, 2) : (1, 2)], "S[4:1] + R[4:1]"),
        (S[4:1] + R[(3, 2) : (1, 2)], "S[4:1] + R[5:1]"),
        (S[4:1] + R[2:-4] + 7, "S[4:1] + R[2:4] + 3@m"),
        (S[4:1] + 0, "S[4:1]"),
    ],
    ids=range(14),
)
def test_normal_forms(given: axe.Axe, found: str) -> None:
    assert str(axe.canonicalize(given)) == found


def test_fused_axes() -> None:
    given = S[(2, 8, 2, 4) : (2 @ warp, 4 @ lane, 1 @ warp, 1 @ lane)]
    fused = axe.fuse(given, tx, [(lane, 32), (warp, 4)])
    assert str(fused) == "S[(2,8,2,4):(64@tx,4@tx,32@tx,1@tx)]"
    assert axe.same_locations(axe.split(fused, tx, [(lane, 32), (warp, 4)]), given)
    groups = axe.axis("wgid"), axe.axis("wid"), lane
    whole = S[(2, 4, 32) : (1 @ groups[0], 1 @ groups[1], 1 @ lane)]
    assert str(axe.fuse(whole, tx, [(lane, 32), (groups[1], 4), (groups[0], 2)])) == "S[256:1@tx]"
    with pytest.raises(NoLayout, match="locations 0 to 31 on lane"):
        axe.fuse(S[32 : 1 @ lane], tx, [(lane, 16), (warp, 4)])
    with pytest.raises(NoLayout, match="cannot be split"):
        axe.split(S[6 : 3 @ tx], tx, [(lane, 8), (warp, 4)])


@pytest.mark.parametrize(
    ("outer", "inner", "outer_shape", "inner_shape", "found"),
    [
        (S[8:1], S[8:1], (8,), (8,), "S[64:1]"),
        (S[(8, 8) : (8, 1)], S[(8, 8) : (8, 1)], (8, 8), (8, 8), "S[(8,8,8,8):(512,8,64,1)]"),
        (S[(8, 8) : (8, 1)], S[(2, 4) : (1, 2)], (8, 8), (2, 4), "S[(8,2,32):(64,1,2)]"),
        (S[(8, 8) : (8, 1)], S[(4, 2, 2, 4) : (16, 8, 1, 2)], (8, 8), (8, 8), "S[(8,8,8,2,4):(512,8,64,1,2)]"),
    ],
    ids=range(4),
)
def test_tiles(
    outer: axe.Axe, inner: axe.Axe, outer_shape: tuple[int, ...], inner_shape: tuple[int, ...], found: str
) -> None:
    made = axe.tile(outer, inner, outer_shape, inner_shape)
    assert str(made) == found
    whole = tuple(a * b for a, b in zip(outer_shape, inner_shape, strict=True))
    assert axe.same_locations(axe.tile_of(made, inner, whole, inner_shape), outer)


def test_tile_and_tiled_layout_are_distinguished() -> None:
    made = axe.tile(S[(8, 8) : (8, 1)], S[(2, 4) : (1, 2)], (8, 8), (2, 4))
    with pytest.raises(NoLayout):
        axe.tile_of(made, S[(8, 8) : (8, 1)], (16, 32), (8, 8))
    assert str(axe.tile_of(S[64:1], S[8:1], (64,), (8,))) == "S[8:1]", "the paper's algorithm refuses this one"


def test_direct_sums() -> None:
    made = axe.direct_sum(S[(2, 2) : (8, 2)], S[(2, 2) : (4, 1)], (2, 2), (2, 2))
    assert str(made) == "S[16:1]"
    assert str(axe.direct_sum_of(made, S[(2, 2) : (4, 1)], (4, 4), (2, 2))) == "S[(2,2):(8,2)]"
    with pytest.raises(NoLayout, match="is not a direct sum"):
        axe.direct_sum_of(made, S[(2, 2) : (1, 4)], (4, 4), (2, 2))


def test_groups() -> None:
    both = axe.group(axe.group(S[30:1], (6, 5)).layout, (2, 15))
    assert str(both.layout) == "S[(2,3,5):(15,5,1)]"
    assert axe.group(both.layout, (6, 5)).separators == (0, 2, 3)
    assert axe.group(both.layout, (2, 15)).separators == (0, 1, 3)
    with pytest.raises(NoLayout, match="cannot group"):
        axe.group(axe.group(S[12:1], (3, 4)).layout, (2, 6))


def test_slices() -> None:
    found = axe.slice_of(S[(6, 10) : (7, 1)], (60,), [(5, 25)])
    assert str(found) == "S[(2,2,5):(7,2,1)] + 5@m"
    assert [axe.locations(found, k) for k in range(20)] == [
        axe.locations(S[(6, 10) : (7, 1)], 5 + k) for k in range(20)
    ]
    whole = S[(8, 4) : (4 @ lane, 1 @ reg)] + R[2 : 1 @ warp] + 3 @ warp
    part = axe.slice_of(whole, (8, 4), [(2, 5), (1, 3)])
    assert str(part) == "S[(3,2):(4@lane,1@reg)] + R[2:1@warp] + 8@lane + 1@reg + 3@warp"
    with pytest.raises(NoLayout, match="has no slice"):
        axe.slice_of(S[(2, 3) : (10, 1)], (6,), [(1, 4)])


def test_tile_of_the_paper() -> None:
    held = S[(8, 2, 4, 2) : (4 @ lane, 1 @ warp, 1 @ lane, 1 @ reg)] + R[2 : 4 @ warp] + 5 @ warp
    assert [dict(place.parts) for place in axe.locations(held, 16)] == [{lane: 4, warp: 5}, {lane: 4, warp: 9}]
    assert dict(axe.span(held)) == {lane: 32, warp: 6, reg: 2}
    overlapping = S[1:1] + R[(3, 2) : (1, 2)]
    assert len(axe.locations(overlapping, 0)) == 5, "a location that replicas share counts once"


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: S[(2, 3) : 4], "a stride for each"),
        (lambda: S[4:1] + S[4:1], "a single S"),
        (lambda: axe.locations(S[4:1], 4), "one of 4 elements"),
        (lambda: axe.slice_of(S[4:1], (4,), [(2, 2)]), "start < stop"),
        (lambda: axe.group(S[4:1], (3,)), "the same number"),
    ],
    ids=range(5),
)
def test_invalid_arguments_are_refused(made: Any, message: str) -> None:
    with pytest.raises(LayoutError, match=message):
        made()
