"""ExpandBy: a layout of whole tiles for an array that they only partly fill."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from atl.core.index import ZERO, Index, ceildiv, index
from atl.core.predicate import TRUE, Predicate, at_most, conjunction, conjuncts, equal, within
from atl.errors import InvalidArgument, brief
from atl.surface.values import Condition, IndexExpr
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, positive
from layouts.foundation.function import Function
from layouts.foundation.sizes import placed, plain
from layouts.foundation.tuples import Extent, extent_of, product, shown
from layouts.lego.group_by import GroupBy, TileBy, seen_by
from layouts.lego.permutations import Row, extents
from layouts.lego.slices import Slice, chosen


class ExpandBy(Function):
    """A layout of the larger extents `expanded`, for an array of extents `dims`; locations outside the array are -1.

    `apply` returns the flat location in the array, or -1. For index expressions, `guarded` returns the condition of
    being inside, and the location. `inv` returns the coordinate of an array element (Fig. 9 of the LEGO paper).

    Raises `LayoutError` if an expanded extent is, or may be, less than the original; `given` states facts about sizes.

    >>> from layouts.lego import ExpandBy, Row, TileBy
    >>> tiles = ExpandBy([5], [6], TileBy([2], [3]).OrderBy(Row(6)))
    >>> tiles.apply(1, 1), tiles.apply(1, 2), tiles.inv(4)
    (4, -1, (1, 1))
    """

    __slots__ = ("dims", "expanded", "group", "known", "shape")

    def __init__(
        self, dims: Iterable[object], expanded: Iterable[object], group: GroupBy, *, given: Iterable[object] = ()
    ) -> None:
        if not isinstance(group, GroupBy):
            raise InvalidArgument(f"ExpandBy of {brief(group)}", required="a layout made by GroupBy or TileBy")
        self.dims = extents(dims)
        self.expanded = extents(expanded)
        self.group = group
        self.known = positive(self.dims).joined(group.known).given(given)
        self.shape = group.shape
        if len(self.dims) != len(self.expanded):
            raise LayoutError(f"{shown(self.dims)} and {shown(self.expanded)}", required="the same number of extents")
        for held, wide in zip(self.dims, self.expanded, strict=True):
            self._need_no_less(wide, held)
        size, held = product(self.expanded), product(group.dims)
        if size != held and not self.known.same(self.known.simple(held), self.known.simple(size)):
            raise LayoutError(f"{group} has {held} elements", required=f"{size}, the size of the expanded extents")

    def _need_no_less(self, wide: Extent, held: Extent) -> None:
        if self.known.less(wide, held):
            raise LayoutError(f"the extent {held} is expanded to {wide}", required=f"{wide} >= {held}")
        if not self.known.holds(at_most(index(held), index(wide))):
            raise LayoutError(
                f"the extent {held} is expanded to {wide}, which for some sizes may be less",
                required=f"{wide} >= {held}",
                suggestions=(f"state it: ExpandBy(…, given=[{wide} >= {held}])", "CoverBy expands to whole tiles"),
            )

    @property
    def box(self) -> Box:
        """The logical view, with row-major indices."""
        return self.group.box

    def at(self, digits: Sequence[Any]) -> Any:
        found = self._coordinate(self.group.at(digits))
        if any(isinstance(part, Index) for part in found):
            raise NoLayout(
                f"{self} has no location for elements outside the array",
                required="numbers",
                suggestions=("guarded(...), or a slice, gives the condition of being inside",),
            )
        inside = np.logical_and.reduce(
            [np.less(part, np.asarray(extent)) for part, extent in zip(found, self.dims, strict=True)]
        )
        location = np.where(inside, Box(self.dims, row_major=True).join(found), -1)
        return location if location.ndim else int(location)

    def partial(self, digits: Sequence[Any]) -> tuple[Predicate, Any]:
        return self._guarded(digits)

    def _coordinate(self, location: Any) -> tuple[Any, ...]:
        return Box(self.expanded, row_major=True).digits(location)

    def apply(self, *coordinate: int) -> int:
        """Return the flat location in the array of the element at a coordinate of the view, or -1."""
        return int(self.at(self.box.coordinate_digits(self.group.coordinate(coordinate))))

    def guarded(self, *coordinate: object) -> tuple[Condition, IndexExpr]:
        """Return the condition that a coordinate of the view is in the array, and its flat location in the array.

        >>> import atl
        >>> from layouts.lego import ExpandBy, Row, TileBy
        >>> n, t, i = atl.sizes("n t i")
        >>> ExpandBy([n], [8 * t], TileBy([t], [8]).OrderBy(Row(8 * t)), given=[n <= 8 * t]).guarded(t - 1, i)[1]
        8*t + i - 8
        """
        inside, location = self._guarded(coordinate)
        return Condition(inside), IndexExpr(location)

    def _guarded(self, coordinate: Sequence[object]) -> tuple[Predicate, Index]:
        """Return the part of the condition that is not proved, and the location."""
        digits = self.group.coordinate(coordinate)
        known = self.group.inside(digits).joined(self.known)
        parts = [known.simple(part) for part in self._parts(digits, known)]
        bounds = [part for x, n in zip(parts, self.dims, strict=True) for part in _bounds(index(x), index(n))]
        inside = conjunction(part for part in bounds if not known.holds(part))
        return inside, index(known.simple(Box(self.dims, row_major=True).join(parts)))

    def _parts(self, digits: Sequence[Any], known: Known) -> Sequence[Any]:
        """Return the coordinate in the expanded extents, without division if the last link has its digits."""
        location = self.group.location_digits(digits, known)
        return seen_by(location, self.expanded, known)

    def __getitem__(self, parts: object) -> Slice:
        """Return the locations of a slice of the view, with the condition of being inside; colons are whole dimensions.

        >>> import atl
        >>> from layouts.lego import CoverBy
        >>> M, N, B, row, block = atl.sizes("M N B row block")
        >>> CoverBy([M, N], [1, B])[row, block, 0, :]
        B*block + N*row + i over [i < B] where B*block + i < N
        """
        digits, axes = chosen(parts, self.group.dims, self.dims)
        inside, location = self._guarded(digits)
        return Slice(location, axes, None if inside == TRUE else inside)

    def inv(self, location: Any) -> Any:
        """Return the coordinate of the view of the array element at a flat location, a number or an index expression.

        >>> import atl
        >>> from layouts.lego import CoverBy
        >>> M, N, B, at = atl.sizes("M N B at")
        >>> CoverBy([M, N], [1, B]).inv(at)
        (at // N, (at % N) // B, 0, (at % N) % B)
        """
        whole = product(self.dims)
        if isinstance(location, IndexExpr | Index):
            flat = index(plain(location))
            known = self.known.assume(within(ZERO, flat, index(whole)))
            parts = [index(known.simple(each)) for each in Box(self.dims, row_major=True).digits(flat)]
            for part, held, wide in zip(parts, self.dims, self.expanded, strict=True):
                known = known.assume(within(ZERO, part, index(held)), at_most(index(held), index(wide)))
            return self.group.inverse_of(list(zip(parts, self.expanded, strict=True)), known)
        if type(location) is not int or (isinstance(whole, int) and not 0 <= location < whole):
            raise LayoutError(f"the location {brief(location)}", required=f"a location from 0 to {whole} - 1")
        digits = Box(self.dims, row_major=True).digits(location)
        return self.group.inv(Box(self.expanded, row_major=True).join(digits))

    def where(self, **sizes: int) -> ExpandBy:
        """Return this layout with numbers for sizes."""
        dims, expanded = ([placed(extent, sizes) for extent in each] for each in (self.dims, self.expanded))
        facts = [Condition(fact) for fact in self.known.where(sizes).facts.predicates]
        return ExpandBy(dims, expanded, self.group.where(**sizes), given=facts)

    def __repr__(self) -> str:
        dims, expanded = (",".join(map(str, each)) for each in (self.dims, self.expanded))
        return f"ExpandBy([{dims}], [{expanded}], {self.group})"


def _bounds(x: Index, extent: Index) -> tuple[Predicate, ...]:
    return tuple(conjuncts(within(ZERO, x, extent)))


# -- tiling -----------------------------------------------------------------------------------------------------------


def TileInto(  # noqa: N802 (as LEGO's other names)
    whole: Iterable[object], *tiles: Iterable[object], given: Iterable[object] = ()
) -> GroupBy:
    """Return the view of an array in tiles of these extents, larger tiles first; each level divides the one above it.

    It is TileBy with the numbers of tiles computed and divisibility as facts. `.OrderBy(…)` then gives a layout of the
    whole array.
    array follows by `.OrderBy(…)`.

    >>> import atl
    >>> from layouts.lego import Row
    >>> M, K, BM, BK, i, k = atl.sizes("M K BM BK i k")
    >>> TileInto([M, K], [BM, BK]).OrderBy(Row(M, K))[i, k, :, :]
    BM*K*i + j*K + BK*k + l over [j < BM] [l < BK]
    """
    levels = _levels(whole, tiles)
    known, facts = positive(n for level in levels for n in level).given(given), [*given]
    counts: list[list[Extent]] = []
    for above, below in pairwise(levels):
        counts.append([])
        for n, b in zip(above, below, strict=True):
            if isinstance(n, int) and isinstance(b, int):
                if n % b:
                    raise LayoutError(
                        f"{n} in tiles of {b}",
                        required="tiles that divide it",
                        suggestions=("CoverBy, for partial tiles",),
                    )
            elif known.quotient(n, b) is None:
                facts.append(Condition(equal(index(n) % index(b), index(0))))
                known = known.given(facts[-1:])
            exact = known.quotient(n, b)
            counts[-1].append(extent_of(index(n) // index(b)) if exact is None else exact)
    return TileBy(*counts, levels[-1], given=[*facts, *(Condition(fact) for fact in known.facts.predicates)])


def CoverBy(  # noqa: N802 (as LEGO's other names)
    whole: Iterable[object], tile: Iterable[object], *, given: Iterable[object] = ()
) -> ExpandBy:
    """Return the view of an array in tiles that cover it; positions of edge tiles outside the array have no location.

    The array is row-major. It is ExpandBy with the numbers of tiles and the expanded extents computed.

    >>> CoverBy([5], [3]).apply(1, 1), CoverBy([5], [3]).apply(1, 2)
    (4, -1)
    """
    levels = _levels(whole, [tile])
    counts = [extent_of(ceildiv(index(n), index(b), positive=True)) for n, b in zip(*levels, strict=True)]
    expanded = [count * b for count, b in zip(counts, levels[1], strict=True)]
    group = TileBy(counts, levels[1], given=[*given]).OrderBy(Row(expanded))
    return ExpandBy(levels[0], expanded, group)


def _levels(whole: Iterable[object], tiles: Sequence[Iterable[object]]) -> list[tuple[Extent, ...]]:
    levels = [extents(whole), *map(extents, tiles)]
    if len(levels) < 2 or len({len(level) for level in levels}) > 1:
        raise LayoutError(
            f"{shown(levels[0])} in tiles of {', '.join(map(shown, levels[1:])) or 'none'}",
            required="tiles with as many dimensions as the array",
        )
    return levels
