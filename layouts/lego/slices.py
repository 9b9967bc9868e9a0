"""Slices of a layout: the places over index variables, and how they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from atl.core.index import Index, Leaf, Size, Var, atoms, value_of
from layouts.errors import NotByTable
from layouts.foundation.semimodule import Array
from layouts.foundation.tuples import Extent


@dataclass(frozen=True, slots=True)
class Slice:
    """The places of a part of a layout: an expression over `axes`, index variables with their extents."""

    place: Index
    axes: tuple[tuple[Var, Extent], ...]

    def table(self, **sizes: int) -> Array:
        """The places as an array, a dimension for each axis; sizes are given numbers.

        >>> from layouts.lego import Row, TileBy
        >>> TileBy([2, 2], [2, 2]).OrderBy(Row(4, 4))[1, 0, :, :].table()
        array([[ 8,  9],
               [12, 13]])
        """
        missing = {atom.name for atom in self._atoms() if isinstance(atom, Size)} - set(sizes)
        if missing:
            raise NotByTable(f"the sizes {', '.join(sorted(missing))}", required="a number for each: table(n=8)")
        extents = [_value(extent, sizes) for _, extent in self.axes]
        grid = np.indices(extents)
        held: Mapping[Leaf, Any] = {axis: grid[place] for place, (axis, _) in enumerate(self.axes)}

        def leaf(atom: Leaf) -> Any:
            return held[atom] if atom in held else sizes[atom.name]  # type: ignore[union-attr]

        return np.broadcast_to(value_of(self.place, leaf, _no_element), tuple(extents))

    def _atoms(self) -> list[Leaf]:
        found = list(atoms(self.place))
        for _, extent in self.axes:
            found += atoms(extent) if isinstance(extent, Index) else []
        return [atom for atom in found if isinstance(atom, Size | Var)]

    def __str__(self) -> str:
        return f"{self.place} over {' '.join(f'[{axis.name} < {extent}]' for axis, extent in self.axes) or 'one place'}"

    __repr__ = __str__


def _value(extent: Extent, sizes: Mapping[str, int]) -> int:
    if isinstance(extent, int):
        return extent
    return value_of(extent, lambda atom: sizes[atom.name], _no_element)  # type: ignore[union-attr]


def _no_element(_array: object, _at: object) -> int:
    raise NotByTable("a place reads an array", required="a place over sizes and indices")
