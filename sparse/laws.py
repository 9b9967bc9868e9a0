"""Executable laws of level formats (Fig. 7.5, corrected by E18 to E21).

The laws are checked exhaustively on small tensors: every pattern of entries in up to three rows. A violation names the
tensor. Laws that relate a row encoded separately to the same row within a larger tensor compare positions relative to
the start of the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from sparse.errors import LawViolation
from sparse.levels import Integers, Level, Metadata
from sparse.tensors import AnyArray

Coordinates: TypeAlias = tuple[int, ...]
EXTENTS: Final = ((0,), (1,), (2,), (3,), (4,))
"""The extents that are tested for each dimension."""
MAX_ELEMENTS: Final = 8
"""The largest number of elements of a tested tensor: it has at most 2 ** MAX_ELEMENTS patterns of entries."""


@dataclass(frozen=True, slots=True)
class LawCase:
    """The rows of a tensor, each a mapping from coordinates to nonzero values, and their encodings by a level.

    `parts` are the rows encoded separately, each with the data of its positions. `whole` is the concatenation of their
    structures, and `data` the concatenation of their data.
    """

    level: Level
    extents: Coordinates
    rows: tuple[dict[Coordinates, int], ...]
    parts: tuple[tuple[Metadata, AnyArray], ...]
    whole: Metadata
    data: AnyArray

    def positions(self, m: Metadata, parent: int) -> range:
        """Return the positions of a parent."""
        low, high = self.level.pos_bounds(m, parent)
        return range(int(low), int(high))

    def all_coordinates(self) -> Iterator[Coordinates]:
        """Iterate over all coordinates of a row."""
        return product(*map(range, self.extents))

    def valid(self, m: Metadata, parent: int) -> list[int]:
        """Return the valid positions of a parent."""
        return [p for p in self.positions(m, parent) if bool(self.level.valid(m, parent, p))]

    def at(self, m: Metadata, parent: int, p: int) -> Coordinates:
        """Return the coordinates at a position, as integers."""
        return tuple(int(c) for c in self.level.pos_crd(m, parent, p))

    def element(self, m: Metadata, data: AnyArray, parent: int, p: int) -> int:
        """Return the datum at a position."""
        return int(data[int(self.level.pos_pos(m, parent, p))])

    def structures(self) -> Iterator[tuple[Metadata, int, AnyArray, dict[Coordinates, int]]]:
        """Yield (structure, parent, data, row) for each row encoded separately, then for each row of the whole."""
        for (m, data), row in zip(self.parts, self.rows, strict=True):
            yield m, 0, data, row
        for parent, row in enumerate(self.rows):
            yield self.whole, parent, self.data, row


def entries(level: Level, row: dict[Coordinates, int]) -> list[tuple[Coordinates, int]]:
    """Return the entries of a row, sorted. For a level that is not unique, some entries are split into duplicates."""
    return [
        (at, part) for at in sorted(row) for part in ((row[at],) if level.unique or row[at] % 2 else (row[at] - 10, 10))
    ]


def encode(level: Level, extents: Coordinates, row: dict[Coordinates, int]) -> tuple[Metadata, AnyArray]:
    """Encode one row (encode_F in the figure): its metadata, and the data of its positions."""
    encoded = entries(level, row)
    coordinates = [np.array([at[k] for at, _ in encoded], np.int64) for k in range(level.dims)]
    parent: Integers = np.zeros(len(encoded), np.int64)
    stored = level.encode(extents, 1, parent, coordinates, root=False)
    data = np.zeros(stored.metadata.count, np.int64)
    np.add.at(data, stored.positions, np.array([value for _, value in encoded], np.int64))
    return stored.metadata, data


def case(level: Level, extents: Coordinates, rows: Sequence[dict[Coordinates, int]]) -> LawCase:
    """Encode rows separately and together, for the laws."""
    parts = tuple(encode(level, extents, row) for row in rows)
    whole = level.empty(extents)
    for m, _ in parts:
        whole = level.append(whole, m)
    data = np.concatenate([np.zeros(0, np.int64), *(data for _, data in parts)])
    return LawCase(level, extents, tuple(rows), parts, whole, data)


# -- the laws ---------------------------------------------------------------------------------------------------------


def monoid(c: LawCase) -> bool:
    """MONOIDSTRUCT: well-formed structures form a monoid under append; its identity is the empty structure."""
    level, empty = c.level, c.level.empty(c.extents)
    found = [m for m, _ in c.parts]
    if not level.well_formed(empty) or not all(map(level.well_formed, (*found, c.whole))):
        return False
    units = all(_equal(level.append(empty, m), m) and _equal(level.append(m, empty), m) for m in found)
    triples = zip(found, found[1:], found[2:], strict=False)
    return units and all(
        _equal(level.append(level.append(x, y), z), level.append(x, level.append(y, z))) for x, y, z in triples
    )


def encode_well_formed(c: LawCase) -> bool:
    """ENCODEWELLFORMED: encoding produces well-formed structures."""
    return all(c.level.well_formed(m) for m, _ in c.parts)


def crd_pos_get(c: LawCase) -> bool:
    """CRDPOSGET: the datum at the position of coordinates is the element; duplicates are summed."""
    for (m, data), row in zip(c.parts, c.rows, strict=True):
        for at in c.all_coordinates():
            p = c.level.crd_pos(m, 0, at)
            if p is None:
                continue
            same = [p] if c.level.unique else [q for q in c.valid(m, 0) if c.at(m, 0, q) == at]
            if sum(c.element(m, data, 0, q) for q in same) != row.get(at, 0):
                return False
    return True


def crd_pos_none_get(c: LawCase) -> bool:
    """CRDPOSNONEGET: an element is zero if its coordinates have no position."""
    return all(
        row.get(at, 0) == 0
        for (m, _), row in zip(c.parts, c.rows, strict=True)
        for at in c.all_coordinates()
        if c.level.crd_pos(m, 0, at) is None
    )


def invalid_pos_get(c: LawCase) -> bool:
    """INVALIDPOSGET: the datum at an invalid position is zero."""
    return all(
        c.element(m, data, 0, p) == 0
        for m, data in c.parts
        for p in c.positions(m, 0)
        if not bool(c.level.valid(m, 0, p))
    )


def pos_crd_injective(c: LawCase) -> bool:
    """POSCRDINJ: the valid positions of a parent have distinct coordinates, if the level is unique."""
    return not c.level.unique or all(
        len({c.at(m, parent, p) for p in c.valid(m, parent)}) == len(c.valid(m, parent))
        for m, parent, _, _ in c.structures()
    )


def crd_pos_inverse(c: LawCase) -> bool:
    """CRDPOSINV: pos_crd(crd_pos(c)) = c for coordinates c with a valid position."""
    return all(
        c.at(m, parent, p) == at
        for m, parent, _, _ in c.structures()
        for at in c.all_coordinates()
        if (p := c.level.crd_pos(m, parent, at)) is not None and bool(c.level.valid(m, parent, p))
    )


def pos_crd_inverse(c: LawCase) -> bool:
    """POSCRDINV: crd_pos(pos_crd(p)) = p for a valid position p; for duplicates, the first of their positions."""
    return all(
        (found := c.level.crd_pos(m, parent, c.at(m, parent, p))) is not None
        and (found == p if c.level.unique else found <= p and c.at(m, parent, found) == c.at(m, parent, p))
        for m, parent, _, _ in c.structures()
        for p in c.valid(m, parent)
    )


def crd_pos_none(c: LawCase) -> bool:
    """CRDPOSNONE: coordinates without a position do not occur at any valid position."""
    return all(
        c.at(m, parent, p) != at
        for m, parent, _, _ in c.structures()
        for at in c.all_coordinates()
        if c.level.crd_pos(m, parent, at) is None
        for p in c.valid(m, parent)
    )


def crd_bound(c: LawCase) -> bool:
    """CRDBOUND: the coordinates at a valid position are within the extents."""
    return all(
        0 <= k < extent
        for m, parent, _, _ in c.structures()
        for p in c.valid(m, parent)
        for k, extent in zip(c.at(m, parent, p), c.extents, strict=True)
    )


def pos_bound(c: LawCase) -> bool:
    """POSBOUND: the position of coordinates is within the bounds of its parent."""
    return all(
        p in c.positions(m, parent)
        for m, parent, _, _ in c.structures()
        for at in c.all_coordinates()
        if (p := c.level.crd_pos(m, parent, at)) is not None
    )


def crd_pos_append(c: LawCase) -> bool:
    """CRDPOSAPP: coordinates have the same position under parent r of the whole as in row r encoded separately."""
    return all(
        _offset_in(c.positions(c.whole, r), c.level.crd_pos(c.whole, r, at))
        == _offset_in(c.positions(m, 0), c.level.crd_pos(m, 0, at))
        for r, (m, _) in enumerate(c.parts)
        for at in c.all_coordinates()
    )


def bound_get(c: LawCase) -> bool:
    """BOUNDGET: parent r of the whole has as many positions as row r encoded separately."""
    return all(len(c.positions(c.whole, r)) == len(c.positions(m, 0)) for r, (m, _) in enumerate(c.parts))


def valid_get(c: LawCase) -> bool:
    """VALIDGET: the same positions are valid under parent r of the whole as in row r encoded separately."""
    return all(
        [p - c.positions(c.whole, r).start for p in c.valid(c.whole, r)]
        == [p - c.positions(m, 0).start for p in c.valid(m, 0)]
        for r, (m, _) in enumerate(c.parts)
    )


def append_get(c: LawCase) -> bool:
    """APPGET: the concatenated data contains the element of row r at its position under parent r of the whole."""
    for r, row in enumerate(c.rows):
        for at in c.all_coordinates():
            p = c.level.crd_pos(c.whole, r, at)
            same = [] if p is None else [p]
            if not c.level.unique:
                same = [q for q in c.valid(c.whole, r) if c.at(c.whole, r, q) == at]
            if sum(c.element(c.whole, c.data, r, q) for q in same) != row.get(at, 0):
                return False
    return True


def encode_is_append(c: LawCase) -> bool:
    """ENCODEAPP: encoding all rows at once equals appending the separate encodings (not in the figure)."""
    held = [(r, at, value) for r, row in enumerate(c.rows) for at, value in entries(c.level, row)]
    coordinates = [np.array([at[k] for _, at, _ in held], np.int64) for k in range(c.level.dims)]
    parent = np.array([r for r, _, _ in held], np.int64)
    stored = c.level.encode(c.extents, len(c.rows), parent, coordinates, root=False)
    data = np.zeros(stored.metadata.count, np.int64)
    np.add.at(data, stored.positions, np.array([value for _, _, value in held], np.int64))
    return _equal(stored.metadata, c.whole) and np.array_equal(data, c.data)


LAWS: Final[dict[str, Callable[[LawCase], bool]]] = {
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
    "ENCODEAPP": encode_is_append,
}
"""The fifteen laws of the figure by name, and ENCODEAPP, on which kernels rely."""


def _equal(one: Metadata, other: Metadata) -> bool:
    return (
        one.count == other.count
        and one.extents == other.extents
        and one.arrays.keys() == other.arrays.keys()
        and all(np.array_equal(one.arrays[role], other.arrays[role]) for role in one.arrays)
    )


def _offset_in(positions: range, p: int | None) -> int | None:
    return None if p is None else p - positions.start


# -- exhaustive testing -----------------------------------------------------------------------------------------------


def tensors(
    level: Level, *, max_elements: int = MAX_ELEMENTS
) -> Iterator[tuple[Coordinates, list[dict[Coordinates, int]]]]:
    """Yield tensors with every pattern of entries: up to three rows, and up to `max_elements` elements in total."""
    for extents in product(*(each for each in (EXTENTS,) * level.dims)):
        shape = tuple(extent for (extent,) in extents)
        elements = prod(shape)
        places = list(product(*map(range, shape)))
        for rows in (0, 1, 2, 3):
            if rows * elements > max_elements:
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


def check_level(level: Level, *, max_elements: int = MAX_ELEMENTS) -> int:
    """Check all laws of a level format on all small tensors, and return the number of tensors.

    `max_elements` limits the number of elements of a tensor. Raises `LawViolation` with the first law that does not
    hold, and a tensor that violates it.

    >>> from sparse import Compressed
    >>> from sparse.laws import check_level
    >>> check_level(Compressed(), max_elements=6)
    194
    """
    count = 0
    for extents, rows in tensors(level, max_elements=max_elements):
        made: Any = None
        for name, law in LAWS.items():
            try:
                made = case(level, extents, rows) if made is None else made
                holds = law(made)
            except (LookupError, TypeError, ValueError, ArithmeticError) as error:
                raise _violation(name, level, extents, rows, f"{type(error).__name__}: {error}") from error
            if not holds:
                raise _violation(name, level, extents, rows, "")
        count += 1
    return count


def _violation(
    name: str, level: Level, extents: Coordinates, rows: Sequence[dict[Coordinates, int]], raised: str
) -> LawViolation:
    law = (LAWS[name].__doc__ or "").split("\n")[0]
    written = []
    for row in rows:
        held = np.zeros(extents, np.int64)
        for at, value in row.items():
            held[at] = value
        written.append(held.tolist())
    return LawViolation(
        f"the level {level} violates {law}" + (f" ({raised})" if raised else ""),
        required=f"{name} must hold for every tensor",
        numbers={"rows": written, "extents": extents},
    )
