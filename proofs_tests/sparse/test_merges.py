"""Kernels with co-iteration of sorted entries and with segmented reductions, on edge-case matrices."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from atl.errors import ArrayError, IllegalMark
from lowering import Kernel, lower
from lowering import compile as compiled
from proofs_tests.sparse.matrices import MATRICES, dense
from rewrites import Session, reschedule
from sparse import COO, CSC, CSR, DCSC, DCSR, VECTOR, pack

n, m, k = atl.sizes("n m k")
A, B = atl.tensor("A", n, m, dtype="float64"), atl.tensor("B", m, k, dtype="float64")
C = atl.tensor("C", n, m, dtype="float64")
x = atl.tensor("x", m, dtype="float64")
ROWS, VECTORS = CSR.sorted(), VECTOR.sorted()
PRODUCT: Final = atl.program("product", [A, x], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * x[j])))
MATRICES_TIMES: Final = atl.program(
    "times", [A, B], atl.gen(n, k, lambda i, c: atl.sum(m, lambda j: A[i, j] * B[j, c]))
)
ELEMENTWISE: Final = atl.program("elementwise", [A, C], atl.gen(n, m, lambda i, j: A[i, j] * C[i, j]))


def marked(s: Session, mark: str, *names: str) -> Kernel:
    for name in names:
        s = s.mark(name, mark)
    return compiled(s.done().rhs)


@cache
def by_rows_and_vector() -> Kernel:
    return marked(reschedule(PRODUCT).sparsify("A", ROWS).sparsify("x", VECTORS), "merge", "p", "p1")


@cache
def elementwise(form: sparse.Format) -> Kernel:
    return marked(reschedule(ELEMENTWISE).sparsify("A", ROWS).sparsify("C", form), "merge", "p", "p1")


@cache
def rows_and_columns(form: sparse.Format) -> Kernel:
    s = reschedule(MATRICES_TIMES).sparsify("A", ROWS).sparsify("B", form)
    if form == DCSC.sorted():
        return marked(s, "merge", "p1", "p2")
    return marked(s, "merge", "p", "p1")


def vector_of(count: int) -> Any:
    return np.where(np.arange(count) % 3 == 1, np.arange(1.0, count + 1), 0.0)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", MATRICES)
def test_merges_agree_with_the_dense_formula(name: str) -> None:
    matrix = MATRICES[name]()
    held = dense(matrix)
    columns = matrix.shape[1]
    first = pack(matrix, ROWS)
    assert np.allclose(by_rows_and_vector()(A=first, x=vector_of(columns)), held @ vector_of(columns))
    other = np.roll(held, 1, axis=-1)
    assert np.allclose(elementwise(ROWS)(A=first, C=other), held * other)
    second = np.roll(held, 1, axis=0).T.copy()
    for form in (CSC.sorted(), DCSC.sorted()):
        assert np.allclose(rows_and_columns(form)(A=first, B=second), held @ second)


@pytest.mark.parametrize("name", MATRICES)
def test_segmented_reductions_agree_with_the_dense_formula(name: str) -> None:
    matrix = MATRICES[name]()
    kernel = in_runs()
    v = np.arange(1.0, matrix.shape[1] + 1)
    assert np.allclose(kernel(matrix, v), dense(matrix) @ v)
    shuffled = matrix.tocoo()
    order = np.random.default_rng(1).permutation(len(shuffled.data))
    held = sp.coo_array((shuffled.data[order], (shuffled.row[order], shuffled.col[order])), shape=shuffled.shape)
    assert np.allclose(kernel(held, v), dense(matrix) @ v)


@cache
def in_runs() -> Kernel:
    return marked(reschedule(PRODUCT).sparsify("A", COO), "runs", "p")


def test_unsorted_and_duplicate_entries_are_refused_with_a_suggestion() -> None:
    kernel = by_rows_and_vector()
    for name in ("unsorted", "duplicates by rows"):
        matrix = MATRICES[name]()
        matrix = sp.csr_array(
            (matrix.data, matrix.indices.astype(np.int32), matrix.indptr.astype(np.int32)), shape=matrix.shape
        )
        v = np.ones(matrix.shape[1])
        for _ in range(2):
            with pytest.raises(ArrayError, match="the elements of A_crd are not strictly increasing") as refused:
                kernel(A=matrix, x=v)
            assert "pass sparse.pack(A, CSR.sorted()) for A" in str(refused.value)
        assert np.allclose(kernel(A=pack(matrix, ROWS), x=v), dense(matrix) @ v)


def test_merge_of_unsorted_formats_is_refused_by_lowering() -> None:
    s = reschedule(PRODUCT).sparsify("A", CSR).sparsify("x", VECTORS).mark("p", "merge").mark("p1", "merge")
    with pytest.raises(IllegalMark) as refused:
        lower(s.goal)
    assert "the keys A_crd[p] of p need not be nondecreasing" in str(refused.value)
    assert "CSR.sorted()" in str(refused.value)


@pytest.mark.long
def test_certificates_keep_sorted_formats_and_marks(tmp_path: Path) -> None:
    s = reschedule(PRODUCT).sparsify("A", DCSR.sorted()).sparsify("x", VECTORS)
    s = s.mark("p1", "merge").mark("p2", "merge")
    s.done().save(tmp_path / "merged.atl.json")
    loaded = sparse.load(tmp_path / "merged.atl.json")
    assert str(loaded.rhs) == str(s.goal)
    assert "| merge" in str(loaded.rhs)
    matrix = MATRICES["no block divides it"]()
    assert np.allclose(compiled(loaded.rhs)(matrix, np.ones(matrix.shape[1])), dense(matrix).sum(axis=1))


@pytest.mark.long
@pytest.mark.parametrize("text", ["CSR.sorted()", "BCSR(2, 8).sorted()", "DCSR.sorted().with_index_dtype('int64')"])
def test_sorted_formats_are_parsed_from_their_names(text: str) -> None:
    form = sparse.format_named(text)
    assert form is not None
    assert form.ordered
    assert repr(form) == text
