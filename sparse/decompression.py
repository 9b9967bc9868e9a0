"""Compression and decompression by their names (§7.5), and decompression as a program."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import atl
from atl.core.dtypes import DEFAULT
from atl.core.node import is_position
from atl.core.program import Program
from atl.core.terms import Input
from atl.errors import WrongArgument, brief
from sparse.apart import pack
from sparse.formats import Format
from sparse.in_scipy import in_scipy
from sparse.tensors import AnyArray, SparseTensor, dense, entries, need_sparse


def compress(form: Format, tensor: object) -> SparseTensor:
    """The arrays of a tensor in a format; `pack(tensor, form)` says what may be given.

    >>> import numpy as np
    >>> from sparse import CSC, compress, decompress
    >>> decompress(compress(CSC, np.array([[0, 7], [5, 0]])))
    array([[0, 7],
           [5, 0]])
    """
    return pack(tensor, form)


def decompress(tensor: SparseTensor) -> AnyArray:
    """The tensor that the arrays stand for, as a dense array: each entry added where it belongs.

    decompress(compress(form, t)) = t, for every format in which t has room (DECOMPRESSCOMPRESS, §7.5.3).
    """
    return dense(tensor)


def to_scipy(tensor: SparseTensor) -> Any:
    """The tensor as an array of scipy.sparse: in its own format without a copy where scipy has that, else coordinates.

    scipy has CSR, CSC, COO, DIA, and BCSR of blocks that divide the sizes.

    >>> import numpy as np
    >>> from sparse import CSR, pack, to_scipy
    >>> to_scipy(pack(np.eye(2), CSR)).indices
    array([0, 1], dtype=int32)
    """
    import scipy.sparse

    need_sparse(tensor)
    made = in_scipy(tensor.format, tensor.shape, tensor.arrays)
    if made is not None:
        return made
    coordinates, values = entries(tensor)
    return scipy.sparse.coo_array((values, tuple(coordinates)), shape=tensor.shape)


def meaning(form: Format, rank: int, *, dtype: str = DEFAULT) -> Program:
    """The program of the arrays of a format whose value is the tensor that they mean, as theorems have it.

    >>> from sparse import COO
    >>> meaning(COO, 1)
    meaning (A_crd : int32[A_nnz] in [0, n0), A_val : float32[A_nnz]) : float32[n0] :=
      Σ[p < A_nnz] place n0 A_crd[p] A_val[p]
    """
    if not isinstance(form, Format) or not is_position(rank):
        raise WrongArgument(
            f"the meaning of {brief(form)} for {brief(rank)} dimensions", required="a format, such as CSR, and a number"
        )
    whole = atl.tensor("A", *(atl.sizes(f"n{k}") for k in range(rank)), dtype=dtype).node
    assert isinstance(whole, Input)
    operand = form.operand(whole.array, ())
    inputs = [atl.Tensor(Input(array)) for array in operand.inputs]
    return replace(atl.program("meaning", inputs, atl.Tensor(operand.meaning)), packed=(operand.packed,))
