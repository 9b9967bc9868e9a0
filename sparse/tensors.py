"""Sparse tensors: the arrays of a format, made from entries (§7.5.1), and the tensor that they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import range_of
from atl.errors import ArrayError, WrongArgument, brief
from sparse.errors import FormatError
from sparse.levels import Metadata
from sparse.levels.level import Integers
from sparse.storage import Storage

AnyArray: TypeAlias = npt.NDArray[Any]
MOST: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A tensor of this shape in a format: the metadata of its levels, from the outside in, and the values.

    Where nobody can write to the arrays of the levels, as `pack` makes them, a kernel checks once what is declared of
    them, and notes that in `known`.
    """

    format: Storage
    shape: tuple[int, ...]
    levels: tuple[Metadata, ...]
    values: AnyArray
    known: dict[object, object] | None = field(init=False, repr=False)
    arrays: tuple[AnyArray, ...] = field(init=False, repr=False)
    """All arrays, in the order in which a program has them as inputs: those of the levels, then the values."""

    def __post_init__(self) -> None:
        if (
            not isinstance(self.format, Storage)
            or not (isinstance(self.shape, tuple) and all(isinstance(n, int) for n in self.shape))
            or not (isinstance(self.levels, tuple) and all(isinstance(level, Metadata) for level in self.levels))
            or not isinstance(self.values, np.ndarray)
        ):
            raise WrongArgument(
                f"a sparse tensor of {brief((self.format, self.shape))}",
                required="a format, a shape, the metadata of its levels, and an array of values: sparse.pack makes one",
            )
        held = tuple(array for level in self.levels for array in level.arrays.values())
        object.__setattr__(self, "known", {} if all(map(_never_changes, held)) else None)
        object.__setattr__(self, "arrays", (*held, self.values))

    def _repr_svg_(self) -> str | None:
        """What a notebook shows of a small matrix: its entries, and the arrays that hold them."""
        from sparse.pictures import svg_of

        return svg_of(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, or what is read from a file, has other arrays: nothing is known of these.
        return _again, (self.format, self.shape, self.levels, self.values, self.known is not None)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.shape))
        return f"<{self.format!r} tensor of {shape} {self.values.dtype} with {len(self.values)} values>"


def _again(
    form: Storage, shape: tuple[int, ...], levels: tuple[Metadata, ...], values: AnyArray, own: bool
) -> SparseTensor:
    return SparseTensor(form, shape, tuple(narrowed(form, m) for m in levels) if own else levels, values)


def _never_changes(array: AnyArray) -> bool:
    """Whether nobody can write to the array: it is a view of bytes. An owner of memory may be made writeable again."""
    at: Any = array
    while isinstance(at, np.ndarray):
        if at.flags.writeable:
            return False
        at = at.base
    return isinstance(at, bytes)


def need_sparse(tensor: object) -> None:
    """Raises `WrongArgument` for what is no sparse tensor."""
    if not isinstance(tensor, SparseTensor):
        raise WrongArgument(
            f"{brief(tensor, kind=True)} is no packed tensor", required="what sparse.pack(value, format) gives"
        )


def encoded(
    form: Storage, shape: tuple[int, ...], coordinates: Sequence[AnyArray], values: AnyArray, *, sort: bool = True
) -> SparseTensor:
    """A tensor from its entries: an array of coordinates for each dimension, and the values.

    The values of entries with equal coordinates add up, unless the format keeps them apart. Entries that are sorted in
    the order of the format are not sorted again. Raises `FormatError`, `NoSpace`; `ArrayError` for an entry that the
    tensor has no place for.
    """
    levels = form.levels_of(shape)
    need_inside("the coordinates", shape, coordinates, len(values))
    stored = [np.asarray(each, np.int64) for each in form.view.to(shape, tuple(coordinates))]
    outermost = levels[0][0]
    keeps_order = len(levels) == 1 and not outermost.unique and outermost.in_order() != outermost
    if sort and not keeps_order and not _sorted(stored):
        order = _order(form.view.extents(shape), stored)
        stored, values = [each[order] for each in stored], values[order]
    parent: Integers = np.zeros(len(values), np.int64)
    parents, at, metadata = 1, 0, []
    for number, (level, extents) in enumerate(levels):
        made = level.store(extents, parents, parent, stored[at : at + level.dims], root=not number)
        metadata.append(narrowed(form, made.metadata))
        parent, parents, at = made.positions, made.metadata.count, at + level.dims
    return SparseTensor(form, shape, tuple(metadata), _filled(parents, parent, values))


def need_inside(what: str, shape: Sequence[int], coordinates: Sequence[AnyArray], count: int) -> None:
    """Raises `ArrayError` unless there are coordinates of so many entries, in the tensor along each dimension."""
    for k, (extent, each) in enumerate(zip(shape, coordinates, strict=True)):
        if len(each) != count:
            raise ArrayError(
                f"{what} along dimension {k} are {len(each)}, of {count} values",
                required="a coordinate for each value",
            )
        wrong = [int(end) for end in (each.min(), each.max()) if not 0 <= end < extent] if count else []
        if wrong:
            raise ArrayError(
                f"{what} along dimension {k} are not in the tensor",
                required=f"0 <= coordinate < {extent}",
                numbers={"coordinate": wrong[0]},
            )


def _order(extents: Sequence[int], coordinates: Sequence[Integers]) -> Integers:
    """What sorts entries by their coordinates, the first first; by one number each where that fits into 64 bits."""
    if prod(extents) > MOST:
        return np.lexsort(coordinates[::-1])
    key = np.zeros(len(coordinates[0]), np.int64)
    for extent, each in zip(extents, coordinates, strict=True):
        key *= extent
        key += each
    return np.argsort(key, kind="stable")


def _sorted(coordinates: Sequence[Integers]) -> bool:
    """Whether entries come in the order of their coordinates, equal ones beside each other."""
    if not coordinates or len(coordinates[0]) < 2:
        return True
    undecided = np.ones(len(coordinates[0]) - 1, bool)
    for each in coordinates:
        step = np.diff(each)
        if bool((step[undecided] < 0).any()):
            return False
        undecided &= step == 0
        if not undecided.any():
            return True
    return True


def _filled(count: int, positions: Integers, values: AnyArray) -> AnyArray:
    """The values at their positions; those that meet at one are added."""
    if len(positions) == count and (count == 0 or bool((positions == np.arange(count)).all())):
        return np.ascontiguousarray(values)
    out = np.zeros(count, values.dtype)
    np.add.at(out, positions, values)
    return out


def narrowed(form: Storage, m: Metadata) -> Metadata:
    """The arrays with indices of the format's type, copied into bytes, to which nobody can write.

    Raises `FormatError` where one is too large for it.
    """
    least, greatest = range_of(form.index)
    arrays = {}
    for role, array in m.arrays.items():
        if array.size and not least <= int(array.min()) <= int(array.max()) <= greatest:
            raise FormatError(
                f"an index of {int(array.max())} does not fit into {form.index}",
                required="indices that fit",
                suggestions=('use the format with larger indices: .with_index("int64")',),
            )
        held = np.asarray(array, dtype=form.index)
        arrays[role] = np.frombuffer(held.tobytes(), dtype=form.index).reshape(held.shape)
    return Metadata(arrays, m.extents, m.count)


def entries(tensor: SparseTensor) -> tuple[list[Integers], AnyArray]:
    """The coordinates of all entries, an array for each dimension, and their values: level by level, all at once."""
    need_sparse(tensor)
    form = tensor.format
    parent: Integers = np.zeros(1, np.int64)
    held: list[Integers] = []
    for (level, _), m in zip(form.levels_of(tensor.shape), tensor.levels, strict=True):
        low, high = level.pos_bounds(m, parent)
        low, high = np.broadcast_to(low, parent.shape), np.broadcast_to(high, parent.shape)
        counts = np.maximum(np.asarray(high - low, np.int64), 0)
        above = np.repeat(np.arange(len(parent)), counts)
        starts = np.cumsum(counts) - counts
        p = np.arange(len(above)) - np.repeat(starts - low, counts)
        valid = np.broadcast_to(np.asarray(level.valid(m, parent[above], p)), above.shape)
        above, p = above[valid], p[valid]
        owner = parent[above]
        held = [*(each[above] for each in held), *(np.asarray(c, np.int64) for c in level.pos_crd(m, owner, p))]
        parent = np.asarray(level.pos_pos(m, owner, p), np.int64)
    coordinates = tuple(held)
    inside = np.broadcast_to(np.asarray(form.view.inside(tensor.shape, coordinates)), parent.shape)
    found = form.view.back(tensor.shape, tuple(each[inside] for each in coordinates))
    return [np.asarray(each, np.int64) for each in found], tensor.values[parent[inside]]


def dense(tensor: SparseTensor) -> AnyArray:
    """The tensor as an array: every entry added where it belongs."""
    coordinates, values = entries(tensor)
    out = np.zeros(tensor.shape, tensor.values.dtype)
    np.add.at(out, tuple(coordinates), values)
    return out
