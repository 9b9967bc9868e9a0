"""A level format of a user: ELLPACK."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparse import Dense, Format, Level
from sparse.levels import Declarer, Encoded, Metadata, Number


@dataclass(frozen=True)
class Padded(Level):
    """ELLPACK: a table as wide as the fullest row, filled from the left; -1 marks unused positions."""

    width: int | None = None

    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        return 0, m.arrays["crd"].shape[1]

    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        return (m.arrays["crd"][parent, p],)

    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        return parent * m.arrays["crd"].shape[1] + p

    def valid(self, m: Metadata, parent: Number, p: Number) -> Any:
        return m.arrays["crd"][parent, p] >= 0

    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        (found,) = np.nonzero(m.arrays["crd"][parent] == coordinates[0])
        return int(found[0]) if len(found) else None

    def encode(self, extents: Any, parents: int, parent: Any, coordinates: Sequence[Any], *, root: bool) -> Encoded:
        counts = np.bincount(parent, minlength=parents)
        width = int(counts.max(initial=0)) if self.width is None else self.width
        crd = np.full((parents, width), -1, np.int64)
        at = np.arange(len(parent)) - np.repeat(np.cumsum(counts) - counts, counts)
        crd[parent, at] = coordinates[0]
        return Encoded(Metadata({"crd": crd}, extents, crd.size), parent * width + at)

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        crd = np.concatenate([first.arrays["crd"], second.arrays["crd"]])
        return Metadata({"crd": crd}, first.extents, crd.size)

    def empty(self, extents: tuple[int, ...]) -> Metadata:
        return Metadata({"crd": np.full((0, self.width or 0), -1, np.int64)}, extents, 0)

    def well_formed(self, m: Metadata) -> bool:
        crd = m.arrays["crd"]
        return bool(((crd >= -1) & (crd < m.extents[0])).all()) and crd.size == m.count

    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        width = declarer.size("width")
        crd = declarer.array("crd", parents, width, low=-1, high=extents[0])
        return Metadata({"crd": crd}, extents, parents * width)


ELL: Final = Format("ELL", (Dense(), Padded()))
"""A table of the entries of each row."""
