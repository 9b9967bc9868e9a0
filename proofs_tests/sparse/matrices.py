"""Edge cases of matrices: empty ones, full and empty rows, duplicates, unsorted entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import scipy.sparse as sp

import sparse

Matrix = Any


def _random(rows: int, columns: int, density: float, seed: int = 0) -> Matrix:
    random = np.random.default_rng(seed)
    held = random.integers(1, 9, (rows, columns)) * (random.random((rows, columns)) < density)
    return sp.csr_array(held.astype(np.float64))


def _one_entry() -> Matrix:
    return sp.coo_array((np.array([3.0]), ([2], [4])), shape=(5, 6)).tocsr()


def _full_row() -> Matrix:
    held = np.zeros((5, 7))
    held[3] = np.arange(1, 8)
    return sp.csr_array(held)


def _explicit_zeros() -> Matrix:
    return sp.csr_array((np.array([0.0, 2.0, 0.0]), np.array([1, 0, 2]), np.array([0, 1, 1, 3])), shape=(3, 4))


def _duplicates() -> Matrix:
    return sp.coo_array((np.array([1.0, 2.0, 4.0, 8.0]), ([1, 0, 1, 1], [2, 1, 2, 0])), shape=(3, 3))


def _duplicates_by_rows() -> Matrix:
    return sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([1, 1, 0]), np.array([0, 2, 3])), shape=(2, 3))


def _unsorted() -> Matrix:
    return sp.csr_array((np.array([1.0, 2.0, 4.0]), np.array([2, 0, 1]), np.array([0, 3, 3])), shape=(2, 3))


def _large_indices() -> Matrix:
    made = _random(6, 5, 0.4, 3)
    made.indptr, made.indices = made.indptr.astype(np.int64), made.indices.astype(np.int64)
    return made


MATRICES: Final[dict[str, Callable[[], Matrix]]] = {
    "empty": lambda: sp.csr_array((4, 5)),
    "one entry": _one_entry,
    "full row": _full_row,
    "empty rows": lambda: _random(9, 4, 0.15, 1),
    "no rows": lambda: sp.csr_array((0, 4)),
    "no columns": lambda: sp.csr_array((4, 0)),
    "nothing": lambda: sp.csr_array((0, 0)),
    "one element": lambda: _random(1, 1, 1.0),
    "one row": lambda: _random(1, 9, 0.5),
    "one column": lambda: _random(9, 1, 0.5),
    "explicit zeros": _explicit_zeros,
    "duplicates": _duplicates,
    "duplicates by rows": _duplicates_by_rows,
    "unsorted": _unsorted,
    "int64 indices": _large_indices,
    "no block divides it": lambda: _random(11, 13, 0.3, 2),
    "blocks divide it": lambda: _random(8, 12, 0.3, 5),
    "full": lambda: _random(6, 6, 1.0),
}

FORMATS: Final[dict[str, sparse.Format]] = {
    repr(form): form
    for form in (
        sparse.CSR, sparse.CSC, sparse.DCSR, sparse.DCSC, sparse.CSF, sparse.COO, sparse.BCSR, sparse.BCSR(2, 3),
        sparse.CSB, sparse.DIA, sparse.BITMASK, sparse.HASH, sparse.HASH(16), sparse.CSR.with_index_dtype("int64"),
    )
}  # fmt: skip


def dense(matrix: Matrix) -> Any:
    """Return the dense matrix; duplicates are summed."""
    return matrix.toarray()
