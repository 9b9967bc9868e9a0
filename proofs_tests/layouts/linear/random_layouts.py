"""Random linear layouts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from layouts import LinearLayout


def widths(random: Random, names: Sequence[str], most: int) -> dict[str, int]:
    """Return random widths of up to `most` bits for some of these names."""
    chosen = random.sample(list(names), random.randint(1, len(names)))
    return {name: random.randint(0, most) for name in chosen}


def layout(random: Random, ins: dict[str, int], outs: dict[str, int]) -> LinearLayout:
    """Return a random layout of these widths, often a permutation of bits."""
    whole = sum(outs.values())
    units = [1 << bit for bit in range(whole)]
    random.shuffle(units)
    bases = []
    for name, count in ins.items():
        columns = []
        for _ in range(count):
            place = units.pop() if units and random.random() < 0.7 else random.randrange(1 << whole)
            parts = []
            for width in outs.values():
                parts.append(place & ((1 << width) - 1))
                place >>= width
            columns.append(parts)
        bases.append((name, columns))
    return LinearLayout.from_bases(bases, [(name, 1 << width) for name, width in outs.items()])


def any_layout(random: Random, most: int = 3) -> LinearLayout:
    """Return a random layout of up to three digits and two coordinates."""
    return layout(random, widths(random, ("reg", "lane", "warp"), most), widths(random, ("i", "j"), most + 1))
