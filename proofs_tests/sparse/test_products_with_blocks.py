"""Products of two sparse matrices, one of them in blocks that do not divide its extents."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
import scipy.sparse as sp

import atl
import sparse
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import body
from proofs_tests.sparse.matrices import MATRICES, Matrix, dense
from proofs_tests.sparse.test_kernels import SPMSPM
from rewrites import Session, reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply
from sparse import Format

n, m = atl.sizes("n m")
A, C = atl.tensor("A", n, m, dtype="float64"), atl.tensor("C", n, m, dtype="float64")
ELEMENTWISE: Final = atl.program("elementwise", [A, C], atl.gen(n, m, lambda i, j: A[i, j] * C[i, j]))
BLOCKS: Final = (sparse.BCSR(2, 3), sparse.CSB(3, 2))
OTHERS: Final = (
    sparse.CSR, sparse.CSC, sparse.DCSR, sparse.DCSC, sparse.CSF, sparse.COO, sparse.DIA, sparse.BITMASK, sparse.HASH,
)  # fmt: skip
PAIRS: Final = [
    *((first, second) for first in BLOCKS for second in (*OTHERS, *BLOCKS)),
    *((first, second) for first in OTHERS for second in BLOCKS),
]

LOOKED_UP: Final = [
    *((sparse.BCSR(2, 3), second) for second in (sparse.CSR, sparse.COO, sparse.HASH, sparse.CSB(3, 2))),
    *((first, sparse.BCSR(2, 3)) for first in (sparse.CSC, sparse.DIA, sparse.BITMASK)),
    (sparse.CSB(3, 2), sparse.CSR), (sparse.CSC, sparse.CSB(3, 2)),
]  # fmt: skip
"""Pairs with a lookup of block rows or columns, one for each kind; the slow test covers all pairs."""


def derived(program: atl.Program, forms: tuple[Format, Format], first: int) -> Session:
    """Derive the kernel for two operands in these formats; `first` is sparsified first."""
    s = reschedule(program)
    names = [each.name for each in program.inputs]
    for at in (first, 1 - first):
        s.sparsify(names[at], forms[at])
    return s


def second_matrix(shape: tuple[int, int], seed: int) -> Matrix:
    """Return a matrix with explicit zeros, duplicates and unsorted entries."""
    random = np.random.default_rng(seed)
    count = shape[0] * shape[1] // 2
    rows, columns = (random.integers(0, max(extent, 1), count) for extent in shape)
    return sp.coo_array((random.integers(0, 5, count).astype(np.float64), (rows, columns)), shape=shape)


def check(s: Session, program: atl.Program) -> None:
    """Compare the kernel with NumPy, with an edge case for either operand, and replay its certificate."""
    assert loads(dumps(s.done())).rhs == s.goal
    kernel = compiled(s.goal)
    for name, made in MATRICES.items():
        edge: Any = made()
        rows, columns = edge.shape
        if program is ELEMENTWISE:
            cases = [(edge, second_matrix((rows, columns), 1)), (second_matrix((rows, columns), 2), edge)]
            expected = [dense(a) * dense(b) for a, b in cases]
        else:
            cases = [(edge, second_matrix((columns, 7), 1)), (second_matrix((5, rows), 2), edge)]
            expected = [dense(a) @ dense(b) for a, b in cases]
        for (a, b), wanted in zip(cases, expected, strict=True):
            assert np.array_equal(kernel(a, b), wanted), name


@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize("forms", LOOKED_UP, ids=repr)
def test_block_matrix_times_other_format(forms: tuple[Format, Format]) -> None:
    check(derived(SPMSPM, forms, 0 if forms[0] in BLOCKS else 1), SPMSPM)


@pytest.mark.long
@pytest.mark.parametrize(
    ("forms", "first"),
    [((sparse.BCSR(2, 3), sparse.CSC), 0), ((sparse.BCSR(2, 3), sparse.CSC), 1), ((sparse.CSB(3, 2), sparse.HASH), 1)],
    ids=["blocks, then columns", "columns, then blocks", "tables, then blocks"],
)
def test_elementwise_product_with_a_block_matrix(forms: tuple[Format, Format], first: int) -> None:
    check(derived(ELEMENTWISE, forms, first), ELEMENTWISE)


@pytest.mark.slow
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("program", [SPMSPM, ELEMENTWISE], ids=lambda program: program.name)
@pytest.mark.parametrize("forms", PAIRS, ids=repr)
def test_products_with_blocks_in_both_orders(forms: tuple[Format, Format], program: atl.Program, first: int) -> None:
    check(derived(program, forms, first), program)


@pytest.mark.long
def test_int64_indices_of_blocks_and_rows() -> None:
    forms = (sparse.BCSR(2, 3).with_index_dtype("int64"), sparse.CSR.with_index_dtype("int64"))
    check(derived(SPMSPM, forms, 0), SPMSPM)


@pytest.mark.long
def test_row_is_checked_before_its_entries_are_searched() -> None:
    s = derived(SPMSPM, (sparse.BCSR(2, 3), sparse.CSR), 0)
    rows = "Σ[p3 < min(m - 3*A_crd[p1], 3)]"
    entries = "Σ[E_pos[3*A_crd[p1] + p3] <= p4 < E_pos[3*A_crd[p1] + p3 + 1]] place q E_crd[p4]"
    assert f"{rows} {entries}" in body(s)


@pytest.mark.long
def test_conditions_follow_those_that_make_their_reads_safe() -> None:
    s = derived(ELEMENTWISE, (sparse.BCSR(2, 3), sparse.HASH), 1)
    assert "Σ[p3 < min(n - 2*p1, 2)] [0 <= C_crd[2*p1 + p3, p]]" in body(s)
    # A condition of a loop that reads a dense tensor does not become a bound.
    weights = atl.tensor("W", n, m, dtype="float64")
    weighted = atl.program("weighted", [A, C, weights], atl.gen(n, m, lambda i, j: A[i, j] * C[i, j] * weights[i, j]))
    s = derived(weighted, (sparse.BCSR(2, 3), sparse.HASH), 1)
    assert "[2*p1 + p3 < n ∧ 0 <= C_crd[2*p1 + p3, p]]" in body(s)


@pytest.mark.long
def test_conditions_of_blocks_become_bounds_unless_a_dense_tensor_is_read() -> None:
    assert "Σ[p2 < min(q - 3*E_crd[p1], 3)]" in body(derived(SPMSPM, (sparse.CSR, sparse.BCSR(2, 3)), 0))
    assert "Σ[p3 < min(m - 3*A_crd[p1], 3)]" in body(derived(SPMSPM, (sparse.BCSR(2, 3), sparse.CSR), 0))
    dense_rows = body(reschedule(SPMSPM).sparsify("A", sparse.BCSR(2, 3)))
    assert "Σ[p3 < 3] [3*A_crd[p1] + p3 < m]" in dense_rows


ROWS: Final = """
f (pos : int32[n + 1] in [0, nnz + 1), x : float64[nnz], m : size) : float64[m] :=
  ⊞[i < m] {outside}Σ[pos[i] <= p < pos[i + 1]] {inside}x[p]
"""


def test_range_with_unsafe_reads_does_not_remove_a_guard() -> None:
    s = reschedule(atl.parse(ROWS.format(outside="", inside="[i < n] · ")))
    with pytest.raises(DoesNotApply, match="no guard in the goal is known"):
        s.simpl_guard()
    s = reschedule(atl.parse(ROWS.format(outside="[i < n] · ", inside="[i < n ∧ p < nnz] · ")))
    s.simpl_guard()
    assert body(s) == "⊞[i < m] [i < n] · Σ[pos[i] <= p < pos[i + 1]] x[p]"


MARKED: Final = """
f (mark : int32[n], x : float64[n], m : size) : float64[m] :=
  ⊞[i < m] [{outside}] · 2.0 * ([{inside}] · x[i])
"""


def test_guard_with_unsafe_reads_does_not_remove_a_guard() -> None:
    with pytest.raises(DoesNotApply, match="no guard in the goal is known"):
        reschedule(atl.parse(MARKED.format(outside="mark[i] = 1", inside="i < n"))).simpl_guard()
    s = reschedule(atl.parse(MARKED.format(outside="mark[i] = 1 ∧ i < n", inside="1 <= mark[i]")))
    s.simpl_guard()
    assert body(s) == "⊞[i < m] [mark[i] = 1 ∧ i < n] · 2.0 * x[i]"
