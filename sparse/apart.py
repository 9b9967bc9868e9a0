"""What may be passed for a packed operand: made into the arrays of its format, without a copy where it is in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from atl.core.dtypes import range_of
from atl.core.program import Apart as Parts
from atl.errors import ArrayError, ATLError, WrongArgument, brief
from sparse.errors import NotSparse
from sparse.in_scipy import Shared, coordinates_of, from_scipy, has_coordinates, in_scipy, scipy_name, shared, sound
from sparse.storage import Storage
from sparse.tensors import AnyArray, SparseTensor, encoded, entries


@dataclass(frozen=True)
class Apart:
    """Takes an object apart into the arrays of a format, for an operand of this name, element type and rank."""

    format: Storage
    name: str
    dtype: str
    rank: int

    @cached_property
    def _shared(self) -> tuple[str, Shared]:
        return shared(self.format, self.rank)

    @cached_property
    def _element(self) -> np.dtype[Any]:
        return np.dtype(self.dtype)

    @cached_property
    def _index(self) -> np.dtype[Any]:
        return np.dtype(self.format.index)

    def __call__(self, value: Any) -> Parts:
        """The arrays, in the order of the program's inputs, and the shape of the tensor.

        Raises `ArrayError` for elements of another type, and what `pack` raises.
        """
        form = getattr(value, "format", None)
        if form is self.format and type(value) is SparseTensor and value.values.dtype is self._element:
            return value.arrays, value.shape
        name, arrays_of = self._shared
        if form == name and len(shape := value.shape) == self.rank:
            try:
                arrays = arrays_of(value)
                if arrays is not None and (fitting := self._fitting(arrays)) is not None:
                    return fitting, shape
            except AttributeError:  # no arrays: `pack` says so
                pass
        made = pack(value, self.format)
        if made.values.dtype != self._element:
            raise ArrayError(
                f"the elements of {self.name} are {made.values.dtype}, not {self.dtype}",
                required=f"{self.name}: {self.dtype}, in the format {self.format!r}",
                suggestions=(f"pass {self.name}.astype(np.{self.dtype})",),
            )
        return made.arrays, made.shape

    def _fitting(self, arrays: tuple[AnyArray, ...]) -> tuple[AnyArray, ...] | None:
        """The arrays with indices of the format's type, copied only where they are of another one; None if none fit.

        Where the format is in order, what is copied anyway is better sorted too: by `pack`.
        """
        *indices, values = arrays
        if values.dtype is not self._element:
            return None
        if all(each.dtype is self._index for each in indices):
            return arrays
        if self.format.ordered:
            return None
        least, greatest = range_of(self.format.index)
        for each in indices:
            if each.dtype.kind != "i" or (each.size and not least <= each.min() <= each.max() <= greatest):
                return None
        return (*(each.astype(self._index, copy=False) for each in indices), values)

    def known(self, value: object) -> dict[object, object] | None:
        """Where to note what is known of a tensor whose indices do not change, as those of a `SparseTensor` in this
        format; None for any other object.
        """
        if not isinstance(value, SparseTensor):
            return None
        return value.known if value.format is self.format or value.format == self.format else None

    def together(self, operand: Any, arrays: Sequence[AnyArray], values: AnyArray) -> object:
        """The tensor of these values with the other arrays of an operand, which are shared and not copied.

        An array of scipy.sparse where scipy has the format, else a `SparseTensor`; of a `SparseTensor` always one.
        """
        if not isinstance(operand, SparseTensor):
            name, arrays_of = self._shared
            own = set(map(id, arrays_of(operand) or ())) if getattr(operand, "format", None) == name else set()
            # What was made for this call is read-only, and what scipy does to a matrix in its place would be refused.
            held = [each if id(each) in own else np.require(each, requirements="W") for each in arrays[:-1]]
            made = in_scipy(self.format, np.shape(operand), (*held, values))
            if made is not None:
                return made
        return replace(pack(operand, self.format), values=values)


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
    if not isinstance(form, Storage):
        raise WrongArgument(f"{brief(form)} is no format", required="a format, such as CSR")
    if isinstance(value, SparseTensor):
        if value.format == form:
            return value
        if made := _by_scipy(value, form):
            return made
        coordinates, values = entries(value)
        return encoded(form, value.shape, coordinates, values)
    if hasattr(value, "tocoo") and not isinstance(value, type):
        try:
            return _converted(value, form)
        except ATLError:
            raise
        except (TypeError, ValueError, AttributeError, IndexError) as error:  # scipy's, of arrays that are none of its
            raise ArrayError(
                f"scipy cannot convert the sparse matrix: {brief(str(error))}",
                required="a matrix whose arrays are as scipy makes them",
            ) from error
    if isinstance(value, np.ma.MaskedArray):
        raise NotSparse(
            "a masked array cannot be packed: its mask would be lost",
            required="an array without a mask",
            suggestions=("pass .filled(0) of it to have zeros at the masked elements",),
        )
    try:
        held: AnyArray = np.asarray(value)
    except ValueError:  # rows of unlike lengths
        held = np.array(None)
    if held.dtype.kind not in "biuf" or not held.ndim:
        raise NotSparse(
            f"{brief(value, kind=True)} cannot be packed as {form!r}",
            required="a matrix of scipy.sparse, an array of numbers with dimensions, or what sparse.pack gives",
        )
    at = np.nonzero(held)
    return encoded(form, held.shape, at, held[at])


def _converted(value: Any, form: Storage) -> SparseTensor:
    """An array or matrix of scipy.sparse in a format."""
    matrix = sound(value)
    if made := from_scipy(form, matrix):
        return made
    found = matrix.tocoo()
    return encoded(form, tuple(int(n) for n in found.shape), coordinates_of(found), found.data)


def _by_scipy(tensor: SparseTensor, form: Storage) -> SparseTensor | None:
    """A matrix by its coordinates as scipy converts it, which counts where we sort; None for what is left to us."""
    of_numbers = tensor.values.dtype.kind in "if" and tensor.values.dtype.itemsize >= 4
    if not (len(tensor.shape) == 2 and of_numbers and scipy_name(form) and has_coordinates(tensor.format, 2)):
        return None
    try:
        return from_scipy(form, sound(in_scipy(tensor.format, tensor.shape, tensor.arrays)))
    except ModuleNotFoundError:  # an extra
        return None
