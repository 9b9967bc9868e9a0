"""The bitmask level: one position for each coordinate, and a mask of the valid ones (§7.4.3, E20)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from sparse.levels.level import Condition, Declarer, Encoded, Integers, Level, Metadata, Number


@dataclass(frozen=True)
class Bitmask(Level):
    """A level that has a position for every coordinate; the positions with `mask` 1 are valid.

    >>> import numpy as np
    >>> from sparse.levels import Bitmask
    >>> Bitmask().encode((4,), 1, np.array([0]), [np.array([2])], root=True).metadata.arrays["mask"].tolist()
    [0, 0, 1, 0]
    """

    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        return 0, m.extents[0]

    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        return (p,)

    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        return parent * m.extents[0] + p

    def valid(self, m: Metadata, parent: Number, p: Number) -> Condition:
        return m.arrays["mask"][self.pos_pos(m, parent, p)] == 1

    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        (c,) = coordinates
        return c if self.valid(m, parent, c) else None

    def encode(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Encoded:
        positions = parent * extents[0] + coordinates[0]
        mask = np.zeros(parents * extents[0], np.int64)
        mask[positions] = 1
        return Encoded(Metadata({"mask": mask}, extents, len(mask)), positions)

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        mask = np.concatenate([first.arrays["mask"], second.arrays["mask"]])
        return Metadata({"mask": mask}, first.extents, len(mask))

    def empty(self, extents: tuple[int, ...]) -> Metadata:
        return Metadata({"mask": np.zeros(0, np.int64)}, extents, 0)

    def well_formed(self, m: Metadata) -> bool:
        mask, extent = m.arrays["mask"], m.extents[0]
        whole = len(mask) % extent == 0 if extent else len(mask) == 0
        return whole and len(mask) == m.count and bool(np.isin(mask, (0, 1)).all())

    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        count = parents * extents[0]
        return Metadata({"mask": declarer.array("mask", count, low=0, high=2)}, extents, count)
