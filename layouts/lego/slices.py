"""Slices of a layout: locations as expressions over index variables, and their text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from atl.core.index import ZERO, Index, Leaf, Size, Var, atoms, index, value_of
from atl.core.predicate import NonNegative, Predicate, conjuncts, within
from atl.prove import simplify
from atl.surface.values import IndexExpr
from atl.text.printing import show_predicate
from layouts.errors import CannotTabulate, LayoutError, NoLayout
from layouts.foundation.function import Function, need_function
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import BITS, Array
from layouts.foundation.sizes import plain
from layouts.foundation.tuples import Extent, modes_of, plain_index, product, shown
from layouts.foundation.variables import digit_variable
from layouts.linear.conversion import as_linear


@dataclass(frozen=True, slots=True)
class Slice:
    """The locations of a slice of a layout: an expression over `axes`, index variables with their extents."""

    location: Index
    axes: tuple[tuple[Var, Extent], ...]
    inside: Predicate | None = None
    """The condition under which there is a location; none if there always is."""

    def table(self, **sizes: int) -> Array:
        """Return the locations as an array with a dimension for each axis; takes numbers for the sizes.

        >>> from layouts.lego import Row, TileBy
        >>> TileBy([2, 2], [2, 2]).OrderBy(Row(4, 4))[1, 0, :, :].table()
        array([[ 8,  9],
               [12, 13]])
        """
        missing = {atom.name for atom in self._atoms() if isinstance(atom, Size)} - set(sizes)
        if missing:
            raise CannotTabulate(f"the sizes {', '.join(sorted(missing))}", required="a number for each: table(n=8)")
        extents = [_value(extent, sizes) for _, extent in self.axes]
        grid = np.indices(extents)
        held: Mapping[Leaf, Any] = {axis: grid[location] for location, (axis, _) in enumerate(self.axes)}

        def leaf(atom: Leaf) -> Any:
            return held[atom] if atom in held else sizes[atom.name]  # type: ignore[union-attr]

        found: Array = np.broadcast_to(value_of(self.location, leaf, _no_element), tuple(extents))
        if self.inside is None:
            return found
        holds = [value_of(part, leaf, _no_element) >= 0 for part in _at_least_zero(self.inside)]
        return np.where(np.logical_and.reduce(np.broadcast_arrays(*holds, np.ones_like(found, dtype=bool))), found, -1)

    def _atoms(self) -> list[Leaf]:
        found = list(atoms(self.location))
        found += [atom for part in _at_least_zero(self.inside) for atom in atoms(part)] if self.inside else []
        for _, extent in self.axes:
            found += atoms(extent) if isinstance(extent, Index) else []
        return [atom for atom in found if isinstance(atom, Size | Var)]

    def __str__(self) -> str:
        where = " ".join(f"[{axis.name} < {extent}]" for axis, extent in self.axes) or "one location"
        return f"{self.location} over {where}" + (f" where {show_predicate(self.inside)}" if self.inside else "")

    __repr__ = __str__


def part_of(function: Function, *parts: Any) -> Slice:
    """Return the locations of a slice of any layout, by its modes. A colon, `slice(None)`, is a whole mode.

    Raises `NoLayout` if locations are coordinates instead of integers.

    >>> from layouts import Layout
    >>> part_of(Layout((4, 8), (8, 1)), 2, slice(None))
    i + 16 over [i < 8]
    """
    need_function(function)
    if isinstance(function, Layout) and function.semimodule is BITS:
        function = as_linear(function)  # its value is an exclusive or of bits of digits
    digits, axes = chosen(parts, [product(mode) for mode in modes_of(function.shape)])
    found = function(*digits)
    location = plain_index(found)
    if isinstance(location, bool) or not isinstance(location, int | Index):
        raise NoLayout(f"the locations of {function} are not integers", required="a layout of memory")
    symbolic = [(plain(digit), n) for digit, n in zip(digits, map(product, modes_of(function.shape)), strict=True)]
    known = function.known.assume(*(within(ZERO, x, index(n)) for x, n in symbolic if isinstance(x, Index)))
    return Slice(index(known.simple(simplify(known.facts, index(location)))), axes)


LETTERS: Final = (*"ijklmnopqrstuvwxyz", *(f"i{number}" for number in range(100)))
"""Names of index variables, skipping names of sizes."""


def chosen(
    given: object, dims: Sequence[Extent], others: Iterable[Extent] = ()
) -> tuple[list[Any], tuple[tuple[Var, Extent], ...]]:
    """Return the digits of a slice, with a variable for each colon; and the variables.

    Raises `LayoutError` for other slices, or if the number of parts is not that of the extents.
    """
    given = given if isinstance(given, tuple) else (given,)
    if len(given) != len(dims):
        raise LayoutError(f"{len(given)} parts of a view of {shown(tuple(dims))}", required=f"{len(dims)}")
    written = [plain(part) for part in (*given, *dims, *others)]
    taken = {atom.name for each in written if isinstance(each, Index) for atom in atoms(each) if isinstance(atom, Size)}
    names = (name for name in LETTERS if name not in taken)
    digits: list[Any] = []
    axes: list[tuple[Var, Extent]] = []
    for part, extent in zip(given, dims, strict=True):
        if isinstance(part, slice) and part == slice(None):
            axes.append((digit_variable(len(axes), next(names)), extent))
            digits.append(IndexExpr(index(axes[-1][0])))
        elif isinstance(part, slice):
            raise LayoutError(f"the slice {part}", required="an index, or a colon for the whole dimension")
        else:
            digits.append(part)
    return digits, tuple(axes)


def _at_least_zero(condition: Predicate) -> list[Index]:
    """Return the expressions that a conjunction requires to be at least 0."""
    return [part.expression for part in conjuncts(condition) if isinstance(part, NonNegative)]


def _value(extent: Extent, sizes: Mapping[str, int]) -> int:
    if isinstance(extent, int):
        return extent
    return value_of(extent, lambda atom: sizes[atom.name], _no_element)  # type: ignore[union-attr]


def _no_element(_array: object, _at: object) -> int:
    raise CannotTabulate("a location reads an array", required="a location over sizes and indices")
