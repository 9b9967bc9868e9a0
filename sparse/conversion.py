"""Conversion of sparse tensors: compression, decompression (§7.5), scipy.sparse, and decompression as a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import atl
from atl.core.dtypes import DEFAULT
from atl.core.node import is_position
from atl.core.program import Program
from atl.core.terms import Input
from atl.errors import InvalidArgument, brief
from sparse.formats import Format
from sparse.packing import pack
from sparse.scipy_interop import scipy_view
from sparse.tensors import AnyArray, SparseTensor, check_sparse_tensor, entries, to_dense


def compress(form: Format, tensor: object) -> SparseTensor:
    """Convert a tensor to a format; the same as `pack(tensor, form)`.

    >>> import numpy as np
    >>> from sparse import CSC, compress, decompress
    >>> decompress(compress(CSC, np.array([[0, 7], [5, 0]])))
    array([[0, 7],
           [5, 0]])
    """
    return pack(tensor, form)


def decompress(tensor: SparseTensor) -> AnyArray:
    """Return the tensor as a dense array; entries with equal coordinates are summed.

    Law: decompress(compress(form, t)) = t if the format can store t (DECOMPRESSCOMPRESS, §7.5.3).
    """
    return to_dense(tensor)


def to_scipy(tensor: SparseTensor) -> Any:
    """Convert to a scipy.sparse array: without a copy if scipy supports the format, otherwise as coordinates.

    scipy supports CSR, CSC, COO, DIA, and BCSR if the block sizes divide the extents.

    >>> import numpy as np
    >>> from sparse import CSR, pack, to_scipy
    >>> to_scipy(pack(np.eye(2), CSR)).indices
    array([0, 1], dtype=int32)
    """
    import scipy.sparse

    check_sparse_tensor(tensor)
    made = scipy_view(tensor.format, tensor.shape, tensor.arrays)
    if made is not None:
        return made
    coordinates, values = entries(tensor)
    return scipy.sparse.coo_array((values, tuple(coordinates)), shape=tensor.shape)


def meaning(form: Format, rank: int, *, dtype: str = DEFAULT) -> Program:
    """Return a program from the arrays of a format to the tensor that they represent, as used in theorems.

    >>> from sparse import COO
    >>> meaning(COO, 1)
    meaning (A_crd : int32[A_nnz] in [0, n0), A_val : float32[A_nnz]) : float32[n0] :=
      Σ[p < A_nnz] place n0 A_crd[p] A_val[p]
    """
    if not isinstance(form, Format) or not is_position(rank):
        raise InvalidArgument(f"meaning({brief(form)}, {brief(rank)})", required="a format, such as CSR, and a rank")
    whole = atl.tensor("A", *(atl.sizes(f"n{k}") for k in range(rank)), dtype=dtype).node
    assert isinstance(whole, Input)
    operand = form.operand(whole.array, ())
    inputs = [atl.Tensor(Input(array)) for array in operand.inputs]
    return replace(atl.program("meaning", inputs, atl.Tensor(operand.meaning)), packed=(operand.packed,))
