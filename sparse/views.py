"""Reshape operators of formats (§7.6): the levels store a view of the tensor, such as its transpose or its blocks.

A view maps coordinates of the tensor to coordinates of the view, and back. Both functions apply to index expressions,
integers and arrays of coordinates. A view may contain padding positions, such as those of a partial block: these are
not `in_bounds`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from atl.core.dtypes import INTEGERS, range_of
from atl.errors import brief
from sparse.errors import FormatError
from sparse.levels import Condition, Level, Number

Numbers: TypeAlias = tuple[Number, ...]


class View(ABC):
    """An invertible reshape operator."""

    @abstractmethod
    def extents(self, extents: Numbers) -> Numbers:
        """Return the extents of the view. Raises `FormatError` if the view does not support the rank."""

    @abstractmethod
    def forward(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        """Map coordinates of a tensor with these extents to coordinates of the view."""

    @abstractmethod
    def inverse(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        """Map coordinates of the view to coordinates of the tensor."""

    def in_bounds(self, extents: Numbers, coordinates: Numbers) -> Condition:
        """Return the condition that these coordinates of the view are not padding."""
        del extents, coordinates
        return True


@dataclass(frozen=True)
class Identity(View):
    """The identity view."""

    def extents(self, extents: Numbers) -> Numbers:
        return extents

    def forward(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return coordinates

    def inverse(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return coordinates


@dataclass(frozen=True)
class Permuted(View):
    """A permutation of the dimensions: dimension k of the view is dimension `order[k]` of the tensor.

    >>> Permuted((1, 0)).forward((2, 3), (0, 2))
    (2, 0)
    """

    order: tuple[int, ...]

    def extents(self, extents: Numbers) -> Numbers:
        if sorted(self.order) != list(range(len(extents))):
            raise FormatError(
                f"{self.order} is not a permutation of {len(extents)} dimensions",
                required=f"each of 0 … {len(extents) - 1} once",
            )
        return tuple(extents[k] for k in self.order)

    def forward(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return tuple(coordinates[k] for k in self.order)

    def inverse(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return tuple(coordinates[self.order.index(k)] for k in range(len(self.order)))


@dataclass(frozen=True)
class Blocked(View):
    """Blocks of `by` elements: the coordinates of the block, then those within it (Fig. 7.6, with erratum E22).

    The last block along a dimension may contain padding positions.

    >>> Blocked((4, 4)).extents((10, 8)), Blocked((4, 4)).forward((10, 8), (9, 3))
    ((3, 2, 4, 4), (2, 0, 1, 3))
    """

    by: tuple[int, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.by, tuple) or not self.by or any(type(size) is not int or size < 1 for size in self.by):
            raise FormatError(
                f"invalid block shape {self.by}", required="a tuple of positive integers, one for each dimension"
            )
        if max(self.by) > range_of("int64")[1]:
            raise FormatError(f"the block shape {self.by} is too large", required="block extents below 2**63")

    def extents(self, extents: Numbers) -> Numbers:
        if len(extents) != len(self.by):
            raise FormatError(
                f"blocks with {len(self.by)} dimensions do not fit a tensor of rank {len(extents)}",
                required="one block extent for each dimension of the tensor",
            )
        return (*((n + size - 1) // size for n, size in zip(extents, self.by, strict=True)), *self.by)

    def forward(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        pairs = list(zip(coordinates, self.by, strict=True))
        return (*(c // size for c, size in pairs), *(c % size for c, size in pairs))

    def inverse(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        blocks, inner = coordinates[: len(self.by)], coordinates[len(self.by) :]
        return tuple(size * block + at for block, at, size in zip(blocks, inner, self.by, strict=True))

    def in_bounds(self, extents: Numbers, coordinates: Numbers) -> Condition:
        found: Any = True
        for c, n, size in zip(self.inverse(extents, coordinates), extents, self.by, strict=True):
            if size > 1:
                found = (c < n) if found is True else found & (c < n)
        return found


@dataclass(frozen=True)
class Diagonals(View):
    """The diagonals of a matrix, indexed by diagonal and column: a shear (§7.6).

    Row d of the view is the diagonal with column - row = d - (rows - 1).

    >>> Diagonals().forward((3, 4), (2, 2)), Diagonals().forward((3, 4), (0, 3))
    ((2, 2), (5, 3))
    """

    def extents(self, extents: Numbers) -> Numbers:
        if len(extents) != 2:
            raise FormatError(f"a tensor of rank {len(extents)} has no diagonals", required="a matrix")
        rows, columns = extents
        return rows + columns - 1, columns

    def forward(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        row, column = coordinates
        return column - row + extents[0] - 1, column

    def inverse(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        diagonal, column = coordinates
        return column - diagonal + extents[0] - 1, column

    def in_bounds(self, extents: Numbers, coordinates: Numbers) -> Condition:
        row, _ = self.inverse(extents, coordinates)
        return (row >= 0) & (row < extents[0])


@dataclass(frozen=True)
class Composed(View):
    """The composition of two views: `first` is applied first, then `second`."""

    first: View
    second: View

    def extents(self, extents: Numbers) -> Numbers:
        return self.second.extents(self.first.extents(extents))

    def forward(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return self.second.forward(self.first.extents(extents), self.first.forward(extents, coordinates))

    def inverse(self, extents: Numbers, coordinates: Numbers) -> Numbers:
        return self.first.inverse(extents, self.second.inverse(self.first.extents(extents), coordinates))

    def in_bounds(self, extents: Numbers, coordinates: Numbers) -> Condition:
        between = self.first.extents(extents)
        outer = self.second.in_bounds(between, coordinates)
        inner = self.first.in_bounds(extents, self.second.inverse(between, coordinates))
        if outer is True or inner is True:
            return inner if outer is True else outer
        return outer & inner


# -- storage ----------------------------------------------------------------------------------------------------------


LevelsOf: TypeAlias = Callable[[int], tuple[Level, ...]]


@dataclass(frozen=True)
class Storage:
    """The levels of a format, as a tuple or as a function of the rank, and the view of the tensor that they store.

    If `ordered` is true, the coordinate arrays are declared to be sorted.
    """

    name: str
    levels: tuple[Level, ...] | LevelsOf
    view: View = field(default_factory=Identity)
    index_dtype: str = "int32"
    ordered: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise FormatError(f"{brief(self.name)} is not a name for a format", required="a non-empty string")
        if not callable(self.levels) and not (
            isinstance(self.levels, tuple) and all(isinstance(level, Level) for level in self.levels)
        ):
            raise FormatError(
                f"invalid levels for the format {self.name}: {brief(self.levels)}", required="a tuple of level formats"
            )
        if not isinstance(self.index_dtype, str) or self.index_dtype not in INTEGERS:
            raise FormatError(
                f"invalid index dtype {brief(self.index_dtype)}", required=f"one of {', '.join(INTEGERS)}"
            )

    def levels_of(self, extents: tuple[Number, ...]) -> list[tuple[Level, tuple[Number, ...]]]:
        """Return the levels for a tensor with these extents, each with the extents of the view dimensions it stores.

        Raises `FormatError` if the format does not support the rank.
        """
        stored = self.view.extents(extents)
        levels = self.levels(len(stored)) if callable(self.levels) else self.levels
        held = sum(level.dims for level in levels)
        if held != len(stored):
            given = "" if len(stored) == len(extents) else f" after applying its view (the tensor has {len(extents)})"
            raise FormatError(
                f"the format {self.name} stores {held} dimensions, not {len(stored)}{given}",
                required=f"levels for {len(stored)} dimensions",
            )
        out, at = [], 0
        for level in levels:
            held_here = stored[at : at + level.dims]
            out.append((level.sorted() if self.ordered else level, held_here))
            at += level.dims
        return out
