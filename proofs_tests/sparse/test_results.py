"""Results in the format of an operand: the theorem, the values, the shared index arrays, and refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from atl.errors import ArrayError, ATLError, InvalidArgument
from lowering import compile as compiled
from proofs_tests.sparse.matrices import MATRICES, dense
from rewrites import Session, reschedule
from rewrites.certificates.certificate import dumps, loads, replay
from rewrites.errors import DoesNotApply
from sparse.levels import Declarer

n, m = atl.sizes("n m")
A, D = atl.tensor("A", n, m, dtype="float64"), atl.tensor("D", n, m, dtype="float64")
U, V, w = (
    atl.tensor("U", n, 3, dtype="float64"),
    atl.tensor("V", 3, m, dtype="float64"),
    atl.tensor("w", n, dtype="float64"),
)
FORMULAS: dict[str, tuple[list[atl.Tensor], Any, Any]] = {
    "A * (U @ V)": ([A, U, V], atl.gen(n, m, lambda i, j: A[i, j] * atl.sum(3, lambda k: U[i, k] * V[k, j])), lambda a,
        u, v: a * (u @ v)),
    "-3 A / 2": ([A], atl.gen(n, m, lambda i, j: -(3.0 * A[i, j]) / 2.0), lambda a: -1.5 * a),
    "rows scaled, below the diagonal": ([w, A], atl.gen(n, m, lambda i, j: atl.guard(j <= i, w[i] * A[i, j])),
        lambda scale, a: np.tril(scale[:, None] * a)),
    "2 A + A * D": ([A, D], atl.gen(n, m, lambda i, j: 2.0 * A[i, j] + A[i, j] * D[i, j]), lambda a, d: 2 * a + a * d),
    "rows scaled by a let": ([A, w], atl.let(atl.gen(n, lambda i: w[i] * w[i]), lambda v: atl.gen(
        n, m, lambda i, j: A[i, j] * v[i])), lambda a, scale: (scale * scale)[:, None] * a),
}  # fmt: skip
CASES = [
    *((form, "A * (U @ V)") for form in (sparse.CSR, sparse.DCSC, sparse.COO)),
    *((form, "-3 A / 2") for form in (sparse.CSC, sparse.BCSR(2, 3), sparse.DIA, sparse.HASH, sparse.BITMASK)),
    (sparse.CSR, "rows scaled, below the diagonal"),
    *((form, "2 A + A * D") for form in (sparse.CSR, sparse.COO, sparse.DCSR)),
    *((form, "rows scaled by a let") for form in (sparse.CSR.sorted(), sparse.CSC)),
]


def on_pattern(form: sparse.Format, formula: str = "A * (U @ V)") -> Session:
    inputs, meant, _ = FORMULAS[formula]
    return reschedule(atl.program("formula", inputs, meant)).sparsify("A", form, result=True)


def arguments(formula: str, matrix: Any) -> tuple[list[Any], list[Any]]:
    """Return the arguments of a call, and the same with the matrix dense."""
    random = np.random.default_rng(1)
    extents = {"n": matrix.shape[0], "m": matrix.shape[1]}
    arrays = [
        dense(matrix) if each is A else random.integers(-3, 4, [extents.get(str(e), 3) for e in each.shape]) * 1.0
        for each in FORMULAS[formula][0]
    ]
    passed = [matrix if each is A else array for each, array in zip(FORMULAS[formula][0], arrays, strict=True)]
    return passed, arrays


def as_dense(result: Any) -> Any:
    return result.toarray() if sp.issparse(result) else sparse.decompress(result)


@pytest.mark.thinned(11)
@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize(("form", "formula"), CASES, ids=str)
def test_sparse_results_agree_with_the_dense_formula(form: sparse.Format, formula: str) -> None:
    s = on_pattern(form, formula)
    assert loads(dumps(s.done()), formats=sparse.format_named).rhs == s.goal
    kernel, expected = compiled(s.goal), FORMULAS[formula][2]
    for name, made in MATRICES.items():
        passed, arrays = arguments(formula, made())
        for _ in range(2):  # the second call uses cached shapes
            assert np.array_equal(as_dense(kernel(*passed)), expected(*arrays)), name
        if name == "no block divides it":
            assert np.array_equal(atl.evaluate(s.goal, *passed), expected(*arrays))


def test_theorem_equates_decompressed_values_and_dense_result() -> None:
    theorem = on_pattern(sparse.CSR).done()
    assert " ".join(str(theorem.rhs).partition(":=\n")[2].split()) == (
        "let A_out := Σ[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] place A_nnz p "
        "(A_val[p] * Σ[k < 3] U[i, k] * V[k, A_crd[p]]) in "
        "Σ[p < n] place n p Σ[A_pos[p] <= p1 < A_pos[p + 1]] place m A_crd[p1] A_out[p1]"
    )
    assert "A_pos : int32[n + 1] in [0, A_nnz + 1) rising" in str(theorem.rhs)
    (packed,) = theorem.rhs.packed
    assert theorem.rhs.stored is not None
    assert theorem.lhs.stored is None  # the dense formula on the decompressed operand
    assert packed.result == theorem.rhs.body.body  # type: ignore[union-attr]


def test_coo_results_keep_unsorted_and_duplicate_entries() -> None:
    s = on_pattern(sparse.COO, "-3 A / 2")
    assert "let A_out := ⊞[p < A_nnz]" in str(s.goal)
    assert "rising" not in str(s.goal)
    result = compiled(s.goal)(MATRICES["duplicates"]())
    assert result.data.tolist() == [-1.5, -3.0, -6.0, -12.0]


@pytest.mark.parametrize("form", [sparse.CSR, sparse.CSC], ids=repr)
def test_index_arrays_are_those_of_the_operand(form: sparse.Format) -> None:
    kernel = compiled(on_pattern(form, "-3 A / 2").goal)
    matrix = MATRICES["no block divides it"]().asformat(form.name.lower())
    for result in (kernel(matrix), kernel(A=matrix)):
        assert type(result) is type(matrix)
        assert np.shares_memory(result.indices, matrix.indices)
        assert np.shares_memory(result.indptr, matrix.indptr)
        assert not np.shares_memory(result.data, matrix.data)
    values = np.empty(matrix.nnz)
    assert np.shares_memory(kernel(matrix, out=values).data, values)
    assert kernel([[0.0, 2.0], [4.0, 0.0]]).toarray().tolist() == [[0.0, -3.0], [-6.0, 0.0]]


@pytest.mark.parametrize("form", [sparse.CSR, sparse.CSC, sparse.COO], ids=repr)
def test_result_with_converted_indices_is_writeable(form: sparse.Format) -> None:
    kernel = compiled(on_pattern(form, "-3 A / 2").goal)
    result = kernel(sp.lil_array(np.array([[0.0, 2.0, 0.0], [4.0, 0.0, 6.0]])))
    result.data[1] = 0.0
    result.eliminate_zeros()
    assert result.nnz == 2
    matrix = MATRICES["no block divides it"]().tocsr()
    matrix.indices.flags.writeable = False
    if form is sparse.CSR:
        assert np.shares_memory(kernel(matrix).indices, matrix.indices)


@pytest.mark.long
def test_result_type_follows_the_operand_and_scipy_support() -> None:
    matrix = MATRICES["no block divides it"]()
    packed = sparse.pack(matrix, sparse.CSR)
    result = compiled(on_pattern(sparse.CSR, "-3 A / 2").goal)(packed)
    assert isinstance(result, sparse.SparseTensor)
    assert result.arrays[0] is packed.arrays[0]
    assert isinstance(compiled(on_pattern(sparse.HASH, "-3 A / 2").goal)(matrix), sparse.SparseTensor)


def test_separately_passed_arrays_return_only_values() -> None:
    matrix = MATRICES["no block divides it"]()
    kernel = compiled(on_pattern(sparse.CSR, "-3 A / 2").goal)
    held = {"A_pos": matrix.indptr, "A_crd": matrix.indices, "A_val": matrix.data}
    assert np.array_equal(kernel(m=13, **held), -1.5 * matrix.data)


def test_goal_without_the_let_of_values_has_a_dense_result() -> None:
    s = on_pattern(sparse.COO, "-3 A / 2").inline("A_out")
    assert s.goal.stored is None
    matrix = MATRICES["no block divides it"]()
    assert np.array_equal(compiled(s.goal)(matrix), -1.5 * dense(matrix))


@pytest.mark.long
def test_loaded_certificate_compiles_to_the_same_result(tmp_path: Path) -> None:
    file = tmp_path / "formula.atl.json"
    on_pattern(sparse.CSR, "-3 A / 2").done().save(file)
    matrix = MATRICES["no block divides it"]()
    result = compiled(sparse.load(file).rhs)(matrix)
    assert np.shares_memory(result.indices, matrix.indices)
    # Without the formats, the arrays are passed separately and the result is dense.
    held = {"A_pos": matrix.indptr, "A_crd": matrix.indices, "A_val": matrix.data}
    assert np.array_equal(compiled(replay(file).rhs)(m=13, **held), -1.5 * dense(matrix))
    broken = file.read_text().replace('"result": true', '"result": "yes"')
    assert broken != file.read_text()
    with pytest.raises(ATLError, match="is not a sparse operand"):
        loads(broken, formats=sparse.format_named)


def test_specialised_program_keeps_the_sparse_result() -> None:
    matrix = MATRICES["no block divides it"]()
    goal = on_pattern(sparse.CSR, "-3 A / 2").goal
    for sizes in ({"m": 13}, {"n": matrix.shape[0], "m": 13}):
        result = compiled(goal, sizes=sizes)(matrix)
        assert np.shares_memory(result.indices, matrix.indices)
        assert np.array_equal(result.toarray(), -1.5 * dense(matrix))


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("formula", "message"),
    [
        (atl.gen(n, m, lambda i, j: A[i, j] + D[i, j]), "it does not sum over the entries of A"),
        (atl.gen(m, n, lambda i, j: A[j, i]), "its elements are not at the positions of those of A"),
        (atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j])), "its elements are not at the positions"),
        (atl.gen(n, m, lambda i, j: A[i, j] * A[i, j]), "a sum over entries of several operands"),
        (atl.gen(n, m, lambda i, j: D[i, j]), "it does not sum over the entries of A"),
    ],
)
def test_result_without_the_operand_pattern_is_refused(formula: Any, message: str) -> None:
    s = reschedule(atl.program("formula", [A, D], formula))
    with pytest.raises(DoesNotApply) as caught:
        s.sparsify("A", sparse.CSR, result=True)
    assert "the result does not have the pattern of A" in str(caught.value)
    assert message in str(caught.value)
    assert "required: a result with a value for each entry of the operand" in str(caught.value)
    assert not s.steps


@pytest.mark.long
@pytest.mark.parametrize("form", [sparse.CSR, sparse.CSC, sparse.COO], ids=repr)
def test_errors_of_lets_within_loops_name_calls_that_work(form: sparse.Format) -> None:
    def row(i: Any) -> Any:
        return atl.let(atl.sum(m, lambda q: A[i, q]), lambda d: atl.gen(m, lambda j: A[i, j] / d))

    program = atl.program("normalized", [A], atl.gen(n, row))
    with pytest.raises(DoesNotApply) as caught:
        reschedule(program).sparsify("A", form, result=True)
    reason = "inside of the let d, which is within a loop" if form == sparse.CSR else "entries are found below let"
    assert reason in str(caught.value)
    assert "try: s.hoist('d') before this call" in str(caught.value)
    made = [reschedule(program).hoist("d").sparsify("A", form, result=True)]
    if form == sparse.CSR:
        assert "try: s.inline('d') before this call" in str(caught.value)
        made.append(reschedule(program).inline("d").sparsify("A", form, result=True))
        made.append(reschedule(program).sparsify("A", form).assemble(form))
    matrix = sp.csr_array(np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]]))
    for s in made:
        assert s.compile()(matrix).toarray().tolist() == [[0.25, 0.0, 0.75], [0.0, 1.0, 0.0]]


def test_sparse_result_needs_nondecreasing_positions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Declarer, "bounds", Declarer.array)
    with pytest.raises(DoesNotApply, match="it is not proved that the entries of A have distinct positions"):
        on_pattern(sparse.CSR)


def test_overlapping_rows_are_refused() -> None:
    """Each call checks that rows do not overlap, even if every index is within its range."""
    kernel = compiled(on_pattern(sparse.CSR, "-3 A / 2").goal)
    matrix = MATRICES["no block divides it"]()
    kernel(matrix)
    matrix.indptr[3], matrix.indptr[4] = matrix.indptr[4] + 1, matrix.indptr[3]
    for _ in range(2):
        with pytest.raises(ArrayError, match="A_pos are not nondecreasing"):
            kernel(matrix)


def test_result_flag_must_be_a_bool() -> None:
    with pytest.raises(InvalidArgument, match="result='A'"):
        reschedule(atl.program("f", [A], A)).sparsify("A", sparse.CSR, result="A")  # type: ignore[arg-type]


@pytest.mark.long
def test_error_names_the_order_of_calls_that_works() -> None:
    both = atl.program("both", [A, D], atl.gen(n, m, lambda i, j: A[i, j] * D[i, j]))
    s = reschedule(both).sparsify("D", sparse.CSR)
    with pytest.raises(DoesNotApply) as caught:
        s.sparsify("A", sparse.CSR, result=True)
    assert "try: call sparsify('A', CSR, result=True) before the other operands are sparsified" in str(caught.value)
    s = reschedule(both).sparsify("A", sparse.CSR, result=True).sparsify("D", sparse.CSR)
    a, d = sp.csr_array(np.eye(3)), sp.csr_array(np.arange(9.0).reshape(3, 3))
    assert s.compile()(a, d).toarray().tolist() == np.diag([0.0, 4.0, 8.0]).tolist()
    added = atl.program("added", [A, D], atl.gen(n, m, lambda i, j: A[i, j] + D[i, j]))
    with pytest.raises(DoesNotApply) as caught:
        reschedule(added).sparsify("D", sparse.CSR).sparsify("A", sparse.CSR, result=True)
    assert "try:" not in str(caught.value)
