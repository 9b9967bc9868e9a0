"""Kernels for various formulas, with one or several sparse operands in different formats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import body
from proofs_tests.sparse.matrices import MATRICES, dense
from rewrites import Session, reschedule
from rewrites.certificates.certificate import dumps, loads

n, m, q = atl.sizes("n m q")
A, v = atl.tensor("A", n, m, dtype="float64"), atl.tensor("v", m, dtype="float64")
B = atl.tensor("B", m, 3, dtype="float64")
U, V = atl.tensor("U", n, 3, dtype="float64"), atl.tensor("V", 3, m, dtype="float64")
D = atl.tensor("D", n, m, dtype="float64")
FORMULAS: dict[str, tuple[list[atl.Tensor], Any, Any]] = {
    "A @ B": ([A, B], atl.gen(n, 3, lambda i, k: atl.sum(m, lambda j: A[i, j] * B[j, k])), lambda a, b: a @ b),
    "A * (U @ V)": ([A, U, V], atl.gen(n, m, lambda i, j: A[i, j] * atl.sum(3, lambda k: U[i, k] * V[k, j])), lambda a,
        u, w: a * (u @ w)),
    "-3 A / 2": ([A], atl.gen(n, m, lambda i, j: -(3.0 * A[i, j]) / 2.0), lambda a: -1.5 * a),
    "A * D": ([A, D], atl.gen(n, m, lambda i, j: A[i, j] * D[i, j]), lambda a, d: a * d),
    "A + D": ([A, D], atl.gen(n, m, lambda i, j: A[i, j] + D[i, j]), lambda a, d: a + d),
    "D - A": ([D, A], atl.gen(n, m, lambda i, j: D[i, j] - A[i, j]), lambda d, a: d - a),
    "sum of A": ([A], atl.sum(n, lambda i: atl.sum(m, lambda j: A[i, j])), lambda a: a.sum()),
    "sums of columns": ([A], atl.gen(m, lambda j: atl.sum(n, lambda i: A[i, j])), lambda a: a.sum(axis=0)),
    "A transposed": ([A], atl.transpose(A), lambda a: a.T),
    "A transposed by elements": ([A], atl.gen(m, n, lambda j, i: A[i, j]), lambda a: a.T),
}  # fmt: skip


FORMULAS["(A - D) @ v"] = (
    [A, D, v],
    atl.gen(n, lambda i: atl.sum(m, lambda j: (A[i, j] - D[i, j]) * v[j])),
    lambda a, d, w: (a - d) @ w,
)
FORMULAS["rows added"] = (
    [A],
    atl.gen(n, m, lambda i, j: A[i, j] + atl.guard(i >= 1, A[i - 1, j])),
    lambda a: a + np.concatenate([np.zeros((1, a.shape[1])), a])[: a.shape[0]],
)
FORMULAS["A * A"] = ([A], atl.gen(n, m, lambda i, j: A[i, j] * A[i, j]), lambda a: a * a)
FORMULAS["A @ A.T"] = ([A], atl.gen(n, n, lambda i, k: atl.sum(m, lambda j: A[i, j] * A[k, j])), lambda a: a @ a.T)
FORMS = (sparse.CSR, sparse.CSC, sparse.COO, sparse.BCSR(2, 3))


def entries_are_searched_for(s: Session) -> bool:
    """Return whether a dense loop compares its index with coordinates: [j = A_crd[p]] below ⊞[j < m]."""
    return any(f"[{index} = " in body(s) for index in "ijk")


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("formula", FORMULAS)
@pytest.mark.parametrize("form", FORMS, ids=repr)
def test_formulas_with_one_sparse_operand(form: sparse.Format, formula: str) -> None:
    inputs, meant, expected = FORMULAS[formula]
    s = reschedule(atl.program("formula", inputs, meant)).sparsify("A", form)
    assert not entries_are_searched_for(s)
    kernel = compiled(s.goal)
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


x = atl.tensor("x", m, dtype="float64")
E = atl.tensor("E", m, q, dtype="float64")
T, z = atl.tensor("T", n, m, q, dtype="float64"), atl.tensor("z", q, dtype="float64")
C, R = atl.tensor("C", m, 4, dtype="float64"), atl.tensor("R", q, 4, dtype="float64")
SPMSPV = atl.program("spmspv", [A, x], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * x[j])))
SPMSPM = atl.program("spmspm", [A, E], atl.gen(n, q, lambda i, k: atl.sum(m, lambda j: A[i, j] * E[j, k])))
TTV = atl.program("ttv", [T, z], atl.gen(n, m, lambda i, j: atl.sum(q, lambda k: T[i, j, k] * z[k])))
MTTKRP = atl.program(
    "mttkrp",
    [T, R, C],
    atl.gen(n, 4, lambda i, r: atl.sum(m, lambda j: atl.sum(q, lambda k: T[i, j, k] * R[k, r] * C[j, r]))),
)
SCHEDULES: dict[str, tuple[atl.Program, list[tuple[str, sparse.Format]], str]] = {
    "a dense workspace":
        (SPMSPV, [("A", sparse.CSR)], "⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] A_val[p] * x[A_crd[p]]"),
    "entries of both that meet": (SPMSPV, [("A", sparse.CSR), ("x", sparse.VECTOR)],
        "⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] Σ[p1 < x_nnz] [A_crd[p] = x_crd[p1]] · A_val[p] * x_val[p1]"),
    "the columns that x has": (SPMSPV, [("x", sparse.VECTOR), ("A", sparse.CSC)],
        "Σ[p < x_nnz] Σ[A_pos[x_crd[p]] <= p1 < A_pos[x_crd[p] + 1]] place n A_crd[p1] (A_val[p1] * x_val[p])"),
    "rows times rows": (
        SPMSPM,
        [("A", sparse.CSR), ("E", sparse.CSR)],
        (
            "⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] Σ[E_pos[A_crd[p]] <= p1 < E_pos[A_crd[p] + 1]] "
            "place q E_crd[p1] (A_val[p] * E_val[p1])"
        ),
    ),
    "rows times some rows": (
        SPMSPM,
        [("A", sparse.CSR), ("E", sparse.DCSR)],
        (
            "⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] Σ[p1 < E_nnz_1] [A_crd[p] = E_crd_1[p1]] · "
            "Σ[E_pos_2[p1] <= p2 < E_pos_2[p1 + 1]] place q E_crd_2[p2] (A_val[p] * E_val[p2])"
        ),
    ),
    "some rows, and of each the column that they meet": (
        SPMSPM,
        [("A", sparse.CSC), ("E", sparse.DCSR)],
        (
            "Σ[p < E_nnz_1] Σ[A_pos[E_crd_1[p]] <= p1 < A_pos[E_crd_1[p] + 1]] place n A_crd[p1] "
            "Σ[E_pos_2[p] <= p2 < E_pos_2[p + 1]] place q E_crd_2[p2] (A_val[p1] * E_val[p2])"
        ),
    ),
    "columns for the entries of some columns": (
        SPMSPM,
        [("A", sparse.CSC), ("E", sparse.DCSC)],
        (
            "Σ[p < E_nnz_1] Σ[E_pos_2[p] <= p1 < E_pos_2[p + 1]] "
            "Σ[A_pos[E_crd_2[p1]] <= p2 < A_pos[E_crd_2[p1] + 1]] "
            "place n A_crd[p2] place q E_crd_1[p] (A_val[p2] * E_val[p1])"
        ),
    ),
    "columns for entries by their coordinates": (
        SPMSPM,
        [("A", sparse.CSC), ("E", sparse.COO)],
        (
            "Σ[p < E_nnz] Σ[A_pos[E_crd0[p]] <= p1 < A_pos[E_crd0[p] + 1]] "
            "place n A_crd[p1] place q E_crd1[p] (A_val[p1] * E_val[p])"
        ),
    ),
    "tables of rows, and of each what rows have there": (
        SPMSPM,
        [("E", sparse.HASH), ("A", sparse.CSR)],
        (
            "⊞[i < n] Σ[p < E_width] Σ[A_pos[i] <= p1 < A_pos[i + 1]] [0 <= E_crd[A_crd[p1], p]] · "
            "place q E_crd[A_crd[p1], p] (A_val[p1] * E_val[A_crd[p1]*E_width + p])"
        ),
    ),
    "tables, and what is marked at the places in them that are taken": (
        SPMSPV,
        [("A", sparse.HASH), ("x", sparse.BITMASK)],
        (
            "⊞[i < n] Σ[p < A_width] [0 <= A_crd[i, p] ∧ x_mask[A_crd[i, p]] = 1] · "
            "A_val[i*A_width + p] * x_val[A_crd[i, p]]"
        ),
    ),
    "a tensor times a vector": (
        TTV,
        [("T", sparse.CSF)],
        (
            "Σ[p < T_nnz_1] place n T_crd_1[p] Σ[T_pos_2[p] <= p1 < T_pos_2[p + 1]] place m T_crd_2[p1] "
            "Σ[T_pos_3[p1] <= p2 < T_pos_3[p1 + 1]] T_val[p2] * z[T_crd_3[p2]]"
        ),
    ),
    "a tensor of dense fibres times a vector":
        (TTV, [("T", sparse.MODE_GENERIC)], "Σ[p < T_nnz] place n T_crd0[p] ⊞[j < m] T_val[p*m + j] * z[T_crd1[p]]"),
    "a matricised tensor times two matrices": (
        MTTKRP,
        [("T", sparse.CSF)],
        (
            "Σ[p < T_nnz_1] place n T_crd_1[p] ⊞[r < 4] Σ[T_pos_2[p] <= p1 < T_pos_2[p + 1]] "
            "Σ[T_pos_3[p1] <= p2 < T_pos_3[p1 + 1]] T_val[p2] * R[T_crd_3[p2], r] * C[T_crd_2[p1], r]"
        ),
    ),
}  # fmt: skip
MEANT: dict[str, Callable[..., Any]] = {
    "spmspv": lambda a, b: a @ b,
    "spmspm": lambda a, b: a @ b,
    "ttv": lambda t, w: t @ w,
    "mttkrp": lambda t, r, c: np.einsum("ijk,kr,jr->ir", t, r, c),
}


@pytest.mark.thinned(11)
@pytest.mark.sampled
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_order_of_sparsify_calls_determines_the_schedule(schedule: str) -> None:
    program, calls, wanted = SCHEDULES[schedule]
    s = reschedule(program)
    for name, form in calls:
        s.sparsify(name, form)
    assert body(s) == wanted
    assert loads(dumps(s.done())).rhs == s.goal
    kernel = compiled(s.goal)
    random = np.random.default_rng(3)
    for sizes in ({"n": 5, "m": 6, "q": 7}, {"n": 1, "m": 9, "q": 1}, {"n": 4, "m": 0, "q": 3}):
        arrays = []
        for each in program.inputs:
            shape = [sizes.get(str(extent), 4) for extent in each.shape]
            arrays.append(random.integers(1, 9, shape) * (random.random(shape) < 0.4) * 1.0)
        assert np.array_equal(kernel(*arrays), MEANT[program.name](*arrays))


def test_scipy_vector_operand() -> None:
    s = reschedule(SPMSPV).sparsify("x", sparse.VECTOR).sparsify("A", sparse.CSC)
    kernel = compiled(s.goal)
    matrix, vector = MATRICES["no block divides it"](), np.zeros(13)
    vector[[2, 7]] = 3, 4
    for _ in range(2):
        assert np.array_equal(kernel(matrix.tocsc(), sp.coo_array(vector)), matrix @ vector)


def test_interchange_enables_vectorised_rows() -> None:
    s = reschedule(SPMSPM).sparsify("A", sparse.CSR).interchange("k")
    assert body(s) == "⊞[i < n] Σ[A_pos[i] <= p < A_pos[i + 1]] ⊞[k < q] A_val[p] * E[A_crd[p], k]"
    matrix = MATRICES["no block divides it"]()
    other = np.random.default_rng(0).integers(0, 9, (13, 5)).astype(np.float64)
    assert np.array_equal(compiled(s.goal)(matrix, other), matrix @ other)


@pytest.mark.long
@pytest.mark.parametrize(
    ("form", "steps", "wanted"),
    [
        (sparse.BCSR, lambda s: s.tails(strategy="min"),
            "Σ[p3 < min(m - 4*A_crd[p1], 4)] A_val[16*p1 + 4*p2 + p3] * v[4*A_crd[p1] + p3]"),
        (sparse.DIA, lambda s: s.interchange("j").tails(),
            "Σ[p < A_nnz] Σ[max(0, A_crd[p] - n + 1) <= j < min(m, A_crd[p] + 1)] place n (j + n - A_crd[p] - 1)"),
    ],
    ids=["blocks", "diagonals"],
)  # fmt: skip
def test_tails_turn_guards_into_loop_bounds(
    form: sparse.Format, steps: Callable[[Session], Session], wanted: str
) -> None:
    program = atl.program("spmv", [A, v], atl.gen(n, lambda i: atl.sum(m, lambda j: A[i, j] * v[j])))
    s = steps(reschedule(program).sparsify("A", form))
    assert wanted in body(s)
    assert "if (" not in compiled(s.goal).source
    kernel = compiled(s.goal)
    for name in ("no block divides it", "blocks divide it", "empty", "no rows", "no columns", "one element"):
        matrix = MATRICES[name]()
        vector = np.arange(1.0, matrix.shape[1] + 1)
        assert np.array_equal(kernel(matrix, vector), matrix @ vector), name


Added = Callable[[Any, Any, Any], Any]
ADDED: dict[str, Added] = {
    "(a + b) - c": lambda a, b, c: (a + b) - c,
    "a - (b + 2 c)": lambda a, b, c: a - (b + 2.0 * c),
    "-(a + b) / 2 + c": lambda a, b, c: -(a + b) / 2.0 + c,
    "a b + (b - c)": lambda a, b, c: a * b + (b - c),
}
THREE = (A, D, atl.tensor("F", n, m, dtype="float64"))


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("forms", [(sparse.CSR, sparse.CSC, sparse.COO), (sparse.DIA, sparse.CSR, sparse.BCSR(2, 3))])
@pytest.mark.parametrize("times", ["", " times v"])
@pytest.mark.parametrize("added", ADDED)
def test_sums_of_three_operands_in_different_formats(added: str, times: str, forms: tuple[sparse.Format, ...]) -> None:
    def at(i: Any, j: Any) -> Any:
        return ADDED[added](*(each[i, j] for each in THREE))

    meant = atl.gen(n, lambda i: atl.sum(m, lambda j: at(i, j) * v[j])) if times else atl.gen(n, m, at)
    s = reschedule(atl.program("added", [*THREE, *([v] if times else [])], meant))
    for each, form in zip(("D", "F", "A"), forms, strict=True):
        s.sparsify(each, form)
    assert not entries_are_searched_for(s) or added == "a b + (b - c)"
    assert loads(dumps(s.done())).rhs == s.goal
    kernel, random = compiled(s.goal), np.random.default_rng(3)
    for shape in ((7, 5), (4, 6), (1, 9), (0, 3)):
        held = [random.integers(-4, 5, shape) * (random.random(shape) < 0.4) * 2.0 for _ in THREE]
        vector = np.arange(1.0, shape[1] + 1)
        expected = ADDED[added](*held)
        got = kernel(*map(sp.csr_array, held), *([vector] if times else []))
        assert np.array_equal(got, expected @ vector if times else expected)
