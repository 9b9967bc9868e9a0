"""The hash level: one hash table of fixed width for each parent (§7.4.4, E19)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparse.errors import CapacityExceeded, FormatError
from sparse.levels.level import Condition, Declarer, Encoded, Integers, Level, Metadata, Number


def identity(coordinate: Any) -> Any:
    """Return the coordinate unchanged: the default hash function."""
    return coordinate


@dataclass(frozen=True, repr=False)
class Hashed(Level):
    """A hash table of `width` slots for each parent; a slot holds a coordinate, or -1 if it is free.

    Collisions are resolved by linear probing, starting at slot `function(coordinate) % width`. The default width is
    twice the largest number of entries of a parent. Encoding raises `CapacityExceeded` if the width is too small.

    >>> import numpy as np
    >>> from sparse.levels import Hashed
    >>> Hashed(4).encode((99,), 1, np.array([0, 0]), [np.array([6, 42])], root=True).metadata.arrays["crd"].tolist()
    [[-1, -1, 6, 42]]
    """

    width: int | None = None
    function: Callable[[Any], Any] = identity

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

    def encode(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Encoded:
        new = np.ones(len(parent), bool)
        np.logical_or(parent[1:] != parent[:-1], coordinates[0][1:] != coordinates[0][:-1], out=new[1:])
        owner, held = parent[new], coordinates[0][new]
        fullest = int(np.bincount(owner, minlength=1).max())
        width = max(2 * fullest, 1) if self.width is None else self.width
        if fullest > width:
            raise CapacityExceeded(
                f"{fullest} entries do not fit in a hash table of width {width}",
                required=f"a width of at least {fullest}, the largest number of entries of one parent",
                suggestions=(f"use Hashed({2 * fullest}), or Hashed() to choose the width automatically",),
            )
        crd = np.full((parents, width), -1, np.int64)
        slot = self._assign_slots(owner, held, crd)
        positions = (owner * width + slot)[np.cumsum(new) - 1]
        return Encoded(Metadata({"crd": crd}, extents, parents * width), positions)

    def _assign_slots(self, owner: Integers, held: Integers, crd: Integers) -> Integers:
        """Fill the tables by linear probing, vectorised: in each round, every unplaced entry probes its next slot.

        The first entry that probes a free slot takes it. Returns the slots.
        """
        width = crd.shape[1]
        slot, unplaced, probe = np.full(len(held), -1), np.arange(len(held)), 0
        hashes = np.asarray(self.function(held))
        if hashes.dtype.kind not in "iu":
            raise FormatError(f"the hash function returns {hashes.dtype}", required="an integer for each coordinate")
        hashes = np.broadcast_to((hashes % width).astype(np.int64), held.shape)
        while len(unplaced):
            probed = owner[unplaced] * width + (hashes[unplaced] + probe) % width
            free = np.flatnonzero(crd.flat[probed] < 0)
            taken, first = np.unique(probed[free], return_index=True)
            placed = unplaced[free[first]]
            crd.flat[taken] = held[placed]
            slot[placed] = taken % width
            unplaced, probe = unplaced[slot[unplaced] < 0], probe + 1
        return slot

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        tables = [each.arrays["crd"] for each in (first, second) if each.count] or [first.arrays["crd"]]
        crd = np.concatenate(tables)
        return Metadata({"crd": crd}, first.extents, crd.size)

    def empty(self, extents: tuple[int, ...]) -> Metadata:
        return Metadata({"crd": np.full((0, self.width or 1), -1, np.int64)}, extents, 0)

    def well_formed(self, m: Metadata) -> bool:
        crd = m.arrays["crd"]
        in_bounds = bool(((crd >= -1) & (crd < m.extents[0])).all()) and crd.size == m.count
        return in_bounds and all(
            self.crd_pos(m, parent, (int(c),)) == p
            for parent, table in enumerate(crd)
            for p, c in enumerate(table)
            if c >= 0
        )

    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        width = declarer.size("width")
        crd = declarer.array("crd", parents, width, low=-1, high=extents[0])
        return Metadata({"crd": crd}, extents, parents * width)
