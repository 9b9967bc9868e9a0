"""Axe's layouts: L(x) = { D(x) + r + O | r in R }, with sharded iters D, replicated iters R and an offset O.

Indices count row by row, the last iter of D moves fastest. An element may have several places: one for each place of R
that differs, for replicas that overlap are one place (the paper counts them apart).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product as combinations
from math import prod
from typing import Any, ClassVar

import numpy as np

from atl.core.index import Index
from atl.errors import WrongArgument, brief
from atl.surface.reindexing import Reindexing
from layouts.axe.axes import MEMORY, Axis, Iter, Place, iter_of, place_of
from layouts.axe.replicas import MOST_REPLICAS, Copies, copies_of, listed, sign
from layouts.errors import LayoutError, NoLayout, NotByTable
from layouts.foundation.box import Box
from layouts.foundation.function import Function, plain_coordinate
from layouts.foundation.known import EMPTY, Known, positive
from layouts.foundation.layout import Layout
from layouts.foundation.semimodule import Coordinate, Stride
from layouts.foundation.sizes import placed
from layouts.foundation.storing.strides import stored_by_strides
from layouts.foundation.tuples import Extent, Shape, product, shown


class Axe(Function):
    """A layout in Axe's words, written S[(8, 4):(4 @ lane, 1 @ lane)] + R[2:4 @ warp] + 5 @ warp.

    Where elements have one place, it is a function on its box, whose value is a coordinate along `axes`. `places` has
    all places of an element.

    >>> from layouts.axe import R, S, axis
    >>> lane, warp, reg = map(axis, ("lane", "warp", "reg"))
    >>> tile = S[(8, 2, 4, 2):(4 @ lane, 1 @ warp, 1 @ lane, 1 @ reg)] + R[2:4 @ warp] + 5 @ warp
    >>> tile
    S[(8,2,4,2):(4@lane,1@warp,1@lane,1@reg)] + R[2:4@warp] + 5@warp
    >>> places(tile, (1, 0, 0, 0))
    [4@lane + 5@warp, 4@lane + 9@warp]
    """

    takes_offset: ClassVar[bool] = True
    __slots__ = ("axes", "known", "offset", "one_to_one", "replicated", "shape", "sharded")

    def __init__(
        self,
        sharded: Iterable[Iter],
        replicated: Iterable[Iter] = (),
        offset: Place | None = None,
        *,
        known: Known = EMPTY,
    ) -> None:
        self.sharded = tuple(sharded)
        self.replicated = tuple(replicated)
        self.offset = Place({}) if offset is None else offset
        named = {each.axis for each in (*self.sharded, *self.replicated)} | set(self.offset.parts)
        self.axes: tuple[Axis, ...] = tuple(sorted(named))
        extents = tuple(each.extent for each in self.sharded)
        self.shape = extents if len(extents) > 1 else extents[0] if extents else 1
        self.known = positive(each.extent for each in (*self.sharded, *self.replicated)).joined(known)
        self.one_to_one = False

    # -- parts --------------------------------------------------------------------------------------------------------

    @property
    def size(self) -> Extent:
        """The number of elements."""
        return product(tuple(each.extent for each in self.sharded))

    def symbolic(self) -> list[Index]:
        """The extents, strides and offsets that are no numbers."""
        iters = (*self.sharded, *self.replicated)
        parts = [part for each in iters for part in (each.extent, each.stride)]
        return [part for part in (*parts, *self.offset.parts.values()) if isinstance(part, Index)]

    @property
    def is_numeric(self) -> bool:
        return not self.symbolic()

    def given(self, *conditions: object) -> Axe:
        """This layout with what is stated of its sizes.

        >>> import atl
        >>> from layouts.axe import R, S, axis, canonicalize
        >>> n, lane = atl.sizes("n"), axis("lane")
        >>> canonicalize((S[(n, 4):(4 @ lane, 1 @ lane)] + R[2:n @ lane]).given(n >= 1))
        S[4*n:1@lane] + R[2:n@lane]
        """
        return Axe(self.sharded, self.replicated, self.offset, known=self.known.given(conditions))

    @property
    def box(self) -> Box:
        """The domain, which counts row by row."""
        return Box(self.shape, row_major=True)

    def strides(self, axes: Sequence[Axis] | None = None) -> Layout:
        """D and O by strides along the axes, or along these, on flat indices that count row by row."""
        units = {at: Coordinate((0,) * place + (1,)) for place, at in enumerate(self.axes if axes is None else axes)}
        modes: list[tuple[Extent, Stride]] = [(each.extent, units[each.axis] * each.stride) for each in self.sharded]
        start: Any = 0
        for at, steps in self.offset.parts.items():
            start = start + units[at] * steps
        return Layout.of_modes(modes[::-1], offset=start, known=self.known)

    def spread(self) -> tuple[dict[Axis, Copies], Place]:
        """The set of R: its steps along each axis from 0 on, and the place from where they go.

        Each iter goes along one axis, so that the set is the product of these. Raises `NoLayout` and `NotByTable` where
        sizes are symbolic and the set is not decided.
        """
        least = Place({})
        moving = [each for each in self.replicated if each.extent != 1]
        for each in moving:
            if sign(each.stride, self.known) < 0:
                least = least.plus(Place({each.axis: each.reach}))
        along = sorted({each.axis for each in moving})
        return {at: copies_of([each for each in moving if each.axis == at], self.known) for at in along}, least

    def normal(self, axes: Sequence[Axis]) -> tuple[Layout, dict[Axis, Copies]]:
        """D by strides along these axes, from the least of the replicas on, and the steps from there to the others.

        Layouts with the same places of each element have the same, but for how D is divided into modes.
        """
        steps, least = self.spread()
        return Axe(self.sharded, (), self.offset.plus(least), known=self.known).strides(axes), steps

    def replicas(self) -> list[Place]:
        """The places of R, each once, in order of the axes."""
        steps, least = self.spread()
        lists = [listed(each) for each in steps.values()]
        if prod(map(len, lists)) > MOST_REPLICAS:
            raise NotByTable(
                f"an element of {self} has {prod(map(len, lists))} places",
                required=f"at most {MOST_REPLICAS} to be listed",
            )
        return [least.plus(Place(dict(zip(steps, each, strict=True)))) for each in combinations(*lists)]

    @property
    def replicates(self) -> bool:
        """Whether elements have several places, or may have, as sizes are."""
        return any(each.extent != 1 for each in self.replicated)

    # -- meaning ------------------------------------------------------------------------------------------------------

    def at(self, digits: Sequence[Any]) -> Any:
        if self.replicates:
            raise NoLayout(
                f"the elements of {self} have several places",
                required="one place for each element",
                suggestions=("places(layout, at) gives all of them",),
            )
        found = self.strides().at(list(digits)[::-1])
        if self.axes not in ((), (MEMORY,)):
            return found
        # Along memory alone a place is an integer, as in other layouts.
        if isinstance(found, Coordinate):
            return found[0]
        return found[..., 0] if isinstance(found, np.ndarray) and found.ndim > 1 else found

    def where(self, **sizes: int) -> Axe:
        """This layout with numbers for sizes.

        >>> import atl
        >>> from layouts.axe import S, axis
        >>> n = atl.sizes("n")
        >>> S[(n, 4):(4, 1)].where(n=8)
        S[(8,4):(4,1)]
        """

        known = self.known.where(sizes)

        def numbers(iters: Iterable[Iter]) -> list[Iter]:
            return [iter_of(placed(each.extent, sizes), _step(each, sizes)) for each in iters]

        offset = Place({at: placed(steps, sizes) for at, steps in self.offset.parts.items()})
        return Axe(numbers(self.sharded), numbers(self.replicated), offset, known=known)

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Where the elements of a tensor go whose indices, row by row, are the iters: along the first axis outermost.

        >>> from atl.core.index import constant, size
        >>> from layouts.axe import S, axis
        >>> lane, reg = axis("lane"), axis("reg")
        >>> stored = S[(2, 4, 2):(4 @ lane, 1 @ lane, 1 @ reg)].stored((constant(2), constant(8)))
        >>> stored.places, stored.place((size("i"), size("j")))
        ((2, 4, 2), (i, j // 2, j % 2))
        """
        if self.replicates or self.offset.parts:
            raise NoLayout(
                f"{self} does not store: elements have several places, or the places begin elsewhere than at 0",
                required="one place for each element, and no offset: storage of its own begins at 0",
            )
        units: dict[Axis, Extent] = {}
        for at in reversed(self.axes):
            units[at] = product(tuple(self._room(beyond) for beyond in units))
        modes, strides = _by_dimension(self.sharded, shape, str(self), self.known)
        steps = [each.stride * units[each.axis] for each in strides]
        return stored_by_strides(shape, modes, steps, 0, self.known, copies=copies)

    def _room(self, along: Axis) -> Extent:
        """A multiple of every stride along an axis, as larger ones are of smaller ones, beyond all the places."""
        room: Extent = 1
        for each in self.sharded:
            if each.axis != along or each.extent == 1:
                continue
            reach = each.extent * each.stride * sign(each.stride, self.known)
            if self.known.less(room, reach + 1):
                room = reach
            elif not self.known.less(reach, room + 1):
                raise NotByTable(
                    f"which of {room} and {reach} is more, along {along} in {self}, is not decided for all sizes",
                    required="numbers for sizes, or facts from which it follows",
                    suggestions=("state it: layout.given(...)", "layout.where(...) has numbers for sizes"),
                )
        return room

    # -- as it is written ---------------------------------------------------------------------------------------------

    def __add__(self, other: object) -> Axe:
        if isinstance(other, Axe):
            if self.sharded and other.sharded:
                raise LayoutError(f"{self} + {other}", required="one S[...]; direct_sum adds two layouts")
            sharded = self.sharded or other.sharded
            known = self.known.joined(other.known)
            return Axe(sharded, (*self.replicated, *other.replicated), self.offset.plus(other.offset), known=known)
        return Axe(self.sharded, self.replicated, self.offset.plus(place_of(other)), known=self.known)

    def __radd__(self, other: object) -> Axe:
        return self + other

    def __eq__(self, other: object) -> bool:
        """Whether the iters are the same, as they are written; whether the functions are, `same_places` says."""
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


def _step(each: Iter, sizes: Mapping[str, int]) -> Place:
    """The stride with numbers for sizes: of one element it may be 0."""
    return Place({each.axis: placed(each.stride, sizes)})


def _by_dimension(
    iters: Sequence[Iter], shape: Sequence[Index], name: str, known: Known
) -> tuple[tuple[Shape, ...], list[Iter]]:
    """The extents of the iters of each dimension, and the iters in that order: from the fastest one on in each."""
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
            required="for each dimension iters whose extents multiply to its extent, row by row: group(L, shape)",
        )
    return tuple(modes), order


class Written:
    """S and R: `S[(8, 4):(4 @ lane, 1 @ lane)]`, `S[8:2]`, `R[2:4 @ warp]`."""

    def __init__(self, word: str) -> None:
        self.word = word

    def __getitem__(self, given: object) -> Axe:
        if not isinstance(given, slice) or given.step is not None or given.start is None or given.stop is None:
            raise WrongArgument(f"{self.word}[{brief(given)}]", required="extents and strides: S[(8, 4):(4, 1)]")
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
    """Refuses what is no layout in Axe's words."""
    for value in values:
        if not isinstance(value, Axe):
            raise WrongArgument(f"{brief(value)} has no axes", required="a layout in Axe's words: S[...] + R[...]")


def places(layout: Axe, at: object) -> list[Place]:
    """All places of the element at an index, or at a coordinate of the iters, which may be index expressions.

    Raises `LayoutError` where it is not known to be an element, `NotByTable` where its places are too many, or as many
    as sizes say.

    >>> import atl
    >>> from layouts.axe import R, S, axis
    >>> n = atl.sizes("n")
    >>> places(S[(n, 4):(4, 1)] + R[2:4 * n], (n - 1, 2))
    [(4*n - 2)@m, (8*n - 2)@m]
    """
    need_axe(layout)
    digits = layout.box.coordinate_digits(plain_coordinate(at))
    if not layout.sharded:  # replicas of one element
        layout, digits = Axe([Iter(1, 1)], layout.replicated, layout.offset, known=layout.known), digits[:1]
    for digit, each in zip(digits, layout.sharded, strict=True):
        if not layout.known.less(-1, digit) or not layout.known.less(digit, each.extent):
            raise LayoutError(f"the element {brief(at)} of {layout}", required=f"one of {layout.size} elements")
    first = layout.offset
    for digit, each in zip(digits, layout.sharded, strict=True):
        first = first.plus(Place({each.axis: digit * each.stride}))
    return [first.plus(other) for other in layout.replicas()]


def span(layout: Axe) -> Mapping[Axis, Extent]:
    """Along each axis, the largest less the smallest place, plus one; where it starts does not count.

    Raises `NoLayout` where it is not decided for all sizes which way a stride goes.

    >>> from layouts.axe import S, axis
    >>> dict(span(S[(8, 4):(8, 2)] + 5))
    {m: 63}
    """
    return {at: last - first + 1 for at, (first, last) in ranges(layout).items()}


def ranges(layout: Axe) -> dict[Axis, tuple[Extent, Extent]]:
    """Along each axis, the smallest place and the largest."""
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
