"""Places as digits: pairs of a digit and its extent, the slowest first. They are joined on exit, and seldom split.

Where the tiles of one link of a chain are made of those of the one before, no quotient is needed to see an element by
the other tiles. Only where they are not is a digit split, or the flat place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from atl.core.index import Index, index
from layouts.foundation.box import Box
from layouts.foundation.known import Known
from layouts.foundation.tuples import Extent

Digits = list[tuple[Any, Extent]]


def joined(digits: Digits) -> Any:
    """The flat place."""
    return Box(tuple(extent for _, extent in digits), row_major=True).join([digit for digit, _ in digits])


def seen_by(digits: Digits, dims: Sequence[Extent], known: Known) -> list[Any]:
    """The same place by its digits in other extents, of which there are as many elements.

    >>> from layouts.foundation.known import EMPTY
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
    """The fastest digit of this extent, taken off; None where that is not known to be made of the digits."""
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
