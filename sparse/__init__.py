"""Sparse tensors: formats composed of level formats, and kernels derived from dense programs (chapter 7).

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

A call passes for A a scipy.sparse matrix, a NumPy array, or a `SparseTensor` made by `pack`.

>>> kernel = compile(s.done().rhs)
>>> kernel(A=np.eye(3, dtype=np.float32), v=np.arange(3, dtype=np.float32))
array([0., 1., 2.], dtype=float32)
"""

from atl.parameters import check_calls as _check_calls
from sparse.drawing import MatrixDrawing, description, draw
from sparse.errors import CapacityExceeded, FormatError, LawViolation, NotPackable
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
    compress,
    decompress,
    format_named,
    load,
    meaning,
    to_scipy,
)
from sparse.levels import Bitmask, Compressed, Declarer, Dense, Encoded, Hashed, Level, Metadata
from sparse.packing import pack
from sparse.tensors import SparseTensor
from sparse.views import Blocked, Composed, Diagonals, Permuted, View

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
    "CapacityExceeded",
    "Composed",
    "Compressed",
    "Declarer",
    "Dense",
    "Diagonals",
    "Encoded",
    "Format",
    "FormatError",
    "Hashed",
    "LawViolation",
    "Level",
    "MatrixDrawing",
    "Metadata",
    "NotPackable",
    "Permuted",
    "SparseTensor",
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

_check_calls(globals())
