"""Operations on random Axe layouts, compared with sets of locations by definition."""

from __future__ import annotations

from collections import Counter
from itertools import product
from math import prod
from random import Random

import numpy as np
import pytest

from layouts import NoLayout, axe
from layouts.axe.replicas import number

AXES = tuple(map(axe.axis, ("m", "lane", "warp")))
EXTENTS = (1, 2, 2, 3, 4, 6)
STRIDES = (1, 1, 2, 3, 4, 6, 8, 12, -1, -2, 24)


def drawn(random: Random, size: int | None = None, *, replicas: bool = True) -> axe.Axe:
    """Return a random layout, with `size` elements if given."""
    if size is None:
        extents = [random.choice(EXTENTS) for _ in range(random.randint(1, 3))]
    else:
        extents, left = [], size
        while left > 1:
            extents.append(random.choice([d for d in range(2, left + 1) if left % d == 0]))
            left //= extents[-1]
        random.shuffle(extents)
    iters = [axe.Iter(extent, random.choice(STRIDES), random.choice(AXES[:2])) for extent in extents]
    if random.random() < 0.4:
        step = 1
        for place in reversed(range(len(iters))):
            iters[place] = axe.Iter(extents[place], step, AXES[0])
            step *= extents[place]
    copies = [
        axe.Iter(random.choice((1, 2, 3)), random.choice(STRIDES), random.choice(AXES))
        for _ in range(random.choice((0, 0, 1, 2)))
    ]
    offset = axe.Location({random.choice(AXES): random.randint(0, 9)})
    return axe.Axe(iters or [axe.Iter(1, 1)], copies if replicas else (), offset)


def sets(layout: axe.Axe) -> list[frozenset[axe.Location]]:
    """Return the locations of each element, by definition."""
    out = []
    for digits in product(*(range(number(each.extent)) for each in layout.sharded)):
        found = set()
        for steps in product(*(range(number(each.extent)) for each in layout.replicated)):
            parts: Counter[axe.Axis] = Counter(dict(layout.offset.parts))
            for digit, each in zip((*digits, *steps), (*layout.sharded, *layout.replicated), strict=True):
                parts[each.axis] += digit * number(each.stride)
            found.add(axe.Location(dict(parts)))
        out.append(frozenset(found))
    return out


@pytest.mark.long
def test_canonical_forms_are_unique_and_equal() -> None:
    seen: dict[tuple[frozenset[axe.Location], ...], set[str]] = {}
    for seed in range(700):
        layout = drawn(Random(seed))
        short = axe.canonicalize(layout)
        assert sets(short) == sets(layout), layout
        assert len(short.sharded) <= max(sum(each.extent != 1 for each in layout.sharded), 1)
        assert axe.canonicalize(short) == short
        seen.setdefault(tuple(sets(layout)), set()).add(str(short))
        first = layout.strides().table().reshape(number(layout.size), -1)[0].tolist()
        assert first == [layout.offset[at] for at in layout.axes][: len(first)]
    assert all(len(forms) == 1 for forms in seen.values()), [forms for forms in seen.values() if len(forms) > 1]
    assert len(seen) < 690, "some layouts were equal"


def test_same_locations_compares_sets() -> None:
    came: Counter[bool] = Counter()
    for seed in range(800):
        random = Random(seed)
        first = drawn(random, random.choice((2, 4, 6)))
        second = drawn(random, number(first.size)) if random.random() < 0.7 else axe.canonicalize(first)
        equal = sets(first) == sets(second)
        came[equal] += 1
        assert axe.same_locations(first, second) == equal
    assert min(came[True], came[False]) > 150


@pytest.mark.long
def test_spans_groups_and_slices() -> None:
    came: Counter[str] = Counter()
    for seed in range(500):
        random = Random(seed)
        layout = drawn(random)
        held = sets(layout)
        for at, length in axe.span(layout).items():
            along = [number(place[at]) for each in held for place in each]
            assert length == max(along) - min(along) + 1
        shape = factored(random, number(layout.size))
        try:
            grouped = axe.group(layout, shape)
        except NoLayout:
            came["no group"] += 1
        else:
            came["grouped"] += 1
            assert sets(grouped.layout) == held
            assert [prod(number(each.extent) for each in grouped.block(k)) for k in range(len(shape))] == list(shape)
        region = [(start := random.randrange(extent), random.randint(start + 1, extent)) for extent in shape]
        inside = np.arange(number(layout.size)).reshape(shape)[tuple(slice(*each) for each in region)].reshape(-1)
        wanted = [held[place] for place in inside]
        try:
            part = axe.slice_of(layout, shape, region)
        except NoLayout:
            came["no slice"] += 1
            assert not expressible(wanted)
        else:
            came["sliced"] += 1
            assert sets(part) == wanted
    assert min(came[what] for what in ("grouped", "no group", "sliced", "no slice")) > 20, came


def factored(random: Random, size: int) -> tuple[int, ...]:
    """Return a random shape with `size` elements."""
    out: list[int] = []
    while size > 1 and len(out) < 2:
        out.append(random.choice([d for d in range(1, size + 1) if size % d == 0]))
        size //= out[-1]
    return (*out, size)


def expressible(wanted: list[frozenset[axe.Location]]) -> bool:
    """Return whether some iters give these locations, by trying all factorisations."""
    least = [min(each, key=lambda place: [place[at] for at in AXES]) for each in wanted]
    steps = [tuple(number(place[at]) - number(least[0][at]) for at in AXES) for place in least]

    def fits(steps: list[tuple[int, ...]]) -> bool:
        if len(steps) == 1:
            return True
        for extent in range(2, len(steps) + 1):
            if len(steps) % extent:
                continue
            count = len(steps) // extent  # size of a block of the slowest iter
            stride = steps[count]
            blocks = [steps[k * count : (k + 1) * count] for k in range(extent)]
            moved = all(
                tuple(a + k * s for a, s in zip(first, stride, strict=True)) == step
                for k, block in enumerate(blocks)
                for first, step in zip(blocks[0], block, strict=True)
            )
            if moved and sum(map(bool, stride)) == 1 and fits(blocks[0]):
                return True
        return False

    return fits(steps)


@pytest.mark.long
def test_sums_and_tiles_agree_and_are_recovered() -> None:
    came: Counter[str] = Counter()
    for seed in range(250):
        random = Random(seed)
        shapes = [tuple(random.choice((1, 2, 2, 3)) for _ in range(2)) for _ in range(2)]
        outer, inner = (drawn(random, prod(shape), replicas=random.random() < 0.4) for shape in shapes)
        try:
            made = axe.direct_sum(outer, inner, *shapes)
        except NoLayout:
            came["no group"] += 1
            continue
        whole = tuple(a * b for a, b in zip(*shapes, strict=True))
        first, second = sets(outer), sets(inner)
        for at, found in zip(product(*map(range, whole)), sets(made), strict=True):
            x = int(np.ravel_multi_index([k // n for k, n in zip(at, shapes[1], strict=True)], shapes[0]))
            y = int(np.ravel_multi_index([k % n for k, n in zip(at, shapes[1], strict=True)], shapes[1]))
            assert found == {a + b for a in first[x] for b in second[y]}
        again = axe.direct_sum_of(made, inner, whole, shapes[1])
        assert axe.same_locations(axe.direct_sum(again, inner, shapes[0], shapes[1]), made)
        tiled = axe.tile(outer, inner, *shapes)
        assert axe.same_locations(axe.tile(axe.tile_of(tiled, inner, whole, shapes[1]), inner, *shapes), tiled)
        came["both"] += 1
        other = drawn(random, prod(shapes[1]))
        try:
            found_outer = axe.tile_of(tiled, other, whole, shapes[1])
        except NoLayout:
            came["no tile"] += 1
        else:
            came["another tile"] += 1
            assert axe.same_locations(axe.tile(found_outer, other, *shapes), tiled)
    assert came["both"] > 120
    assert came["no tile"] > 60


def test_axes_are_fused_and_split_again() -> None:
    lane, warp, thread = map(axe.axis, ("lane", "warp", "thread"))
    came: Counter[str] = Counter()
    for seed in range(250):
        random = Random(seed)
        sizes = [(lane, random.choice((4, 8))), (warp, random.choice((2, 4)))]
        iters = [
            axe.Iter(random.choice((2, 4)), random.choice((1, 2, 4)), random.choice((lane, warp, axe.axis("m"))))
            for _ in range(random.randint(1, 3))
        ]
        layout = axe.Axe(iters, (), axe.Location({lane: random.randint(0, 1)}))
        try:
            fused = axe.fuse(layout, thread, sizes)
        except NoLayout:
            came["too large"] += 1
            continue
        for before, after in zip(sets(layout), sets(fused), strict=True):
            assert {place[lane] + sizes[0][1] * place[warp] for place in before} == {place[thread] for place in after}
        try:
            again = axe.split(fused, thread, sizes)
        except NoLayout:
            came["not split"] += 1
        else:
            came["split"] += 1
            assert axe.same_locations(axe.fuse(again, thread, sizes), fused)
    assert came["split"] > 20


def test_a_fault_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(axe.operations, "_sums_of_runs", lambda steps: [(len(steps), 1)] if len(steps) > 1 else [])
    with pytest.raises(AssertionError):
        test_canonical_forms_are_unique_and_equal()
