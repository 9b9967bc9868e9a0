"""Consecutive segments of different lengths, such as the rows of a packed triangle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from atl.core.index import ZERO, Index, imax, index
from atl.core.predicate import Predicate, less, within
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Packing
from layouts.errors import LayoutError
from layouts.foundation.tuples import Extent, extent_of, plain_index


@dataclass(frozen=True, slots=True, init=False)
class Segments:
    """Locations (key, position) for 0 <= key < count and 0 <= position < length(key), stored at start(key) + position.

    They are distinct if start(a) + length(a) <= start(b) for a < b. No inverse of `start` is needed; it may not have a
    closed form.

    `size` is the total length; by default the end of the last segment.

    >>> Segments(4, lambda i: i * (i + 1) // 2, lambda i: i + 1).join((2, 1))
    4
    """

    count: Extent
    start: Callable[[Any], Any] = field(repr=False)
    length: Callable[[Any], Any] = field(repr=False)
    size: Extent

    def __init__(
        self, count: object, start: Callable[[Any], Any], length: Callable[[Any], Any], *, size: object = None
    ) -> None:
        for formula in (start, length):
            if not callable(formula):
                raise InvalidArgument(
                    f"{brief(formula)} is not callable", required="a function of the key of a segment"
                )
        object.__setattr__(self, "count", extent_of(count))
        object.__setattr__(self, "start", start)
        object.__setattr__(self, "length", length)
        object.__setattr__(self, "size", self._end() if size is None else extent_of(size))

    def _end(self) -> Extent:
        """Return the end of the last segment."""
        last = index(self.count) - 1
        return extent_of(imax(ZERO, index(self.join((last, plain_index(self.length(last)))))))

    @property
    def packing(self) -> Packing:
        """The same formulas over index expressions, for use in theorems."""
        return Packing(self.start, self.length, index(self.size))

    def join(self, location: Sequence[Any]) -> Any:
        """Return the location of a position in a segment."""
        if len(location) != 2:
            raise LayoutError(
                f"{len(location)} digits for a location in segments", required="two: a key and a position"
            )
        key, position = location
        return plain_index(self.start(key)) + position

    def inside(self, location: Sequence[Any]) -> tuple[Predicate, Predicate]:
        """Return the conditions that the key is in range and that the position is within its segment."""
        key, position = location
        return within(ZERO, index(key), index(self.count)), self.packing.contains(index(key), index(position))

    def disjoint(self, one: Index, other: Index) -> tuple[tuple[Predicate, ...], Predicate]:
        """Return assumptions on the keys of two segments, and the condition that the first ends before the second."""
        limits = [within(ZERO, key, index(self.count)) for key in (one, other)]
        return (*limits, less(one, other)), self.packing.disjoint(one, other)
