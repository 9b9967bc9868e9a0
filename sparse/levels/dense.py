"""The dense level: one position for each coordinate (§7.4.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sparse.levels.level import Declarer, Encoded, Integers, Level, Metadata, Number


@dataclass(frozen=True)
class Dense(Level):
    """A level that has a position for every coordinate and stores no array.

    >>> from sparse.levels import Dense
    >>> m = Dense().empty((5,))
    >>> Dense().pos_bounds(m, 2), Dense().pos_pos(m, 2, 3)
    ((0, 5), 13)
    """

    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        return 0, m.extents[0]

    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        return (p,)

    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        return parent * m.extents[0] + p

    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        return coordinates[0]

    def encode(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Encoded:
        return Encoded(Metadata({}, extents, parents * extents[0]), parent * extents[0] + coordinates[0])

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        return Metadata({}, first.extents, first.count + second.count)

    def empty(self, extents: tuple[int, ...]) -> Metadata:
        return Metadata({}, extents, 0)

    def well_formed(self, m: Metadata) -> bool:
        extent = m.extents[0]
        return not m.arrays and extent >= 0 and (m.count % extent == 0 if extent else m.count == 0)

    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        return Metadata({}, extents, parents * extents[0])
