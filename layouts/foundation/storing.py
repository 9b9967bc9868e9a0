"""Reindexings that store a tensor by a layout: by strides, by bits, and in segments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from itertools import product as combinations
from math import prod
from operator import xor
from typing import Any, Final, TypeAlias

import numpy as np

from atl.core.index import ZERO, Index, constant, imax, index
from atl.core.predicate import at_most, within
from atl.prove import Facts, proves, upper_bound
from atl.surface.reindexing import Packing, Reindexing
from atl.surface.values import IndexExpr
from layouts.errors import NoLayout
from layouts.foundation.box import Box
from layouts.foundation.facts import Known, in_order
from layouts.foundation.segments import Segments
from layouts.foundation.semimodule import Array
from layouts.foundation.tuples import Extent, Shape, leaves, modes_of, plain_index, shown
from layouts.foundation.variables import digit_variable, key_variables

# -- strides ----------------------------------------------------------------------------------------------------------


MOST_ELEMENTS: Final = 2**14
"""Largest size for which a pair of elements that share a location is searched for."""


_ORDERING: Final = (
    "state facts that order the strides, in both places: Layout(…, given=…) and reschedule(program, given=…)",
    "IndexFunction(…), with an inverse",
)
"""Suggestions if the order of symbolic strides is not proved."""


def stored_by_strides(
    shape: tuple[Index, ...],
    domain: Shape,
    strides: Sequence[object],
    offset: object,
    known: Known,
    *,
    copies: bool = False,
) -> Reindexing:
    """Return the reindexing by strides; `domain` has a mode for each dimension.

    The locations are a box whose extents are the quotients of consecutive strides. If the strides do not divide one
    another, locations are flat addresses, and each digit is found by division, largest stride first. Raises `NoLayout`
    if two elements share a location. With `copies` they may, and the offset may be nonzero.
    """
    modes = modes_of(domain)
    written = f"{shown(domain)} with strides {', '.join(map(str, strides))}"
    if len(modes) != len(shape):
        raise NoLayout(
            f"{written} has {len(modes)} mode{'s' if len(modes) > 1 else ''}",
            required=f"one mode for each dimension of the tensor, which has {len(shape)}",
        )
    if offset != 0 and not copies:
        raise NoLayout(f"{written} begins at {offset}", required="offset 0, as the tensor gets its own buffer")
    extents = list(leaves(domain))
    moving = _in_order(extents, strides, known, written, copies=copies)
    steps = None if moving is None or offset != 0 else _steps([stride for _, stride in moving], known)
    if steps is None or moving is None:
        return _at_addresses(shape, modes, strides, offset, moving, copies=copies)
    order = [position for position, _ in moving]
    outermost = [extents[order[-1]]] if order else []
    places = (*outermost, *reversed(steps))

    def to(*at: Any) -> tuple[Any, ...]:
        digits = [digit for mode, x in zip(modes, at, strict=True) for digit in Box(mode).digits(x)]
        first = [] if len(steps) < len(order) else [index(0)]
        return (*(digits[position] for position in reversed(order)), *first)

    def inverse(*at: Any) -> tuple[Any, ...]:
        digits: list[Any] = [index(0)] * len(extents)
        for position, digit in zip(reversed(order), at, strict=False):
            digits[position] = digit
        left = iter(digits)
        return tuple(Box(mode).join([next(left) for _ in leaves(mode)]) for mode in modes)

    return Reindexing(shape, tuple(map(index, places)), to, None if copies else inverse)


def _at_addresses(
    shape: tuple[Index, ...],
    modes: Sequence[Shape],
    strides: Sequence[object],
    offset: object,
    moving: Sequence[tuple[int, Extent]] | None,
    *,
    copies: bool,
) -> Reindexing:
    """Return the reindexing to flat addresses. Digits with nonzero strides are found by division, largest first."""
    steps = [stride for stride in strides if isinstance(stride, int | Index)]
    start = offset if isinstance(offset, int | Index) else 0
    most: Extent = start
    for extent, step in zip((extent for mode in modes for extent in leaves(mode)), steps, strict=True):
        most = most if isinstance(step, int) and step < 0 else most + (extent - 1) * step
    length = most + 1 if isinstance(most, int) else imax(ZERO, most + 1)

    def to(*at: Any) -> tuple[Any, ...]:
        digits = [digit for mode, x in zip(modes, at, strict=True) for digit in Box(mode).digits(x)]
        return (sum((digit * step for digit, step in zip(digits, steps, strict=True)), start),)

    def inverse(p: Any) -> tuple[Any, ...]:
        digits: list[Any] = [index(0)] * len(steps)
        for position, step in reversed(moving or ()):
            digits[position] = p // step
            p = p % step
        left = iter(digits)
        return tuple(Box(mode).join([next(left) for _ in leaves(mode)]) for mode in modes)

    inverse_or_none = None if copies or moving is None else inverse
    return Reindexing(shape, (index(max(length, 0) if isinstance(length, int) else length),), to, inverse_or_none)


def _in_order(
    extents: Sequence[Extent], strides: Sequence[object], known: Known, written: str, *, copies: bool
) -> list[tuple[int, Extent]] | None:
    """Return the modes of nonzero stride, ordered so that each stride exceeds the span of those before it.

    None without such an order: with `copies`, or for numbers where no two elements are found to share a location.
    """
    moving: list[tuple[int, Extent, Extent]] = []
    for position, (extent, stride) in enumerate(zip(extents, strides, strict=True)):
        if not isinstance(stride, int | Index):
            raise NoLayout(
                f"the values of {written} are not addresses",
                required="strides that are integers or sizes",
                suggestions=("layouts.swizzled(…) for an exclusive or",),
            )
        if extent == 1:
            continue
        if copies and known.same(stride, 0):
            continue
        if known.same(stride, 0):
            raise NoLayout(
                f"{written} stores all elements along mode {position}, of extent {extent}, at one location",
                required="distinct locations; copies may be read, not stored",
                suggestions=("s.view(…), for an input that the caller stores this way",),
            )
        moving.append((position, extent, stride))
    ordered = in_order([(extent, stride) for _, extent, stride in moving], known)
    if ordered is None and copies:
        return None
    if ordered is None:
        pair = _collision(extents, strides)
        if pair is None and all(isinstance(part, int) for part in (*extents, *strides)):
            return None  # the order is sufficient, not necessary
        raise NoLayout(
            f"it is not known whether {written} stores two elements at one location"
            if pair is None
            else f"{written} stores two elements at one location: those with the digits {pair[0]} and {pair[1]}",
            required="an order of the modes in which each stride exceeds the span of the modes before it",
            suggestions=() if pair else _ORDERING,
        )
    out = []
    for wanted in ordered:
        at = next(k for k, (_, extent, stride) in enumerate(moving) if (extent, stride) == wanted)
        position, _, stride = moving.pop(at)
        out.append((position, stride))
    return out


def _collision(extents: Sequence[Extent], strides: Sequence[object]) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Return the digits of two elements that share a location, if the size is small enough to search."""
    counts = [extent for extent in extents if isinstance(extent, int)]
    if len(counts) < len(extents) or prod(counts) > MOST_ELEMENTS:
        return None
    seen: dict[object, tuple[int, ...]] = {}
    for digits in combinations(*map(range, counts)):
        location = index(0)
        for digit, stride in zip(digits, strides, strict=True):
            location = location + (digit * stride if isinstance(stride, int | Index) else 0)
        if location in seen:
            return seen[location], digits
        seen[location] = digits
    return None


def _steps(strides: Sequence[Extent], known: Known) -> list[Extent] | None:
    """Return the extents of all digits of a location but the outermost, innermost first; None without divisibility."""
    if not strides:
        return [1]
    inner = [1] if strides[0] != 1 else []
    quotients = [known.quotient(above, below) for below, above in pairwise([*inner, *strides])]
    found = [quotient for quotient in quotients if quotient is not None]
    return found if len(found) == len(quotients) else None


# -- bits -------------------------------------------------------------------------------------------------------------
# Adjacent bits with adjacent sources are grouped: a location is the exclusive or of bit fields of the indices, as in a
# swizzle, and the digits of locations are as wide as these fields.


Source: TypeAlias = tuple[int, int]
"""The number of an input, and the position of one of its bits."""
Row: TypeAlias = frozenset[Source]
"""The source bits whose sum is one output bit."""


@dataclass(frozen=True, slots=True)
class Field:
    """Adjacent output bits, starting at `first`; each source is an input and the position of its first bit."""

    first: int
    width: int
    sources: Row


def stored_by_bits(
    shape: tuple[Index, ...], columns: Sequence[Sequence[int]], widths: Sequence[int], name: str, *, copies: bool
) -> Reindexing:
    """Return the reindexing of a tensor given by the images of the single bits of its indices.

    `columns` lists the images of the bits of each dimension, lowest bit first. `widths` are the numbers of bits of the
    coordinates of a location, outermost first; the innermost coordinate has the lowest bits of an image. Raises
    `NoLayout` with two elements that share a location, unless `copies` is set.
    """
    if len(columns) != len(shape):
        raise NoLayout(f"{name} has {len(columns)} dimensions", required=f"{len(shape)}, as the tensor")
    counts = [len(each) for each in columns]
    sources = [(dimension, bit) for dimension, count in enumerate(counts) for bit in range(count)]
    flat = [column for each in columns for column in each]
    rows = [
        frozenset(s for s, column in zip(sources, flat, strict=True) if column >> k & 1) for k in range(sum(widths))
    ]
    fields = [
        field
        for start, width in _coordinates(widths)
        for field in reversed(_fields(rows[start : start + width], start))
    ]
    inverse = None if copies else _inverse(flat, sources, counts, name)
    placed = {field.first + k: (digit, k) for digit, field in enumerate(fields) for k in range(field.width)}
    found = [
        None if inverse is None else _fields([frozenset(placed[k] for k in row) for row in inverse[dimension]], 0)
        for dimension in range(len(shape))
    ]
    digits = [field.width for field in fields]

    def to(*at: Any) -> tuple[Any, ...]:
        return tuple(_sum(field, at, counts) for field in fields)

    def back(*at: Any) -> tuple[Any, ...]:
        return tuple(sum(_sum(field, at, digits) * 2**field.first for field in each or ()) for each in found)

    extents = tuple(constant(1 << field.width) for field in fields)
    own = tuple(constant(1 << count) for count in counts)
    if not fields:
        return Reindexing(own, (constant(1),), lambda *_: (0,), None if copies else lambda _: (0,) * len(shape))
    return Reindexing(own, extents, to, None if copies else back)


def columns_of(values: Array, counts: Sequence[int]) -> tuple[list[list[int]], list[int]] | None:
    """Return the columns of each dimension and the widths of coordinates, if a table is linear over F2; else None.

    `values` are in colexicographic order, with a row for each coordinate. `counts` are the bits of each dimension.
    """
    rows = values.reshape((len(values), -1)).astype(np.int64)
    if rows.min() < 0 or rows[0].any() or len(rows) != 1 << sum(counts):
        return None
    for bit in range(sum(counts)):
        half = 1 << bit
        if not np.array_equal(rows[half : 2 * half], rows[:half] ^ rows[half]):
            return None
    widths = [int(most).bit_length() for most in rows.max(axis=0)]
    flat = []
    for bit in range(sum(counts)):
        column = 0
        for part, width in zip(rows[1 << bit], widths, strict=True):
            column = column << width | int(part)
        flat.append(column)
    left = iter(flat)
    return [[next(left) for _ in range(count)] for count in counts], widths


def _coordinates(widths: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Return the first bit and the width of each coordinate; the outermost coordinate has the highest bits."""
    start = sum(widths)
    for width in widths:
        start -= width
        if width:
            yield start, width


def _fields(rows: Sequence[Row], start: int) -> list[Field]:
    """Group bits into fields, lowest first. A bit joins the field below it if its sources are one bit higher."""
    out: list[Field] = []
    for position, row in enumerate(rows):
        last = out[-1] if out else None
        if last is not None and row == frozenset((number, bit + last.width) for number, bit in last.sources):
            out[-1] = Field(last.first, last.width + 1, last.sources)
        else:
            out.append(Field(start + position, 1, row))
    return out


def _sum(field: Field, numbers: Sequence[Any], widths: Sequence[int]) -> Any:
    """Return the exclusive or of the fields of inputs with these widths."""
    parts = []
    for number, bit in sorted(field.sources):
        part = numbers[number] if not bit else numbers[number] // 2**bit
        parts.append(part if bit + field.width == widths[number] else part % 2**field.width)
    return reduce(xor, parts) if parts else 0


def _inverse(flat: Sequence[int], sources: Sequence[Source], counts: Sequence[int], name: str) -> list[list[set[int]]]:
    """Return the inverse: for each bit of each index, the bits of a location whose sum it is."""
    pivots: dict[int, tuple[int, int]] = {}
    for number, column in enumerate(flat):
        vector, combination = column, 1 << number
        for pivot, (other, before) in pivots.items():
            if vector >> pivot & 1:
                vector, combination = vector ^ other, combination ^ before
        if not vector:
            second = [0] * len(counts)
            for k, (dimension, bit) in enumerate(sources):
                second[dimension] += (combination >> k & 1) << bit
            first = _shown([0] * len(counts))
            raise NoLayout(
                f"{name} stores two elements at one location: those at {first} and {_shown(second)}",
                required="distinct locations: columns of full rank",
                suggestions=("s.view(…), for an input that the caller stores this way",),
            )
        new = vector.bit_length() - 1
        for pivot, (other, before) in list(pivots.items()):
            if other >> new & 1:
                pivots[pivot] = (other ^ vector, before ^ combination)
        pivots[new] = (vector, combination)
    out: list[list[set[int]]] = []
    number = 0
    for count in counts:
        out.append(
            [{p for p, (_, combination) in pivots.items() if combination >> number + bit & 1} for bit in range(count)]
        )
        number += count
    return out


def _shown(at: Sequence[int]) -> str:
    return f"({', '.join(map(str, at))})"


# -- segments ---------------------------------------------------------------------------------------------------------


def stored_in_segments(
    shape: tuple[Index, ...],
    segments: Segments,
    to: Callable[..., Sequence[Any]],
    inverse: Callable[..., Sequence[Any]] | None,
    known: Known,
) -> Reindexing:
    """Return the reindexing of a tensor of this shape. Without an inverse it has flat locations and is read-only."""
    packing, count = segments.packing, index(segments.count)
    if inverse is None:
        return Reindexing(shape, (count, packing.places), to, None, packing).flat()
    keys = count if proves(Facts(), at_most(ZERO, count)) else imax(ZERO, count)  # a tensor may have no elements
    longest = _longest(shape, packing, count, to, known.facts)
    return Reindexing(shape, (keys, longest or packing.places), to, inverse, packing)


def _longest(
    shape: tuple[Index, ...], packing: Packing, count: Index, to: Callable[..., Sequence[Any]], facts: Facts
) -> Index | None:
    """Return an upper bound of the segment lengths, from `length` or from the range of `to`, if one is proved."""
    key, _ = key_variables()
    own = facts.assume(within(ZERO, index(key), count))
    found = upper_bound(own, packing.count(index(key)), [(key, ZERO, count)])
    if found is not None:
        return imax(ZERO, found)
    digits = [digit_variable(k, f"i{k}") for k in range(len(shape))]
    _, position = to(*(IndexExpr(index(digit)) for digit in digits))
    found = upper_bound(facts, index(plain_index(position)), [(x, ZERO, n) for x, n in zip(digits, shape, strict=True)])
    return None if found is None else imax(ZERO, found + 1)
