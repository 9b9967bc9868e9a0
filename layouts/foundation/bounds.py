"""Size, cosize and bounds of layouts."""

from __future__ import annotations

from typing import Any

from atl.errors import brief
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import COORDINATES, INTEGERS, times
from layouts.foundation.tuples import Extent, as_nested, extent_of, modes_of, product, shown


def size(a: object, *mode: int) -> Extent:
    """Return the number of elements of a layout or shape, or of a mode; further numbers select nested modes.

    >>> from layouts import Layout
    >>> size(Layout((4, (2, 3)))), size(Layout((4, (2, 3))), 1), size((4, (2, 3)), 1, 0)
    (24, 6, 2)
    """
    shape = a.shape if isinstance(a, Function) else as_nested(a, extent_of)
    for position in mode:
        parts = modes_of(shape)
        if type(position) is not int or not 0 <= position < len(parts):
            raise LayoutError(
                f"{shown(shape)} has no mode {brief(position)}", required=f"a mode from 0 to {len(parts) - 1}"
            )
        shape = parts[position]
    return product(shape)


def cosize(a: Function) -> Extent:
    """Return the length of a buffer that holds all locations of a. Negative strides count by their absolute value.

    >>> from layouts import Layout
    >>> import atl
    >>> cosize(Layout((4, 8), (10, 1))), cosize(Layout((4, atl.sizes("n")), (1, 5)))
    (38, 5*n - 1)
    """
    need_function(a)
    if isinstance(a, Layout) and a.semimodule is INTEGERS:
        total: Any = 1 + a.offset
        for n, d in a.modes:
            total = total + times(n - 1, abs(d) if isinstance(d, int) else d)
        return a.known.simple(total)
    if isinstance(a, Layout) and a.semimodule is COORDINATES:
        raise NoLayout(f"the locations of {a} are coordinates", required="locations that are integers")
    return int(a.table().max(initial=0)) + 1


def bounds(a: Function) -> tuple[Extent, Extent] | None:
    """Return the smallest and the largest location, or None if unknown."""
    if isinstance(a, Layout) and a.semimodule is INTEGERS:
        low: Any = a.offset
        high: Any = a.offset
        for n, d in a.modes:
            if a.known.less(-1, d):  # type: ignore[arg-type]
                high = high + (n - 1) * d  # type: ignore[operator]
            elif a.known.less(d, 0):  # type: ignore[arg-type]
                low = low + (n - 1) * d  # type: ignore[operator]
            else:
                return None
        return low, high
    if isinstance(a, Layout) and a.semimodule is COORDINATES:
        return None
    if a.has_table and (values := a.table()).ndim == 1:  # coordinates would need bounds for each component
        return int(values.min(initial=0)), int(values.max(initial=0))
    return None
