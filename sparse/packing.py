"""Conversion of call arguments to the arrays of a format, without a copy if they are already in that format."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from atl.core.dtypes import range_of
from atl.core.program import Unpacked
from atl.errors import ArrayError, ATLError, InvalidArgument, brief
from sparse.assembly import Rows
from sparse.conversion import convert
from sparse.errors import NotPackable
from sparse.scipy_interop import ArraysOf, coordinates_of, from_scipy, scipy_format, scipy_view, validated, zero_copy
from sparse.tensors import AnyArray, SparseTensor, cast_indices, encode, entries
from sparse.views import Storage


@dataclass(frozen=True)
class OperandConverter:
    """Converts an argument to the arrays of a format, for an operand with this name, dtype and rank."""

    format: Storage
    name: str
    dtype: str
    rank: int

    @cached_property
    def _zero_copy(self) -> tuple[str, ArraysOf]:
        return zero_copy(self.format, self.rank)

    @cached_property
    def _element(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @cached_property
    def _index(self) -> np.dtype[Any]:
        return np.dtype(self.format.index_dtype)

    def __call__(self, value: Any) -> Unpacked:
        """Return the arrays, in the order of the program's inputs, and the shape of the tensor.

        Raises `ArrayError` if the rank or the dtype differs, and the errors of `pack`.
        """
        form = getattr(value, "format", None)
        name, arrays_of = self._zero_copy
        if form == name:
            try:
                arrays, shape = arrays_of(value), value.shape
                if arrays is not None and len(shape) == self.rank:
                    matching = arrays if self._has_dtypes(arrays) else self._matching_arrays(arrays)
                    if matching is not None:
                        return matching, shape
            except AttributeError:  # not a scipy matrix: `pack` reports it
                pass
        self._check_rank(value)
        if form is self.format and type(value) is SparseTensor and value.values.dtype is self._element:
            return value.arrays, value.shape
        made = pack(value, self.format)
        if made.values.dtype != self._element:
            raise ArrayError(
                f"{self.name} has dtype {made.values.dtype}, not {self.dtype}",
                required=f"a tensor of {self.dtype}, in the format {self.format!r}",
                suggestions=(f"pass {self.name}.astype(np.{self.dtype})",),
            )
        return made.arrays, made.shape

    def _has_dtypes(self, arrays: tuple[AnyArray, ...]) -> bool:
        """Return whether arrays have the element types of the format."""
        index = self._index
        for each in arrays[:-1]:
            if each.dtype is not index:
                return False
        return arrays[-1].dtype is self._element

    def _check_rank(self, value: Any) -> None:
        """Raise `ArrayError` if the rank differs. `pack` refuses values without dimensions."""
        shape = getattr(value, "shape", ())
        if isinstance(value, list | tuple):
            with suppress(ValueError):  # for rows of different lengths, which `pack` refuses, too
                shape = np.shape(value)
        if isinstance(shape, tuple) and shape and len(shape) != self.rank:
            dimensions = "1 dimension" if len(shape) == 1 else f"{len(shape)} dimensions"
            raise ArrayError(
                f"{self.name} has {dimensions}, not {self.rank}: its shape is {shape}",
                required=f"a tensor of rank {self.rank}, in the format {self.format!r}",
            )

    def _matching_arrays(self, arrays: tuple[AnyArray, ...]) -> tuple[AnyArray, ...] | None:
        """Return the arrays with the index dtype of the format, converted if needed; None if `pack` must convert them.

        A sorted format is left to `pack` if a conversion is needed, so that one copy also sorts the entries.
        """
        *indices, values = arrays
        if values.dtype is not self._element or self.format.ordered:
            return None
        least, greatest = range_of(self.format.index_dtype)
        for each in indices:
            if each.dtype.kind != "i" or (each.size and not least <= each.min() <= each.max() <= greatest):
                return None
        return (*(each.astype(self._index, copy=False) for each in indices), values)

    def validation_cache(self, value: object) -> dict[object, object] | None:
        """Return the validation cache of a `SparseTensor` in this format; None for any other object."""
        if not isinstance(value, SparseTensor):
            return None
        return value.validation_cache if value.format is self.format or value.format == self.format else None

    def rebuild(self, operand: Any, arrays: Sequence[AnyArray], values: AnyArray) -> object:
        """Return a tensor with these values and the index arrays of `operand`, which are shared.

        The result is a `SparseTensor` if the operand is one or scipy lacks the format, otherwise a scipy.sparse array.
        """
        if not isinstance(operand, SparseTensor):
            name, arrays_of = self._zero_copy
            own = set(map(id, arrays_of(operand) or ())) if getattr(operand, "format", None) == name else set()
            # Arrays converted for this call are read-only, but in-place methods of scipy need writable arrays.
            held = [each if id(each) in own else np.require(each, requirements="W") for each in arrays[:-1]]
            made = scipy_view(self.format, np.shape(operand), (*held, values))
            if made is not None:
                return made
        return replace(pack(operand, self.format), values=values)


def pack(value: object, form: Storage) -> SparseTensor:
    """Convert a scipy.sparse matrix, a NumPy array or another sparse tensor to a format.

    The entries are the nonzero elements of a NumPy array, or all stored elements of a sparse matrix, including explicit
    zeros. Raises `NotPackable`, `FormatError`, `CapacityExceeded`.

    >>> import numpy as np
    >>> from sparse import CSR, pack
    >>> packed = pack(np.array([[0, 7], [5, 0]]), CSR)
    >>> [array.tolist() for array in packed.arrays]
    [[0, 1, 2], [1, 0], [7, 5]]
    """
    if not isinstance(form, Storage):
        raise InvalidArgument(f"{brief(form)} is not a sparse format", required="a format, such as CSR")
    if isinstance(value, SparseTensor):
        if value.format == form:
            return value
        if made := _convert_with_scipy(value, form):
            return made
        return convert(value, form, lambda: _by_numpy(value, form))
    if hasattr(value, "tocoo") and not isinstance(value, type):
        try:
            return _from_scipy_matrix(value, form)
        except ATLError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError) as error:  # scipy, for inconsistent arrays
            raise ArrayError(
                f"scipy cannot convert the sparse matrix: {brief(str(error))}",
                required="a valid scipy.sparse matrix",
            ) from error
    if isinstance(value, np.ma.MaskedArray):
        raise NotPackable(
            "a masked array cannot be packed: its mask would be lost",
            required="an array without a mask",
            suggestions=("call .filled(0) on it to replace the masked elements by zeros",),
        )
    try:
        held: AnyArray = np.asarray(value)
    except ValueError:  # rows of different lengths
        held = np.array(None)
    # NumPy's kind of bfloat16 is "V".
    if (held.dtype.kind not in "biuf" and held.dtype.name != "bfloat16") or not held.ndim:
        raise NotPackable(
            f"{brief(value, kind=True)} cannot be packed as {form!r}",
            required="a scipy.sparse matrix, a numeric array of rank 1 or more, or a SparseTensor",
        )
    at = np.nonzero(held)
    return encode(form, held.shape, at, held[at])


def _by_numpy(tensor: SparseTensor, form: Storage) -> SparseTensor:
    rows = Rows.of(tensor)
    levels = None if rows is None else rows.levels(form)
    if levels is not None:
        return SparseTensor(form, tensor.shape, tuple(cast_indices(form, m) for m in levels), tensor.values)
    coordinates, values = entries(tensor)
    return encode(form, tensor.shape, coordinates, values)


def _from_scipy_matrix(value: Any, form: Storage) -> SparseTensor:
    """Convert a scipy.sparse array or matrix to a format."""
    matrix = validated(value)
    if made := from_scipy(form, matrix):
        return made
    found = matrix.tocoo()
    return encode(form, tuple(int(n) for n in found.shape), coordinates_of(found), found.data)


def _convert_with_scipy(tensor: SparseTensor, form: Storage) -> SparseTensor | None:
    """Convert a matrix with scipy's counting sorts, which are faster; None if scipy does not support the formats."""
    numeric = tensor.values.dtype.kind in "if" and tensor.values.dtype.itemsize >= 4
    if not (
        len(tensor.shape) == 2
        and numeric
        and scipy_format(form, 2) in ("csr", "csc", "bsr")
        and scipy_format(tensor.format, 2) in ("csr", "csc", "coo")
    ):
        return None
    try:
        return from_scipy(form, validated(scipy_view(tensor.format, tensor.shape, tensor.arrays)))
    except ModuleNotFoundError:  # scipy is optional
        return None
