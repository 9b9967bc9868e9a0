"""Storage by functions that are linear over F2: each bit of a location is a sum of bits of the indices.

Adjacent bits with adjacent sources are grouped: a location is the exclusive or of bit fields of the indices, as in a
swizzle, and the digits of locations are as wide as these fields.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import xor
from typing import Any, TypeAlias

import numpy as np

from atl.core.index import Index, constant
from atl.surface.reindexing import Reindexing
from layouts.errors import NoLayout
from layouts.foundation.semimodule import Array

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
