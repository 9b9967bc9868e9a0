"""Axe layouts: L(x) = { D(x) + r + O | r in R }, with sharded iters D, replicated iters R and an offset O.

Indices are row-major: the last iter of D moves fastest. An element has a set of locations, one for each distinct
location of R. Replicas that coincide count once (the paper counts them separately).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product as combinations
from math import prod
from typing import Any, ClassVar

import numpy as np

from atl.core.index import Index
from atl.errors import InvalidArgument, brief
from atl.surface.reindexing import Reindexing
from layouts.axe.axes import MEMORY, Axis, Iter, Location, iter_of, location_of
from layouts.axe.replicas import MOST_REPLICAS, Copies, copies_of, listed, sign
from layouts.errors import CannotTabulate, LayoutError, NoLayout
from layouts.foundation.box import Box
from layouts.foundation.facts import EMPTY, Known, positive
from layouts.foundation.function import Function, plain_coordinate
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import Coordinate, Stride
from layouts.foundation.sizes import placed
from layouts.foundation.storing import stored_by_strides
from layouts.foundation.tuples import Extent, Shape, product, shown


class Axe(Function):
    """An Axe layout, written S[(8, 4):(4 @ lane, 1 @ lane)] + R[2:4 @ warp] + 5 @ warp.

    Without replicas it is a function on its box, whose value is a coordinate along `axes`. `locations` lists all
    locations of an element.

    >>> from layouts.axe import R, S, axis
    >>> lane, warp, reg = map(axis, ("lane", "warp", "reg"))
    >>> tile = S[(8, 2, 4, 2):(4 @ lane, 1 @ warp, 1 @ lane, 1 @ reg)] + R[2:4 @ warp] + 5 @ warp
    >>> tile
    S[(8,2,4,2):(4@lane,1@warp,1@lane,1@reg)] + R[2:4@warp] + 5@warp
    >>> locations(tile, (1, 0, 0, 0))
    [4@lane + 5@warp, 4@lane + 9@warp]
    """

    takes_offset: ClassVar[bool] = True
    __slots__ = ("axes", "known", "known_injective", "offset", "replicated", "shape", "sharded")

    def __init__(
        self,
        sharded: Iterable[Iter],
        replicated: Iterable[Iter] = (),
        offset: Location | None = None,
        *,
        known: Known = EMPTY,
    ) -> None:
        self.sharded = tuple(sharded)
        self.replicated = tuple(replicated)
        self.offset = Location({}) if offset is None else offset
        named = {each.axis for each in (*self.sharded, *self.replicated)} | set(self.offset.parts)
        self.axes: tuple[Axis, ...] = tuple(sorted(named))
        extents = tuple(each.extent for each in self.sharded)
        self.shape = extents if len(extents) > 1 else extents[0] if extents else 1
        self.known = positive(each.extent for each in (*self.sharded, *self.replicated)).joined(known)
        self.known_injective = False

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> Extent:
        """The number of elements."""
        return product(tuple(each.extent for each in self.sharded))

    def symbolic(self) -> list[Index]:
        """Return the extents, strides and offsets that are not numbers."""
        iters = (*self.sharded, *self.replicated)
        parts = [part for each in iters for part in (each.extent, each.stride)]
        return [part for part in (*parts, *self.offset.parts.values()) if isinstance(part, Index)]

    @property
    def is_numeric(self) -> bool:
        return not self.symbolic()

    def given(self, *conditions: object) -> Axe:
        """Return this layout with additional facts about its sizes.

        >>> import atl
        >>> from layouts.axe import R, S, axis, canonicalize
        >>> n, lane = atl.sizes("n"), axis("lane")
        >>> canonicalize((S[(n, 4):(4 @ lane, 1 @ lane)] + R[2:n @ lane]).given(n >= 1))
        S[4*n:1@lane] + R[2:n@lane]
        """
        return Axe(self.sharded, self.replicated, self.offset, known=self.known.given(conditions))

    @property
    def box(self) -> Box:
        """The domain, with row-major indices."""
        return Box(self.shape, row_major=True)

    def strides(self, axes: Sequence[Axis] | None = None) -> Layout:
        """Return D and O as a strided layout along the given axes (by default all), on row-major flat indices."""
        units = {at: Coordinate((0,) * k + (1,)) for k, at in enumerate(self.axes if axes is None else axes)}
        modes: list[tuple[Extent, Stride]] = [(each.extent, units[each.axis] * each.stride) for each in self.sharded]
        start: Any = 0
        for at, steps in self.offset.parts.items():
            start = start + units[at] * steps
        return Layout.of_modes(modes[::-1], offset=start, known=self.known)

    def spread(self) -> tuple[dict[Axis, Copies], Location]:
        """Return the set R: for each axis, the steps from its smallest location; and that smallest location.

        Each iter moves along one axis, so R is the product of these sets. Raises `NoLayout` or `CannotTabulate` if
        sizes are symbolic and the set is not determined.
        """
        least = Location({})
        moving = [each for each in self.replicated if each.extent != 1]
        for each in moving:
            if sign(each.stride, self.known) < 0:
                least = least.plus(Location({each.axis: each.reach}))
        along = sorted({each.axis for each in moving})
        return {at: copies_of([each for each in moving if each.axis == at], self.known) for at in along}, least

    def normal(self, axes: Sequence[Axis]) -> tuple[Layout, dict[Axis, Copies]]:
        """Return D by strides along these axes, from the smallest replica, and the steps to the other replicas.

        Layouts that map each element to the same locations agree in both, up to the division of D into modes.
        """
        steps, least = self.spread()
        return Axe(self.sharded, (), self.offset.plus(least), known=self.known).strides(axes), steps

    def replicas(self) -> list[Location]:
        """Return the distinct locations of R, ordered by axis."""
        steps, least = self.spread()
        lists = [listed(each) for each in steps.values()]
        if prod(map(len, lists)) > MOST_REPLICAS:
            raise CannotTabulate(
                f"an element of {self} has {prod(map(len, lists))} locations",
                required=f"at most {MOST_REPLICAS}",
            )
        return [least.plus(Location(dict(zip(steps, each, strict=True)))) for each in combinations(*lists)]

    @property
    def replicates(self) -> bool:
        """True if an element may have several locations."""
        return any(each.extent != 1 for each in self.replicated)

    # -- meaning ------------------------------------------------------------------------------------------------------

    def at(self, digits: Sequence[Any]) -> Any:
        if self.replicates:
            raise NoLayout(
                f"the elements of {self} have several locations",
                required="one location for each element",
                suggestions=("locations(layout, at) returns all of them",),
            )
        found = self.strides().at(list(digits)[::-1])
        if self.axes not in ((), (MEMORY,)):
            return found
        # Along memory alone a location is an integer, as in other layouts.
        if isinstance(found, Coordinate):
            return found[0]
        return found[..., 0] if isinstance(found, np.ndarray) and found.ndim > 1 else found

    def where(self, **sizes: int) -> Axe:
        """Return this layout with numbers for sizes.

        >>> import atl
        >>> from layouts.axe import S, axis
        >>> n = atl.sizes("n")
        >>> S[(n, 4):(4, 1)].where(n=8)
        S[(8,4):(4,1)]
        """

        known = self.known.where(sizes)

        def numbers(iters: Iterable[Iter]) -> list[Iter]:
            return [iter_of(placed(each.extent, sizes), _step(each, sizes)) for each in iters]

        offset = Location({at: placed(steps, sizes) for at, steps in self.offset.parts.items()})
        return Axe(numbers(self.sharded), numbers(self.replicated), offset, known=known)

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Return the reindexing of a tensor whose row-major indices are the iters; the first axis is outermost.

        >>> from atl.core.index import constant, size
        >>> from layouts.axe import S, axis
        >>> lane, reg = axis("lane"), axis("reg")
        >>> stored = S[(2, 4, 2):(4 @ lane, 1 @ lane, 1 @ reg)].stored((constant(2), constant(8)))
        >>> stored.places, stored.place((size("i"), size("j")))
        ((2, 4, 2), (i, j // 2, j % 2))
        """
        if self.replicates or self.offset.parts:
            raise NoLayout(
                f"{self} cannot store a tensor: elements have several locations, or the offset is not 0",
                required="one location for each element, and offset 0, as the tensor gets its own buffer",
            )
        units: dict[Axis, Extent] = {}
        for at in reversed(self.axes):
            units[at] = product(tuple(self._digit_extent(beyond) for beyond in units))
        modes, strides = _by_dimension(self.sharded, shape, str(self), self.known)
        steps = [each.stride * units[each.axis] for each in strides]
        return stored_by_strides(shape, modes, steps, 0, self.known, copies=copies)

    def _digit_extent(self, along: Axis) -> Extent:
        """Return a multiple of every stride along an axis that exceeds all locations on it.

        Larger strides must be multiples of smaller ones.
        """
        multiple: Extent = 1
        for each in self.sharded:
            if each.axis != along or each.extent == 1:
                continue
            reach = each.extent * each.stride * sign(each.stride, self.known)
            if self.known.less(multiple, reach + 1):
                multiple = reach
            elif not self.known.less(reach, multiple + 1):
                raise CannotTabulate(
                    f"it is not known for all sizes which of {multiple} and {reach} is larger, along {along} in {self}",
                    required="numbers for sizes, or facts that imply it",
                    suggestions=("state it: layout.given(...)", "give numbers for the sizes: layout.where(...)"),
                )
        return multiple

    # -- notation -----------------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Axe:
        if isinstance(other, Axe):
            if self.sharded and other.sharded:
                raise LayoutError(f"{self} + {other}", required="a single S[...]; direct_sum adds two layouts")
            sharded = self.sharded or other.sharded
            known = self.known.joined(other.known)
            return Axe(sharded, (*self.replicated, *other.replicated), self.offset.plus(other.offset), known=known)
        return Axe(self.sharded, self.replicated, self.offset.plus(location_of(other)), known=self.known)

    def __radd__(self, other: object) -> Axe:
        return self + other

    def __eq__(self, other: object) -> bool:
        """Return whether the iters are written the same. Use `same_locations` to compare functions."""
        if not isinstance(other, Axe):
            return NotImplemented
        mine = (self.sharded, sorted(map(str, self.replicated)), self.offset)
        return mine == (other.sharded, sorted(map(str, other.replicated)), other.offset)

    def __hash__(self) -> int:
        return hash((self.sharded, frozenset(self.replicated), self.offset))

    def __repr__(self) -> str:
        parts = [f"S{_bracketed(self.sharded)}"] if self.sharded else []
        parts += [f"R{_bracketed(self.replicated)}"] if self.replicated else []
        parts += [str(self.offset)] if self.offset.parts else []
        return " + ".join(parts)


def _step(each: Iter, sizes: Mapping[str, int]) -> Location:
    """Return the stride with numbers for sizes; it may be 0 if the extent is 1."""
    return Location({each.axis: placed(each.stride, sizes)})


def _by_dimension(
    iters: Sequence[Iter], shape: Sequence[Index], name: str, known: Known
) -> tuple[tuple[Shape, ...], list[Iter]]:
    """Return the extents of the iters of each dimension, and the iters in that order, fastest first within each."""
    modes: list[Shape] = []
    order: list[Iter] = []
    left = list(iters)
    for extent in shape:
        taken: list[Iter] = []
        while left and not known.same(product(tuple(each.extent for each in taken)), extent):
            taken.append(left.pop(0))
        if not known.same(product(tuple(each.extent for each in taken)), extent):
            break
        modes.append(tuple(each.extent for each in reversed(taken)) if taken else 1)
        order += reversed(taken) if taken else [Iter(1, 0)]
    if left and all(each.extent == 1 for each in left):
        left = []
    if left or len(modes) < len(shape):
        raise NoLayout(
            f"the iters of {name} do not make up the dimensions of the tensor",
            required="iters for each dimension, row-major, whose extents multiply to its extent: group(L, shape)",
        )
    return tuple(modes), order


class Written:
    """The constructors S and R: `S[(8, 4):(4 @ lane, 1 @ lane)]`, `S[8:2]`, `R[2:4 @ warp]`."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __getitem__(self, given: object) -> Axe:
        if not isinstance(given, slice) or given.step is not None or given.start is None or given.stop is None:
            raise InvalidArgument(f"{self.word}[{brief(given)}]", required="extents and strides: S[(8, 4):(4, 1)]")
        extents, strides = (each if isinstance(each, tuple) else (each,) for each in (given.start, given.stop))
        if len(extents) != len(strides):
            raise LayoutError(
                f"{len(extents)} extents and {len(strides)} strides in {self.word}[...]", required="a stride for each"
            )
        iters = [iter_of(extent, stride) for extent, stride in zip(extents, strides, strict=True)]
        return Axe(iters) if self.word == "S" else Axe((), iters)

    def __repr__(self) -> str:
        return self.word


S = Written("S")
"""Sharded iters."""
R = Written("R")
"""Replicated iters."""


def need_axe(*values: object) -> None:
    """Raise `InvalidArgument` if a value is not an Axe layout."""
    for value in values:
        if not isinstance(value, Axe):
            raise InvalidArgument(f"{brief(value)} is not an Axe layout", required="an Axe layout: S[...] + R[...]")


def locations(layout: Axe, at: object) -> list[Location]:
    """Return all locations of the element at an index, or at a coordinate of the iters; both may be index expressions.

    Raises `LayoutError` if the index is not proved to be within the domain, and `CannotTabulate` if the locations are
    too many to list or their number is symbolic.

    >>> import atl
    >>> from layouts.axe import R, S, axis
    >>> n = atl.sizes("n")
    >>> locations(S[(n, 4):(4, 1)] + R[2:4 * n], (n - 1, 2))
    [(4*n - 2)@m, (8*n - 2)@m]
    """
    need_axe(layout)
    digits = layout.box.coordinate_digits(plain_coordinate(at))
    if not layout.sharded:  # a single element
        layout, digits = Axe([Iter(1, 1)], layout.replicated, layout.offset, known=layout.known), digits[:1]
    for digit, each in zip(digits, layout.sharded, strict=True):
        if not layout.known.less(-1, digit) or not layout.known.less(digit, each.extent):
            raise LayoutError(f"the element {brief(at)} of {layout}", required=f"one of {layout.size} elements")
    first = layout.offset
    for digit, each in zip(digits, layout.sharded, strict=True):
        first = first.plus(Location({each.axis: digit * each.stride}))
    return [first.plus(other) for other in layout.replicas()]


def span(layout: Axe) -> Mapping[Axis, Extent]:
    """Return, for each axis, the largest minus the smallest location plus one. The offset does not matter.

    Raises `NoLayout` if the sign of a stride is not known for all sizes.

    >>> from layouts.axe import S, axis
    >>> dict(span(S[(8, 4):(8, 2)] + 5))
    {m: 63}
    """
    return {at: last - first + 1 for at, (first, last) in ranges(layout).items()}


def ranges(layout: Axe) -> dict[Axis, tuple[Extent, Extent]]:
    """Return, for each axis, the smallest and the largest location."""
    need_axe(layout)
    found: dict[Axis, tuple[Extent, Extent]] = {at: (layout.offset[at], layout.offset[at]) for at in layout.axes}
    for each in (*layout.sharded, *layout.replicated):
        first, last = found[each.axis]
        if each.extent == 1:
            continue
        down = sign(each.stride, layout.known) < 0
        found[each.axis] = (first + each.reach, last) if down else (first, last + each.reach)
    return found


def _bracketed(iters: Sequence[Iter]) -> str:
    if len(iters) == 1:
        return f"[{iters[0]}]"
    strides = ",".join(str(each).partition(":")[2] for each in iters)
    return f"[{shown(tuple(each.extent for each in iters))}:({strides})]"
