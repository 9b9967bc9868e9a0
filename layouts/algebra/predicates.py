"""Predicate tensors: which elements of a tensor that is cut into tiles are there (CuTe's way to guard partial tiles).

The identity on coordinates goes through the same tiler as the tensor, and says at each place of a tile which element of
the tensor stands there. That this coordinate is within the tensor's shape is the guard of the tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from atl.core.index import ZERO, Index, index, map_leaves
from atl.core.predicate import Predicate, conjunction, conjuncts, within
from atl.errors import WrongArgument, brief
from atl.prove import contradictory
from atl.surface.values import Condition
from layouts.errors import LayoutError, NotByTable
from layouts.foundation.box import Box
from layouts.foundation.function import need_function, plain_coordinate
from layouts.foundation.known import Known, number_for
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import COORDINATES, Array, Coordinate
from layouts.foundation.tuples import Extent, as_nested, extent_of, leaves, shown


class PredicateTensor:
    """Whether there is an element at each coordinate of a layout of coordinates: 0 <= c < shape, along every axis.

    `coordinates` is `coordinates(shape)` cut as the tensor is: by `zipped_divide`, `local_tile`, `composition`, …
    Called as a layout is, it gives a truth value; an array of them for arrays of indices; for index expressions the
    condition, less what is known of sizes and of digits within their extents, which are those of a loop over them.
    `given=` states more facts about sizes.

    >>> from layouts import coordinates, zipped_divide
    >>> import atl
    >>> n, m, io, jo, ii, ji = atl.sizes("n m io jo ii ji")
    >>> there = PredicateTensor(zipped_divide(coordinates((n, m)), (8, 4)), (n, m))
    >>> there((ii, ji), (io, jo))
    8*io + ii < n ∧ 4*jo + ji < m
    >>> PredicateTensor(zipped_divide(coordinates((n, m)), (8, 4)), (n, m), given=[n % 8 == 0])((ii, ji), (io, jo))
    4*jo + ji < m
    >>> PredicateTensor(zipped_divide(coordinates((5, 3)), (4, 2)), (5, 3))((1, 0), (1, 1))
    False

    Raises `LayoutError` for places that are no coordinates, or coordinates along more axes than the shape has.
    """

    __slots__ = ("coordinates", "known", "shape")

    def __init__(self, coordinates: Layout, shape: object, *, given: Iterable[object] = ()) -> None:
        need_function(coordinates)
        if not isinstance(coordinates, Layout):
            raise WrongArgument(
                f"{brief(coordinates)} is no layout with strides", required="coordinates(shape), cut as the tensor is"
            )
        self.shape: tuple[Extent, ...] = tuple(leaves(as_nested(shape, extent_of)))
        steps = (coordinates.offset, *(stride for _, stride in coordinates.modes))
        if any(not isinstance(step, Coordinate) and step != 0 for step in steps):
            raise LayoutError(
                f"the places of {coordinates} are no coordinates",
                required="strides along axes: coordinates(shape), cut as the tensor is",
            )
        if coordinates.width > len(self.shape):
            raise LayoutError(
                f"{coordinates} moves along {coordinates.width} axes, the shape {shown(self.shape)} has "
                f"{len(self.shape)}",
                required="the shape of the tensor that was cut",
            )
        self.coordinates = coordinates
        self.known = coordinates.known.given(given)

    def __call__(self, *coordinate: Any) -> Any:
        """Whether there is an element at an index, or at a coordinate with one part for each mode."""
        given = plain_coordinate(coordinate[0] if len(coordinate) == 1 else coordinate)
        digits = Box(self.coordinates.shape).coordinate_digits(given)
        if any(isinstance(digit, np.ndarray) for digit in digits):
            if any(isinstance(digit, Index) for digit in digits):
                raise LayoutError(f"{brief(given)} has arrays and index expressions", required="one of the two")
            self._need_numbers()
            return self._inside(self.coordinates.at(digits))
        place = self.coordinates.at(digits)
        parts: list[Any] = [place[axis] if isinstance(place, Coordinate) else 0 for axis in range(len(self.shape))]
        limits = tuple(zip(parts, self.shape, strict=True))
        if all(type(part) is int and type(extent) is int for part, extent in limits):
            return all(0 <= part < extent for part, extent in limits)
        return Condition(conjunction(self._open(parts, self._within_extents(digits))))

    def table(self) -> Array:
        """The truth value at each index of the layout, in order. Raises `NotByTable` where sizes are not numbers."""
        self._need_numbers()
        return self._inside(self.coordinates.table())

    def where(self, **sizes: int) -> PredicateTensor:
        """The predicate tensor with numbers for sizes. Raises `LayoutError` for numbers that break what is known."""
        shape = tuple(map_leaves(index(extent), partial(number_for, sizes)) for extent in self.shape)
        made = PredicateTensor(self.coordinates.where(**sizes), shape)
        made.known = made.known.joined(self.known.where(sizes))
        return made

    def _need_numbers(self) -> None:
        if not self.coordinates.is_numeric or not all(isinstance(extent, int) for extent in self.shape):
            raise NotByTable(f"{self} is made of sizes", required="numbers for all sizes: there.where(n=8)")

    def _inside(self, places: Array) -> Array:
        """Whether each of these places is inside; coordinates are rows, and where nothing moves there are none."""
        rows = places if self.coordinates.semimodule is COORDINATES else places[..., None]
        limits = np.array([extent for extent in self.shape if isinstance(extent, int)], dtype=object)
        width = rows.shape[-1]
        inside: Array = np.all((rows >= 0) & (rows < limits[:width]), axis=-1) & bool((limits[width:] > 0).all())
        return inside.astype(bool)

    def _within_extents(self, digits: Sequence[Any]) -> Known:
        """What is known, and that the digits that are expressions are within their extents."""
        pairs = zip(digits, self.coordinates.box.extents, strict=True)
        known = self.known.assume(*(within(ZERO, at, index(extent)) for at, extent in pairs if isinstance(at, Index)))
        if contradictory(known.facts):
            raise LayoutError(
                f"the coordinate {brief(tuple(digits))} is none of {self.coordinates}",
                required="digits within the extents of the layout",
            )
        return known

    def _open(self, parts: Sequence[Extent], known: Known) -> Iterator[Predicate]:
        """What is not known of 0 <= part < extent, along each axis."""
        for part, extent in zip(parts, self.shape, strict=True):
            limits = conjuncts(within(ZERO, index(part), index(extent)))
            yield from (limit for limit in limits if not known.holds(limit))

    def __repr__(self) -> str:
        return f"{self.coordinates} within {shown(self.shape)}"
