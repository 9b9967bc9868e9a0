"""Realisability of models: do arrays with the declared properties contain these elements?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import assert_never

from atl.core.declared import AtLeast, Below, bounds_of, order_of
from atl.core.index import Array
from atl.prove.answer import Model


def realisable(arrays: Iterable[Array], model: Model) -> bool:
    """Return True if some arrays with the declared properties contain the elements of the model, and all its
    out-of-bounds elements are zero.

    Raise `ZeroDivisionError` if a declaration divides by a number that is not positive.
    """
    return all(_realisable(array, model) for array in {array.name: array for array in arrays}.values())


def _realisable(array: Array, model: Model) -> bool:
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
    if low is not None and high is not None and high <= low:
        return False
    if any((low is not None and value < low) or (high is not None and value >= high) for _, value in inside):
        return False
    order = order_of(array)
    if order is None or not shape:
        return True
    rows: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for position, value in inside:
        rows.setdefault(position[:-1], []).append((position[-1], value))
    segments = [(0, shape[-1])] if order.between is None else _segments(order.between, shape[-1], model)
    # Elements that are not in the model must fit before, between and behind those that are.
    return all(
        _fits([each for each in row if first <= each[0] < end], (first, end), low, high, step=int(order.strict))
        for row in (*rows.values(), [])
        for first, end in segments
    )


def _segments(between: Array, extent: int, model: Model) -> list[tuple[int, int]]:
    """Return the parts of a row that are ordered. A boundary that the model does not contain equals the previous one.

    If `between` is strictly ordered, boundaries cannot repeat: then the whole row is ordered, which is stronger.
    """
    count = model.value(between.shape[0])
    known = sorted((at[0], value) for name, at, value in model.elements if name == between.name and 0 <= at[0] < count)
    if len(known) < count and between.monotonic == "increasing":
        return [(0, extent)]
    found: list[tuple[int, int]] = []
    for first, end in sorted((max(a, 0), min(b, extent)) for (_, a), (_, b) in pairwise(known)):
        if found and first < found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((first, end))
    return found


def _fits(
    row: Sequence[tuple[int, int]], part: tuple[int, int], low: int | None, high: int | None, *, step: int
) -> bool:
    """Return True if part of a row, ordered with at least this step, can have these (position, value) pairs."""
    begin, end = part
    if low is not None and high is not None and high - low <= step * (end - begin - 1):
        return False
    if not row:
        return True
    (first, least), (last, greatest) = row[0], row[-1]
    if low is not None and least < low + step * (first - begin):
        return False
    if high is not None and greatest >= high - step * (end - 1 - last):
        return False
    return all(after - before >= step * (at - position) for (position, before), (at, after) in pairwise(row))
