"""Sparse kernels derived from dense programs: generated code, proofs and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from atl import load
from atl.errors import ArgumentError, ArrayError, ATLError
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import body
from proofs_tests.sparse.matrices import FORMATS, MATRICES, dense
from rewrites import reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply

pytestmark = pytest.mark.sampled

n, m = atl.sizes("n m")
A, v = atl.tensor("A", n, m, dtype="float64"), atl.tensor("v", m, dtype="float64")
SPMV = atl.program("spmv", [A, v], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j])))


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
def test_derived_kernels_match_handwritten_ones(name: str) -> None:
    assert body(reschedule(SPMV).sparsify("A", getattr(sparse, name))) == DERIVED[name]


@pytest.mark.parametrize("form", FORMATS.values(), ids=repr)
def test_matrix_times_vector_in_every_format(form: sparse.Format) -> None:
    theorem = reschedule(SPMV).sparsify("A", form).done()
    assert len(theorem.steps) <= 60, "a derivation is a few dozen steps, and so takes less than a second"
    assert loads(dumps(theorem)).rhs == theorem.rhs
    kernel = compiled(theorem.rhs)
    for name, made in MATRICES.items():
        matrix = made()
        vector = np.arange(1.0, matrix.shape[1] + 1)
        for _ in range(2):  # the second call uses cached shapes
            assert np.array_equal(kernel(A=matrix, v=vector), dense(matrix) @ vector), name
        assert np.array_equal(kernel(dense(matrix), vector), dense(matrix) @ vector), name


def test_lhs_of_the_theorem_decompresses_the_arrays() -> None:
    theorem = reschedule(SPMV).sparsify("A", sparse.CSR).done()
    assert " ".join(str(theorem.lhs).partition(":=\n")[2].split()) == (
        "let A := Σ[p < n] place n p Σ[A_pos[p] <= p1 < A_pos[p + 1]] place m A_crd[p1] A_val[p1] in "
        "⊞[i < n] Σ[j < m] A[i, j] * v[j]"
    )
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    for side in (theorem.lhs, theorem.rhs):
        assert np.array_equal(atl.evaluate(side, A=matrix, v=vector), matrix @ vector)


# -- sessions ---------------------------------------------------------------------------------------------------------


def test_sparsify_replays_earlier_steps() -> None:
    s = reschedule(SPMV).tile("i", 4).rename("io", "blocks").mark("blocks", "parallel")
    dense_goal, tile = s.goal, s.find("ii")
    s.sparsify("A", sparse.CSR)
    assert "⊞[blocks < ⌈n / 4⌉ | parallel] ⊞[ii < 4]" in body(s)
    assert "Σ[A_pos[ii + 4*blocks] <= p" in body(s) or "Σ[A_pos[4*blocks + ii] <= p" in body(s)
    assert s.goal.body != dense_goal.body
    s.unroll(tile)  # the handle still refers to its loop
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    assert np.array_equal(compiled(s.goal)(matrix, vector), matrix @ vector)


def test_sparsify_can_be_undone_and_redone() -> None:
    s = reschedule(SPMV)
    s.sparsify("A", sparse.CSR)
    derived = s.goal
    assert repr(s.steps[0]).startswith("sparsify('A', CSR)   -- ")
    assert s.undo().goal == SPMV
    assert s.theorem.lhs == SPMV
    assert s.redo().goal == derived
    other = s.branch().rename("i", "row")
    assert "⊞[row < n]" in body(other)


def test_array_names_are_fresh() -> None:
    taken = atl.tensor("A_pos", n, dtype="float64")
    program = atl.program(
        "scaled", [A, v, taken], atl.gen(n, lambda i: taken[i] * atl.sum(m, lambda j: A[i, j] * v[j]))
    )
    s = reschedule(program).sparsify("A", sparse.CSR)
    assert [array.name for array in s.goal.inputs] == ["A_pos_", "A_crd", "A_val", "v", "A_pos"]
    matrix = MATRICES["blocks divide it"]()
    scale, vector = np.arange(8.0), np.arange(12.0)
    assert np.array_equal(compiled(s.goal)(A=matrix, v=vector, A_pos=scale), scale * (matrix @ vector))


def test_arrays_may_be_passed_separately() -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.CSR).goal)
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    held = {"A_pos": matrix.indptr, "A_crd": matrix.indices, "A_val": matrix.data}
    assert np.array_equal(kernel(v=vector, **held), matrix @ vector)


def test_scipy_matrices_are_passed_directly() -> None:
    (packed,) = reschedule(SPMV).sparsify("A", sparse.CSR).goal.packed
    matrix = MATRICES["no block divides it"]()
    for made in (matrix, sp.csr_matrix(matrix)):
        arrays, shape = packed.unpack(made)
        assert all(a is b for a, b in zip(arrays, (made.indptr, made.indices, made.data), strict=True))
        assert shape == made.shape


# -- certificates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "form", [sparse.CSR, sparse.BCSR(2, 3), sparse.HASH, sparse.COO.with_index_dtype("int64")], ids=repr
)
def test_loaded_certificate_compiles_to_the_same_kernel(form: sparse.Format, tmp_path: Path) -> None:
    theorem = reschedule(SPMV).sparsify("A", form).done()
    file = tmp_path / "spmv.atl.json"
    theorem.save(file)
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    again = sparse.load(file)
    assert again.rhs.packed[0].format == repr(form)
    assert again.rhs == theorem.rhs
    kernel = compiled(again.rhs)
    assert np.array_equal(kernel(A=matrix, v=vector), matrix @ vector)
    assert dumps(again) == dumps(theorem)


def test_unknown_formats_require_separate_arrays(tmp_path: Path) -> None:
    file = tmp_path / "spmv.atl.json"
    mine = sparse.Format("mine", sparse.CSR.levels, sparse.CSR.view)
    reschedule(SPMV).sparsify("A", mine).done().save(file)
    kernel = compiled(load(file).rhs)
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    held = {"A_pos": matrix.indptr, "A_crd": matrix.indices, "A_val": matrix.data}
    assert np.array_equal(kernel(v=vector, **held), matrix @ vector)
    text = refused(ArgumentError, lambda: kernel(matrix, vector))
    assert "the format mine of A was unknown" in text
    assert "atl.load(path), with custom=" in text
    known = compiled(load(file, custom={"mine": mine}).rhs)
    assert np.array_equal(known(matrix, vector), matrix @ vector)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("CSR", "CSC"), "the format CSC declares other arrays for A than the program has"),
        (
            ('["A_pos", "A_crd", "A_val"]', '["A_pos", "A_crd", "B_val"]'),
            "the arrays of A are not inputs of the program",
        ),
        (('"shape"', '"form"'), "is not a sparse operand"),
        (('"dtype": "float64"', '"dtype": "float8"'), "is not a sparse operand"),
        (('"shape": ["n", "m"]', '"shape": ["n"]'), "the operand A is refused"),
        (('"shape": ["n", "m"]', '"shape": ["n", "n"]'), "other arrays"),
    ],
)
def test_certificate_with_another_format_is_refused(change: tuple[str, str], message: str) -> None:
    text = dumps(reschedule(SPMV).sparsify("A", sparse.CSR).done())
    assert change[0] in text
    with pytest.raises(ATLError) as caught:
        loads(text.replace(*change), formats=sparse.format_named)
    assert message in str(caught.value)


@pytest.mark.long
def test_format_with_equal_arrays_and_other_meaning_is_refused() -> None:
    """For a square matrix, CSR and CSC have the same arrays."""
    square, x = atl.tensor("A", n, n, dtype="float64"), atl.tensor("v", n, dtype="float64")
    product = atl.program("spmv", [square, x], atl.gen(n, lambda i: atl.sum(n, lambda j: square[i, j] * x[j])))
    columns = sparse.Format("CSR", sparse.CSR.levels, sparse.Permuted((1, 0)))
    text = dumps(reschedule(product).sparsify("A", columns).done())
    message = "its arrays represent a different tensor A"
    with pytest.raises(ATLError, match=message):
        loads(text, formats=sparse.format_named)
    held = np.array([[0.0, 2.0], [0.0, 1.0]])
    again = loads(text, formats=lambda name: sparse.format_named(name, {"CSR": columns}))
    assert compiled(again.rhs)(held, np.array([1.0, 10.0])).tolist() == [20.0, 10.0]
    rows = dumps(reschedule(product).sparsify("A", sparse.CSR).done()).replace('"format": "CSR"', '"format": "CSC"')
    with pytest.raises(ATLError, match=message.replace("CSR", "CSC")):
        loads(rows, formats=sparse.format_named)


def test_array_of_a_sparse_operand_cannot_be_sparsified() -> None:
    s = reschedule(SPMV).sparsify("A", sparse.CSR)
    with pytest.raises(ATLError, match="A_val is one of the arrays of A, which a call passes as one object"):
        s.sparsify("A_val", sparse.VECTOR)


def test_format_names_round_trip() -> None:
    for form in FORMATS.values():
        assert sparse.format_named(repr(form)) == form
    for text in (
        "",
        "ELL",
        "BCSR(",
        "BCSR('x')",
        "BCSR(2, 3).index",
        "CSR(2)",
        "CSR.with_index_dtype('int8')",
        "__import__('os')",
    ):
        assert sparse.format_named(text) is None


# -- refusals ---------------------------------------------------------------------------------------------------------


def refused(error: type[ATLError], act: Any) -> str:
    with pytest.raises(error) as caught:
        act()
    return str(caught.value)


@pytest.mark.parametrize(
    ("formula", "form", "message"),
    [
        (atl.gen(n, m, lambda i, j: atl.exp(A[i, j])), sparse.CSR,
            "the loop j is still dense: entries are found below exp"),
        (atl.gen(n, lambda i: atl.reduce("max", m, lambda j: A[i, j])), sparse.CSR, "it is a max, not a sum"),
        (atl.gen(n, lambda i: atl.reduce("max", m, lambda j: A[i, j])), sparse.CSC,
            "the loop i is still dense: entries are found below a max"),
        (atl.gen(n, m, lambda i, j: atl.maximum(A[i, j], v[j])), sparse.COO, "entries are found below max"),
    ],
)  # fmt: skip
def test_error_names_the_dense_loop_and_the_reason(formula: Any, form: sparse.Format, message: str) -> None:
    s = reschedule(atl.program("formula", [A, v], formula))
    text = refused(DoesNotApply, lambda: s.sparsify("A", form))
    assert message in text
    required = "an operand within loops, sums, products, quotients and functions with f(0) = 0"
    if "a max" in message:
        required = "a max over the columns of a format with dense rows and at most one entry for each element"
    assert f"required: {required}" in text
    assert not s.steps


@pytest.mark.parametrize("first", ["A", "C"])
def test_elementwise_csc_times_csr_searches_entries(first: str) -> None:
    """For each entry, the kernel searches the column of A or the row of C."""
    other = atl.tensor("C", n, m, dtype="float64")
    rows = atl.program("rows", [A, other], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * other[i, j])))
    s = reschedule(rows)
    for name in (first, "C" if first == "A" else "A"):
        s = s.sparsify(name, {"A": sparse.CSC, "C": sparse.CSR}[name])
    assert ("Σ[j < m] Σ[A_pos[j] <= p" if first == "A" else "⊞[i < n] Σ[C_pos[i] <= p") in str(s.goal)
    kernel = compiled(s.goal)
    for made in (MATRICES["no block divides it"](), MATRICES["duplicates by rows"]()):
        expected = dense(made) * dense(made)[:, ::-1]
        assert np.array_equal(kernel(made, sp.csr_array(dense(made)[:, ::-1])), expected.sum(axis=1))


def test_error_names_the_nonlinear_operator() -> None:
    padded = atl.gen(n, lambda i: atl.padr(2, atl.gen(m, lambda j: A[i, j])))
    assert "below padr, and a sum" in refused(
        DoesNotApply, lambda: reschedule(atl.program("padded", [A], padded)).sparsify("A", sparse.CSC)
    )


def test_invalid_inputs_and_formats_are_refused() -> None:
    s = reschedule(SPMV)
    assert "one of A, v" in refused(ATLError, lambda: s.sparsify("B", sparse.CSR))
    assert "'CSR' is not a sparse format" in refused(ATLError, lambda: s.sparsify("A", "CSR"))  # type: ignore[arg-type]
    assert "stores 2 dimensions, not 1" in refused(sparse.FormatError, lambda: s.sparsify("v", sparse.CSR))


@pytest.mark.parametrize(("name", "has"), [("A", "A has 5 dimensions"), ("B", "the result has 5 dimensions")])
def test_more_than_four_dimensions_are_refused(name: str, has: str) -> None:
    extents = atl.sizes("a b c d e")
    left, right = atl.tensor("A", *extents), atl.tensor("B", extents[0])
    program = atl.program("scaled", [left, right], atl.gen(*extents, lambda i, *at: left[(i, *at)] * right[i]))
    message = refused(DoesNotApply, lambda: reschedule(program).sparsify(name, sparse.COO.sorted()))
    assert has in message
    assert "at most 4 dimensions" in message


def test_input_used_as_index_is_refused() -> None:
    at = atl.tensor("at", n, dtype="int32", range=(0, m))
    program = atl.program("gather", [at, v], atl.gen(n, lambda i: v[at[i]]))
    text = refused(DoesNotApply, lambda: reschedule(program).sparsify("at", sparse.VECTOR))
    assert "elements of at are used as indices" in text


def test_boolean_input_is_refused_with_a_numeric_suggestion() -> None:
    mask = atl.tensor("M", n, m, dtype="bool")
    masked = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(mask[i, j], v[j])))
    text = refused(DoesNotApply, lambda: reschedule(atl.program("masked", [mask, v], masked)).sparsify("M", sparse.CSR))
    assert "the truth values of M are read in conditions" in text
    assert 'try: declare it with dtype="float64", and write M[…] * e instead of guard(M[…], e)' in text
    number = atl.tensor("M", n, m, dtype="float64")
    counted = atl.gen(n, lambda i: atl.sum(m, lambda j: number[i, j] * v[j]))
    kernel = compiled(reschedule(atl.program("masked", [number, v], counted)).sparsify("M", sparse.CSR).goal)
    held = np.eye(3, 4, dtype=bool)
    assert np.array_equal(kernel(held.astype(v.dtype), np.arange(4, dtype=v.dtype)), held @ np.arange(4.0))


@pytest.mark.long
def test_call_with_the_wrong_operand_is_refused() -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.CSR).goal)
    matrix, vector = MATRICES["no block divides it"](), np.arange(13.0)
    kernel(matrix, vector)
    for _ in range(2):
        text = refused(ArrayError, lambda: kernel(matrix, vector[:-1]))
        assert "dimension 1 of A and dimension 0 of v give different m" in text
        text = refused(ArrayError, lambda: kernel(matrix.astype(np.float32), vector))
        assert "A has dtype float32, not float64" in text
        assert "pass A.astype(np.float64)" in text
        assert "A: an operand in the format CSR" in refused(ArgumentError, lambda: kernel(v=vector))
        assert "got A twice" in refused(ArgumentError, lambda: kernel(matrix, vector, A=matrix))
        assert "got A_pos twice" in refused(ArgumentError, lambda: kernel(matrix, vector, A_pos=matrix.indptr))
        assert "cannot be packed as CSR" in refused(sparse.NotPackable, lambda: kernel("matrix", vector))


@pytest.mark.parametrize(("role", "fault"), [("indices", 13), ("indices", -1), ("indptr", 10**6), ("indptr", -1)])
def test_invalid_matrix_is_refused_before_it_is_read(role: str, fault: int) -> None:
    kernel = compiled(reschedule(SPMV).sparsify("A", sparse.CSR).goal)
    vector = np.arange(13.0)
    matrix = MATRICES["no block divides it"]()
    kernel(matrix, vector)
    getattr(matrix, role)[3] = fault
    assert "out of the declared range" in refused(ArrayError, lambda: kernel(matrix, vector))
