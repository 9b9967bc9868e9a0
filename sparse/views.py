"""Reshape operators of formats: the tensor that the levels hold, as another view of the one that is meant (§7.6).

Each says where an element of the tensor stands in the view, and which element stands at a place of the view. They are
written once, for index expressions, numbers and arrays of coordinates. A view may have places for elements that the
tensor does not have, such as the rest of a block: these are not `inside`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, TypeAlias

from sparse.errors import FormatError
from sparse.levels.level import Condition, Number

Numbers: TypeAlias = tuple[Number, ...]


class View(ABC):
    """A reshape operator that can be undone."""

    @abstractmethod
    def extents(self, extents: Numbers) -> Numbers:
        """The extents of the view of a tensor with these. Raises `FormatError` for a tensor of another rank."""

    @abstractmethod
    def to(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        """Where an element of a tensor with these extents stands in the view."""

    @abstractmethod
    def back(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        """Which element of the tensor stands at a place of the view."""

    def inside(self, extents: Numbers, coordinates: Numbers) -> Condition:
        """Whether the tensor has an element for this place of the view."""
        del extents, coordinates
        return True


@dataclass(frozen=True)
class Same(View):
    """The tensor itself."""

    def extents(self, extents: Numbers) -> Numbers:
        return extents

    def to(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return coordinates

    def back(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return coordinates


@dataclass(frozen=True)
class Permuted(View):
    """The dimensions in another order: dimension k of the view is `order[k]` of the tensor.

    >>> Permuted((1, 0)).to((2, 3), (0, 2))
    (2, 0)
    """

    order: tuple[int, ...]

    def extents(self, extents: Numbers) -> Numbers:
        if sorted(self.order) != list(range(len(extents))):
            raise FormatError(
                f"the order {self.order} is none of {len(extents)} dimensions",
                required=f"each of 0 … {len(extents) - 1} once",
            )
        return tuple(extents[k] for k in self.order)

    def to(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return tuple(coordinates[k] for k in self.order)

    def back(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return tuple(coordinates[self.order.index(k)] for k in range(len(self.order)))


@dataclass(frozen=True)
class Blocked(View):
    """Blocks of `by` elements along the dimensions: first which block, then where in it (Fig. 7.6, with erratum E22).

    The last block along a dimension has places for elements that there are none of.

    >>> Blocked((4, 4)).extents((10, 8)), Blocked((4, 4)).to((10, 8), (9, 3))
    ((3, 2, 4, 4), (2, 0, 1, 3))
    """

    by: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.by, tuple) or not self.by or any(type(size) is not int or size < 1 for size in self.by):
            raise FormatError(f"blocks of {self.by}", required="positive numbers, one for each dimension")

    def extents(self, extents: Numbers) -> Numbers:
        if len(extents) != len(self.by):
            raise FormatError(
                f"blocks of {len(self.by)} dimensions, for a tensor of {len(extents)}",
                required="the extent of a block along each dimension of the tensor",
            )
        return (*((n + size - 1) // size for n, size in zip(extents, self.by, strict=True)), *self.by)

    def to(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        pairs = list(zip(coordinates, self.by, strict=True))
        return (*(c // size for c, size in pairs), *(c % size for c, size in pairs))

    def back(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        blocks, inner = coordinates[: len(self.by)], coordinates[len(self.by) :]
        return tuple(size * block + at for block, at, size in zip(blocks, inner, self.by, strict=True))

    def inside(self, extents: Numbers, coordinates: Numbers) -> Condition:
        found: Any = True
        for c, n, size in zip(self.back(extents, coordinates), extents, self.by, strict=True):
            if size > 1:
                found = (c < n) if found is True else found & (c < n)
        return found


@dataclass(frozen=True)
class Diagonals(View):
    """The diagonals of a matrix, each by the columns that it crosses: a shear (§7.6).

    Row d of the view is the diagonal on which column - row = d - (rows - 1).

    >>> Diagonals().to((3, 4), (2, 2)), Diagonals().to((3, 4), (0, 3))
    ((2, 2), (5, 3))
    """

    def extents(self, extents: Numbers) -> Numbers:
        if len(extents) != 2:
            raise FormatError(f"diagonals of a tensor of {len(extents)} dimensions", required="a matrix")
        rows, columns = extents
        return rows + columns - 1, columns

    def to(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        row, column = coordinates
        return column - row + extents[0] - 1, column

    def back(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        diagonal, column = coordinates
        return column - diagonal + extents[0] - 1, column

    def inside(self, extents: Numbers, coordinates: Numbers) -> Condition:
        row, _ = self.back(extents, coordinates)
        return (row >= 0) & (row < extents[0])


@dataclass(frozen=True)
class Then(View):
    """One view of another: first `first`, then `second`."""

    first: View
    second: View

    def extents(self, extents: Numbers) -> Numbers:
        return self.second.extents(self.first.extents(extents))

    def to(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return self.second.to(self.first.extents(extents), self.first.to(extents, coordinates))

    def back(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return self.first.back(extents, self.second.back(self.first.extents(extents), coordinates))

    def inside(self, extents: Numbers, coordinates: Numbers) -> Condition:
        between = self.first.extents(extents)
        outer = self.second.inside(between, coordinates)
        inner = self.first.inside(extents, self.second.back(between, coordinates))
        if outer is True or inner is True:
            return inner if outer is True else outer
        return outer & inner
