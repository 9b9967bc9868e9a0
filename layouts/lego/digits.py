"""Locations as digits: pairs (digit, extent), slowest first, which are joined only at the end.

If the tiles of one link of a chain are products of those of the link before, digits convert without division. Only
otherwise is a digit, or the flat location, divided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atl.core.index import Index, index
from layouts.foundation.box import Box
from layouts.foundation.facts import Known
from layouts.foundation.tuples import Extent

Digits = list[tuple[Any, Extent]]


def joined(digits: Digits) -> Any:
    """Return the flat location."""
    return Box(tuple(extent for _, extent in digits), row_major=True).join([digit for digit, _ in digits])


def seen_by(digits: Digits, dims: Sequence[Extent], known: Known) -> list[Any]:
    """Return the digits of the same location in other extents with the same product.

    >>> from layouts.foundation.facts import EMPTY
    >>> seen_by([(1, 4), (2, 6)], [2, 2, 3, 2], EMPTY), seen_by([(1, 4), (2, 3)], [3, 4], EMPTY)
    ([0, 1, 1, 0], [1, 1])
    """
    left = list(digits)
    out: list[Any] = []
    for extent in reversed(dims[1:]):
        digit = _taken(left, extent, known)
        if digit is None:
            return list(Box(tuple(dims), row_major=True).digits(joined(digits)))
        out.append(digit)
    out.append(joined(left) if left else 0)
    return out[::-1]


def _taken(left: Digits, extent: Extent, known: Known) -> Any:
    """Remove and return the fastest digit, of this extent; None if it is not known to consist of whole digits."""
    digit: Any = 0
    span: Extent = 1
    while not known.same(span, extent):
        needed = known.quotient(extent, span)
        if needed is None or not left:
            return None
        part, held = left.pop()
        if known.same(held, needed):
            return digit + part * span
        if known.quotient(needed, held) is not None:
            digit, span = digit + part * span, span * held
        elif (rest := known.quotient(held, needed)) is not None:
            part = index(part) if isinstance(part, int) and isinstance(needed, Index) else part
            left.append((part // needed, rest))
            return digit + part % needed * span
        else:
            return None
    return digit
