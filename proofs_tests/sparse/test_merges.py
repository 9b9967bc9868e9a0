"""Kernels with co-iteration of sorted entries and with segmented reductions, on edge-case matrices."""

from __future__ import annotations

from dataclasses import replace
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
    first = form if form == COO.sorted() else ROWS
    return marked(reschedule(ELEMENTWISE).sparsify("A", first).sparsify("C", form), "merge", "p", "p1")


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
@pytest.mark.sampled
@pytest.mark.parametrize("name", MATRICES)
def test_coordinates_are_merged_by_both_parts(name: str) -> None:
    matrix = MATRICES[name]()
    held = dense(matrix)
    other = np.roll(held, 1, axis=-1)
    assert np.allclose(elementwise(COO.sorted())(A=pack(matrix, COO.sorted()), C=other), held * other)


@pytest.mark.long
def test_three_coordinate_operands_are_merged_in_one_loop() -> None:
    third = atl.tensor("D", n, m, dtype="float64")
    terms = atl.gen(n, m, lambda i, j: A[i, j] * C[i, j] * third[i, j])
    s = reschedule(atl.program("three", [A, C, third], terms))
    for name in "ACD":
        s = s.sparsify(name, COO.sorted())
    kernel = marked(s, "merge", "p", "p1", "p2")
    assert kernel.source.count("while (") == 1
    random = np.random.default_rng(3)
    for _ in range(20):
        given = [np.where(random.random((5, 6)) < 0.6, random.integers(1, 9, (5, 6)), 0.0) for _ in "ACD"]
        assert np.array_equal(kernel(*given), given[0] * given[1] * given[2])


def test_coordinates_that_are_not_sorted_by_all_parts_are_refused() -> None:
    matrix = sp.coo_array((np.ones(3), ([0, 1, 1], [2, 1, 0])), shape=(2, 3))
    packed = pack(matrix, COO.sorted())
    assert [array.tolist() for array in packed.arrays[:2]] == [[0, 1, 1], [2, 0, 1]]
    crd0, crd1, values = (np.array(array) for array in packed.arrays)
    program = reschedule(PRODUCT).sparsify("A", COO.sorted()).goal
    with pytest.raises(ArrayError, match="the elements of A_crd1 are not strictly increasing"):
        atl.evaluate(replace(program, packed=()), crd0, crd1[[0, 2, 1]], values, np.ones(3), n=2)


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
