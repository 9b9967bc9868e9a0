"""Sparse kernels, derived from dense programs by rules: what comes out, that it is proved, and what is refused."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from atl.errors import ArgumentError, ArrayError, ATLError
from lowering import compile as compiled
from proofs_tests.sparse.matrices import FORMATS, MATRICES, dense
from rewrites import Session, load, reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import NoSite

n, m = atl.sizes("n m")
A, v = atl.tensor("A", n, m, dtype="float64"), atl.tensor("v", m, dtype="float64")
SPMV = atl.program("spmv", [A, v], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j])))


def body(s: Session) -> str:
    """The goal without its declaration, on one line."""
    return " ".join(str(s.goal).partition(":=\n")[2].split())


# -- matrix times vector, in every format -----------------------------------------------------------------------------

DERIVED = {
    "CSR": "⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] A_val[p] * v[A_crd[p]]",
    "CSC": "Σ[j < m] Σ[A_pos[j] <= p < A_pos[j + 1]] place n A_crd[p] (A_val[p] * v[j])",
    "COO": "Σ[p < A_nnz] place n A_crd0[p] (A_val[p] * v[A_crd1[p]])",
    "DCSR": "Σ[p < A_nnz_1] place n A_crd_1[p] Σ[A_pos_2[p] <= p1 < A_pos_2[p + 1]] A_val[p1] * v[A_crd_2[p1]]",
    "BITMASK": "⊞[i < n] Σ[j < m] [A_mask[i*m + j] = 1] · A_val[i*m + j] * v[j]",
    "HASH": "⊞[i < n] Σ[p < A_width] [0 <= A_crd[i, p]] · A_val[i*A_width + p] * v[A_crd[i, p]]",
}


@pytest.mark.parametrize("name", DERIVED)
def test_the_kernel_is_the_one_that_a_person_would_write(name: str) -> None:
    assert body(reschedule(SPMV).sparsify("A", getattr(sparse, name))) == DERIVED[name]


@pytest.mark.parametrize("form", FORMATS.values(), ids=repr)
def test_matrix_times_vector_in_every_format(form: sparse.Format) -> None:
    began = time.process_time()
    theorem = reschedule(SPMV).sparsify("A", form).done()
    took = time.process_time() - began
    assert took < 2, f"the derivation took {took:.1f} s"
    assert loads(dumps(theorem)).rhs == theorem.rhs
    kernel = compiled(theorem.rhs)
    for name, made in MATRICES.items():
        matrix = made()
        vector = np.arange(1.0, matrix.shape[1] + 1)
        for _ in range(2):  # the second time shapes are remembered
            assert np.array_equal(kernel(A=matrix, v=vector), dense(matrix) @ vector), name
        assert np.array_equal(kernel(dense(matrix), vector), dense(matrix) @ vector), name


def test_the_left_side_of_the_theorem_says_what_the_arrays_mean() -> None:
    theorem = reschedule(SPMV).sparsify("A", sparse.CSR).done()
    assert " ".join(str(theorem.lhs).partition(":=\n")[2].split()) == (
        "let A := Σ[p < n] place n p Σ[A_pos[p] <= p1 < A_pos[p + 1]] place m A_crd[p1] A_val[p1] in "
        "⊞[i < n] Σ[j < m] A[i, j] * v[j]"
    )
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    for side in (theorem.lhs, theorem.rhs):
        assert np.array_equal(atl.evaluate(side, A=matrix, v=vector), matrix @ vector)


# -- other formulas ---------------------------------------------------------------------------------------------------

B = atl.tensor("B", m, 3, dtype="float64")
U, V = atl.tensor("U", n, 3, dtype="float64"), atl.tensor("V", 3, m, dtype="float64")
D = atl.tensor("D", n, m, dtype="float64")
FORMULAS: dict[str, tuple[list[atl.Tensor], Any, Any]] = {
    "A @ B": (
        [A, B],
        atl.gen(n, 3, lambda i, k: atl.sum(m, lambda j: A[i, j] * B[j, k])),
        lambda a, b: a @ b,
    ),
    "A * (U @ V)": (
        [A, U, V],
        atl.gen(n, m, lambda i, j: A[i, j] * atl.sum(3, lambda k: U[i, k] * V[k, j])),
        lambda a, u, w: a * (u @ w),
    ),
    "-3 A / 2": ([A], atl.gen(n, m, lambda i, j: -(3.0 * A[i, j]) / 2.0), lambda a: -1.5 * a),
    "A * D": ([A, D], atl.gen(n, m, lambda i, j: A[i, j] * D[i, j]), lambda a, d: a * d),
    "A + D": ([A, D], atl.gen(n, m, lambda i, j: A[i, j] + D[i, j]), lambda a, d: a + d),
    "D - A": ([D, A], atl.gen(n, m, lambda i, j: D[i, j] - A[i, j]), lambda d, a: d - a),
    "sum of A": ([A], atl.sum(n, lambda i: atl.sum(m, lambda j: A[i, j])), lambda a: a.sum()),
    "sums of columns": ([A], atl.gen(m, lambda j: atl.sum(n, lambda i: A[i, j])), lambda a: a.sum(axis=0)),
    "A transposed": ([A], atl.transpose(A), lambda a: a.T),
    "A transposed by elements": ([A], atl.gen(m, n, lambda j, i: A[i, j]), lambda a: a.T),
}


@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("form", FORMATS.values(), ids=repr)
def test_formulas_in_every_format(form: sparse.Format, formula: str) -> None:
    inputs, meant, expected = FORMULAS[formula]
    theorem = reschedule(atl.program("formula", inputs, meant)).sparsify("A", form).done()
    kernel = compiled(theorem.rhs)
    random = np.random.default_rng(7)
    for name in ("no block divides it", "empty rows", "empty", "duplicates by rows"):
        matrix = MATRICES[name]()
        extents = {"n": matrix.shape[0], "m": matrix.shape[1]}
        arrays = [
            dense(matrix)
            if each is A
            else random.integers(-4, 5, [extents.get(str(e), 3) for e in each.shape]).astype(np.float64)
            for each in inputs
        ]
        passed = [matrix if each is A else array for each, array in zip(inputs, arrays, strict=True)]
        assert np.array_equal(kernel(*passed), expected(*arrays)), name
