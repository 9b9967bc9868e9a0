"""Recovers modes (extents and strides) from a table of values.

The coalesced modes of a function on [0, n) over the integers, or over coordinates, are unique. The first extent is the
length of the longest linear prefix: the next value is not a multiple of the stride. So one pass over the table finds
the modes or shows that there are none. Over F2 a linear prefix may extend past the first mode (3 = 2 + 1 has no
carries), so every divisor of its length is tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from layouts.foundation.layout import Mode
from layouts.foundation.semimodule import BITS, COORDINATES, F2, Array, Coordinate, Stride, Vectorised


@dataclass(frozen=True, slots=True)
class NoStrides:
    """No modes express a table: the value at `index` differs from what the modes before it require."""

    index: int


def recover_modes(values: Array, module: Vectorised[Any]) -> tuple[Mode, ...] | NoStrides:
    """Return the coalesced modes of these values minus the first value, which is the offset.

    >>> from layouts.foundation.semimodule import INTEGERS
    >>> recover_modes(np.array([0, 7, 14, 1, 8, 15]), INTEGERS), recover_modes(np.array([0, 7, 14, 1]), INTEGERS)
    (((3, 7), (2, 1)), NoStrides(index=3))
    """
    steps = _steps(values, module)
    modes: list[Mode] = []
    width = 1
    while len(steps) > 1:
        line = _line(len(steps), steps[1], module)
        away = np.flatnonzero((steps != line).any(axis=-1))
        prefix = int(away[0]) if len(away) else len(steps)
        if module is BITS and prefix < len(steps):
            found = _shorter(steps, prefix)
            return NoStrides(width * prefix) if found is None else (*modes, *found)
        if len(steps) % prefix:
            return NoStrides(width * prefix)
        if prefix < len(steps) and (off := _off_the_line(steps, line, prefix, module)) is not None:
            return NoStrides(width * off)
        modes.append((prefix, _stride(steps[1], module)))
        steps = steps[::prefix]
        width *= prefix
    return tuple(modes)


def _off_the_line(steps: Array, line: Array, prefix: int, module: Vectorised[Any]) -> int | None:
    """Return the first index at which the blocks of length `prefix` are not translates of the first block."""
    blocks = steps.reshape((-1, prefix, steps.shape[1]))
    off = np.flatnonzero((blocks != module.sums(blocks[:, :1], line[None, :prefix])).any(axis=-1))
    return int(off[0]) if len(off) else None


def _shorter(steps: Array, prefix: int) -> tuple[Mode, ...] | None:
    """Return the modes over F2. The extent of the first may be any divisor of the length up to the linear prefix."""
    for extent in range(min(prefix, len(steps) - 1), 1, -1):
        if len(steps) % extent or _off_the_line(steps, _line(extent, steps[1], BITS), extent, BITS) is not None:
            continue
        rest = recover_modes(steps[::extent, 0], BITS)
        if not isinstance(rest, NoStrides):
            return ((extent, _stride(steps[1], BITS)), *rest)
    return None


def recover_box_modes(
    values: Array, extents: Sequence[int], module: Vectorised[Any]
) -> tuple[tuple[Mode, ...], ...] | NoStrides:
    """Return the modes for each leaf of a shape, whose sums are these values minus the first value.

    A function on a box is a layout on a refinement of the shape if it is the sum of its restrictions to the axes, and
    each restriction has strides.
    """
    steps = _steps(values, module)
    wide = steps.shape[1]
    box = steps.reshape((*reversed(extents), wide))
    total = np.zeros((1,) * len(extents) + (wide,), dtype=steps.dtype)
    found: list[tuple[Mode, ...]] = []
    width = 1
    for axis, extent in enumerate(extents):
        line = steps[: width * extent : width]
        modes = recover_modes(line if wide > 1 or module is COORDINATES else line[:, 0], module)
        if isinstance(modes, NoStrides):
            return NoStrides(width * modes.index)
        found.append(modes)
        shape = [1] * len(extents)
        shape[len(extents) - 1 - axis] = extent
        total = module.sums(total, line.reshape((*shape, wide)))
        width *= extent
    off = np.flatnonzero((box != total).any(axis=-1))
    return NoStrides(int(off[0])) if len(off) else tuple(found)


def _steps(values: Array, module: Vectorised[Any]) -> Array:
    """Return the values minus the first value, one row for each."""
    rows = values.reshape((len(values), -1))
    return rows ^ rows[:1] if module is BITS else rows - rows[:1]


def _line(length: int, stride: Array, module: Vectorised[Any]) -> Array:
    steps = np.arange(length)
    if module is BITS:
        return module.multiples(steps, F2(int(stride[0])), 1)[:, None]
    return steps[:, None] * stride[None]


def _stride(row: Array, module: Vectorised[Any]) -> Stride:
    if module is COORDINATES:
        return Coordinate(tuple(int(part) for part in row))
    return F2(int(row[0])) if module is BITS else int(row[0])
