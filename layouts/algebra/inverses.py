"""Right and left inverses of layouts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from layouts.algebra.coalesce import coalesced, is_zero, need_layout
from layouts.algebra.complement import complement_in
from layouts.errors import NoLayout
from layouts.foundation.facts import Known
from layouts.foundation.layout import Layout, Mode, make_layout
from layouts.foundation.semimodule import BITS, F2, INTEGERS, carryless
from layouts.foundation.tuples import Extent
from layouts.linear.bits import basis_of

SEARCHED: Final = 4_096
"""Largest size of a layout whose right inverse is found by search when chaining modes does not find the largest."""
TRIES: Final = 20_000


def right_inverse(layout: Layout) -> Layout:
    """Return the largest layout R with layout(R(i)) = i for every index i of R. The smallest possible R is 1:0.

    Modes are chained in the order of their strides. If the chain does not cover all contiguous locations, layouts of up
    to 4,096 elements are searched; over F2, linear equations are solved, and the search is used for extents that are
    not powers of two. In these cases the result is the largest right inverse. Raises `NoLayout` if the first location
    is not zero, locations are coordinates, or a layout over F2 is too large to search.

    >>> right_inverse(Layout((4, 8), (8, 1))), right_inverse(Layout((2, 4), (2, 8)))
    ((8,4):(4,1), 1:0)
    >>> right_inverse(Layout((4, 4), (1, 2)))
    (4,2):(1,8)
    """
    need_layout(layout)
    if layout.semimodule not in (INTEGERS, BITS) or not is_zero(layout.offset):
        raise NoLayout(f"{layout} has no right inverse", required="locations that are integers, the first of them 0")
    if layout.semimodule is BITS:
        return _over_f2(layout)
    chain = _chain(layout)
    found = Layout.of_modes(coalesced(chain, layout.known), known=layout.known)
    moving = sum(1 for n, d in layout.modes if n != 1 and not is_zero(d))
    if len(chain) < moving and layout.is_constant and layout.table_size is not None and layout.table_size <= SEARCHED:
        reach = _without_gap(layout)
        size = found.size
        if isinstance(size, int) and size < reach:
            best = _Search(layout.table().tolist(), reach, size).largest()
            if best is not None:
                return Layout.of_modes(coalesced(best, layout.known))
    return found


def _chain(layout: Layout) -> list[Mode]:
    """Return the modes, each with its position in the index, ordered so that each stride continues the one before."""
    known, step = layout.known, 1
    left: list[tuple[Extent, object, Extent]] = []
    before: Extent = step
    for n, d in layout.modes:
        if n != 1 and not is_zero(d):
            left.append((n, d, before))
        before = known.simple(before * n)
    out: list[Mode] = []
    reach: Extent = 1
    while True:
        fitting = [mode for mode in left if known.same(mode[1], reach)]  # type: ignore[arg-type]
        if not fitting:
            return out
        mode = max(fitting, key=lambda mode: mode[0] if isinstance(mode[0], int) else 0)
        left.remove(mode)
        out.append((mode[0], mode[2]))
        reach = known.simple(reach * mode[0])


def _without_gap(layout: Layout) -> int:
    """Return the number of contiguous locations, from 0, that a layout has."""
    locations = np.unique(layout.table())
    locations = locations[locations >= 0]
    off = np.flatnonzero(locations != np.arange(len(locations)))
    return int(off[0]) if len(off) else len(locations)


@dataclass(slots=True)
class _Search:
    """A search for the modes of a right inverse. Each mode may be shortened to let more modes follow."""

    values: Sequence[int]
    reach: int
    found: int
    over_f2: bool = False
    best: list[Mode] | None = None
    tries: int = 0
    preimages: dict[int, list[int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for at, value in enumerate(self.values):
            self.preimages.setdefault(value, []).append(at)

    def largest(self) -> list[Mode] | None:
        """Return the modes of the largest inverse, or None if it is not larger than the one already known."""
        self._from_here([], [0])
        return self.best

    def _from_here(self, modes: list[Mode], locations: list[int]) -> None:
        """Try every mode that extends the inverse."""
        size = len(locations)
        if size > self.found:
            self.found, self.best = size, list(modes)
        for stride in self.preimages.get(size, ()):
            longest = self._longest(locations, stride)
            for extent in range(longest, 1, -1):
                self.tries += 1
                if self.found == self.reach or self.tries > TRIES:
                    return
                more = [self._moved(location, stride, step) for step in range(extent) for location in locations]
                self._from_here([*modes, (extent, F2(stride) if self.over_f2 else stride)], more)

    def _longest(self, locations: list[int], stride: int) -> int:
        size, extent = len(locations), 1
        while all(
            0 <= (at := self._moved(location, stride, extent)) < len(self.values)
            and self.values[at] == k + size * extent
            for k, location in enumerate(locations)
        ):
            extent += 1
        return extent

    def _moved(self, location: int, stride: int, digit: int) -> int:
        return location ^ carryless(digit, stride) if self.over_f2 else location + stride * digit


def left_inverse(layout: Layout) -> Layout:
    """Return a layout R with R(layout(i)) = i for every index i of the layout.

    Raises `NoLayout` with the failing condition if the layout together with its complement is not a bijection.

    >>> left_inverse(Layout((4, 8), (8, 1))), left_inverse(Layout(4, 2))
    ((8,4):(4,1), (2,4):(4,1))
    """
    need_layout(layout)
    if layout.semimodule not in (INTEGERS, BITS) or not is_zero(layout.offset):
        raise NoLayout(f"{layout} has no left inverse", required="locations that are integers, the first of them 0")
    for n, d in layout.modes:
        if n != 1 and is_zero(d):
            raise NoLayout(
                f"{layout} has no left inverse",
                required=f"an injective layout; mode {n}:{d} has stride zero",
                suggestions=("filter(layout) removes the modes of stride zero",),
            )
    if layout.semimodule is BITS:
        return _left_over_f2(layout)
    return right_inverse_of_chain(make_layout(layout, complement_in(layout, None, whole=True)))


def right_inverse_of_chain(layout: Layout) -> Layout:
    """Return the right inverse of a layout whose modes chain; needs no search."""
    return Layout.of_modes(coalesced(_chain(layout), layout.known), known=layout.known)


# -- over F2 ----------------------------------------------------------------------------------------------------------


def _columns(layout: Layout) -> list[int]:
    """Return the values at the powers of two.

    An index is the exclusive or of its powers of two only if each extent but the last is a power of two.
    """
    out: list[int] = []
    moving = [(n, d) for n, d in layout.modes if n != 1]
    for position, (n, d) in enumerate(moving, 1):
        if not isinstance(n, int) or (n & (n - 1) and position < len(moving)):
            raise _not_known(layout, n)
        out += [(d.bits if isinstance(d, F2) else 0) << bit for bit in range((n - 1).bit_length())]
    return out


def _over_f2(layout: Layout) -> Layout:
    """Return the indices whose values are 1, 2, 4, … up to the first value that is missing."""
    odd = next((n for n, _ in layout.modes if not isinstance(n, int) or n & (n - 1)), None)
    modes: list[Mode] = []
    if odd is not None:
        if not layout.is_constant or layout.table_size is None or layout.table_size > SEARCHED:
            raise _not_known(layout, odd)
        modes = _Search(layout.table().tolist(), _without_gap(layout), 1, over_f2=True).largest() or []
        return Layout.of_modes(coalesced(modes, Known()))
    pivots = basis_of(_columns(layout)).pivots
    for bit in range(len(pivots)):
        location, at = pivots.get(bit, (0, 0))
        if location != 1 << bit:
            break
        modes.append((2, F2(at)))
    return Layout.of_modes(coalesced(modes, Known()))


def _not_known(layout: Layout, extent: Extent) -> NoLayout:
    return NoLayout(f"no inverse of {layout} over F2 is known", required=f"a power of two instead of {extent}")


def _left_over_f2(layout: Layout) -> Layout:
    columns = _columns(layout)
    pivots = basis_of(columns).pivots
    if len(pivots) < len(columns):
        raise NoLayout(
            f"{layout} has no left inverse", required="an injective layout; its columns are linearly dependent"
        )
    highest = max((column.bit_length() for column in columns), default=0)
    modes: list[Mode] = [(2, F2(pivots[bit][1] if bit in pivots else 0)) for bit in range(highest)]
    return Layout.of_modes(coalesced(modes, Known()))
