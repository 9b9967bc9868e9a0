"""Which formats scipy.sparse has too, with the same arrays: what is passed on either way is not copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparse.levels import Compressed, Dense, Metadata
from sparse.storage import Storage
from sparse.tensors import AnyArray, SparseTensor, narrowed
from sparse.views import Blocked, Diagonals, Permuted, Same

COMPRESSED = (Dense(), Compressed())
BLOCKS = (Dense(), Compressed(), Dense(), Dense())
DIAGONALS = (Compressed(), Dense())


def scipy_name(form: Storage) -> str:
    """What scipy calls a matrix in this format, if its arrays are those of the format as they are; else nothing."""
    if form.levels == COMPRESSED:
        return {Same(): "csr", Permuted((1, 0)): "csc"}.get(form.view, "")
    return ""


def in_scipy(form: Storage, shape: tuple[int, ...], arrays: Sequence[AnyArray]) -> Any:
    """The tensor as an array of scipy.sparse that shares these arrays; None where scipy has no such format.

    Blocks must divide the sizes: scipy has none that hang over the edge.
    """
    import scipy.sparse as sp

    kind = scipy_name(form)
    if kind:
        pos, crd, values = arrays
        return getattr(sp, f"{kind}_array")((values, crd, pos), shape=shape)
    if form.view == Same() and len(arrays) == len(shape) + 1 and _is_coordinates(form, len(shape)):
        return sp.coo_array((arrays[-1], tuple(arrays[:-1])), shape=shape)
    if isinstance(form.view, Blocked) and form.levels == BLOCKS:
        by = form.view.by
        if any(extent % size for extent, size in zip(shape, by, strict=True)):
            return None
        pos, crd, values = arrays
        return sp.bsr_array((values.reshape(-1, *by), crd, pos), shape=shape)
    if isinstance(form.view, Diagonals) and form.levels == DIAGONALS:
        crd, values = arrays
        return sp.dia_array((values.reshape(len(crd), shape[1]), crd - (shape[0] - 1)), shape=shape)
    return None


def from_scipy(form: Storage, value: Any) -> SparseTensor | None:
    """The tensor as scipy converts it, entries sorted and each coordinate once; None for what it does not convert."""
    kind = scipy_name(form)
    if not kind or len(value.shape) != 2:
        return None
    made = getattr(value, f"to{kind}")()
    if not made.has_canonical_format:
        made = made.copy() if made is value else made
        made.sum_duplicates()
    outer, inner = form.view.extents(value.shape)
    count = int(made.indptr[-1])
    held = {"pos": made.indptr, "crd": made.indices[:count]}
    levels = (Metadata({}, (outer,), outer), narrowed(form, Metadata(held, (inner,), count)))
    return SparseTensor(form, value.shape, levels, np.ascontiguousarray(made.data[:count]))


def _is_coordinates(form: Storage, rank: int) -> bool:
    levels = form.levels(rank) if callable(form.levels) else form.levels
    return len(levels) == 1 and isinstance(levels[0], Compressed) and levels[0].dims == rank
