"""The hash level: a table of fixed width below each parent (§7.4.4, E19)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse.errors import FormatError, NoSpace
from sparse.levels.level import Condition, Declaring, Integers, Level, Metadata, Number, Stored


def itself(coordinate: Any) -> Any:
    """The hash function that is none: neighbours stand beside each other."""
    return coordinate


@dataclass(frozen=True, repr=False)
class Hashed(Level):
    """Below each parent stand `width` slots, each with a coordinate, or -1 where it is free.

    An entry stands in the first free slot from the one on that `function` of its coordinate says, around the end. Where
    no width is given, tables are twice as wide as the fullest one needs. Raises `NoSpace` for a table that is too full.

    >>> import numpy as np
    >>> from sparse.levels import Hashed
    >>> Hashed(4).store((99,), 1, np.array([0, 0]), [np.array([6, 42])], root=True).metadata.arrays["crd"].tolist()
    [[-1, -1, 6, 42]]
    """

    width: int | None = None
    function: Callable[[Any], Any] = itself

    def __repr__(self) -> str:
        called = getattr(self.function, "__name__", type(self.function).__name__)
        return f"Hashed(width={self.width}, function={called})"

    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        return 0, m.arrays["crd"].shape[1]

    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        return (m.arrays["crd"][parent, p],)

    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        return parent * m.arrays["crd"].shape[1] + p

    def valid(self, m: Metadata, parent: Number, p: Number) -> Condition:
        return m.arrays["crd"][parent, p] >= 0

    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        (c,) = coordinates
        table = m.arrays["crd"][parent]
        for probe in range(len(table)):
            slot = int((self.function(np.int64(c)) + probe) % len(table))
            if table[slot] == c:
                return slot
            if table[slot] < 0:
                break
        return None

    def store(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Stored:
        new = np.ones(len(parent), bool)
        np.logical_or(parent[1:] != parent[:-1], coordinates[0][1:] != coordinates[0][:-1], out=new[1:])
        owner, held = parent[new], coordinates[0][new]
        fullest = int(np.bincount(owner, minlength=1).max())
        width = max(2 * fullest, 1) if self.width is None else self.width
        if fullest > width:
            raise NoSpace(
                f"a hash table of width {width} is too full",
                required=f"room for the {fullest} entries below one parent",
                suggestions=(f"use Hashed({2 * fullest}), or Hashed() for a width that is chosen",),
            )
        crd = np.full((parents, width), -1, np.int64)
        slot = self._slots(owner, held, crd)
        positions = (owner * width + slot)[np.cumsum(new) - 1]
        return Stored(Metadata({"crd": crd}, extents, parents * width), positions)

    def _slots(self, owner: Integers, held: Integers, crd: Integers) -> Integers:
        """Fills the tables. In each round every entry without a slot tries the next; the first at a free one has it."""
        width = crd.shape[1]
        slot, left, probe = np.full(len(held), -1), np.arange(len(held)), 0
        hashes = np.asarray(self.function(held))
        if hashes.dtype.kind not in "iu":
            raise FormatError(f"a hash function that gives {hashes.dtype}", required="integers for coordinates")
        hashes = np.broadcast_to((hashes % width).astype(np.int64), held.shape)
        while len(left):
            wanted = owner[left] * width + (hashes[left] + probe) % width
            free = np.flatnonzero(crd.flat[wanted] < 0)
            taken, first = np.unique(wanted[free], return_index=True)
            who = left[free[first]]
            crd.flat[taken] = held[who]
            slot[who] = taken % width
            left, probe = left[slot[left] < 0], probe + 1
        return slot

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        tables = [each.arrays["crd"] for each in (first, second) if each.count] or [first.arrays["crd"]]
        crd = np.concatenate(tables)
        return Metadata({"crd": crd}, first.extents, crd.size)

    def empty(self, extents: tuple[int, ...]) -> Metadata:
        return Metadata({"crd": np.full((0, self.width or 1), -1, np.int64)}, extents, 0)

    def well_formed(self, m: Metadata) -> bool:
        crd = m.arrays["crd"]
        inside = bool(((crd >= -1) & (crd < m.extents[0])).all()) and crd.size == m.count
        return inside and all(
            self.crd_pos(m, parent, (int(c),)) == p
            for parent, table in enumerate(crd)
            for p, c in enumerate(table)
            if c >= 0
        )

    def declare(self, extents: tuple[Number, ...], parents: Number, declaring: Declaring, *, root: bool) -> Metadata:
        width = declaring.size("width")
        crd = declaring.array("crd", parents, width, low=-1, high=extents[0])
        return Metadata({"crd": crd}, extents, parents * width)
