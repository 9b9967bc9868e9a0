"""Whether the elements of a model are those of arrays that a call could pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import assert_never

from atl.core.declared import AtLeast, Below, bounds_of, order_of
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
    stretches = [(0, shape[-1])] if order.between is None else _stretches(order.between, shape[-1], model)
    # What is not among the elements of the model must have room too: in a row by itself, before, behind and between.
    return all(
        _rises([each for each in row if first <= each[0] < end], (first, end), low, high, step=int(order.strict))
        for row in (*rows.values(), [])
        for first, end in stretches
    )


def _stretches(between: Array, extent: int, model: Model) -> list[tuple[int, int]]:
    """The parts of a row that rise, where positions that the model does not give are chosen like the one before.

    Where these may not be so chosen, the whole row: a row that rises, rises between any positions.
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


def _rises(
    row: Sequence[tuple[int, int]], part: tuple[int, int], low: int | None, high: int | None, *, step: int
) -> bool:
    """Whether part of a row of whole numbers that rise by a step at least has these at their positions, sorted."""
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
