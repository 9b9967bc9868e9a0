"""Random elements of integer arrays in their declared order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.index import Array
from atl.core.program import is_strict, needed_by, order_of

Ends: TypeAlias = Callable[[Array], tuple[int, int]]
"""The first integer of an array's range, and the one behind its last."""
_LARGEST: Final = 2**62


def draw_integers(
    array: Array,
    inputs: Sequence[Array],
    shape: tuple[int, ...],
    ends: Ends,
    made: Mapping[str, Any],
    random: np.random.Generator,
) -> npt.NDArray[np.int64] | None:
    """Return elements of a declared array of this shape; None if there are none. `made` has the arrays it depends on.

    An integer occurs in a run of ordered elements only as often as all arrays that follow this one allow.
    """
    low, high = ends(array)
    if 0 in shape:
        return np.zeros(shape, np.int64)
    if high <= low:
        return None
    if not shape or not array.monotonic:
        return np.asarray(random.integers(low, high, shape))
    run = np.concatenate([[0], np.cumsum(~_continued(array, shape, made))])
    most = _most_equal(array, inputs, ends, run.size)
    lengths = np.bincount(run)[run]
    # Increasing integers are nondecreasing ones, each plus its position.
    spans = high - low if most is None else (high - low) * most + 1 - lengths
    if np.min(spans) <= 0:
        return None
    drawn = random.integers(0, spans, run.size)
    drawn = drawn[np.lexsort((drawn, run))]
    if most is not None:
        drawn = (drawn + np.arange(run.size) - np.searchsorted(run, run)) // most
    return (low + drawn).reshape(shape)


def _continued(array: Array, shape: tuple[int, ...], made: Mapping[str, Any]) -> npt.NDArray[np.bool_]:
    """Return for each position whether the next one is ordered after it."""
    count = int(np.prod(shape))
    order = order_of(array)
    if order is None:
        same = np.ones(count - 1, np.bool_)
        for row in (made[each.name] for each in array.leading):
            same &= row[1:] == row[:-1]
        return same
    if order.between is None:
        return np.asarray(np.arange(1, count) % shape[-1] != 0)
    positions = np.clip(made[order.between.name].astype(np.int64), 0, count)
    first, last = positions[:-1], positions[1:] - 1
    change = np.zeros(count + 1, np.int64)
    np.add.at(change, first[first < last], 1)
    np.add.at(change, last[first < last], -1)
    return np.asarray(np.cumsum(change)[: count - 1] > 0)


def _most_equal(array: Array, inputs: Sequence[Array], ends: Ends, count: int) -> int | None:
    """Return a number of equal elements of a run for which distinct tuples exist; None if any number is allowed.

    Arrays whose bounds depend on elements are not considered.
    """
    if is_strict(array):
        return 1
    most = [_LARGEST]
    for each in inputs:
        below = _most_equal(each, inputs, ends, count) if needed_by(each) == (each.after,) == (array,) else None
        if below is not None:
            low, high = ends(each)
            most.append((high - low) * below)
    low, high = ends(array)
    return None if len(most) == 1 else max(1, min(*most, count, _LARGEST // (high - low)))


__all__ = ["draw_integers"]
