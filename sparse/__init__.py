"""Sparse tensors: formats put together from level formats, and kernels derived from dense programs (chapter 7).

>>> import atl, numpy as np
>>> from lowering import compile
>>> from rewrites import reschedule
>>> from sparse import CSR
>>> n, m = atl.sizes("n m")
>>> A, v = atl.tensor("A", n, m), atl.tensor("v", m)
>>> s = reschedule(atl.program("spmv", [A, v], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j]))))
>>> s.sparsify("A", CSR)
spmv (
    A_pos : int32[n + 1] in [0, A_nnz + 1),
    A_crd : int32[A_nnz] in [0, m),
    A_val : float32[A_nnz],
    v : float32[m]) : float32[n] :=
  ⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] A_val[p] * v[A_crd[p]]

What a call passes for A is a matrix of scipy.sparse, an array of NumPy's, or what `pack` makes of one.

>>> kernel = compile(s.done().rhs)
>>> kernel(A=np.eye(3, dtype=np.float32), v=np.arange(3, dtype=np.float32))
array([0., 1., 2.], dtype=float32)
"""

from sparse.apart import pack
from sparse.decompression import compress, decompress, meaning, to_scipy
from sparse.errors import FormatError, LawBroken, NoSpace, NotSparse
from sparse.formats import (
    BCSR,
    BITMASK,
    COO,
    CSB,
    CSC,
    CSF,
    CSR,
    DCSC,
    DCSR,
    DIA,
    HASH,
    MODE_GENERIC,
    VECTOR,
    Format,
)
from sparse.levels import Bitmask, Compressed, Declaring, Dense, Hashed, Level, Metadata, Stored
from sparse.names import format_named, load
from sparse.pictures import Picture, description, draw
from sparse.tensors import SparseTensor
from sparse.views import Blocked, Diagonals, Permuted, Then, View

__all__ = [
    "BCSR",
    "BITMASK",
    "COO",
    "CSB",
    "CSC",
    "CSF",
    "CSR",
    "DCSC",
    "DCSR",
    "DIA",
    "HASH",
    "MODE_GENERIC",
    "VECTOR",
    "Bitmask",
    "Blocked",
    "Compressed",
    "Declaring",
    "Dense",
    "Diagonals",
    "Format",
    "FormatError",
    "Hashed",
    "LawBroken",
    "Level",
    "Metadata",
    "NoSpace",
    "NotSparse",
    "Permuted",
    "Picture",
    "SparseTensor",
    "Stored",
    "Then",
    "View",
    "compress",
    "decompress",
    "description",
    "draw",
    "format_named",
    "load",
    "meaning",
    "pack",
    "to_scipy",
]
