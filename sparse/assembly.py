"""Sparse tensors from the arrays of an assembled result: the bounds of its rows, the columns, and the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from sparse.levels import Compressed, Dense, Level, Metadata
from sparse.scipy_interop import (
    compressed_scipy_format,
    compressed_scipy_view,
    has_scipy_dtype,
    scipy_format,
    scipy_view,
)
from sparse.tensors import AnyArray, SparseTensor, cast_indices, encode
from sparse.views import Identity, Permuted, Storage


@dataclass(frozen=True)
class ResultMaker:
    """Makes a tensor in a format from assembled rows; `order` are the dimensions of the tensor, that of the rows first.

    For formats with dense rows or compressed levels, the arrays are those of the rows, or are made from them without
    sorting. Other formats encode the sorted coordinates of the entries.
    """

    format: Storage
    order: tuple[int, ...]

    def __call__(self, arrays: Sequence[AnyArray], shape: tuple[int, ...], /, *, in_scipy: bool) -> object:
        """Return a scipy.sparse array if requested and if scipy has the format and the type, else a `SparseTensor`."""
        in_scipy = in_scipy and has_scipy_dtype(arrays[2])
        if in_scipy and self._compressed:
            return compressed_scipy_view(self._compressed, shape, arrays)
        rows = Rows(self.order, shape, *arrays)
        native = rows.levels(self.format)
        if native is None:
            made = encode(self.format, shape, rows.coordinates(), rows.values)
            view = scipy_view(self.format, shape, _writable(made.arrays)) if in_scipy else None
            return made if view is None else view
        if in_scipy and scipy_format(self.format, len(shape)):
            index = self.format.index_dtype
            held = [array.astype(index, copy=False) for level in native for array in level.arrays.values()]
            return scipy_view(self.format, shape, (*held, rows.values))
        return SparseTensor(self.format, shape, tuple(cast_indices(self.format, m) for m in native), rows.values)

    @cached_property
    def _compressed(self) -> str:
        return compressed_scipy_format(self.format)


@dataclass(frozen=True)
class Rows:
    """Entries by row, as an assembled result stores them: the bounds of the rows, the columns, and the values.

    A column is the row-major number of the indices along the dimensions `order[1:]`. A tensor of one dimension is one
    row.
    """

    order: tuple[int, ...]
    shape: tuple[int, ...]
    pos: AnyArray
    crd: AnyArray
    values: AnyArray

    @classmethod
    def of(cls, tensor: SparseTensor) -> Rows | None:
        """Return the rows of a matrix in CSR or CSC; None for other formats, and if the columns do not increase."""
        if not compressed_scipy_format(tensor.format):
            return None
        pos, crd, values = tensor.arrays
        starts = pos[1:-1]
        increases = crd[1:] > crd[:-1]
        increases[starts[(starts > 0) & (starts < len(crd))] - 1] = True
        if pos[0] != 0 or pos[-1] != len(values) or not increases.all():
            return None
        return cls((1, 0) if isinstance(tensor.format.view, Permuted) else (0, 1), tensor.shape, pos, crd, values)

    def levels(self, form: Storage) -> list[Metadata] | None:
        """Return the levels of a format, without sorting; None if the rows do not determine them."""
        order = form.view.order if isinstance(form.view, Permuted) else tuple(range(len(self.shape)))
        if order != self.order or not is_read_off_rows(form, len(self.shape)):
            return None
        found = form.levels_of(self.shape)
        first, extents = found[0]
        if isinstance(first, Compressed) and first.dims == len(self.order):
            coordinates = [self.coordinates()[dimension] for dimension in self.order]
            return [Metadata(dict(zip(first.roles, coordinates, strict=True)), extents, len(self.values))]
        return self._fibres(first, [extents[0] for _, extents in found])

    def _fibres(self, first: Level, extents: Sequence[int]) -> list[Metadata]:
        """Return dense or compressed rows, and a compressed level for each other dimension."""
        starts = self.pos[:-1]
        if isinstance(first, Dense):
            made = [Metadata({}, (extents[0],), extents[0])]
        else:
            nonempty = self.nonempty
            starts = starts[nonempty]
            made = [Metadata({"crd": nonempty}, (extents[0],), len(nonempty))]
        end = len(self.crd)
        for number, extent in enumerate(extents[1:-1], 2):
            prefix = self.crd // max(1, prod(extents[number:]))
            is_new = np.ones(end, bool)
            np.not_equal(prefix[1:], prefix[:-1], out=is_new[1:])
            is_new[starts[starts < end]] = True
            fibres = np.flatnonzero(is_new)
            pos = _bounds(np.searchsorted(fibres, starts), len(fibres))
            made.append(Metadata({"pos": pos, "crd": prefix[fibres] % max(1, extent)}, (extent,), len(fibres)))
            starts = fibres
        crd = self.crd % max(1, extents[-1]) if len(extents) > 2 else self.crd
        return [*made, Metadata({"pos": _bounds(starts, end), "crd": crd}, (extents[-1],), end)]

    @cached_property
    def nonempty(self) -> AnyArray:
        """The numbers of the rows with entries."""
        return np.flatnonzero(self.pos[1:] != self.pos[:-1])

    def coordinates(self) -> list[AnyArray]:
        """Return the coordinates of the entries along each dimension of the tensor, sorted in the order of the rows."""
        first, *rest = self.order
        crd, held = self.crd, []
        for dimension in reversed(rest[1:]):
            crd, last = np.divmod(crd, max(1, self.shape[dimension]))
            held.append(last)
        held += [crd] if rest else []
        rows = crd
        if rest:  # most rows of a hypersparse matrix are empty
            nonempty = self.nonempty
            rows = np.repeat(nonempty.astype(self.pos.dtype), self.pos[nonempty + 1] - self.pos[nonempty])
        found = dict(zip((first, *rest), (rows, *reversed(held)), strict=True))
        return [found[dimension] for dimension in range(len(self.shape))]


def is_read_off_rows(form: Storage, rank: int) -> bool:
    """Return whether assembled rows determine the arrays of a format, without sorting.

    They do if it stores all coordinates of each entry, or rows that are dense or compressed, and then compressed
    levels.
    """
    if not isinstance(form.view, Identity | Permuted):
        return False
    first, *rest = (level for level, _ in form.levels_of((1,) * rank))
    if not rest:
        return type(first) is Compressed
    return (_is_plain(first) or first == Dense()) and all(_is_plain(level) for level in rest)


def _is_plain(level: Level) -> bool:
    """Return whether a level is compressed and stores one dimension, without duplicates."""
    return type(level) is Compressed and level.dims == 1 and level.unique


def _bounds(starts: AnyArray, end: int) -> AnyArray:
    return np.append(starts, starts.dtype.type(end))


def _writable(arrays: Sequence[AnyArray]) -> list[Any]:
    """Return the arrays, with copies of those that are read-only: in-place methods of scipy need writable arrays."""
    return [np.require(each, requirements="W") for each in arrays]
