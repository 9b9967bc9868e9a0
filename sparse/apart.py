"""What may be passed for a packed operand: made into the arrays of its format, without a copy where it is in it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from atl.core.program import Apart as Parts
from atl.errors import brief
from sparse.errors import NotSparse
from sparse.levels import Compressed, Dense
from sparse.storage import Storage
from sparse.tensors import AnyArray, SparseTensor, encoded, entries
from sparse.views import Permuted, Same


@dataclass(frozen=True)
class Apart:
    """Takes an object apart into the arrays of a format, for an operand of this name, element type and rank."""

    format: Storage
    name: str
    dtype: str
    rank: int

    @cached_property
    def _scipy(self) -> str:
        """What scipy calls a matrix in this format, if its arrays are those of the format as they are."""
        if self.format.levels != (Dense(), Compressed()):
            return ""
        return {Same(): "csr", Permuted((1, 0)): "csc"}.get(self.format.view, "")

    @cached_property
    def _index(self) -> np.dtype[Any]:
        return np.dtype(self.format.index)

    def __call__(self, value: Any) -> Parts:
        """The arrays, in the order of the program's inputs, and the shape of the tensor."""
        if isinstance(value, SparseTensor):
            if value.format == self.format:
                return value.arrays, value.shape
        elif getattr(value, "format", None) == self._scipy:
            pos, crd = value.indptr, value.indices
            if pos.dtype is self._index and crd.dtype is self._index:
                return (pos, crd, value.data), value.shape
        made = pack(value, self.format)
        return made.arrays, made.shape


def pack(value: object, form: Storage) -> SparseTensor:
    """A tensor in a format: from an array or matrix of scipy.sparse, from NumPy's, or from another sparse tensor.

    Of a NumPy array the elements that are not zero are entries; of a sparse one all that it stores, zeros too. Raises
    `NotSparse`, `FormatError`, `NoSpace`.

    >>> import numpy as np
    >>> from sparse import CSR, pack
    >>> packed = pack(np.array([[0, 7], [5, 0]]), CSR)
    >>> [array.tolist() for array in packed.arrays]
    [[0, 1, 2], [1, 0], [7, 5]]
    """
    if isinstance(value, SparseTensor):
        if value.format == form:
            return value
        coordinates, values = entries(value)
        return encoded(form, value.shape, coordinates, values)
    if hasattr(value, "tocoo"):
        found: Any = value.tocoo()
        return encoded(form, tuple(int(n) for n in found.shape), _coordinates(found), found.data)
    held: AnyArray = np.asarray(value)
    if held.dtype.kind not in "biuf":
        raise NotSparse(
            f"{brief(value, kind=True)} cannot be packed as {form!r}",
            required="an array or matrix of scipy.sparse, an array of numbers, or what sparse.pack gives",
        )
    at = np.nonzero(held)
    return encoded(form, held.shape, at, held[at])


def _coordinates(found: Any) -> tuple[AnyArray, ...]:
    """The arrays of coordinates of scipy's coordinate format, of arrays and of matrices."""
    coordinates = getattr(found, "coords", None)
    return (found.row, found.col) if coordinates is None else tuple(coordinates)
