"""Sparse tensors from the arrays of an assembled result: the bounds of its rows, the columns, and the values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from sparse.levels import Metadata
from sparse.scipy_interop import compressed_scipy_format, compressed_scipy_view, scipy_view
from sparse.tensors import AnyArray, SparseTensor, cast_indices, encode
from sparse.views import Storage


@dataclass(frozen=True)
class ResultMaker:
    """Makes a tensor in a format from assembled rows; `order` are the dimensions of the tensor, that of the rows first.

    Compressed rows are used as they are. Other formats encode the coordinates of the entries, which are sorted.
    """

    format: Storage
    order: tuple[int, ...]

    def __call__(self, arrays: Sequence[AnyArray], shape: tuple[int, ...], /, *, in_scipy: bool) -> object:
        """Return a scipy.sparse array if requested and if scipy has the format, otherwise a `SparseTensor`."""
        pos, crd, values = arrays
        if self._compressed:
            if in_scipy:
                return compressed_scipy_view(self._compressed, shape, arrays)
            rows, columns = self.format.view.extents(shape)
            held = Metadata({"pos": pos, "crd": crd}, (columns,), len(crd))
            return SparseTensor(
                self.format, shape, (Metadata({}, (rows,), rows), cast_indices(self.format, held)), values
            )
        made = encode(self.format, shape, self._coordinates(pos, crd, shape), values)
        view = scipy_view(self.format, shape, _writable(made.arrays)) if in_scipy else None
        return made if view is None else view

    @cached_property
    def _compressed(self) -> str:
        return compressed_scipy_format(self.format)

    def _coordinates(self, pos: AnyArray, crd: AnyArray, shape: tuple[int, ...]) -> list[AnyArray]:
        """Return the coordinates of the entries along each dimension of the tensor."""
        first, *rest = self.order
        held: list[AnyArray] = []
        for dimension in reversed(rest[1:]):
            crd, last = np.divmod(crd, max(1, shape[dimension]))
            held.append(last)
        held += [crd] if rest else []
        rows = np.repeat(np.arange(len(pos) - 1), np.diff(pos)) if rest else crd
        found = dict(zip((first, *rest), (rows, *reversed(held)), strict=True))
        return [np.asarray(found[dimension], np.int64) for dimension in range(len(shape))]


def _writable(arrays: Sequence[AnyArray]) -> list[Any]:
    """Return the arrays, with copies of those that are read-only: in-place methods of scipy need writable arrays."""
    return [np.require(each, requirements="W") for each in arrays]
