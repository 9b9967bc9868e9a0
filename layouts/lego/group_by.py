"""GroupBy and OrderBy: a logical view, and a chain of permutations of tiles that orders its elements in memory.

Indices are row-major. Each link of the chain may use other tiles than the link before (Figs. 3 to 5 of the LEGO paper).
All links are proved to have the same number of elements, so a layout is bijective if its permutations are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from atl.core.index import ZERO, Index, index
from atl.core.predicate import within
from atl.errors import InvalidArgument, brief
from atl.prove import simplify
from atl.surface.reindexing import Reindexing
from atl.surface.values import IndexExpr
from layouts.algebra.composition import composition
from layouts.errors import LayoutError, NoLayout
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, positive
from layouts.foundation.function import Function
from layouts.foundation.layout import Layout, row_major
from layouts.foundation.sizes import placed, plain
from layouts.foundation.tuples import Extent, plain_index, product, shown
from layouts.lego.permutations import Permutation, RegP, extents
from layouts.lego.slices import Slice, chosen

# -- digits -----------------------------------------------------------------------------------------------------------
# If the tiles of one link of a chain are products of those of the link before, digits convert without division. Only
# otherwise is a digit, or the flat location, divided.


Digits = list[tuple[Any, Extent]]


def joined(digits: Digits) -> Any:
    """Return the flat location."""
    return Box(tuple(extent for _, extent in digits), row_major=True).join([digit for digit, _ in digits])


def seen_by(digits: Digits, dims: Sequence[Extent], known: Known) -> list[Any]:
    """Return the digits of the same location in other extents with the same product.

    >>> from layouts.foundation.facts import EMPTY
    >>> seen_by([(1, 4), (2, 6)], [2, 2, 3, 2], EMPTY), seen_by([(1, 4), (2, 3)], [3, 4], EMPTY)
    ([0, 1, 1, 0], [1, 1])
    """
    left = list(digits)
    out: list[Any] = []
    for extent in reversed(dims[1:]):
        digit = _taken(left, extent, known)
        if digit is None:
            return list(Box(tuple(dims), row_major=True).digits(joined(digits)))
        out.append(digit)
    out.append(joined(left) if left else 0)
    return out[::-1]


def _taken(left: Digits, extent: Extent, known: Known) -> Any:
    """Remove and return the fastest digit, of this extent; None if it is not known to consist of whole digits."""
    digit: Any = 0
    span: Extent = 1
    while not known.same(span, extent):
        needed = known.quotient(extent, span)
        if needed is None or not left:
            return None
        part, held = left.pop()
        if known.same(held, needed):
            return digit + part * span
        if known.quotient(needed, held) is not None:
            digit, span = digit + part * span, span * held
        elif (rest := known.quotient(held, needed)) is not None:
            part = index(part) if isinstance(part, int) and isinstance(needed, Index) else part
            left.append((part // needed, rest))
            return digit + part % needed * span
        else:
            return None
    return digit


# -- GroupBy ----------------------------------------------------------------------------------------------------------


class OrderBy:
    """Nested tiles, outermost first, each level with its permutation.

    >>> from layouts.lego import GenP, OrderBy, RegP
    >>> OrderBy(RegP([2, 2], [2, 1]), RegP([3, 2], [1, 2])).apply((1, 0, 2, 1))
    11
    """

    def __init__(self, *permutations: Permutation) -> None:
        for each in permutations:
            if not isinstance(each, Permutation):
                raise InvalidArgument(f"OrderBy({brief(each)})", required="permutations: RegP, GenP, Row or Col")
        if not permutations:
            raise InvalidArgument("OrderBy()", required="a permutation for each level of tiles")
        self.permutations = permutations

    @property
    def dims(self) -> tuple[Extent, ...]:
        """The extents of all levels, outermost first."""
        return tuple(extent for each in self.permutations for extent in each.dims)

    @property
    def location_extents(self) -> tuple[Extent, ...]:
        """The extents of the digits of a location, slowest first."""
        return tuple(extent for each in self.permutations for extent in each.location_extents)

    def location(self, digits: Sequence[Any]) -> list[Any]:
        """Return the location of the element at these digits, as digits."""
        parts = _dealt(digits, [len(each.dims) for each in self.permutations])
        return [digit for each, part in zip(self.permutations, parts, strict=True) for digit in each.location(part)]

    def element(self, location: Sequence[Any]) -> list[Any]:
        """Return the digits of the element at a location."""
        parts = _dealt(location, [len(each.location_extents) for each in self.permutations])
        return [digit for each, part in zip(self.permutations, parts, strict=True) for digit in each.element(part)]

    def apply(self, digits: Sequence[Any]) -> Any:
        """Return the flat location of the element at these digits."""
        return Box(self.location_extents, row_major=True).join(self.location(digits))

    def inv(self, location: Any) -> tuple[Any, ...]:
        """Return the digits of the element at a flat location."""
        return tuple(self.element(Box(self.location_extents, row_major=True).digits(location)))

    def strides(self) -> Layout | None:
        """Return the same by strides, from row-major flat indices; None if a permutation is given by a function."""
        steps: list[Extent] = []
        below: Extent = 1
        for each in reversed(self.permutations):
            if not isinstance(each, RegP):
                return None
            steps = [step * below for step in each.strides()] + steps
            below = below * each.size
        # In row-major order the last digit is the first of a flat index.
        return Layout(tuple(reversed(self.dims)), tuple(reversed(steps)))

    def __repr__(self) -> str:
        return f"OrderBy({', '.join(map(str, self.permutations))})"


class GroupBy(Function):
    """The logical view: extents, in tiles or not. `.OrderBy(…)` adds the order of its elements in memory.

    Of several OrderBy, the one nearest to GroupBy is applied first. `apply` maps a coordinate to its location and `inv`
    a location to its coordinate. Both take integers, arrays and index expressions; the prover simplifies the latter
    under `given=`. In a slice, each colon becomes an index variable.

    Raises `LayoutError` if a link of the chain is not proved to have as many elements as the view.

    >>> from layouts.lego import GenP, GroupBy, RegP
    >>> turned = GenP([3, 2], lambda i, j: (2 - i) * 2 + 1 - j, lambda x: ((5 - x) // 2, (5 - x) % 2))
    >>> view = GroupBy([6, 4]).OrderBy(RegP([2, 2], [2, 1]), turned)
    >>> view.apply(4, 1), view.inv(6)
    (6, (4, 1))
    """

    __slots__ = ("chain", "dims", "known", "known_bijective", "known_injective", "shape")

    def __init__(self, *tiles: object, given: Iterable[object] = ()) -> None:
        chain = [each for each in tiles if isinstance(each, OrderBy)]
        views = [each for each in tiles if not isinstance(each, OrderBy)]
        dims = tuple(extent for each in views for extent in extents(each))
        if not dims:
            raise InvalidArgument("GroupBy()", required="the extents of the logical view, as lists")
        self._set(dims, (), positive(dims).given(given))
        for link in chain:
            self._add(link)

    def _set(self, dims: tuple[Extent, ...], chain: tuple[OrderBy, ...], known: Known) -> None:
        self.dims = dims
        self.chain = chain
        self.shape = dims if len(dims) > 1 else dims[0]
        self.known = known
        self.known_injective = all(each.known_injective for link in chain for each in link.permutations)
        self.known_bijective = all(each.known_bijective for link in chain for each in link.permutations)

    def _with(self, *links: OrderBy) -> GroupBy:
        made = object.__new__(GroupBy)
        made._set(self.dims, self.chain, self.known)
        for link in links:
            made._add(link)
        return made

    def _add(self, link: OrderBy) -> None:
        """Append a link to the chain, with the facts of its permutations."""
        known = self.known
        for each in link.permutations:
            known = known.joined(each.known)
        whole, held = product(self.dims), product(link.dims)
        if whole != held and not known.same(whole := known.simple(whole), held := known.simple(held)):
            numbers = isinstance(whole, int) and isinstance(held, int)
            raise LayoutError(
                f"{link} has {held} elements, but the view {shown(self.dims)} has {whole}",
                required="equal sizes, for all values of symbolic sizes",
                suggestions=(
                    *(() if numbers else ("state divisibility: TileBy(..., given=[M % BM == 0])",)),
                    "ExpandBy, for partial tiles",
                ),
            )
        self._set(self.dims, (*self.chain, link), known)

    # -- the chain ----------------------------------------------------------------------------------------------------

    def OrderBy(self, *permutations: Permutation | OrderBy) -> GroupBy:  # noqa: N802 (LEGO's name)
        """Return the layout with one more link in its chain."""
        if len(permutations) == 1 and isinstance(permutations[0], OrderBy):
            return self._with(permutations[0])
        return self._with(OrderBy(*permutations))  # type: ignore[arg-type]

    def TileOrderBy(self, *permutations: Permutation) -> GroupBy:  # noqa: N802 (LEGO's name)
        """Return the elements in nested tiles, each level with its permutation.

        The new link addresses each dimension as a whole, so a permutation first collects its parts by level. (The
        paper prints a GroupBy of permutations here, which its grammar does not contain.)

        >>> from layouts.lego import Col, GroupBy, Row
        >>> GroupBy([4, 6]).TileOrderBy(Row(2, 3), Col(2, 2)).apply(1, 2)
        5
        """
        link = OrderBy(*permutations)
        levels = _equal_ranks([each.dims for each in permutations], "TileOrderBy")
        order = by_dimension(len(levels), len(levels[0]))
        together = [link.dims[location] for location in order]
        inverse = [order.index(location) + 1 for location in range(len(order))]
        return self._with(OrderBy(RegP(together, inverse)), link)

    # -- meaning ------------------------------------------------------------------------------------------------------

    @property
    def box(self) -> Box:
        """The logical view, with row-major indices."""
        return Box(self.shape, row_major=True)

    def at(self, digits: Sequence[Any]) -> Any:
        return self._location_of(digits, self.known)

    def _location_of(self, digits: Sequence[Any], known: Known) -> Any:
        return joined(self.location_digits(digits, known))

    def location_digits(self, digits: Sequence[Any], known: Known) -> Digits:
        """Return the location of the element at these digits, as digits with their extents, slowest first."""
        location: Digits = list(zip(digits, self.dims, strict=True))
        for link in self.chain:
            seen = [_simple(known, digit) for digit in seen_by(location, link.dims, known)]
            location = list(zip(link.location(seen), link.location_extents, strict=True))
        return location

    def _element(self, location: Digits, known: Known) -> list[Any]:
        for link in reversed(self.chain):
            seen = [_simple(known, digit) for digit in seen_by(location, link.location_extents, known)]
            location = list(zip(link.element(seen), link.dims, strict=True))
        return [_simple(known, digit) for digit in seen_by(location, self.dims, known)]

    def stored(self, shape: tuple[Index, ...], *, copies: bool = False) -> Reindexing:
        """Return the reindexing of a tensor of this shape, digit by digit; used by `s.store` and `s.view`."""
        if not self.known_injective and not copies:
            raise NoLayout(f"{self} cannot store a tensor", required="injective permutations, each with its inverse")
        if len(shape) != len(self.dims):
            raise NoLayout(
                f"{self} is a view with {len(self.dims)} dimensions", required=f"{len(shape)}, as the tensor"
            )
        known = self.known
        storage = self.chain[-1].location_extents if self.chain else self.dims

        def to(*at: Any) -> tuple[Any, ...]:
            return tuple(digit for digit, _ in self.location_digits([plain(x) for x in at], known))

        def inverse(*at: Any) -> tuple[Any, ...]:
            return tuple(self._element([(plain(x), n) for x, n in zip(at, storage, strict=True)], known))

        return Reindexing(
            tuple(map(index, self.dims)), tuple(map(index, storage)), to, inverse if self.known_injective else None
        )

    def apply(self, *coordinate: Any) -> Any:
        """Return the location of the element at a coordinate of the view.

        >>> import atl
        >>> from layouts.lego import Row, TileBy
        >>> M, K, BM, BK, i, k = atl.sizes("M K BM BK i k")
        >>> tiles = TileBy([M // BM, K // BK], [BM, BK], given=[M % BM == 0, K % BK == 0]).OrderBy(Row(M, K))
        >>> tiles.apply(i, k, 1, 2)
        BM*K*i + BK*k + K + 2
        """
        digits = self.coordinate(coordinate)
        symbolic = [digit for digit in digits if isinstance(digit, Index)]
        known = self.inside(digits) if symbolic else self.known
        found = _simple(known, self._location_of(digits, known))
        return IndexExpr(index(found)) if symbolic else found

    def inv(self, flat: Any) -> Any:
        """Return the coordinate of the element at a location; an index if the view has one dimension."""
        if not self.known_injective:
            raise NoLayout(f"{self} has no inv", required="injective permutations, each with its inverse")
        at = plain(flat)
        size = product(self.dims)
        if isinstance(at, Index):
            return self.inverse_of([(at, size)], self.known.assume(within(ZERO, at, index(size))))
        if isinstance(at, int) and isinstance(size, int) and not 0 <= at < size:
            raise LayoutError(f"the location {at}", required=f"a location from 0 to {size - 1}")
        found = tuple(self._element([(at, size)], self.known))
        return found if len(found) > 1 else found[0]

    def inverse_of(self, digits: Sequence[tuple[Index, Extent]], known: Known) -> Any:
        """Return the coordinate of the element at the location with these digits and their extents, as indices."""
        found = tuple(IndexExpr(index(digit)) for digit in self._element(list(digits), known))
        return found if len(found) > 1 else found[0]

    def inside(self, digits: Sequence[Any]) -> Known:
        """Return the known facts, and that every digit is within its extent."""
        pairs = [(plain(x), n) for x, n in zip(digits, self.dims, strict=True)]
        facts = [within(ZERO, x, index(n)) for x, n in pairs if isinstance(x, Index)]
        return self.known.assume(*facts)

    def coordinate(self, given: Sequence[Any]) -> list[Any]:
        """Return the indices of a view, each checked against its extent; they may be given as one tuple."""
        parts = given[0] if len(given) == 1 and isinstance(given[0], tuple | list) else given
        if len(parts) != len(self.dims):
            raise LayoutError(f"{len(parts)} indices for a view {shown(self.dims)}", required=f"{len(self.dims)}")
        digits = [plain(part) for part in parts]
        for position, (digit, extent) in enumerate(zip(digits, self.dims, strict=True)):
            if isinstance(digit, int) and (digit < 0 or (isinstance(extent, int) and digit >= extent)):
                raise LayoutError(f"index {position} is {digit}", required=f"0 <= index < {extent}")
        return digits

    def __getitem__(self, parts: object) -> Slice:
        """Return the locations of a slice of the view; a colon is a whole dimension.

        >>> from layouts.lego import Row, TileBy
        >>> TileBy([2, 3], [4, 8]).OrderBy(Row(8, 24))[1, 0, :, :]
        24*i + j + 96 over [i < 4] [j < 8]
        """
        digits, axes = chosen(parts, self.dims, (n for link in self.chain for n in link.dims))
        found = self.apply(*digits)
        return Slice(index(plain_index(found)), axes)

    # -- conversion ---------------------------------------------------------------------------------------------------

    def strides(self) -> Function:
        """Convert to strides on the same coordinates: a `Layout`, or a `Chain` with the reason why there is none.

        Raises `NoLayout` if a link of the chain is given by a function (GenP).

        >>> from layouts.lego import GroupBy, RegP
        >>> GroupBy([6, 6]).OrderBy(RegP([2, 3, 2, 3], [1, 3, 2, 4])).strides()
        ((3,2),(3,2)):((3,18),(1,9))
        """
        found: Function = row_major(self.shape, given=()).with_facts(self.known)
        for link in self.chain:
            outer = link.strides()
            if outer is None:
                raise NoLayout(f"{link} has no strides", required="permutations of dimensions only: RegP, Row and Col")
            found = composition(outer.with_facts(self.known), found)
        return found

    def where(self, **sizes: int) -> GroupBy:
        """Return this layout with numbers for sizes. Raises `LayoutError` for numbers that contradict known facts.

        >>> import atl
        >>> from layouts.lego import Row, TileBy
        >>> M, K, BM = atl.sizes("M K BM")
        >>> TileBy([M // BM, K], [BM, 1], given=[M % BM == 0]).OrderBy(Row(M, K)).where(BM=4).dims
        (M // 4, K, 4, 1)
        """
        made = GroupBy([placed(extent, sizes) for extent in self.dims])
        made.known = made.known.joined(self.known.where(sizes))
        links = [OrderBy(*(each.where(sizes) for each in link.permutations)) for link in self.chain]
        return made._with(*links)

    def __repr__(self) -> str:
        return "".join([f"GroupBy([{','.join(map(str, self.dims))}])", *(f".{link}" for link in self.chain)])


def TileBy(*tiles: object, given: Iterable[object] = ()) -> GroupBy:  # noqa: N802 (LEGO's name)
    """Return the view of nested tiles of an array that has each dimension as a whole.

    A following `.OrderBy(…)` orders the whole array, as in `TileBy([M // BM, K // BK], [BM, BK]).OrderBy(Row(M, K))`.
    All tiles must have the same number of dimensions; use GroupBy with a RegP for others.

    >>> TileBy([2, 2], [3, 2])
    GroupBy([2,2,3,2]).OrderBy(RegP([2,2,3,2], [1,3,2,4]))
    """
    levels = _equal_ranks([extents(each) for each in tiles], "TileBy")
    dims = [extent for each in levels for extent in each]
    order = by_dimension(len(levels), len(levels[0]))
    return GroupBy(*levels, given=given).OrderBy(RegP(dims, [location + 1 for location in order]))


def by_dimension(levels: int, rank: int) -> list[int]:
    """Return the positions, dimension by dimension, of extents that are listed level by level.

    >>> by_dimension(3, 2)
    [0, 2, 4, 1, 3, 5]
    """
    return [level * rank + dim for dim in range(rank) for level in range(levels)]


def _dealt(digits: Sequence[Any], counts: Sequence[int]) -> Iterator[Sequence[Any]]:
    """Return the digits, in groups of these lengths."""
    start = 0
    for count in counts:
        yield digits[start : start + count]
        start += count


def _equal_ranks(levels: list[tuple[Extent, ...]], word: str) -> list[tuple[Extent, ...]]:
    if not levels or len({len(each) for each in levels}) > 1:
        raise LayoutError(
            f"{word} of tiles {', '.join(map(shown, levels)) or 'none'}",
            required="tiles of the same number of dimensions",
            suggestions=("GroupBy(...).OrderBy(RegP(...)) takes tiles with different numbers of dimensions",),
        )
    return levels


def _simple(known: Known, value: Any) -> Any:
    if not isinstance(value, Index):
        return value
    return known.simple(simplify(known.facts, value))
