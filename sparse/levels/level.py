"""The interface of level formats (Fig. 7.5, with errata E18 to E21): encoding entries, and iterating over positions.

A level stores one or several coordinates of each element. Each entry of the level above is a *parent*: it has the
positions `pos_bounds`. A valid position has the coordinates `pos_crd`, and is the parent `pos_pos` of the next level.
These functions are defined once and applied in two ways: lowering applies them to index expressions and declared
arrays, the laws to integers and NumPy arrays.
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
"""An index expression in a program, an integer, or an integer array of the coordinates of many entries."""
Condition: TypeAlias = Any
"""A condition of the surface language, or a Boolean; True if there is nothing to test."""
Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata-index structure of a level: its arrays, and the extents of the dimensions that it stores.

    In a program the arrays are declared tensors and the extents are index expressions. `count` is the total number of
    positions, over all parents.
    """

    arrays: Mapping[str, Any]
    extents: tuple[Number, ...]
    count: Number


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of encoding: the metadata, and the position of each encoded entry."""

    metadata: Metadata
    positions: Integers


class Declarer:
    """Declares the arrays of a level as inputs of a program.

    If `distinct` is true, no two parents may share a position.
    """

    def __init__(
        self,
        tensor: Callable[..., atl.Tensor],
        size: Callable[[str], atl.IndexExpr],
        index_dtype: str,
        *,
        distinct: bool = False,
    ) -> None:
        self._tensor, self._size, self._index_dtype, self._distinct = tensor, size, index_dtype, distinct

    def __repr__(self) -> str:
        return f"Declarer(index_dtype={self._index_dtype!r}, distinct={self._distinct})"

    def array(self, role: str, *shape: Number, low: Number, high: Number, monotonic: object = None) -> atl.Tensor:
        """Declare an array of integers, low <= element < high; `monotonic` is that of `atl.tensor`."""
        return self._tensor(role, *shape, dtype=self._index_dtype, range=(low, high), monotonic=monotonic)

    def bounds(self, role: str, *shape: Number, low: Number, high: Number) -> atl.Tensor:
        """Declare an array of position bounds: elements r and r + 1 bound the positions of parent r.

        It is declared nondecreasing if no two parents may share a position.
        """
        return self.array(role, *shape, low=low, high=high, monotonic="nondecreasing" if self._distinct else None)

    def size(self, role: str) -> atl.IndexExpr:
        """Declare a size that is inferred from the arrays of a call."""
        return self._size(role)


class Level(ABC):
    """A level format. `dims` is the number of coordinates that each entry stores."""

    @property
    def dims(self) -> int:
        return 1

    @property
    def unique(self) -> bool:
        """True if the valid positions of each parent have distinct coordinates.

        Otherwise an element is the sum of all entries with its coordinates, and the laws are weaker accordingly.
        """
        return True

    def sorted(self) -> Level:
        """Return this level with its arrays declared sorted, as `encode` produces them; each call then checks it."""
        return self

    # -- the functions of positions -----------------------------------------------------------------------------------

    @abstractmethod
    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        """Return the half-open range of the positions of a parent."""

    @abstractmethod
    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        """Return the coordinates at a position."""

    @abstractmethod
    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        """Return the number of a position among all positions of this level, which identifies it as a parent."""

    def valid(self, m: Metadata, parent: Number, p: Number) -> Condition:
        """Return the condition that there is an entry at a position."""
        del m, parent, p
        return True

    @abstractmethod
    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        """Return the first position of a parent with these coordinates, or None."""

    # -- encoding -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def encode(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Encoded:
        """Encode entries, sorted by parent and coordinates, for the given number of parents.

        A level at the `root` has one parent and may omit its position bounds.
        """

    @abstractmethod
    def append(self, first: Metadata, second: Metadata) -> Metadata:
        """Concatenate two structures: the parents of the second follow those of the first."""

    @abstractmethod
    def empty(self, extents: tuple[int, ...]) -> Metadata:
        """Return the structure without parents, the identity of `append` for these extents."""

    @abstractmethod
    def well_formed(self, m: Metadata) -> bool:
        """Return whether the arrays form a valid structure of this format."""

    # -- programs -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        """Declare the inputs of a program that store this level, for the given number of parents."""
