"""The compressed level: consecutive entries, each with its coordinates (§7.4.5, E18)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from atl.core.node import is_position
from atl.errors import brief
from sparse.errors import FormatError
from sparse.levels.level import Declarer, Encoded, Integers, Level, Metadata, Number


@dataclass(frozen=True)
class Compressed(Level):
    """A level that stores its entries consecutively: parent r has the positions pos[r] to pos[r + 1] - 1.

    The coordinates are in `crd`, or in `crd0`, `crd1`, … for several dimensions. The root level has no `pos`. If
    `is_unique` is false, several entries may have the same coordinates, and an element is their sum. If `is_ordered` is
    true, the entries of each parent are declared to be sorted by their (first) coordinate; co-iteration requires it,
    and each call checks it.

    >>> import numpy as np
    >>> from sparse.levels import Compressed
    >>> stored = Compressed().encode((9,), 2, np.array([0, 0, 1]), [np.array([2, 7, 7])], root=False)
    >>> {role: array.tolist() for role, array in stored.metadata.arrays.items()}
    {'pos': [0, 2, 3], 'crd': [2, 7, 7]}
    """

    dimensions: int = 1
    is_unique: bool = True
    is_ordered: bool = False

    def __post_init__(self) -> None:
        if not is_position(self.dimensions) or not self.dimensions:
            raise FormatError(
                f"a compressed level with {brief(self.dimensions)} dimensions", required="a positive integer"
            )

    @property
    def dims(self) -> int:
        return self.dimensions

    @property
    def unique(self) -> bool:
        return self.is_unique

    def sorted(self) -> Compressed:
        return replace(self, is_ordered=True)

    @property
    def roles(self) -> tuple[str, ...]:
        """The names of the coordinate arrays."""
        return ("crd",) if self.dimensions == 1 else tuple(f"crd{k}" for k in range(self.dimensions))

    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        if "pos" not in m.arrays:
            return 0, m.count
        return m.arrays["pos"][parent], m.arrays["pos"][parent + 1]

    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        return tuple(m.arrays[role][p] for role in self.roles)

    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        return p

    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        low, high = self.pos_bounds(m, parent)
        return next((p for p in range(low, high) if self.pos_crd(m, parent, p) == coordinates), None)

    def encode(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Encoded:
        first = np.ones(len(parent), bool)
        if self.unique and len(parent):
            np.not_equal(parent[1:], parent[:-1], out=first[1:])
            for each in coordinates:
                first[1:] |= each[1:] != each[:-1]
        held = {role: each[first] for role, each in zip(self.roles, coordinates, strict=True)}
        if not root:
            pos = np.zeros(parents + 1, np.int64)
            np.cumsum(np.bincount(parent[first], minlength=parents), out=pos[1:])
            held = {"pos": pos, **held}
        return Encoded(Metadata(held, extents, int(first.sum())), np.cumsum(first) - 1)

    def append(self, first: Metadata, second: Metadata) -> Metadata:
        begin, further = first.arrays["pos"], second.arrays["pos"]
        held = {role: np.concatenate([first.arrays[role], second.arrays[role]]) for role in self.roles}
        pos = np.concatenate([begin, begin[-1] + further[1:]])
        return Metadata({"pos": pos, **held}, first.extents, first.count + second.count)

    def empty(self, extents: tuple[int, ...]) -> Metadata:
        nothing = {role: np.zeros(0, np.int64) for role in self.roles}
        return Metadata({"pos": np.zeros(1, np.int64), **nothing}, extents, 0)

    def well_formed(self, m: Metadata) -> bool:
        held = [m.arrays[role] for role in self.roles]
        pos = m.arrays.get("pos", np.array([0, m.count]))
        nondecreasing = len(pos) > 0 and pos[0] == 0 and pos[-1] == m.count and bool((pos[1:] >= pos[:-1]).all())
        in_bounds = all(
            len(each) == m.count and bool(((each >= 0) & (each < extent)).all())
            for each, extent in zip(held, m.extents, strict=True)
        )
        if not (nondecreasing and in_bounds):
            return False
        parent = np.repeat(np.arange(len(pos) - 1), np.diff(pos))
        if self.is_ordered and bool(((parent[1:] == parent[:-1]) & (held[0][1:] < held[0][:-1])).any()):
            return False
        if not self.unique:
            return True
        # The coordinates below one parent are distinct.
        return bool(np.unique(np.stack([parent, *held]), axis=1).shape[1] == m.count)

    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        count = declarer.size("nnz")
        held = {} if root else {"pos": declarer.bounds("pos", parents + 1, low=0, high=count + 1)}
        order = "increasing" if self.unique and self.dimensions == 1 else "nondecreasing"
        for role, extent in zip(self.roles, extents, strict=True):
            monotonic: object = None
            if self.is_ordered and role == self.roles[0]:
                monotonic = order if root else (order, held["pos"])
            held[role] = declarer.array(role, count, low=0, high=extent, monotonic=monotonic)
        return Metadata(held, extents, count)
