"""Boxes: the domains of layouts. The only module that splits flat indices into digits and joins digits.

CuTe's indices are colexicographic (the first digit moves fastest); those of ATL, LEGO and Axe are row-major. The box
records the order, so the rest of the package does not depend on it.
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
    """All coordinates of a shape: each digit runs from 0 to its extent, exclusive.

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
        """Split a flat index, an array of indices, or an expression into digits. The slowest digit is not reduced."""
        if isinstance(at, str | bytes | tuple | list) or at is None:
            raise LayoutError(
                f"{brief(at)} is not an index", required="an integer, an array of integers, or an index expression"
            )
        if not self.row_major:
            return split(at, self.extents)
        return split(at, self.extents[::-1])[::-1]

    def join(self, digits: Sequence[Any]) -> Any:
        """Return the flat index of these digits."""
        if len(digits) != len(self.extents):
            raise LayoutError(f"{len(digits)} digits in {shown(self.shape)}", required=f"{len(self.extents)}")
        pairs = list(zip(digits, self.extents, strict=True))
        at: Any = 0
        for digit, extent in pairs if self.row_major else reversed(pairs):
            at = at * extent + digit
        return at

    def coordinate_digits(self, coordinate: object) -> tuple[Any, ...]:
        """Return the digits of a coordinate. A flat index may replace the coordinate or any nested part of it."""
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
    """Return the digits of an index in these extents, the first fastest. The last digit is not reduced (§6.3.2)."""
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
    """Return whether all objects in an array are Python integers (used where 64 bits are too few)."""
    return all(type(value) is int for value in at.reshape(-1).tolist())


def nested_digits(shape: Shape, digits: Iterator[Any]) -> Nested[Any]:
    """Return the digits, nested like the shape, as a user writes a coordinate."""
    if isinstance(shape, tuple):
        return tuple(nested_digits(part, digits) for part in shape)
    return next(digits)
