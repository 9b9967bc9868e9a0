"""Which formats scipy.sparse has too, with the same arrays: what is passed on either way is not copied.

Only the numbers of diagonals are made anew: scipy counts them from the main one, we from that at the lower left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from atl.core.dtypes import range_of
from atl.errors import ArrayError
from sparse.levels import Compressed, Dense, Metadata
from sparse.storage import Storage
from sparse.tensors import AnyArray, SparseTensor, narrowed, need_inside
from sparse.views import Blocked, Diagonals, Permuted, Same

COMPRESSED = (Dense(), Compressed())
BLOCKS = (Dense(), Compressed(), Dense(), Dense())
DIAGONALS = (Compressed(), Dense())


def scipy_name(form: Storage) -> str:
    """What scipy calls a matrix in this format, if its arrays are those of the format as they are; else nothing."""
    if form.levels == COMPRESSED:
        return {Same(): "csr", Permuted((1, 0)): "csc"}.get(form.view, "")
    return ""


def scipy_kind(form: Storage, rank: int) -> str:
    """What scipy calls a tensor of so many dimensions in this format; nothing where it has no such format."""
    if name := scipy_name(form):
        return name
    if has_coordinates(form, rank):
        return "coo"
    if form.levels == BLOCKS and isinstance(form.view, Blocked):
        return "bsr"
    return "dia" if form.levels == DIAGONALS and isinstance(form.view, Diagonals) else ""


Shared: TypeAlias = Callable[[Any], tuple[AnyArray, ...] | None]
"""What gives the arrays of a format that a matrix of scipy's holds already; None for one that it does not hold so."""


def shared(form: Storage, rank: int) -> tuple[str, Shared]:
    """What scipy calls a tensor of this format, and what takes its arrays as those of the format; else no name.

    Entries may stand in any order and more than once.
    """
    kind = scipy_kind(form, rank)
    if kind in ("csr", "csc"):
        return kind, _by_rows
    if form.ordered:  # `pack` sorts it; a call would refuse it
        return "", _not_shared
    if kind == "coo" and not form.levels_of((0,) * rank)[0][0].unique:
        return kind, _by_coordinates
    if isinstance(form.view, Blocked) and kind == "bsr":
        return kind, partial(_by_blocks, form.view.by)
    if kind == "dia":
        return kind, partial(_by_diagonals, np.dtype(form.index), range_of(form.index)[1])
    return "", _not_shared


def _not_shared(_: object) -> None:
    return None


def _by_rows(value: Any) -> tuple[AnyArray, ...]:
    return value.indptr, value.indices, value.data


def _by_coordinates(value: Any) -> tuple[AnyArray, ...]:
    return (*coordinates_of(value), value.data)


def _by_blocks(by: tuple[int, ...], value: Any) -> tuple[AnyArray, ...] | None:
    return (value.indptr, value.indices, value.data.reshape(-1)) if value.data.shape[1:] == by else None


def _by_diagonals(index: np.dtype[Any], most: int, value: Any) -> tuple[AnyArray, ...] | None:
    """None where a diagonal lies outside or is stored in part, or where their numbers may not fit the indices."""
    rows, columns = value.shape
    if value.offsets.dtype.kind != "i" or value.data.shape != (len(value.offsets), columns):
        return None
    offsets = value.offsets.tolist()  # they are few: NumPy would take longer
    if (offsets and not -rows < min(offsets) <= max(offsets) < columns) or rows + columns > most:
        return None
    return np.add(value.offsets, rows - 1, dtype=index), value.data.reshape(-1)


def in_scipy(form: Storage, shape: tuple[int, ...], arrays: Sequence[AnyArray]) -> Any:
    """The tensor as an array of scipy.sparse that shares these arrays; None where scipy has no such format.

    Blocks must divide the sizes: scipy has none that hang over the edge.
    """
    import scipy.sparse as sp

    kind = scipy_kind(form, len(shape))
    if kind in ("csr", "csc"):
        pos, crd, values = arrays
        return getattr(sp, f"{kind}_array")((values, crd, pos), shape=shape)
    if kind == "coo" and len(arrays) == len(shape) + 1:
        return sp.coo_array((arrays[-1], tuple(arrays[:-1])), shape=shape)
    if isinstance(form.view, Blocked) and kind == "bsr":
        by = form.view.by
        if any(extent % size for extent, size in zip(shape, by, strict=True)):
            return None
        pos, crd, values = arrays
        return sp.bsr_array((values.reshape(-1, *by), crd, pos), shape=shape)
    if kind == "dia":
        crd, values = arrays
        return sp.dia_array((values.reshape(len(crd), shape[1]), crd - (shape[0] - 1)), shape=shape)
    return None


def sound(value: Any) -> Any:
    """A sparse array or matrix of scipy's, whose arrays are such that scipy may be asked to convert it.

    That looks at none of them, and writes to whatever place a damaged one says. What is held in another way than by
    rows, columns, blocks, diagonals or coordinates comes back by rows; room after its entries and diagonals outside of
    it are left away. Raises `ArrayError`.
    """
    if getattr(value, "format", "") not in ("csr", "csc", "bsr", "coo", "dia"):
        value = value.tocsr() if hasattr(value, "tocsr") else value.tocoo()
    if value.format == "coo":
        coordinates = coordinates_of(value)
        if len(coordinates) != len(value.shape):
            raise _damaged("coordinates", "an array for each dimension")
        for each in coordinates:
            _need_integers("coordinates", each)
        need_inside("the coordinates", value.shape, coordinates, len(value.data))
    elif value.format == "dia":
        return _of_its_diagonals(value)
    else:
        return _of_its_entries(value)
    return value


def coordinates_of(value: Any) -> tuple[AnyArray, ...]:
    """The arrays of coordinates of scipy's coordinate format, of arrays and of matrices."""
    coordinates = getattr(value, "coords", None)
    return (value.row, value.col) if coordinates is None else tuple(coordinates)


def _of_its_diagonals(value: Any) -> Any:
    """A matrix by diagonals without those that lie outside: scipy takes their offsets for others, of fewer bits.

    Raises `ArrayError` for diagonals that are none.
    """
    offsets, held = value.offsets, value.data
    _need_integers("offsets", offsets)
    if np.ndim(held) != 2 or len(held) != len(offsets) or len(np.unique(offsets)) < len(offsets):
        raise _damaged("offsets", "one for each row of data, and no two alike")
    rows, columns = value.shape
    inside = (offsets > -rows) & (offsets < columns)
    return value if inside.all() else type(value)((held[inside], offsets[inside]), shape=value.shape)


def _of_its_entries(value: Any) -> Any:
    """A matrix by rows, by columns or by blocks whose arrays hold its entries and nothing after them.

    Raises `ArrayError` unless they are those of such a matrix.
    """
    pos, crd, held = value.indptr, value.indices, value.data
    _need_integers("indptr", pos)
    _need_integers("indices", crd)
    by = held.shape[1:] if value.format == "bsr" else (1, 1)
    rows, columns = (extent // size for extent, size in zip((1, *value.shape)[-2:], by, strict=True))
    outer, inner = (columns, rows) if value.format == "csc" else (rows, columns)
    if len(pos) != outer + 1 or pos[0] != 0 or bool((pos[1:] < pos[:-1]).any()):
        raise _damaged("indptr", f"{outer + 1} numbers, of which the first is 0 and none below the one before it")
    count = int(pos[-1])
    if count > min(len(crd), len(held)):
        raise _damaged("indptr", f"positions up to {min(len(crd), len(held))}", last=count)
    need_inside("the indices", (inner,), (crd[:count],), count)
    if len(crd) == len(held) == count:
        return value
    return type(value)((held[:count], crd[:count], pos), shape=value.shape)


def _need_integers(name: str, array: object) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "i":
        raise _damaged(name, "an array of integers")


def _damaged(name: str, required: str, **numbers: int) -> ArrayError:
    return ArrayError(f"the {name} of the sparse matrix are damaged", required=required, numbers=numbers)


def from_scipy(form: Storage, value: Any) -> SparseTensor | None:
    """The tensor as scipy converts it, entries sorted and each coordinate once; None for what it does not convert."""
    kind = scipy_name(form)
    if not kind or len(value.shape) != 2:
        return None
    made = getattr(value, f"to{kind}")()
    if made is value:  # scipy remembers whether entries are sorted, and they may have changed since
        made = type(value)((value.data, value.indices, value.indptr), shape=value.shape)
    if not made.has_canonical_format:
        made = made.copy() if np.may_share_memory(made.data, getattr(value, "data", None)) else made
        made.sum_duplicates()
    outer, inner = form.view.extents(value.shape)
    count = int(made.indptr[-1])
    held = {"pos": made.indptr, "crd": made.indices[:count]}
    levels = (Metadata({}, (outer,), outer), narrowed(form, Metadata(held, (inner,), count)))
    return SparseTensor(form, value.shape, levels, np.ascontiguousarray(made.data[:count]))


def has_coordinates(form: Storage, rank: int) -> bool:
    """Whether a tensor of so many dimensions is held by the coordinates of its entries, in their order."""
    levels = form.levels(rank) if callable(form.levels) else form.levels
    return form.view == Same() and len(levels) == 1 and isinstance(levels[0], Compressed) and levels[0].dims == rank
