"""Operations on random linear layouts, compared with enumeration."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from random import Random

import pytest

from atl.prove import Proved, Refuted
from layouts import LinearLayout, NoLayout, as_linear, bijective, equal, injective, inverse
from proofs_tests.layouts.linear import random_layouts

SEEDS = range(150)


def digits(layout: LinearLayout) -> Iterator[dict[str, int]]:
    """Yield all digits, by name, in the order of indices."""
    names = list(layout.in_dims)
    for values in product(*(range(layout.in_dims[name]) for name in reversed(names))):
        yield dict(zip(names, reversed(values), strict=True))


def locations(layout: LinearLayout) -> list[tuple[int, ...]]:
    """Return the location at each index, by adding bases."""
    out = []
    for each in digits(layout):
        place = [0] * len(layout.out_dims)
        for name, value in each.items():
            for bit, basis in enumerate(layout.bases[name]):
                if value >> bit & 1:
                    place = [a ^ b for a, b in zip(place, basis, strict=True)]
        out.append(tuple(place))
    return out


@pytest.mark.sampled
@pytest.mark.parametrize("seed", SEEDS)
def test_properties_of_one_layout(seed: int) -> None:
    layout = random_layouts.any_layout(Random(seed))
    held = locations(layout)
    assert [tuple(layout.apply(each).values()) for each in digits(layout)] == held
    flat = [layout(at) for at in range(len(held))]
    assert layout.table().tolist() == flat
    assert layout.strides().table().tolist() == flat
    assert isinstance(equal(layout, layout.strides()), Proved)
    whole = 1
    for size in layout.out_dims.values():
        whole *= size
    assert layout.is_injective == (len(set(held)) == len(held))
    assert layout.is_surjective == (len(set(held)) == whole)
    assert 1 << layout.rank == len(set(held))
    answer = injective(layout)
    assert isinstance(answer, Proved) == layout.is_injective
    if isinstance(answer, Refuted):
        numbers = answer.model.numbers
        met = [
            tuple(numbers[f"{x}{k}"] if f"{x}0" in numbers else numbers[x] for k in range(len(layout.in_dims)))
            for x in "ij"
        ]
        assert met[0] != met[1]
        assert layout(*met[0]) == layout(*met[1])
    assert isinstance(bijective(layout), Proved) == (sorted(flat) == list(range(len(flat))))
    if layout.is_injective:
        back = inverse(layout)
        assert [back(place) for place in flat] == list(range(len(flat)))
    run = layout.num_consecutive_in_out()
    ahead = 1 << len(next(iter(layout.bases.values()), []))
    assert run == max(
        n for n in (1 << bit for bit in range(ahead.bit_length()))
        if all(flat[at + k] == flat[at] + k and flat[at] % n == 0 for at in range(0, len(flat), n) for k in range(n))
    )  # fmt: skip
    free = layout.free_variable_masks()
    kept = {place for each, place in zip(digits(layout), held, strict=True) if not any(each[x] & free[x] for x in each)}
    assert kept == set(held)
    assert sum(mask.bit_count() for mask in free.values()) + layout.rank == sum(map(len, layout.bases.values()))
    assert as_linear(layout.flatten_outs().strides()).columns == layout.columns


def test_two_layouts_agree_with_enumeration() -> None:
    came: Counter[str] = Counter()
    for seed in range(400):
        random = Random(1000 + seed)
        outs = random_layouts.widths(random, ("i", "j"), 3)
        first = random_layouts.layout(random, random_layouts.widths(random, ("reg", "lane"), 2), outs)
        second = random_layouts.layout(
            random, random_layouts.widths(random, ("reg", "at"), 4), dict(reversed(outs.items()))
        )
        order = list(first.out_dims)
        reached = {tuple(second.apply(each)[name] for name in order) for each in digits(second)}
        try:
            made = first.invert_and_compose(second)
        except NoLayout:
            came["none"] += 1
            assert not set(locations(first)) <= reached
            continue
        came["composed back"] += 1
        assert made.compose(second).transpose_outs(order).bases == first.bases
        after = random_layouts.layout(random, {name: len(first.bases) + outs[name] for name in order}, {"o": 6})
        for each in digits(first):
            assert first.compose(after).apply(each) == after.apply(first.apply(each))
    assert came["none"] > 50
    assert came["composed back"] > 100


@pytest.mark.long
def test_exact_factors_are_found() -> None:
    came: Counter[str] = Counter()
    for seed in range(400):
        random = Random(seed)
        low, high = (random_layouts.any_layout(random, 2) for _ in range(2))
        whole = low * high
        assert places_of_product(low, high) == locations(whole)
        assert low * whole.divide_left(low) == whole.transposed_like(low * whole.divide_left(low))
        assert whole.divide_right(high) * high == whole.transposed_like(whole.divide_right(high) * high)
        other = random_layouts.any_layout(random, 2)
        for at_left in (True, False):
            try:
                made = other * whole.divide_left(other) if at_left else whole.divide_right(other) * other
            except NoLayout:
                came["no factor"] += 1
            else:
                came["a factor"] += 1
                assert made.transposed_like(whole) == whole
    assert came["no factor"] > 300
    assert came["a factor"] > 10


def places_of_product(low: LinearLayout, high: LinearLayout) -> list[tuple[int, ...]]:
    """Return the locations of low * high, by the digits of each factor."""
    whole = low * high
    out = []
    for each in digits(whole):
        below = low.apply({name: each[name] % size for name, size in low.in_dims.items()})
        above = high.apply({name: each[name] // low.in_dims.get(name, 1) for name in high.in_dims})
        out.append(tuple(below.get(x, 0) + above.get(x, 0) * low.out_dims.get(x, 1) for x in whole.out_dims))
    return out
