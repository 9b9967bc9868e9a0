"""Level formats: each stores one dimension of a tensor, or several at once (§7.3, §7.4)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

import atl
from atl.core.index import MOST_LEADING
from atl.core.node import is_position
from atl.errors import brief
from sparse.errors import CapacityExceeded, FormatError

# -- the interface of level formats -----------------------------------------------------------------------------------
# A level stores one or several coordinates of each element. Each entry of the level above is a *parent*: it has the
# positions `pos_bounds`. A valid position has the coordinates `pos_crd`, and is the parent `pos_pos` of the next level.
# These functions are defined once and applied in two ways: lowering applies them to index expressions and declared
# arrays, the laws to integers and NumPy arrays.


Number: TypeAlias = Any
"""An index expression in a program, an integer, or an integer array of the coordinates of many entries."""
Condition: TypeAlias = Any
"""A condition of the surface language, or a Boolean; True if there is nothing to test."""
Integers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Metadata:
    """The metadata-index structure of a level: its arrays, and the extents of the dimensions that it stores.

    In a program the arrays are declared tensors and the extents are index expressions. `count` is the total number of
    positions, over all parents.
    """

    arrays: Mapping[str, Any]
    extents: tuple[Number, ...]
    count: Number


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result of encoding: the metadata, and the position of each encoded entry."""

    metadata: Metadata
    positions: Integers


class Declarer:
    """Declares the arrays of a level as inputs of a program.

    If `distinct` is true, no two parents may share a position.
    """

    def __init__(
        self,
        tensor: Callable[..., atl.Tensor],
        size: Callable[[str], atl.IndexExpr],
        index_dtype: str,
        *,
        distinct: bool = False,
    ) -> None:
        self._tensor, self._size, self._index_dtype, self._distinct = tensor, size, index_dtype, distinct

    def __repr__(self) -> str:
        return f"Declarer(index_dtype={self._index_dtype!r}, distinct={self._distinct})"

    def array(self, role: str, *shape: Number, low: Number, high: Number, monotonic: object = None) -> atl.Tensor:
        """Declare an array of integers, low <= element < high; `monotonic` is that of `atl.tensor`."""
        return self._tensor(role, *shape, dtype=self._index_dtype, range=(low, high), monotonic=monotonic)

    def bounds(self, role: str, *shape: Number, low: Number, high: Number) -> atl.Tensor:
        """Declare an array of position bounds: elements r and r + 1 bound the positions of parent r.

        It is declared nondecreasing if no two parents may share a position.
        """
        return self.array(role, *shape, low=low, high=high, monotonic="nondecreasing" if self._distinct else None)

    def size(self, role: str) -> atl.IndexExpr:
        """Declare a size that is inferred from the arrays of a call."""
        return self._size(role)


class Level(ABC):
    """A level format. `dims` is the number of coordinates that each entry stores."""

    @property
    def dims(self) -> int:
        return 1

    @property
    def unique(self) -> bool:
        """True if the valid positions of each parent have distinct coordinates.

        Otherwise an element is the sum of all entries with its coordinates, and the laws are weaker accordingly.
        """
        return True

    def sorted(self) -> Level:
        """Return this level with its arrays declared sorted, as `encode` produces them; each call then checks it."""
        return self

    # -- the functions of positions -----------------------------------------------------------------------------------

    @abstractmethod
    def pos_bounds(self, m: Metadata, parent: Number) -> tuple[Number, Number]:
        """Return the half-open range of the positions of a parent."""

    @abstractmethod
    def pos_crd(self, m: Metadata, parent: Number, p: Number) -> tuple[Number, ...]:
        """Return the coordinates at a position."""

    @abstractmethod
    def pos_pos(self, m: Metadata, parent: Number, p: Number) -> Number:
        """Return the number of a position among all positions of this level, which identifies it as a parent."""

    def valid(self, m: Metadata, parent: Number, p: Number) -> Condition:
        """Return the condition that there is an entry at a position."""
        del m, parent, p
        return True

    @abstractmethod
    def crd_pos(self, m: Metadata, parent: int, coordinates: tuple[int, ...]) -> int | None:
        """Return the first position of a parent with these coordinates, or None."""

    # -- encoding -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def encode(
        self, extents: tuple[int, ...], parents: int, parent: Integers, coordinates: Sequence[Integers], *, root: bool
    ) -> Encoded:
        """Encode entries, sorted by parent and coordinates, for the given number of parents.

        A level at the `root` has one parent and may omit its position bounds.
        """

    @abstractmethod
    def append(self, first: Metadata, second: Metadata) -> Metadata:
        """Concatenate two structures: the parents of the second follow those of the first."""

    @abstractmethod
    def empty(self, extents: tuple[int, ...]) -> Metadata:
        """Return the structure without parents, the identity of `append` for these extents."""

    @abstractmethod
    def well_formed(self, m: Metadata) -> bool:
        """Return whether the arrays form a valid structure of this format."""

    # -- programs -----------------------------------------------------------------------------------------------------

    @abstractmethod
    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        """Declare the inputs of a program that store this level, for the given number of parents."""


# -- dense ------------------------------------------------------------------------------------------------------------


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


# -- bitmask ----------------------------------------------------------------------------------------------------------


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


# -- compressed -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Compressed(Level):
    """A level that stores its entries consecutively: parent r has the positions pos[r] to pos[r + 1] - 1.

    The coordinates are in `crd`, or in `crd0`, `crd1`, … for several dimensions. The root level has no `pos`. If
    `is_unique` is false, several entries may have the same coordinates, and an element is their sum. If `is_ordered` is
    true, the entries of each parent are declared to be sorted: by their first 8 coordinates at the root, otherwise by
    the first one. Co-iteration requires it, and each call checks it.

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
        return replace(self, is_ordered=True, is_unique=True)

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
        if self.is_ordered and bool((np.lexsort((*reversed(held), parent)) != np.arange(m.count)).any()):
            return False
        if not self.unique:
            return True
        # The coordinates below one parent are distinct.
        return bool(np.unique(np.stack([parent, *held]), axis=1).shape[1] == m.count)

    def declare(self, extents: tuple[Number, ...], parents: Number, declarer: Declarer, *, root: bool) -> Metadata:
        count = declarer.size("nnz")
        held = {} if root else {"pos": declarer.bounds("pos", parents + 1, low=0, high=count + 1)}
        before: atl.Tensor | None = None
        for number, (role, extent) in enumerate(zip(self.roles, extents, strict=True)):
            order = "increasing" if self.unique and role == self.roles[-1] else "nondecreasing"
            monotonic: object = None
            if self.is_ordered and not number:
                monotonic = order if root else (order, held["pos"])
            elif self.is_ordered and root and number <= MOST_LEADING:
                monotonic = (order, "after", before)
            before = held[role] = declarer.array(role, count, low=0, high=extent, monotonic=monotonic)
        return Metadata(held, extents, count)


# -- hash tables ------------------------------------------------------------------------------------------------------


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
