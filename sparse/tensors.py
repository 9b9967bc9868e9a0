"""Sparse tensors: encoding entries into the arrays of a format (§7.5.1), and decoding them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.dtypes import TYPES, range_of
from atl.errors import ArrayError, InvalidArgument, OutOfMemory, brief
from sparse.errors import FormatError
from sparse.levels import Integers, Level, Metadata
from sparse.views import Identity, Permuted, Storage

AnyArray: TypeAlias = npt.NDArray[Any]
INT64_MAX: Final = 2**63 - 1


@dataclass(frozen=True, slots=True, eq=False)
class SparseTensor:
    """A tensor in a format: its shape, the metadata of its levels (outermost first), and the values.

    `validation_cache` is None unless the arrays of the levels are immutable, as those made by `pack` are. A kernel then
    validates them once and records the result there.
    """

    format: Storage
    shape: tuple[int, ...]
    levels: tuple[Metadata, ...]
    values: AnyArray
    validation_cache: dict[object, object] | None = field(init=False, repr=False)
    arrays: tuple[AnyArray, ...] = field(init=False, repr=False)
    """All arrays, in the order of the program's inputs: those of the levels, then the values."""

    def __post_init__(self) -> None:
        if (
            not isinstance(self.format, Storage)
            or not (isinstance(self.shape, tuple) and all(isinstance(n, int) for n in self.shape))
            or not (isinstance(self.levels, tuple) and all(isinstance(level, Metadata) for level in self.levels))
            or not isinstance(self.values, np.ndarray)
        ):
            raise InvalidArgument(
                f"invalid arguments for SparseTensor: {brief((self.format, self.shape))}",
                required="a format, a shape, the metadata of its levels, and an array of values, as from sparse.pack",
            )
        held = tuple(array for level in self.levels for array in level.arrays.values())
        object.__setattr__(self, "validation_cache", {} if all(map(_is_immutable, held)) else None)
        object.__setattr__(self, "arrays", (*held, self.values))

    @property
    def nnz(self) -> int:
        """The number of stored elements, as in scipy: also zeros, such as those of blocks, and duplicates.

        >>> import numpy as np
        >>> from sparse import BCSR, COO, pack
        >>> pack(np.eye(2), COO).nnz, pack(np.eye(2), BCSR(2, 2)).nnz
        (2, 4)
        """
        levels = (type(level) for level, _ in self.format.levels_of(self.shape))
        if isinstance(self.format.view, Identity | Permuted) and all(kind.valid is Level.valid for kind in levels):
            return len(self.values)
        return len(entries(self)[1])

    def toarray(self) -> AnyArray:
        """Return the tensor as a dense array, as `toarray` of scipy.sparse; entries with equal coordinates are summed.

        >>> import numpy as np
        >>> from sparse import DCSR, pack
        >>> pack(np.array([[0.0, 2.0], [0.0, 0.0]]), DCSR).toarray()
        array([[0., 2.],
               [0., 0.]])
        """
        return to_dense(self)

    def to_scipy(self) -> Any:
        """Return the tensor as a scipy.sparse array, as `sparse.to_scipy`.

        >>> import numpy as np
        >>> from sparse import CSR, pack
        >>> pack(np.eye(2), CSR).to_scipy().indices
        array([0, 1], dtype=int32)
        """
        from sparse.formats import to_scipy

        return to_scipy(self)

    def _repr_svg_(self) -> str | None:
        """Draw a small matrix and its arrays, for notebooks."""
        from sparse.drawing import svg_or_none

        return svg_or_none(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has new arrays, which have not been validated.
        return _unpickle, (self.format, self.shape, self.levels, self.values, self.validation_cache is not None)

    def __repr__(self) -> str:
        shape = " × ".join(map(str, self.shape))
        return f"<{self.format!r} tensor of {shape} {self.values.dtype} with {len(self.values)} values>"


def _unpickle(
    form: Storage, shape: tuple[int, ...], levels: tuple[Metadata, ...], values: AnyArray, immutable: bool
) -> SparseTensor:
    return SparseTensor(form, shape, tuple(cast_indices(form, m) for m in levels) if immutable else levels, values)


def _is_immutable(array: AnyArray) -> bool:
    """Return whether the array is a view of `bytes`. An array that owns its memory can be made writeable again."""
    at: Any = array
    while isinstance(at, np.ndarray):
        if at.flags.writeable:
            return False
        at = at.base
    return isinstance(at, bytes)


def check_sparse_tensor(tensor: object) -> None:
    """Raise `InvalidArgument` if `tensor` is not a `SparseTensor`."""
    if not isinstance(tensor, SparseTensor):
        raise InvalidArgument(
            f"{brief(tensor, kind=True)} is not a SparseTensor", required="a result of sparse.pack(value, format)"
        )


def encode(
    form: Storage, shape: tuple[int, ...], coordinates: Sequence[AnyArray], values: AnyArray, *, sort: bool = True
) -> SparseTensor:
    """Encode entries, given as one array of coordinates for each dimension and an array of values.

    Duplicates are summed unless the format is not unique. Entries already in the order of the format are not sorted
    again. Raises `FormatError`, `CapacityExceeded`, `OutOfMemory`, and `ArrayError` if coordinates are out of bounds.
    """
    levels = form.levels_of(shape)
    check_coordinates("the coordinates", shape, coordinates, len(values))
    # The view computes with 64-bit coordinates: a block extent, or the number of a diagonal, may exceed 32 bits.
    wide = tuple(np.asarray(each, np.int64) for each in coordinates)
    stored = [np.asarray(each, np.int64) for each in form.view.forward(shape, wide)]
    outermost = levels[0][0]
    keeps_order = len(levels) == 1 and not outermost.unique and outermost.sorted() != outermost
    if sort and not keeps_order and not _is_sorted(stored):
        order = sort_order(form.view.extents(shape), stored)
        stored, values = [each[order] for each in stored], values[order]
    parent: Integers = np.zeros(len(values), np.int64)
    parents, at, metadata = 1, 0, []
    for number, (level, extents) in enumerate(levels):
        made = level.encode(extents, parents, parent, stored[at : at + level.dims], root=not number)
        metadata.append(cast_indices(form, made.metadata))
        parent, parents, at = made.positions, made.metadata.count, at + level.dims
    return SparseTensor(form, shape, tuple(metadata), _scatter(parents, parent, values))


def check_coordinates(name: str, shape: Sequence[int], coordinates: Sequence[AnyArray], count: int) -> None:
    """Raise `ArrayError` unless there are `count` coordinates for each dimension, all within the shape."""
    for k, (extent, each) in enumerate(zip(shape, coordinates, strict=True)):
        if len(each) != count:
            raise ArrayError(
                f"{name} along dimension {k} have length {len(each)}, but there are {count} values",
                required="one coordinate for each value",
            )
        wrong = [int(end) for end in (each.min(), each.max()) if not 0 <= end < extent] if count else []
        if wrong:
            raise ArrayError(
                f"{name} along dimension {k} are out of bounds",
                required=f"0 <= coordinate < {extent}",
                numbers={"coordinate": wrong[0]},
            )


def sort_order(extents: Sequence[int], coordinates: Sequence[Integers]) -> Integers:
    """Return the stable permutation that sorts entries lexicographically, by a single 64-bit key if the shape permits.

    A key that also has the number of its entry is sorted faster than keys alone are by `argsort`.
    """
    if prod(extents) > INT64_MAX:
        return np.lexsort(coordinates[::-1])
    key = np.zeros(len(coordinates[0]), np.int64)
    for extent, each in zip(extents, coordinates, strict=True):
        key *= extent
        key += each
    bits = len(key).bit_length()
    if prod(extents) > INT64_MAX >> bits:
        return np.argsort(key, kind="stable")
    key <<= bits
    key |= np.arange(len(key))
    key.sort()
    return key & ((1 << bits) - 1)


def _is_sorted(coordinates: Sequence[Integers]) -> bool:
    """Return whether the entries are in lexicographic order of their coordinates."""
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


def _scatter(count: int, positions: Integers, values: AnyArray) -> AnyArray:
    """Return an array with the values at their positions; values at the same position are summed."""
    if len(positions) == count and (count == 0 or bool((positions == np.arange(count)).all())):
        return np.ascontiguousarray(values)
    try:
        out = np.zeros(count, _added_in(values.dtype))
    except (MemoryError, ValueError, OverflowError) as error:  # the latter two for more elements than are numbered
        raise OutOfMemory(
            "there is not enough memory for the values of a sparse tensor",
            required="a format that stores fewer zeros, such as one with smaller blocks",
            numbers={"values": count},
        ) from error
    np.add.at(out, positions, values)
    return out.astype(values.dtype, copy=False)


def _added_in(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the type in which elements are added: float32 for those of 16 bits, as in theorems."""
    return np.dtype(TYPES[dtype.name].computed_as if dtype.name in TYPES else dtype)


def cast_indices(form: Storage, m: Metadata) -> Metadata:
    """Return the metadata with immutable copies of its arrays, in the index dtype of the format.

    Raises `FormatError` if an index does not fit.
    """
    least, greatest = range_of(form.index_dtype)
    arrays = {}
    for role, array in m.arrays.items():
        if array.size and not least <= int(array.min()) <= int(array.max()) <= greatest:
            raise FormatError(
                f"an index of {int(array.max())} does not fit into {form.index_dtype}",
                required=f"indices within {form.index_dtype}",
                suggestions=('use a wider index dtype: .with_index_dtype("int64")',),
            )
        held = np.asarray(array, dtype=form.index_dtype)
        arrays[role] = np.frombuffer(held.tobytes(), dtype=form.index_dtype).reshape(held.shape)
    return Metadata(arrays, m.extents, m.count)


def entries(tensor: SparseTensor) -> tuple[list[Integers], AnyArray]:
    """Return the coordinates of all entries, one array for each dimension, and their values; vectorised over levels."""
    check_sparse_tensor(tensor)
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
    inside = np.broadcast_to(np.asarray(form.view.in_bounds(tensor.shape, coordinates)), parent.shape)
    found = form.view.inverse(tensor.shape, tuple(each[inside] for each in coordinates))
    return [np.asarray(each, np.int64) for each in found], tensor.values[parent[inside]]


def to_dense(tensor: SparseTensor) -> AnyArray:
    """Return the tensor as a dense array; duplicates are summed."""
    coordinates, values = entries(tensor)
    out = np.zeros(tensor.shape, _added_in(tensor.values.dtype))
    np.add.at(out, tuple(coordinates), values)
    return out.astype(tensor.values.dtype, copy=False)
