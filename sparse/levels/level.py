"""What a level format is (Fig. 7.5, with errata E18 to E21): how it encodes, and how its positions are read.

A level holds one coordinate of a tensor's element, or several. Below an entry of the level above, its *parent*, stand
the positions `pos_bounds`; a valid one holds the coordinates `pos_crd`, and is itself the parent `pos_pos` of what
stands below. These functions are written once. A kernel contains what they give for index expressions and declared
arrays; the laws evaluate them for numbers and NumPy's arrays.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import atl

Number: TypeAlias = Any
"""An index expression in a program, or an integer; coordinates of many entries at once are an array of integers."""
Condition: TypeAlias = Any
"""A condition of the surface language, or a truth value; True where there is nothing to test."""
Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata-index structure of a level: its arrays, and the extents of the dimensions that it holds.

    In a program the arrays are declared tensors and the extents index expressions. `count` is the number of positions
    there are below all parents together.
    """

    arrays: Mapping[str, Any]
    extents: tuple[Number, ...]
    count: Number


@dataclass(frozen=True, slots=True)
class Stored:
    """What encoding gives: the metadata, and the position of each entry that was encoded."""

    metadata: Metadata
    positions: Integers


class Declaring:
    """Makes the inputs of a program that the arrays of a level are: `declare(role, extents, low, high)`."""

    def __init__(
        self,
        tensor: Callable[..., atl.Tensor],
        size: Callable[[str], atl.IndexExpr],
        index: str,
        *,
        apart: bool = False,
    ) -> None:
        self._tensor, self._size, self._index, self._apart = tensor, size, index, apart

    def __repr__(self) -> str:
        return f"Declaring(index={self._index!r}, apart={self._apart})"

    def array(self, role: str, *shape: Number, low: Number, high: Number, order: object = None) -> atl.Tensor:
        """An array of integers, low <= element < high, in an order if one is given (`atl.tensor`)."""
        return self._tensor(role, *shape, dtype=self._index, range=(low, high), order=order)

    def bounds(self, role: str, *shape: Number, low: Number, high: Number) -> atl.Tensor:
        """An array of positions, of which two neighbours bound those below one parent.

        Where no two parents may share a position, none is below the one before it.
        """
        return self.array(role, *shape, low=low, high=high, order="rising" if self._apart else None)

    def size(self, role: str) -> atl.IndexExpr:
        """A size that the arrays of a call determine."""
        return self._size(role)


class Level(ABC):
    """A level format. `dims` is the number of coordinates that one entry holds."""

    @property
    def dims(self) -> int:
        return 1

    @property
    def unique(self) -> bool:
        """Whether no two valid positions below one parent hold the same coordinates: the laws then hold as they are.

        Else an element is the sum of all entries that hold its coordinates.
        """
        return True

    def in_order(self) -> Level:
        """The level whose arrays are declared to be sorted, as encoding gives them: each call checks it then."""
        return self

    # -- the functions of positions -----------------------------------------------------------------------------------

    @abstractmethod
    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        """From where to where the positions below a parent run."""

    @abstractmethod
    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        """The coordinates that a position holds."""

    @abstractmethod
    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        """What a position is as the parent of the next level: its place among all positions of this one."""

    def valid(self, m: Metadata, parent: Number, p: Number) -> Condition:
        """Whether there is an entry at a position."""
        del m, parent, p
        return True

    @abstractmethod
    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        """The first position below a parent that holds these coordinates; None where there is none."""

    # -- encoding -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def store(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Stored:
        """Encodes entries, which come sorted by parent and coordinates, below that many parents.

        A level at the `root` has one parent, and need not say where its positions begin and end.
        """

    @abstractmethod
    def append(self, first: Metadata, second: Metadata) -> Metadata:
        """The structure of all that two hold, the parents of the second after those of the first."""

    @abstractmethod
    def empty(self, extents: tuple[int, ...]) -> Metadata:
        """The structure of no parents, the identity of `append` for tensors of these extents."""

    @abstractmethod
    def well_formed(self, m: Metadata) -> bool:
        """Whether the arrays are what a structure of this format has."""

    # -- programs -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def declare(self, extents: tuple[Number, ...], parents: Number, declaring: Declaring, *, root: bool) -> Metadata:
        """The inputs of a program that hold this level below so many parents."""
