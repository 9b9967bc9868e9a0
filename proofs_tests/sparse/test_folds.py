"""Minima and maxima of entries: zero takes part unless a row is full, and NaN propagates."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import scipy.sparse as sp

import atl
from atl.errors import ArrayError
from rewrites import Session, reschedule
from rewrites.errors import DoesNotApply
from sparse import COO, CSC, CSF, CSR, DCSR, VECTOR, Format, pack

n, m, k = atl.sizes("n m k")
A = atl.tensor("A", n, m, dtype="float64")
B = atl.tensor("B", n, m, dtype="float64")


def rows(monoid: Literal["min", "max"], element: Any = lambda i, j: A[i, j], *others: atl.Tensor) -> Session:
    body = atl.gen(n, lambda i: atl.reduce(monoid, m, lambda j: element(i, j)))
    return reschedule(atl.program("extrema", [A, *others], body))


def matrices(count: int, *, special: bool = False) -> list[Any]:
    """Return random matrices: with full rows, without any entry, all negative, and optionally with NaN and infinity."""
    rng = np.random.default_rng(3)
    made = []
    for number in range(count):
        shape = tuple(rng.integers(0, 5, 2))
        value = rng.integers(-3, 1 if number % 2 else 4, shape) * (rng.random(shape) < (0.3, 0.8, 1.0)[number % 3])
        value = value.astype(float)
        if special and value.size:
            value.flat[rng.integers(value.size)] = (np.nan, np.inf, -np.inf)[number % 3]
        made.append(value)
    return made


@pytest.mark.parametrize("monoid", ["min", "max"])
def test_zero_takes_part_unless_a_row_is_full(monoid: Literal["min", "max"]) -> None:
    s = rows(monoid).sparsify("A", CSR.sorted())
    assert str(s.goal).count(f"{monoid}[") == 2
    extremum = s.compile()
    for value in matrices(30, special=True):
        wanted = getattr(np, monoid)(value, axis=1) if value.shape[1] else np.zeros(len(value))
        np.testing.assert_array_equal(extremum(value), wanted)
        np.testing.assert_array_equal(extremum(sp.csr_array(value)), wanted)


def test_stored_zeros_take_part() -> None:
    stored = sp.csr_array((np.array([-1.0, 0.0, -2.0, -3.0]), np.array([0, 1, 0, 1]), np.array([0, 2, 4])), (2, 2))
    assert rows("max").sparsify("A", CSR.sorted()).compile()(stored).tolist() == [0.0, -2.0]


@pytest.mark.long
def test_columns_vectors_and_whole_matrices() -> None:
    columns = atl.program("f", [A], atl.gen(m, lambda j: atl.reduce("max", n, lambda i: A[i, j])))
    whole = atl.program("f", [A], atl.reduce("max", n, lambda i: atl.reduce("max", m, lambda j: A[i, j])))
    x = atl.tensor("x", m, dtype="float64")
    vector = atl.program("f", [x], atl.reduce("min", m, lambda j: x[j]))
    by_column = reschedule(columns).sparsify("A", CSC.sorted()).compile()
    of_all = reschedule(whole).sparsify("A", CSR.sorted()).compile()
    of_vector = reschedule(vector).sparsify("x", VECTOR.sorted()).compile()
    for value in matrices(20):
        assert by_column(value).tolist() == atl.evaluate(columns, value).tolist()
        assert of_all(value) == atl.evaluate(whole, value)
        for row in value:
            assert of_vector(row) == atl.evaluate(vector, row)


@pytest.mark.long
def test_functions_and_products_of_entries() -> None:
    x = atl.tensor("x", m, dtype="float64")
    scaled = rows("max", lambda i, j: abs(A[i, j]) * x[j], x)
    both = rows("max", lambda i, j: A[i, j] * B[i, j], B)
    one = scaled.sparsify("A", CSR.sorted()).compile()
    two = both.sparsify("A", CSR.sorted()).sparsify("B", CSR.sorted()).compile()
    for value in matrices(12):
        weights = np.arange(value.shape[1]) - 1.5
        assert one(value, weights).tolist() == atl.evaluate(scaled.goal, value, weights).tolist()
        assert two(value, value[::-1].copy()).tolist() == atl.evaluate(both.goal, value, value[::-1]).tolist()


@pytest.mark.parametrize("form", [CSR, COO.sorted(), DCSR.sorted()], ids=repr)
def test_formats_without_rows_of_distinct_entries_are_refused(form: Format) -> None:
    with pytest.raises(DoesNotApply, match="the loop j is still dense: it is a max, not a sum") as error:
        rows("max").sparsify("A", form)
    assert "required: a max over the columns of a format with dense rows and at most one entry" in str(error.value)
    assert "try: sparsify('A', CSR.sorted()) for a max over the last dimension" in str(error.value)


def test_a_fold_across_rows_is_refused() -> None:
    columns = atl.program("f", [A], atl.gen(m, lambda j: atl.reduce("max", n, lambda i: A[i, j])))
    with pytest.raises(DoesNotApply, match="below a max") as error:
        reschedule(columns).sparsify("A", CSR.sorted())
    assert "try: sparsify('A', CSC.sorted())" in str(error.value)


def test_max_needs_dense_rows_or_a_sum_of_entries() -> None:
    t = atl.tensor("T", k, n, m, dtype="float64")
    norm = atl.program("f", [A], atl.reduce("max", n, lambda i: atl.sum(m, lambda j: abs(A[i, j]))))
    kernel_of_norm = reschedule(norm).sparsify("A", CSR.sorted()).compile()
    value = np.array([[1.0, -2.0], [0.0, 0.5]])
    assert kernel_of_norm(value) == 3.0
    inner = atl.program("f", [t], atl.gen(k, n, lambda a, i: atl.reduce("max", m, lambda j: t[a, i, j])))
    with pytest.raises(DoesNotApply, match="still dense"):
        reschedule(inner).sparsify("T", CSF.sorted())


def test_repeated_coordinates_are_refused_by_the_kernel() -> None:
    extremum = rows("max").sparsify("A", CSR.sorted()).compile()
    pos, crd, values = np.array([0, 2], np.int32), np.array([0, 0], np.int32), np.array([1.0, 1.0])
    with pytest.raises(ArrayError, match="not strictly increasing"):
        extremum(A_pos=pos, A_crd=crd, A_val=values, m=2)
    assert extremum(pack(sp.csr_array((values, crd, pos), (1, 2)), CSR.sorted())).tolist() == [2.0]


def test_condition_of_full_rows_is_exact() -> None:
    s = rows("max").sparsify("A", CSR.sorted())
    text = str(s.goal)
    full = np.array([[-1.0, -2.0]])
    few = np.array([[-1.0, 0.0]])
    assert s.compile()(full).tolist() == [-1.0]
    assert s.compile()(sp.csr_array(few)).tolist() == [0.0]
    wrong = text.replace("A_pos[i + 1] < A_pos[i] + m ∧ 1 <= m", "A_pos[i + 1] <= A_pos[i] + m ∧ 1 <= m")
    assert wrong != text
    assert atl.compile(atl.parse(wrong))(
        A_pos=np.array([0, 2], np.int32), A_crd=np.array([0, 1], np.int32), A_val=full[0], m=2
    ).tolist() != [-1.0]
