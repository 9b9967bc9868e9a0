"""The laws of level formats (Fig. 7.5, corrected by E18 to E21), as checks that can be run, for any level.

Small tensors are gone through exhaustively: every pattern of entries in a few rows. A law is broken by a tensor, which
the error names. The laws are about positions within a row, so what differs between a row by itself and the same row
below the others, the position where it begins, is taken off on both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from sparse.errors import LawBroken
from sparse.levels.level import Integers, Level, Metadata
from sparse.tensors import AnyArray

Coordinates: TypeAlias = tuple[int, ...]
EXTENTS: Final = ((0,), (1,), (2,), (3,), (4,))
"""The extents that a dimension has in turn."""
MOST_ENTRIES: Final = 8
"""Tensors of one row have up to 2 to this many patterns."""


@dataclass(frozen=True, slots=True)
class Case:
    """Rows of a tensor, each a mapping from coordinates to values that are not zero, and what a level makes of them.

    `parts` are the rows encoded one by one, each with the data of its positions; `whole` is all of them appended, and
    `data` their data one behind the other.
    """

    level: Level
    extents: Coordinates
    rows: tuple[dict[Coordinates, int], ...]
    parts: tuple[tuple[Metadata, AnyArray], ...]
    whole: Metadata
    data: AnyArray

    def positions(self, m: Metadata, parent: int) -> range:
        """The positions below a parent."""
        low, high = self.level.pos_bounds(m, parent)
        return range(int(low), int(high))

    def all_coordinates(self) -> Iterator[Coordinates]:
        """The coordinates of a row."""
        return product(*map(range, self.extents))

    def valid(self, m: Metadata, parent: int) -> list[int]:
        """The valid positions below a parent."""
        return [p for p in self.positions(m, parent) if bool(self.level.valid(m, parent, p))]

    def at(self, m: Metadata, parent: int, p: int) -> Coordinates:
        """The coordinates that a position holds, as numbers."""
        return tuple(int(c) for c in self.level.pos_crd(m, parent, p))

    def element(self, m: Metadata, data: AnyArray, parent: int, p: int) -> int:
        """The datum at a position."""
        return int(data[int(self.level.pos_pos(m, parent, p))])

    def structures(self) -> Iterator[tuple[Metadata, int, AnyArray, dict[Coordinates, int]]]:
        """Each row by itself, then each below the others: the structure, its parent, the data and the row."""
        for (m, data), row in zip(self.parts, self.rows, strict=True):
            yield m, 0, data, row
        for parent, row in enumerate(self.rows):
            yield self.whole, parent, self.data, row


def entries(level: Level, row: dict[Coordinates, int]) -> list[tuple[Coordinates, int]]:
    """What is encoded of a row, in order. A level that keeps equal coordinates apart gets some of them twice."""
    return [
        (at, part) for at in sorted(row) for part in ((row[at],) if level.unique or row[at] % 2 else (row[at] - 10, 10))
    ]


def encode(level: Level, extents: Coordinates, row: dict[Coordinates, int]) -> tuple[Metadata, AnyArray]:
    """encode_F: the metadata of one row, and the data of its positions."""
    held = entries(level, row)
    coordinates = [np.array([at[k] for at, _ in held], np.int64) for k in range(level.dims)]
    parent: Integers = np.zeros(len(held), np.int64)
    stored = level.store(extents, 1, parent, coordinates, root=False)
    data = np.zeros(stored.metadata.count, np.int64)
    np.add.at(data, stored.positions, np.array([value for _, value in held], np.int64))
    return stored.metadata, data


def case(level: Level, extents: Coordinates, rows: Sequence[dict[Coordinates, int]]) -> Case:
    """Rows with all that the laws speak of."""
    parts = tuple(encode(level, extents, row) for row in rows)
    whole = level.empty(extents)
    for m, _ in parts:
        whole = level.append(whole, m)
    data = np.concatenate([np.zeros(0, np.int64), *(data for _, data in parts)])
    return Case(level, extents, tuple(rows), parts, whole, data)


# -- the laws ---------------------------------------------------------------------------------------------------------


def monoid(c: Case) -> bool:
    """MONOIDSTRUCT: well-formed structures form a monoid under append, with the empty one as its identity."""
    level, empty = c.level, c.level.empty(c.extents)
    found = [m for m, _ in c.parts]
    if not level.well_formed(empty) or not all(map(level.well_formed, (*found, c.whole))):
        return False
    units = all(_same(level.append(empty, m), m) and _same(level.append(m, empty), m) for m in found)
    triples = zip(found, found[1:], found[2:], strict=False)
    return units and all(
        _same(level.append(level.append(x, y), z), level.append(x, level.append(y, z))) for x, y, z in triples
    )


def encode_well_formed(c: Case) -> bool:
    """ENCODEWELLFORMED: what encoding gives is well formed."""
    return all(c.level.well_formed(m) for m, _ in c.parts)


def crd_pos_get(c: Case) -> bool:
    """CRDPOSGET: where coordinates have a position, the datum there is the element; of equal entries, their sum."""
    for (m, data), row in zip(c.parts, c.rows, strict=True):
        for at in c.all_coordinates():
            p = c.level.crd_pos(m, 0, at)
            if p is None:
                continue
            same = [p] if c.level.unique else [q for q in c.valid(m, 0) if c.at(m, 0, q) == at]
            if sum(c.element(m, data, 0, q) for q in same) != row.get(at, 0):
                return False
    return True


def crd_pos_none_get(c: Case) -> bool:
    """CRDPOSNONEGET: an element whose coordinates have no position is zero."""
    return all(
        row.get(at, 0) == 0
        for (m, _), row in zip(c.parts, c.rows, strict=True)
        for at in c.all_coordinates()
        if c.level.crd_pos(m, 0, at) is None
    )


def invalid_pos_get(c: Case) -> bool:
    """INVALIDPOSGET: there is nothing at a position that is not valid."""
    return all(
        c.element(m, data, 0, p) == 0
        for m, data in c.parts
        for p in c.positions(m, 0)
        if not bool(c.level.valid(m, 0, p))
    )


def pos_crd_injective(c: Case) -> bool:
    """POSCRDINJ: two valid positions below one parent hold different coordinates, if the level is unique."""
    return not c.level.unique or all(
        len({c.at(m, parent, p) for p in c.valid(m, parent)}) == len(c.valid(m, parent))
        for m, parent, _, _ in c.structures()
    )


def crd_pos_inverse(c: Case) -> bool:
    """CRDPOSINV: coordinates that have a valid position are those that it holds."""
    return all(
        c.at(m, parent, p) == at
        for m, parent, _, _ in c.structures()
        for at in c.all_coordinates()
        if (p := c.level.crd_pos(m, parent, at)) is not None and bool(c.level.valid(m, parent, p))
    )


def pos_crd_inverse(c: Case) -> bool:
    """POSCRDINV: a valid position is the one of the coordinates that it holds; of equal entries, the first is."""
    return all(
        (found := c.level.crd_pos(m, parent, c.at(m, parent, p))) is not None
        and (found == p if c.level.unique else found <= p and c.at(m, parent, found) == c.at(m, parent, p))
        for m, parent, _, _ in c.structures()
        for p in c.valid(m, parent)
    )


def crd_pos_none(c: Case) -> bool:
    """CRDPOSNONE: coordinates that have no position are held by no valid one."""
    return all(
        c.at(m, parent, p) != at
        for m, parent, _, _ in c.structures()
        for at in c.all_coordinates()
        if c.level.crd_pos(m, parent, at) is None
        for p in c.valid(m, parent)
    )


def crd_bound(c: Case) -> bool:
    """CRDBOUND: a valid position holds coordinates within the extents."""
    return all(
        0 <= k < extent
        for m, parent, _, _ in c.structures()
        for p in c.valid(m, parent)
        for k, extent in zip(c.at(m, parent, p), c.extents, strict=True)
    )


def pos_bound(c: Case) -> bool:
    """POSBOUND: the position of coordinates is among those below the parent."""
    return all(
        p in c.positions(m, parent)
        for m, parent, _, _ in c.structures()
        for at in c.all_coordinates()
        if (p := c.level.crd_pos(m, parent, at)) is not None
    )


def crd_pos_append(c: Case) -> bool:
    """CRDPOSAPP: below parent r of the whole, coordinates have the position that they have in row r by itself."""
    return all(
        _from(c.positions(c.whole, r), c.level.crd_pos(c.whole, r, at))
        == _from(c.positions(m, 0), c.level.crd_pos(m, 0, at))
        for r, (m, _) in enumerate(c.parts)
        for at in c.all_coordinates()
    )


def bound_get(c: Case) -> bool:
    """BOUNDGET: below parent r of the whole there are as many positions as in row r by itself."""
    return all(len(c.positions(c.whole, r)) == len(c.positions(m, 0)) for r, (m, _) in enumerate(c.parts))


def valid_get(c: Case) -> bool:
    """VALIDGET: below parent r of the whole those positions are valid that are in row r by itself."""
    return all(
        [p - c.positions(c.whole, r).start for p in c.valid(c.whole, r)]
        == [p - c.positions(m, 0).start for p in c.valid(m, 0)]
        for r, (m, _) in enumerate(c.parts)
    )


def append_get(c: Case) -> bool:
    """APPGET: the data one behind the other has, at the place of a position of the whole, the element of that row."""
    for r, row in enumerate(c.rows):
        for at in c.all_coordinates():
            p = c.level.crd_pos(c.whole, r, at)
            same = [] if p is None else [p]
            if not c.level.unique:
                same = [q for q in c.valid(c.whole, r) if c.at(c.whole, r, q) == at]
            if sum(c.element(c.whole, c.data, r, q) for q in same) != row.get(at, 0):
                return False
    return True


def store_is_append(c: Case) -> bool:
    """STOREAPP: what is stored of all rows at once is what is appended of each (ours: kernels rest on it)."""
    held = [(r, at, value) for r, row in enumerate(c.rows) for at, value in entries(c.level, row)]
    coordinates = [np.array([at[k] for _, at, _ in held], np.int64) for k in range(c.level.dims)]
    parent = np.array([r for r, _, _ in held], np.int64)
    stored = c.level.store(c.extents, len(c.rows), parent, coordinates, root=False)
    data = np.zeros(stored.metadata.count, np.int64)
    np.add.at(data, stored.positions, np.array([value for _, _, value in held], np.int64))
    return _same(stored.metadata, c.whole) and np.array_equal(data, c.data)


LAWS: Final[dict[str, Callable[[Case], bool]]] = {
    "MONOIDSTRUCT": monoid,
    "ENCODEWELLFORMED": encode_well_formed,
    "CRDPOSGET": crd_pos_get,
    "CRDPOSNONEGET": crd_pos_none_get,
    "INVALIDPOSGET": invalid_pos_get,
    "POSCRDINJ": pos_crd_injective,
    "CRDPOSINV": crd_pos_inverse,
    "POSCRDINV": pos_crd_inverse,
    "CRDPOSNONE": crd_pos_none,
    "CRDBOUND": crd_bound,
    "POSBOUND": pos_bound,
    "CRDPOSAPP": crd_pos_append,
    "BOUNDGET": bound_get,
    "VALIDGET": valid_get,
    "APPGET": append_get,
    "STOREAPP": store_is_append,
}
"""The fifteen laws by their names in the figure, and one of our own."""


def _same(one: Metadata, other: Metadata) -> bool:
    return (
        one.count == other.count
        and one.extents == other.extents
        and one.arrays.keys() == other.arrays.keys()
        and all(np.array_equal(one.arrays[role], other.arrays[role]) for role in one.arrays)
    )


def _from(positions: range, p: int | None) -> int | None:
    return None if p is None else p - positions.start


# -- going through tensors --------------------------------------------------------------------------------------------


def tensors(level: Level, *, most: int = MOST_ENTRIES) -> Iterator[tuple[Coordinates, list[dict[Coordinates, int]]]]:
    """Tensors with all patterns of entries: of up to three rows, with up to `most` elements in all."""
    for extents in product(*(each for each in (EXTENTS,) * level.dims)):
        shape = tuple(extent for (extent,) in extents)
        elements = prod(shape)
        places = list(product(*map(range, shape)))
        for rows in (0, 1, 2, 3):
            if rows * elements > most:
                continue
            for pattern in product((False, True), repeat=rows * elements):
                numbered = iter(range(1, rows * elements + 1))
                values = [next(numbered) if entry else 0 for entry in pattern]
                yield (
                    shape,
                    [
                        {at: v for at, v in zip(places, values[r * elements : (r + 1) * elements], strict=True) if v}
                        for r in range(rows)
                    ],
                )


def check_level(level: Level, *, most: int = MOST_ENTRIES) -> int:
    """Checks all laws of a level format on all small tensors, and returns how many there were.

    `most` bounds the elements of a tensor, of which each may be an entry or not. Raises `LawBroken` with the first law
    that does not hold, and the tensor that breaks it.

    >>> from sparse import Compressed
    >>> from sparse.laws import check_level
    >>> check_level(Compressed(), most=6)
    194
    """
    count = 0
    for extents, rows in tensors(level, most=most):
        made: Any = None
        for name, law in LAWS.items():
            try:
                made = case(level, extents, rows) if made is None else made
                holds = law(made)
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                raise _broken(name, level, extents, rows, f"{type(error).__name__}: {error}") from error
            if not holds:
                raise _broken(name, level, extents, rows, "")
        count += 1
    return count


def _broken(
    name: str, level: Level, extents: Coordinates, rows: Sequence[dict[Coordinates, int]], raised: str
) -> LawBroken:
    law = (LAWS[name].__doc__ or "").split("\n")[0]
    written = []
    for row in rows:
        held = np.zeros(extents, np.int64)
        for at, value in row.items():
            held[at] = value
        written.append(held.tolist())
    return LawBroken(
        f"the level {level} breaks {law}" + (f" ({raised})" if raised else ""),
        required=f"the law {name} for every tensor",
        numbers={"rows": written, "extents": extents},
    )
