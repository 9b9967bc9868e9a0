"""Predicate tensors: CuTe's guards for partial tiles.

The identity layout on coordinates is tiled like the tensor, so it gives, for each position in a tile, the coordinate of
the element there. The guard is that this coordinate is within the shape of the tensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from atl.core.index import ZERO, Index, index, map_leaves
from atl.core.predicate import Predicate, conjunction, conjuncts, within
from atl.errors import InvalidArgument, brief
from atl.prove import contradictory
from atl.surface.values import Condition
from layouts.errors import CannotTabulate, LayoutError
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, number_for
from layouts.foundation.function import need_function, plain_coordinate
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import COORDINATES, Array, Coordinate
from layouts.foundation.tuples import Extent, as_nested, extent_of, leaves, shown


class PredicateTensor:
    """A predicate on the coordinates of a coordinate layout: 0 <= c < shape along every axis.

    `coordinates` is `coordinates(shape)`, tiled like the tensor by `zipped_divide`, `local_tile`, `composition`, …
    It is called like a layout. Numbers give a truth value, arrays of indices an array of truth values. Index
    expressions give the condition, without the conjuncts that follow from known facts and from each digit being
    within its extent. `given=` states more facts about sizes.

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

    Raises `LayoutError` if the values are not coordinates, or have more axes than the shape.
    """

    __slots__ = ("coordinates", "known", "shape")

    def __init__(self, coordinates: Layout, shape: object, *, given: Iterable[object] = ()) -> None:
        need_function(coordinates)
        if not isinstance(coordinates, Layout):
            raise InvalidArgument(
                f"{brief(coordinates)} is not a layout with strides",
                required="coordinates(shape), tiled like the tensor",
            )
        self.shape: tuple[Extent, ...] = tuple(leaves(as_nested(shape, extent_of)))
        steps = (coordinates.offset, *(stride for _, stride in coordinates.modes))
        if any(not isinstance(step, Coordinate) and step != 0 for step in steps):
            raise LayoutError(
                f"the values of {coordinates} are not coordinates",
                required="strides along axes: coordinates(shape), tiled like the tensor",
            )
        if coordinates.width > len(self.shape):
            raise LayoutError(
                f"{coordinates} has {coordinates.width} axes, the shape {shown(self.shape)} has {len(self.shape)}",
                required="the shape of the tensor that was tiled",
            )
        self.coordinates = coordinates
        self.known = coordinates.known.given(given)

    def __call__(self, *coordinate: Any) -> Any:
        """Return whether an index, or a coordinate with one part for each mode, is an element of the tensor."""
        given = plain_coordinate(coordinate[0] if len(coordinate) == 1 else coordinate)
        digits = Box(self.coordinates.shape).coordinate_digits(given)
        if any(isinstance(digit, np.ndarray) for digit in digits):
            if any(isinstance(digit, Index) for digit in digits):
                raise LayoutError(f"{brief(given)} mixes arrays and index expressions", required="one of the two")
            self._need_numbers()
            return self._inside(self.coordinates.at(digits))
        location = self.coordinates.at(digits)
        parts: list[Any] = [
            location[axis] if isinstance(location, Coordinate) else 0 for axis in range(len(self.shape))
        ]
        limits = tuple(zip(parts, self.shape, strict=True))
        if all(type(part) is int and type(extent) is int for part, extent in limits):
            return all(0 <= part < extent for part, extent in limits)
        return Condition(conjunction(self._open(parts, self._within_extents(digits))))

    def table(self) -> Array:
        """Return the truth value at each index of the layout, in order. Raises `CannotTabulate` for symbolic sizes."""
        self._need_numbers()
        return self._inside(self.coordinates.table())

    def where(self, **sizes: int) -> PredicateTensor:
        """Substitute numbers for sizes. Raises `LayoutError` for numbers that contradict known facts."""
        shape = tuple(map_leaves(index(extent), partial(number_for, sizes)) for extent in self.shape)
        made = PredicateTensor(self.coordinates.where(**sizes), shape)
        made.known = made.known.joined(self.known.where(sizes))
        return made

    def _need_numbers(self) -> None:
        if not self.coordinates.is_numeric or not all(isinstance(extent, int) for extent in self.shape):
            raise CannotTabulate(
                f"{self} depends on symbolic sizes", required="numbers for all sizes: predicate.where(n=8)"
            )

    def _inside(self, locations: Array) -> Array:
        """Return whether each value is inside. Coordinates are rows, with no columns if all strides are zero."""
        rows = locations if self.coordinates.semimodule is COORDINATES else locations[..., None]
        limits = np.array([extent for extent in self.shape if isinstance(extent, int)], dtype=object)
        width = rows.shape[-1]
        inside: Array = np.all((rows >= 0) & (rows < limits[:width]), axis=-1) & bool((limits[width:] > 0).all())
        return inside.astype(bool)

    def _within_extents(self, digits: Sequence[Any]) -> Known:
        """Return the known facts, and that symbolic digits are within their extents."""
        pairs = zip(digits, self.coordinates.box.extents, strict=True)
        known = self.known.assume(*(within(ZERO, at, index(extent)) for at, extent in pairs if isinstance(at, Index)))
        if contradictory(known.facts):
            raise LayoutError(
                f"the coordinate {brief(tuple(digits))} is outside {self.coordinates}",
                required="digits within the extents of the layout",
            )
        return known

    def _open(self, parts: Sequence[Extent], known: Known) -> Iterator[Predicate]:
        """Return the conjuncts of 0 <= part < extent that are not proved, for each axis."""
        for part, extent in zip(parts, self.shape, strict=True):
            limits = conjuncts(within(ZERO, index(part), index(extent)))
            yield from (limit for limit in limits if not known.holds(limit))

    def __repr__(self) -> str:
        return f"{self.coordinates} within {shown(self.shape)}"
