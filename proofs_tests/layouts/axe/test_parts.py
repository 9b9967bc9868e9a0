"""Slices, splits and storages of symbolic Axe layouts; summands with overlapping replicas."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from layouts import LinearLayout, NoLayout
from layouts.axe import Axe, R, S, axis, direct_sum, direct_sum_of, fuse, same_locations, slice_of, split
from layouts.axe.replicas import number
from layouts.errors import CannotTabulate, LayoutError
from layouts.foundation.sizes import placed
from layouts.foundation.tuples import extent_of
from proofs_tests.layouts.axe.test_enumeration import sets
from rewrites import reschedule

n, m, i = atl.sizes("n m i")
lane, warp, thread = map(axis, ("lane", "warp", "thread"))
NUMBERS = [{"n": a, "m": b, "i": c} for a, b, c in ((2, 1, 0), (3, 2, 1), (4, 4, 2))]
KNOWN = (n >= i + 2, m >= 1)
WHOLE: tuple[tuple[Any, Any, tuple[Any, ...]], ...] = (
    ((n, m), (m, 1), (n, m)),
    ((n, 4), (8, 1), (n, 4)),
    ((n, 4), (8, 1), (4 * n,)),
    ((4, n), (1 @ lane, 4 @ warp), (4, n)),
    ((2, n, 4), (1 @ lane, 8, 1 @ warp), (2, 4 * n)),
    ((n, m), (m, 1), (n * m,)),
)


def ranges(extent: Any) -> list[tuple[Any, Any]]:
    """Return ranges of an extent, most of them in range."""
    of_sizes = [(i, i + 1), (i, n), (4 * i, 4 * i + 4), (4 * i + 1, 4 * i + 3), (m, n * m), (4, 4 * n), (1, 4 * n - 1)]
    return [(0, extent), (0, 1), (1, 2), *of_sizes]


def test_slices_of_sizes_are_the_elements_at_numbers() -> None:
    came: Counter[str] = Counter()
    for extents, strides, shape in WHOLE:
        layout = (S[extents:strides] + R[2 : n @ axis("copy")] + 3 @ lane).given(*KNOWN)
        for region in product(*map(ranges, shape)):
            try:
                part = slice_of(layout, shape, region)
            except (LayoutError, CannotTabulate, NoLayout) as refused:
                came[type(refused).__name__] += 1
                continue
            came["sliced"] += 1
            for numbers in NUMBERS:
                whole = [number(placed(extent_of(extent), numbers)) for extent in shape]
                box = [slice(*(number(placed(extent_of(end), numbers)) for end in each)) for each in region]
                at = np.arange(np.prod(whole)).reshape(whole)[tuple(box)].reshape(-1)
                held = sets(layout.where(**numbers))
                assert sets(part.where(**numbers)) == [held[k] for k in at], f"{layout} {region} {part} {numbers}"
    assert came["sliced"] > 60, came
    with pytest.raises(LayoutError, match=r"state facts about sizes: layout\.given"):
        slice_of(S[n:1], (n,), [(0, i)])
    with pytest.raises(CannotTabulate, match="is not known for all sizes"):
        slice_of(S[(n, 4) : (8, 1)].given(n >= 2), (4 * n,), [(1, 4 * n)])


def test_axes_of_sizes_are_split_as_they_were_fused() -> None:
    came: Counter[str] = Counter()
    for seed in range(60):
        random = Random(seed)
        sizes: list[tuple[Any, Any]] = [(lane, random.choice((m, 4, 2 * m))), (warp, random.choice((n, 8 * n)))]
        extents = [random.choice((2, m, n, 4)) for _ in range(2)]
        strides = [random.choice((1, 1, 2, m)) @ random.choice((lane, warp, axis("reg"))) for _ in range(2)]
        try:
            layout = (S[tuple(extents) : tuple(strides)] + random.choice((0, 1)) @ warp).given(n >= 5, m >= 2)
            fused = fuse(layout, thread, sizes)
        except NoLayout:
            came["too large"] += 1
            continue
        try:
            again = split(fused, thread, sizes)
        except (NoLayout, CannotTabulate):
            came["not split"] += 1
            continue
        came["split"] += 1
        assert same_locations(fuse(again, thread, sizes), fused)
        at = {"n": 5, "m": 3}
        number_of = [(along, placed(extent_of(size), at)) for along, size in sizes]
        assert sets(fuse(again.where(**at), thread, number_of)) == sets(fused.where(**at))
    assert came["split"] > 15, came
    with pytest.raises(CannotTabulate, match="an iter that ends there"):
        split(S[n : 1 @ lane], lane, [("a", 2), ("b", 2)])


@pytest.mark.parametrize(
    "layout",
    [
        S[(n, m) : (1, n)],
        S[(n, m) : (1 @ lane, 1 @ warp)],
        S[(n, 4, m) : (4 * m, 1, 4)],
        S[(n, m) : (2 * m @ lane, 2 @ lane)],
    ],
    ids=str,
)
def test_a_tensor_of_sizes_is_stored_along_axes(layout: Axe) -> None:
    columns = "m" if len(layout.sharded) == 2 else "4*m"
    shape = f"float32[n, {columns}]"
    s = reschedule(atl.parse(f"f (A : {shape}) : {shape} := let y := 2 * A in ⊞[i < n] ⊞[j < {columns}] y[i, j]"))
    s.store("y", layout)
    given = np.arange(24, dtype=np.float32).reshape(3, 8)
    assert np.array_equal(atl.evaluate(s.goal, A=given), 2 * given)


def test_incomparable_axis_extents_are_reported() -> None:
    open_ = S[(n, n, m) : (1 @ lane, n @ warp, 1 @ warp)]
    with pytest.raises(CannotTabulate, match=r"which of .* is larger, along warp"):
        open_.stored((n.node, n.node, m.node))


@pytest.mark.long
def test_direct_summand_with_overlapping_replicas_is_found() -> None:
    """Several outer layouts may give the same sum."""
    came: Counter[str] = Counter()
    for seed in range(40):
        random = Random(seed)
        first, second = (
            R[tuple(random.choice((2, 3)) for _ in range(2)) : tuple(random.sample(range(1, 8), 2))] for _ in range(2)
        )
        outer, inner = S[2:20] + first, S[2:50] + second
        whole = direct_sum(outer, inner, (2,), (2,))
        found = direct_sum_of(whole, inner, (4,), (2,))
        assert sets(direct_sum(found, inner, (2,), (2,))) == sets(whole)
        came["the same" if sets(found) == sets(outer) else "another"] += 1
    assert len(came) == 2, came


def test_an_offset_may_be_a_size_on_either_side() -> None:
    assert n + S[4:1] == S[4:1] + n
    assert (n + S[4:1]).where(n=3) == S[4:1] + 3
    with pytest.raises(InvalidArgument, match="is not an index"):
        _ = n + "x"


@pytest.mark.parametrize("name", ["lane**", "", "a b", "1st"])
def test_unparsable_names_are_refused(name: str) -> None:
    makers: list[Callable[[], object]] = [
        lambda: LinearLayout.from_bases([(name, [1])], ["i"]),
        lambda: LinearLayout.from_bases([("lane", [1])], [name]),
        lambda: LinearLayout.identity_1d(4, name, "i"),
    ]
    for made in makers:
        with pytest.raises(InvalidArgument, match="is not a valid name"):
            made()
