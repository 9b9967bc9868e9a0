"""Standard storage formats, as functions of the tensor's shape: each a formula with the inverse that proves it.

    s.store("B", layouts.blocked(4, 8))

Locations without an element are padding, such as the unused part of an edge tile, or the end of a padded row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from atl.core.index import ceildiv, extremum, imax, index
from atl.errors import InvalidArgument, brief
from atl.surface.values import IndexExpr
from layouts.errors import LayoutError
from layouts.foundation.box import Box
from layouts.foundation.function import IndexFunction
from layouts.foundation.tuples import Extent, extent_of, plain_index, shown

Storage: TypeAlias = Callable[[Sequence[Any]], IndexFunction]
"""A map from the shape of a tensor to the layout of its elements."""

MOST_BITS: Final = 10
"""Largest number of bits in each dimension of a Morton tile or a swizzle."""


def blocked(*tiles: Any) -> Storage:
    """Store contiguous tiles, each row-major; `tiles` has an extent for each dimension (bricks in three dimensions).

    >>> blocked(2, 4)((4, 8)).table().reshape(8, 4).T
    array([[ 0,  1,  2,  3,  8,  9, 10, 11],
           [ 4,  5,  6,  7, 12, 13, 14, 15],
           [16, 17, 18, 19, 24, 25, 26, 27],
           [20, 21, 22, 23, 28, 29, 30, 31]])
    """
    inner = [_positive(_own(tile, "blocked(4, 8)"), "the extent of a tile") for tile in tiles]

    def storage(shape: Sequence[Any]) -> IndexFunction:
        extents = _extents("blocked", shape, len(inner), len(inner))
        outer = [_tiles(n, tile) for n, tile in zip(extents, inner, strict=True)]

        def to(*at: Any) -> tuple[Any, ...]:
            pairs = list(zip(at, inner, strict=True))
            return (*(x // tile for x, tile in pairs), *(x % tile for x, tile in pairs))

        def inverse(*at: Any) -> tuple[Any, ...]:
            rank = len(inner)
            return tuple(tile * o + x for o, x, tile in zip(at[:rank], at[rank:], inner, strict=True))

        return _function("blocked", extents, to, inverse, (*outer, *inner))

    return storage


def padded(by: Any) -> Storage:
    """Store row-major with `by` elements of padding at the end of each row.

    >>> padded(1)((3, 4)).table()[3:6]  # the second column begins with the fourth index
    array([ 1,  6, 11])
    """
    extra = extent_of(_own(by, "padded(1)"))

    def storage(shape: Sequence[Any]) -> IndexFunction:
        extents = _extents("padded", shape, 1, None)
        return _function("padded", extents, _same, _same, (*extents[:-1], extents[-1] + extra))

    return storage


def skewed(shape: Sequence[Any]) -> IndexFunction:
    """Rotate rows: element (i, j) is in column (i + j) % m, so that a column is spread over banks.

    >>> skewed((3, 4)).table().reshape(4, 3).T
    array([[ 0,  1,  2,  3],
           [ 5,  6,  7,  4],
           [10, 11,  8,  9]])
    """
    extents = _extents("skewed", shape, 2, None)
    m = extents[-1]

    def to(*at: Any) -> tuple[Any, ...]:
        return (*at[:-1], (at[-2] + at[-1]) % m)

    def inverse(*at: Any) -> tuple[Any, ...]:
        return (*at[:-1], (at[-1] - at[-2]) % m)

    return _function("skewed", extents, to, inverse, extents)


def swizzled(rows: int, chunk: int = 1) -> Storage:
    """Permute the chunks of a row by an exclusive or with the row number, within groups of `rows` chunks.

    Chunk c of row i is stored as chunk c ^ (i % rows) of its group. The function is its own inverse. `rows` must be a
    power of two.

    >>> swizzled(4)((4, 4)).table().reshape(4, 4).T
    array([[ 0,  1,  2,  3],
           [ 5,  4,  7,  6],
           [10, 11,  8,  9],
           [15, 14, 13, 12]])
    """
    _bits(_own(rows, "swizzled(32)"), "rows")
    if type(chunk) is not int or chunk < 1:
        raise InvalidArgument(f"chunk={brief(chunk)}", required="a number of elements, 1 or more")
    inner = () if chunk == 1 else (chunk,)

    def storage(shape: Sequence[Any]) -> IndexFunction:
        extents = _extents("swizzled", shape, 2, None)

        def to(*at: Any) -> tuple[Any, ...]:
            *outer, i, j = at
            within = (j % chunk,) if inner else ()
            return (*outer, i, j // (rows * chunk), (j // chunk % rows) ^ (i % rows), *within)

        def inverse(*at: Any) -> tuple[Any, ...]:
            *outer, i, group, position, within = (*at, 0) if not inner else at
            return (*outer, i, rows * chunk * group + chunk * (position ^ (i % rows)) + within)

        groups = _tiles(extents[-1], rows * chunk)
        return _function("swizzled", extents, to, inverse, (*extents[:-1], groups, rows, *inner))

    return storage


def morton(tile: int) -> Storage:
    """Store contiguous tiles with this extent in each dimension; within a tile, along the Morton curve.

    >>> morton(4)((4, 4)).table().reshape(4, 4).T
    array([[ 0,  1,  4,  5],
           [ 2,  3,  6,  7],
           [ 8,  9, 12, 13],
           [10, 11, 14, 15]])
    """
    bits = _bits(_own(tile, "morton(8)"), "tile")

    def storage(shape: Sequence[Any]) -> IndexFunction:
        extents = _extents("morton", shape, 1, None)
        rank = len(extents)

        def to(*at: Any) -> tuple[Any, ...]:
            curve = [x // 2**bit % 2 for bit in reversed(range(bits)) for x in at]
            return (*(x // tile for x in at), *curve)

        def inverse(*at: Any) -> tuple[Any, ...]:
            found = [tile * outer for outer in at[:rank]]
            for position, digit in enumerate(at[rank:]):
                found[position % rank] = found[position % rank] + 2 ** (bits - 1 - position // rank) * digit
            return tuple(found)

        return _function("morton", extents, to, inverse, (*(_tiles(n, tile) for n in extents), *(2,) * (bits * rank)))

    return storage


def backwards(shape: Sequence[Any]) -> IndexFunction:
    """Reverse the order in every dimension.

    >>> backwards((2, 3)).table().reshape(3, 2).T
    array([[5, 4, 3],
           [2, 1, 0]])
    """
    extents = _extents("backwards", shape, 1, None)

    def turned(*at: Any) -> tuple[Any, ...]:
        return tuple(n - 1 - x for n, x in zip(extents, at, strict=True))

    return _function("backwards", extents, turned, turned, extents)


def antidiagonal(shape: Sequence[Any]) -> IndexFunction:
    """Store a row for each antidiagonal: element (i, j) in row i + j, at i. `compact_antidiagonal` has no padding.

    >>> antidiagonal((2, 3)).table().reshape(3, 2).T
    array([[0, 2, 4],
           [3, 5, 7]])
    """
    extents = _extents("antidiagonal", shape, 2, 2)
    n, m = extents
    rows = imax(index(0), index(n + m - 1))
    return _function("antidiagonal", extents, lambda i, j: (i + j, i), lambda d, i: (i, d - i), (rows, n))


def compact_antidiagonal(shape: Sequence[Any]) -> IndexFunction:
    """Store antidiagonals without padding: element (i, j) is in row (i + j) % m, at i.

    Antidiagonals d, d + m, d + 2m, … share a row: each begins where the one before ends. Neighbours on an antidiagonal
    are neighbours in memory, and n x m elements have n x m locations.

    >>> compact_antidiagonal((3, 3)).table().reshape(3, 3).T
    array([[0, 3, 6],
           [4, 7, 1],
           [8, 2, 5]])
    """
    extents = _extents("compact_antidiagonal", shape, 2, 2)
    n, m = extents
    return _function(
        "compact_antidiagonal", extents, lambda i, j: ((i + j) % m, i), lambda d, i: (i, (d - i) % m), (m, n)
    )


def sheared(shape: Sequence[Any]) -> IndexFunction:
    """Store a row for each diagonal, as `shear` does (θ_shear in §7.2.2): element (i, j) in row d = j - i + n - 1.

    Rows have min(n, m) places, as many as the longest diagonal. Diagonal d begins at row s(d) of the matrix, its first
    row for which all places fit (erratum E6). Further dimensions are kept.

    >>> sheared((2, 3)).table().reshape(3, 2).T
    array([[2, 4, 6],
           [1, 3, 5]])
    """
    extents = _extents("sheared", shape, 2, None)
    n, m, *rest = extents
    longest = _extremum("min", n, m)

    def first(d: Any) -> Any:
        return _extremum("max", 0, n - longest - _extremum("max", 0, d - longest + 1))

    def to(i: Any, j: Any, *others: Any) -> tuple[Any, ...]:
        d = j - i + n - 1
        return (d, i - first(d), *others)

    def inverse(d: Any, r: Any, *others: Any) -> tuple[Any, ...]:
        i = first(d) + r
        return (i, d + i - n + 1, *others)

    return _function("sheared", extents, to, inverse, (_extremum("max", 0, n + m - 1), longest, *rest))


# -- support ----------------------------------------------------------------------------------------------------------


def _function(
    name: str,
    shape: tuple[Extent, ...],
    to: Callable[..., Any],
    inverse: Callable[..., Any],
    locations: tuple[Extent, ...],
) -> IndexFunction:
    return IndexFunction(shape, to, inverse, onto=Box(tuple(map(extent_of, locations)), row_major=True), name=name)


def _extents(name: str, shape: Sequence[Any], least: int, most: int | None) -> tuple[Extent, ...]:
    """Return the shape of a tensor, checked for its number of dimensions; integers where constant."""
    if not isinstance(shape, tuple | list):
        raise InvalidArgument(
            f"{name} is called with {brief(shape)}", required="the shape of a tensor, a tuple of extents"
        )
    if len(shape) < least or (most is not None and len(shape) > most):
        wanted = f"{least}" if most == least else f"{least} or more"
        raise LayoutError(f"{name} of a tensor with {len(shape)} dimensions", required=wanted)
    return tuple(map(extent_of, shape))


def _tiles(n: Extent, tile: Extent) -> Extent:
    """Return the number of tiles that cover n elements."""
    return extent_of(ceildiv(index(n), index(tile), positive=True))


def _extremum(kind: Literal["min", "max"], a: Any, b: Any) -> Any:
    """Return a minimum or maximum of numbers, arrays or index expressions."""
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.minimum(a, b) if kind == "min" else np.maximum(a, b)
    found = extent_of(extremum(kind, index(plain_index(a)), index(plain_index(b))))
    return IndexExpr(index(found)) if isinstance(a, IndexExpr) or isinstance(b, IndexExpr) else found


def _same(*at: Any) -> tuple[Any, ...]:
    return at


def _own(value: object, example: str) -> object:
    """Return a parameter of a storage format. Raises `InvalidArgument` with a hint if a shape is given instead."""
    if isinstance(value, tuple | list):
        word = example.partition("(")[0]
        raise InvalidArgument(
            f"{word} is called with the shape {brief(shown(tuple(value)))} instead of its parameters",
            required=f"its parameters first: {example} is a storage format for tensors of any shape",
            suggestions=(f'store("B", {example})', f"{example}(shape), for a layout"),
        )
    return value


def _positive(value: object, what: str) -> Extent:
    extent = extent_of(value)
    if isinstance(extent, int) and extent < 1:
        raise LayoutError(f"{what} is {extent}", required="1 or more")
    return extent


def _bits(value: object, name: str) -> int:
    if type(value) is not int or value < 1 or value & (value - 1) or value.bit_length() - 1 > MOST_BITS:
        raise InvalidArgument(f"{name}={brief(value)}", required=f"a power of two, up to {2**MOST_BITS}")
    return value.bit_length() - 1
