"""Boxes: the domains of layouts. A flat index is split into digits on entry and joined on exit, and nowhere else.

CuTe counts colexicographically, the first digit moving fastest; ATL, LEGO and Axe count row by row. That is all
that the two differ in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from atl.core.index import Index, index
from atl.errors import brief
from layouts.errors import LayoutError
from layouts.foundation.tuples import Extent, Nested, Shape, as_nested, extent_of, leaves, product, shown


@dataclass(frozen=True, slots=True)
class Box:
    """All coordinates in a shape: digits that run from 0 up to an extent each.

    >>> box = Box((4, (2, 3)))
    >>> box.size, box.digits(13), box.join((1, 1, 1))
    (24, (1, 1, 1), 13)
    >>> Box((4, (2, 3)), row_major=True).digits(13)
    (2, 0, 1)
    """

    shape: Shape
    row_major: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", as_nested(self.shape, extent_of))

    @property
    def extents(self) -> tuple[Extent, ...]:
        """The extent of each digit, from left to right."""
        return tuple(leaves(self.shape))

    @property
    def size(self) -> Extent:
        """The number of coordinates."""
        return product(self.shape)

    def digits(self, at: Any) -> tuple[Any, ...]:
        """The digits of a flat index, an array of such, or an expression; the slowest one takes what is left."""
        if isinstance(at, str | bytes | tuple | list) or at is None:
            raise LayoutError(
                f"{brief(at)} is no index", required="an integer, an array of them, or an index expression"
            )
        if not self.row_major:
            return split(at, self.extents)
        return split(at, self.extents[::-1])[::-1]

    def join(self, digits: Sequence[Any]) -> Any:
        """The flat index of digits."""
        if len(digits) != len(self.extents):
            raise LayoutError(f"{len(digits)} digits in {shown(self.shape)}", required=f"{len(self.extents)}")
        pairs = list(zip(digits, self.extents, strict=True))
        at: Any = 0
        for digit, extent in pairs if self.row_major else reversed(pairs):
            at = at * extent + digit
        return at

    def coordinate_digits(self, coordinate: object) -> tuple[Any, ...]:
        """The digits of a coordinate: an index for the whole, or for any part of the shape, is split there."""
        return tuple(self._of(self.shape, coordinate))

    def _of(self, shape: Shape, coordinate: object) -> Iterator[Any]:
        if not isinstance(coordinate, tuple | list):
            yield from Box(shape, self.row_major).digits(coordinate)
        elif not isinstance(shape, tuple) or len(coordinate) != len(shape):
            raise LayoutError(
                f"the coordinate {coordinate} does not fit the shape {shown(shape)}",
                required="an index, or one coordinate for each mode",
            )
        else:
            for part, inner in zip(shape, coordinate, strict=True):
                yield from self._of(part, inner)


def split(at: Any, extents: Sequence[Extent]) -> tuple[Any, ...]:
    """The digits of an index in these extents, the first moving fastest; the last one takes what is left (§6.3.2)."""
    if isinstance(at, np.ndarray) and at.dtype.kind not in "iu" and not (at.dtype == object and _integers(at)):
        raise LayoutError(f"an array of {at.dtype}", required="an array of integers")
    out = []
    if type(at) is int and any(isinstance(extent, Index) for extent in extents):
        at = index(at)
    for extent in extents[:-1]:
        out.append(at % extent)
        at = at // extent
    if extents:
        out.append(at)
    return tuple(out)


def _integers(at: NDArray[Any]) -> bool:
    """Whether objects in an array are Python's integers, which stand for machine integers that are too small."""
    return all(type(value) is int for value in at.reshape(-1).tolist())


def nested_digits(shape: Shape, digits: Iterator[Any]) -> Nested[Any]:
    """Digits, nested as the shape is: the coordinate of a person."""
    if isinstance(shape, tuple):
        return tuple(nested_digits(part, digits) for part in shape)
    return next(digits)
