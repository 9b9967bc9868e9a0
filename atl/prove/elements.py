"""Whether the elements of a model are those of arrays that a call could pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import assert_never

from atl.core.declared import AtLeast, Below, bounds_of, increases
from atl.core.index import Array
from atl.prove.answer import Model


def lawful(arrays: Iterable[Array], model: Model) -> bool:
    """Whether there are such arrays that hold what is declared, and have the elements of the model, zero outside.

    Raises `ZeroDivisionError` where a declaration divides by what is not positive.
    """
    return all(_lawful(array, model) for array in {array.name: array for array in arrays}.values())


def _lawful(array: Array, model: Model) -> bool:
    shape = [model.value(extent) for extent in array.shape]
    inside: list[tuple[tuple[int, ...], int]] = []
    for name, position, value in model.elements:
        if name != array.name:
            continue
        if all(0 <= k < extent for k, extent in zip(position, shape, strict=False)):
            inside.append((position, value))
        elif value:
            return False
    if any(extent <= 0 for extent in shape):
        return True
    low = high = None
    for fact in bounds_of(array):
        match fact:
            case AtLeast(bound):
                low = model.value(bound)
            case Below(bound):
                high = model.value(bound)
            case _:
                assert_never(fact)
    # What is not among the elements of the model must have room too: in a row by itself, before, behind and between.
    ordered = increases(array) and bool(shape)
    extent = shape[-1] if ordered else 1
    if low is not None and high is not None and high - low < extent:
        return False
    if not ordered:
        return all((low is None or low <= value) and (high is None or value < high) for _, value in inside)
    rows: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for position, value in inside:
        rows.setdefault(position[:-1], []).append((position[-1], value))
    return all(_increases(row, extent, low, high) for row in rows.values())


def _increases(row: Sequence[tuple[int, int]], extent: int, low: int | None, high: int | None) -> bool:
    """Whether a row of so many whole numbers that increase has these at their positions, which are sorted."""
    (first, least), (last, greatest) = row[0], row[-1]
    if low is not None and least < low + first:
        return False
    if high is not None and greatest >= high - (extent - 1 - last):
        return False
    return all(after - before >= at - position for (position, before), (at, after) in pairwise(row))
