"""The layout with given pairs of digits and locations, or the reason why none exists.

The strides of a layout are determined by the locations of single digits, and the columns of a matrix over F2 by those
of single bits. So one candidate of each kind is compared with all pairs; if both differ, no layout has these pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from operator import xor

from layouts.foundation.layout import Layout
from layouts.linear.layout import MOST_BITS, LinearLayout

Digits = tuple[int, ...]
SHOWN = 8
"""Largest number of locations in a reason."""


@dataclass(frozen=True, slots=True)
class NoneExists:
    """The result of a conversion to a layout that does not exist, with the reason: numbers that no layout has."""

    reason: str

    def __str__(self) -> str:
        return f"none exists: {self.reason}"


def layout_of_pairs(pairs: Sequence[tuple[Digits, int]]) -> Layout | LinearLayout | NoneExists:
    """Return the layout with exactly these pairs: by strides if possible, otherwise over F2.

    >>> layout_of_pairs([((0,), 0), ((1,), 8), ((2,), 3), ((3,), 11)])
    (2,2):(8,3)
    >>> print(layout_of_pairs([((0,), 0), ((1,), 1), ((2,), 3)]))
    none exists: the locations 0, 1, 3 of digit 0 have no strides; the extent 3 of digit 0 is not a power of two
    """
    table: dict[Digits, int] = {}
    for digits, location in pairs:
        if table.setdefault(digits, location) != location:
            return NoneExists(f"the digits {_shown(digits)} have the locations {table[digits]} and {location}")
    if not table:
        return NoneExists("the relation is empty")
    extents = [1 + max(digits[k] for digits in table) for k in range(len(next(iter(table))))]
    if negative := next((digits for digits in table if min(digits, default=0) < 0), None):
        return NoneExists(f"the digits {_shown(negative)} are negative")
    if len(table) != prod(extents):
        return NoneExists(
            f"{len(table)} of the {prod(extents)} tuples of digits below {_shown(extents)} have a location"
        )
    by_strides = _by_strides(table, extents)
    if isinstance(by_strides, Layout):
        return by_strides
    over_f2 = _over_f2(table, extents)
    return over_f2 if isinstance(over_f2, LinearLayout) else NoneExists(f"{by_strides}; {over_f2}")


def _shown(digits: Sequence[int]) -> str:
    return f"({', '.join(map(str, digits))})"


def _by_strides(table: Mapping[Digits, int], extents: Sequence[int]) -> Layout | str:
    """Return the layout by strides with these locations, or the reason why there is none."""
    zero = (0,) * len(extents)
    offset = table[zero]
    rows = [[table[(*zero[:k], at, *zero[k + 1 :])] - offset for at in range(n)] for k, n in enumerate(extents)]
    parts = []
    for k, row in enumerate(rows):
        modes = _modes(row)
        if modes is None:
            ending = ", …" if len(row) > SHOWN else ""
            listed = ", ".join(str(offset + each) for each in row[:SHOWN])
            return f"the locations {listed}{ending} of digit {k} have no strides"
        parts.append(tuple(zip(*modes, strict=True)))
    for digits, location in table.items():
        total = offset + sum(row[digit] for row, digit in zip(rows, digits, strict=True))
        if total != location:
            return f"the digits {_shown(digits)} have the location {location}, but the sum of the strides is {total}"
    shape, stride = (tuple(part[k][0] if len(part[k]) == 1 else part[k] for part in parts) for k in (0, 1))
    one = len(parts) == 1
    return Layout(shape[0] if one else shape, stride[0] if one else stride, offset=offset)


def _modes(row: Sequence[int]) -> list[tuple[int, int]] | None:
    """Return extents and strides, fastest first, of which a row of locations from zero on consists; None if none do."""
    if len(row) == 1:
        return [(1, 0)]
    stride = row[1]
    run = next((at for at in range(len(row)) if row[at] != at * stride), len(row))
    if len(row) % run:
        return None
    if any(row[at] != row[at - at % run] + at % run * stride for at in range(len(row))):
        return None
    rest = _modes(row[::run]) if run < len(row) else []
    return None if rest is None else [(run, stride), *rest]


def _over_f2(table: Mapping[Digits, int], extents: Sequence[int]) -> LinearLayout | str:
    """Return the matrix over F2 with these locations, or the reason why there is none."""
    zero = (0,) * len(extents)
    odd = next((k for k, extent in enumerate(extents) if extent & (extent - 1)), None)
    if odd is not None:
        return f"the extent {extents[odd]} of digit {odd} is not a power of two"
    if table[zero]:
        return f"the digits {_shown(zero)} have the location {table[zero]}, over F2 it would be 0"
    if min(table.values()) < 0 or max(table.values()).bit_length() > MOST_BITS:
        return f"over F2, locations have at most {MOST_BITS} bits and are not negative"
    images = [
        [table[(*zero[:k], 1 << bit, *zero[k + 1 :])] for bit in range(extent.bit_length() - 1)]
        for k, extent in enumerate(extents)
    ]
    for digits, location in table.items():
        pairs = zip(digits, images, strict=True)
        total = reduce(xor, (image for digit, each in pairs for bit, image in enumerate(each) if digit >> bit & 1), 0)
        if total != location:
            return f"the digits {_shown(digits)} have the location {location}, but over F2 it would be {total}"
    bases = [(f"d{k}", each) for k, each in enumerate(images)]
    return LinearLayout.from_bases(bases, [("location", 1 << max(table.values()).bit_length())])
