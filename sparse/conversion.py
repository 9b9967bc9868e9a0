"""Conversions between formats by kernels: the identity program of two formats, with an assembled result.

Making a kernel takes about as long as converting some million entries by NumPy. So a conversion is compiled once NumPy
has spent this time on it in the process. If the kernel is faster, the total time is then at most about twice that of
the better choice. A failed compilation is not repeated, and NumPy converts instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from time import perf_counter
from typing import Any, Final

import numpy as np

from atl.errors import ATLError
from atl.surface.operators import gen, sizes
from atl.surface.program import program, tensor
from atl.surface.values import Tensor
from rewrites.session.session import reschedule
from sparse.assembly import is_read_off_rows
from sparse.scipy_interop import compressed_scipy_format
from sparse.tensors import AnyArray, SparseTensor
from sparse.views import Storage

SECONDS: Final = 1.0
"""Time that NumPy spends on a conversion before it is compiled."""
DTYPES: Final = ("float32", "float64", "int32", "int64")
"""Element types of kernels."""
ELEMENTS_OF_ENTRY: Final = 2**14
"""Maximum number of elements for each entry, if rows have several dimensions.

A row's workspace has an element at each position, so this limits its size for each entry of an average row. The number
is an estimate.
"""


@dataclass(frozen=True)
class Conversion:
    """A conversion from one format to another one, of tensors with this rank and dtype."""

    source: Storage
    target: Storage
    rank: int
    dtype: str


_SPENT: dict[Conversion, float] = {}
_KERNELS: dict[Conversion, Callable[[object], object] | None] = {}


def convert(tensor: SparseTensor, form: Storage, by_numpy: Callable[[], SparseTensor]) -> SparseTensor:
    """Convert a tensor by a kernel if it exists or is worth compiling, otherwise by NumPy.

    Both store the same bits: the entries are sorted, and duplicates are summed in the order of storage. A kernel adds
    each value to zero, which turns -0.0 into 0.0, so NumPy converts tensors that contain it.
    """
    conversion = Conversion(tensor.format, form, len(tensor.shape), tensor.values.dtype.name)
    try:
        supported = _is_supported(conversion, tensor) and not _has_negative_zeros(tensor.values)
        made = _by_kernel(conversion, tensor) if supported else None
    except TypeError:  # a user's format that cannot be hashed
        return by_numpy()
    if made is not None:
        return made
    begun = perf_counter()
    made = by_numpy()
    _SPENT[conversion] = _SPENT.get(conversion, 0.0) + perf_counter() - begun
    return made


def _is_supported(conversion: Conversion, tensor: SparseTensor) -> bool:
    hash(conversion)
    few_columns = conversion.rank <= 2 or prod(tensor.shape) <= ELEMENTS_OF_ENTRY * len(tensor.values)
    return (
        conversion.dtype in DTYPES
        and few_columns
        and all(level.unique for level, _ in conversion.target.levels_of(tensor.shape))
        and all(is_read_off_rows(form, conversion.rank) for form in (conversion.source, conversion.target))
    )


def _has_negative_zeros(values: AnyArray) -> bool:
    return values.dtype.kind == "f" and bool(np.signbit(values[values == 0]).any())


def _by_kernel(conversion: Conversion, tensor: SparseTensor) -> SparseTensor | None:
    """Return the result of a kernel; None if there is none, or it refuses the tensor."""
    try:
        if conversion not in _KERNELS and _SPENT.get(conversion, 0.0) >= SECONDS:
            _KERNELS[conversion] = None
            _KERNELS[conversion] = _kernel(conversion)
        kernel = _KERNELS.get(conversion)
        if kernel is None:
            return None
        made = kernel(tensor)
    except ATLError:  # no compiler, too little memory, or an index does not fit: NumPy converts, or reports it
        return None
    assert isinstance(made, SparseTensor)
    return made if made.format == conversion.target else replace(made, format=conversion.target)


def _kernel(conversion: Conversion) -> Callable[[object], object]:
    """Compile the identity program."""
    extents = [sizes(f"n{k}") for k in range(conversion.rank)]
    operand = tensor("A", *extents, dtype=conversion.dtype)
    s = reschedule(program("converted", [operand], _elements(operand, extents, ())))
    source: Any = conversion.source
    target: Any = conversion.target
    # `pack` sorts the entries of formats that need not be sorted, too.
    target = target.sorted() if compressed_scipy_format(target) else target
    kernel: Callable[[object], object] = s.sparsify("A", source).assemble(target).compile()
    return kernel


def _elements(operand: Tensor, extents: Sequence[Any], at: tuple[Any, ...]) -> Tensor:
    if len(at) == len(extents):
        return operand[at]
    return gen(extents[len(at)], lambda i: _elements(operand, extents, (*at, i)))
