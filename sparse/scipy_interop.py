"""Conversion from and to scipy.sparse, without a copy for the formats that both libraries store in the same arrays.

Only the numbers of diagonals are converted: scipy counts from the main diagonal, ATL from the lower left corner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeAlias

import numpy as np

from atl.core.dtypes import range_of
from atl.errors import ArrayError
from sparse.levels import Compressed, Dense, Metadata
from sparse.tensors import AnyArray, SparseTensor, cast_indices, check_coordinates, sort_order
from sparse.views import Blocked, Diagonals, Identity, Permuted, Storage

COMPRESSED = (Dense(), Compressed())
BLOCKS = (Dense(), Compressed(), Dense(), Dense())
DIAGONALS = (Compressed(), Dense())


def compressed_scipy_format(form: Storage) -> str:
    """Return "csr" or "csc" if the format is one of these, otherwise the empty string."""
    if form.levels == COMPRESSED:
        return {Identity(): "csr", Permuted((1, 0)): "csc"}.get(form.view, "")
    return ""


def scipy_format(form: Storage, rank: int) -> str:
    """Return scipy's name of the format for tensors of this rank, or the empty string."""
    if name := compressed_scipy_format(form):
        return name
    if is_coordinate_format(form, rank):
        return "coo"
    if form.levels == BLOCKS and isinstance(form.view, Blocked):
        return "bsr"
    return "dia" if form.levels == DIAGONALS and isinstance(form.view, Diagonals) else ""


def has_scipy_dtype(values: AnyArray) -> bool:
    """Return whether scipy.sparse has matrices of this element type: it has no floats of 16 bits."""
    kind = values.dtype
    return kind.itemsize != 2 or kind.kind not in "fV"


ArraysOf: TypeAlias = Callable[[Any], tuple[AnyArray, ...] | None]
"""Returns the arrays of a scipy matrix as those of a format, without a copy; None if that is impossible."""


def zero_copy(form: Storage, rank: int) -> tuple[str, ArraysOf]:
    """Return scipy's name of the format and a function that returns the arrays of such a matrix without a copy.

    The name is empty if scipy has no such format. Entries may be unsorted and duplicated.
    """
    kind = scipy_format(form, rank)
    if kind in ("csr", "csc"):
        return kind, _csr_arrays
    if form.ordered:  # `pack` sorts the entries; unsorted arrays would be refused
        return "", _no_arrays
    if kind == "coo" and not form.levels_of((0,) * rank)[0][0].unique:
        return kind, _coo_arrays
    if isinstance(form.view, Blocked) and kind == "bsr":
        return kind, partial(_bsr_arrays, form.view.by)
    if kind == "dia":
        return kind, partial(_dia_arrays, np.dtype(form.index_dtype), range_of(form.index_dtype)[1])
    return "", _no_arrays


def _no_arrays(_: object) -> None:
    return None


def _csr_arrays(value: Any) -> tuple[AnyArray, ...]:
    return value.indptr, value.indices, value.data


def _coo_arrays(value: Any) -> tuple[AnyArray, ...]:
    return (*coordinates_of(value), value.data)


def _bsr_arrays(by: tuple[int, ...], value: Any) -> tuple[AnyArray, ...] | None:
    return (value.indptr, value.indices, value.data.reshape(-1)) if value.data.shape[1:] == by else None


def _dia_arrays(index: np.dtype[Any], most: int, value: Any) -> tuple[AnyArray, ...] | None:
    """Return None if a diagonal is out of bounds or stored in part, or its number may overflow the index dtype."""
    rows, columns = value.shape
    if value.offsets.dtype.kind != "i" or value.data.shape != (len(value.offsets), columns):
        return None
    offsets = value.offsets.tolist()  # for so few numbers a list is faster than NumPy
    if (offsets and not -rows < min(offsets) <= max(offsets) < columns) or rows + columns > most:
        return None
    return np.add(value.offsets, rows - 1, dtype=index), value.data.reshape(-1)


def scipy_view(form: Storage, shape: tuple[int, ...], arrays: Sequence[AnyArray]) -> Any:
    """Return a scipy.sparse array that shares these arrays; None if scipy lacks the format.

    Block sizes must divide the extents, because scipy has no partial blocks.
    """
    import scipy.sparse as sp

    kind = scipy_format(form, len(shape))
    if kind in ("csr", "csc"):
        return compressed_scipy_view(kind, shape, arrays)
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


def compressed_scipy_view(kind: str, shape: tuple[int, ...], arrays: Sequence[AnyArray]) -> Any:
    """Return a csr or csc array that shares these arrays, which are consistent.

    scipy's constructor takes longer than a product of small matrices. So an empty array of the same shape is copied,
    unless scipy would choose other integers for the indices.
    """
    import scipy.sparse as sp

    pos, crd, values = arrays
    if not pos.dtype == crd.dtype == np.int32 or max(shape) > range_of("int32")[1]:
        return getattr(sp, f"{kind}_array")((values, crd, pos), shape=shape)
    empty = _empty_scipy_array(kind, shape)
    made = object.__new__(type(empty))  # copy.copy takes longer
    made.__dict__.update(empty.__dict__)
    made.indptr, made.indices, made.data = pos, crd, values
    return made


@lru_cache(maxsize=64)
def _empty_scipy_array(kind: str, shape: tuple[int, ...]) -> Any:
    """Return a csr or csc array without entries and without bounds of rows, to be copied."""
    import scipy.sparse as sp

    made = getattr(sp, f"{kind}_array")(shape)
    made.indptr = made.indices
    return made


def validated(value: Any) -> Any:
    """Return a scipy.sparse array that scipy can convert safely; raise `ArrayError` if its arrays are inconsistent.

    scipy's conversions do not validate indices, and write out of bounds if an index is invalid. Formats other than csr,
    csc, bsr, coo and dia are converted to csr. Unused capacity and diagonals out of bounds are dropped.
    """
    if getattr(value, "format", "") not in ("csr", "csc", "bsr", "coo", "dia"):
        value = value.tocsr() if hasattr(value, "tocsr") else value.tocoo()
    if value.format == "coo":
        coordinates = coordinates_of(value)
        if len(coordinates) != len(value.shape):
            raise _invalid("coordinates", "one array for each dimension")
        for each in coordinates:
            _check_integers("coordinates", each)
        check_coordinates("the coordinates", value.shape, coordinates, len(value.data))
    elif value.format == "dia":
        return _validated_diagonals(value)
    else:
        return _validated_compressed(value)
    return value


def coordinates_of(value: Any) -> tuple[AnyArray, ...]:
    """Return the coordinate arrays of a scipy coo array or coo matrix."""
    coordinates = getattr(value, "coords", None)
    return (value.row, value.col) if coordinates is None else tuple(coordinates)


def _validated_diagonals(value: Any) -> Any:
    """Return a dia matrix without diagonals out of bounds, whose offsets scipy would truncate to fewer bits.

    Raises `ArrayError` if the offsets are invalid.
    """
    offsets, held = value.offsets, value.data
    _check_integers("offsets", offsets)
    if np.ndim(held) != 2 or len(held) != len(offsets) or len(np.unique(offsets)) < len(offsets):
        raise _invalid("offsets", "one for each row of data, all distinct")
    rows, columns = value.shape
    in_bounds = (offsets > -rows) & (offsets < columns)
    if in_bounds.all():
        return value
    return type(value)((held[in_bounds], offsets[in_bounds]), shape=value.shape)


def _validated_compressed(value: Any) -> Any:
    """Return a csr, csc or bsr matrix whose arrays contain its entries and no unused capacity.

    Raises `ArrayError` if the arrays are inconsistent.
    """
    pos, crd, held = value.indptr, value.indices, value.data
    _check_integers("indptr", pos)
    _check_integers("indices", crd)
    by = held.shape[1:] if value.format == "bsr" else (1, 1)
    rows, columns = (extent // size for extent, size in zip((1, *value.shape)[-2:], by, strict=True))
    outer, inner = (columns, rows) if value.format == "csc" else (rows, columns)
    if len(pos) != outer + 1 or pos[0] != 0 or bool((pos[1:] < pos[:-1]).any()):
        raise _invalid("indptr", f"{outer + 1} nondecreasing integers, starting at 0")
    count = int(pos[-1])
    if count > min(len(crd), len(held)):
        raise _invalid("indptr", f"positions up to {min(len(crd), len(held))}", last=count)
    check_coordinates("the indices", (inner,), (crd[:count],), count)
    if len(crd) == len(held) == count:
        return value
    return type(value)((held[:count], crd[:count], pos), shape=value.shape)


def _check_integers(name: str, array: object) -> None:
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind != "i":
        raise _invalid(name, "an array of integers")


def _invalid(name: str, required: str, **numbers: int) -> ArrayError:
    return ArrayError(f"the {name} of the sparse matrix are invalid", required=required, numbers=numbers)


def from_scipy(form: Storage, value: Any) -> SparseTensor | None:
    """Convert with scipy, sorting the entries and summing duplicates; None if scipy lacks the format."""
    if len(value.shape) == 2 and scipy_format(form, 2) == "bsr":
        return _blocks_from_scipy(form, value)
    kind = compressed_scipy_format(form)
    if not kind or len(value.shape) != 2:
        return None
    made = getattr(value, f"to{kind}")()
    if made is value:  # scipy caches whether entries are sorted, and they may have changed since
        made = type(value)((value.data, value.indices, value.indptr), shape=value.shape)
    if not made.has_canonical_format:
        made = made.copy() if np.may_share_memory(made.data, getattr(value, "data", None)) else made
        made.sum_duplicates()
    outer, inner = form.view.extents(value.shape)
    count = int(made.indptr[-1])
    held = {"pos": made.indptr, "crd": made.indices[:count]}
    levels = (Metadata({}, (outer,), outer), cast_indices(form, Metadata(held, (inner,), count)))
    return SparseTensor(form, value.shape, levels, np.ascontiguousarray(made.data[:count]))


def _blocks_from_scipy(form: Storage, value: Any) -> SparseTensor | None:
    """Convert to sorted blocks with scipy; None if the block sizes do not divide the extents."""
    assert isinstance(form.view, Blocked)
    by = form.view.by
    if value.data.dtype.kind not in "if" or any(n % size for n, size in zip(value.shape, by, strict=True)):
        return None
    made = value.tocsr().tobsr(by)
    count = int(made.indptr[-1])
    (rows, columns, *_) = form.view.extents(value.shape)
    crd, blocks = made.indices[:count], made.data[:count]
    if not made.has_sorted_indices:  # the blocks are distinct
        order = sort_order((rows, columns), (np.repeat(np.arange(rows), np.diff(made.indptr)), crd))
        crd, blocks = crd[order], blocks[order]
    held = Metadata({"pos": made.indptr, "crd": crd}, (columns,), count)
    within = [Metadata({}, (by[k],), count * by[0] * (by[1] if k else 1)) for k in range(2)]
    levels = (Metadata({}, (rows,), rows), cast_indices(form, held), *within)
    return SparseTensor(form, value.shape, levels, np.ascontiguousarray(blocks).reshape(-1))


def is_coordinate_format(form: Storage, rank: int) -> bool:
    """Return whether the format stores all coordinates of each entry, in the order of the dimensions."""
    levels = form.levels(rank) if callable(form.levels) else form.levels
    return form.view == Identity() and len(levels) == 1 and isinstance(levels[0], Compressed) and levels[0].dims == rank
