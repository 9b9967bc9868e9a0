"""Reference implementation of layouts: lists of extents and strides, evaluated at every index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import TypeAlias

Flat: TypeAlias = tuple[tuple[int, ...], tuple[int, ...]]
"""Extents and strides."""


def value(flat: Flat, at: int) -> int:
    """Return the value at an index: its digits times the strides; the last digit takes the rest."""
    total = 0
    extents, strides = flat
    for extent, stride in zip(extents[:-1], strides[:-1], strict=True):
        at, digit = divmod(at, extent)
        total += digit * stride
    return total + at * strides[-1]


def values(flat: Flat) -> list[int]:
    """Return the value at each index of the domain."""
    return [value(flat, at) for at in range(prod(flat[0]))]


def shapes(places: int, modes: int) -> Iterator[tuple[int, ...]]:
    """Yield all flat shapes up to these numbers of elements and modes, with at most one extent of 1."""
    for count in range(1, modes + 1):
        for extents in product(range(1, places + 1), repeat=count):
            if prod(extents) <= places and sum(extent == 1 for extent in extents) <= 1:
                yield extents


def flats(places: int, modes: int) -> Iterator[Flat]:
    """Yield all layouts on these shapes whose strides are 0 or products of extents."""
    for extents in shapes(places, modes):
        steps = {0, 1}
        for chosen in product((0, 1), repeat=len(extents)):
            steps.add(prod(n for n, kept in zip(extents, chosen, strict=True) if kept))
        for strides in product(sorted(steps), repeat=len(extents)):
            yield extents, strides


def factorisations(n: int) -> Iterator[tuple[int, ...]]:
    """Yield all factorisations of n into factors above 1, in every order."""
    if n == 1:
        yield ()
        return
    for first in range(2, n + 1):
        if n % first == 0:
            for rest in factorisations(n // first):
                yield (first, *rest)


def is_expressed(wanted: Sequence[int], extents: Sequence[int]) -> bool:
    """Return whether a layout with an offset that refines these extents has these values.

    The strides of a refinement are the values where one digit is 1.
    """
    for chosen in product(*(list(factorisations(extent)) for extent in extents)):
        refined = [factor for factors in chosen for factor in factors] or [1]
        strides, width = [], 1
        for extent in refined:
            strides.append(wanted[width] - wanted[0] if extent > 1 else 0)
            width *= extent
        flat = (tuple(refined), tuple(strides))
        if [wanted[0] + part for part in values(flat)] == list(wanted):
            return True
    return False


def largest_right_inverse(flat: Flat) -> int:
    """Return the size of the largest layout R with flat(R(i)) = i, by trying all."""
    table = values(flat)
    best = 1

    def grow(places: list[int]) -> None:
        nonlocal best
        best = max(best, len(places))
        for stride in range(len(table)):
            more = list(places)
            step = 1
            while True:
                block = [place + stride * step for place in places]
                if any(at >= len(table) for at in block):
                    break
                if [table[at] for at in block] != list(range(len(more), len(more) + len(places))):
                    break
                more = more + block
                step += 1
                grow(more)

    grow([0]) if table[0] == 0 else None
    return best
