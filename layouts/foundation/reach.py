"""How far the places of a layout reach."""

from __future__ import annotations

from typing import Any

from layouts.errors import NoLayout
from layouts.foundation.function import Function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import COORDINATES, INTEGERS, times
from layouts.foundation.tuples import Extent


def cosize(a: Function) -> Extent:
    """How many places a buffer has that holds all of a, up to the last one: strides count by their magnitude.

    >>> from layouts import Layout
    >>> import atl
    >>> cosize(Layout((4, 8), (10, 1))), cosize(Layout((4, atl.sizes("n")), (1, 5)))
    (38, 5*n - 1)
    """
    if isinstance(a, Layout) and a.semimodule is INTEGERS:
        total: Any = 1 + a.offset
        for n, d in a.modes:
            total = total + times(n - 1, abs(d) if isinstance(d, int) else d)
        return a.known.simple(total)
    if isinstance(a, Layout) and a.semimodule is COORDINATES:
        raise NoLayout(f"the places of {a} are coordinates", required="places that are integers")
    return int(a.table().max(initial=0)) + 1


def bounds(a: Function) -> tuple[Extent, Extent] | None:
    """The least and the greatest place, where they are known."""
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
    if a.places is not None and (not isinstance(a, Layout) or a.is_constant):
        values = a.table()
        return int(values.min(initial=0)), int(values.max(initial=0))
    return None
