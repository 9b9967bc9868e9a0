"""Strict kernels with assembled results: entries have the bits of the goal, or the kernel is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

import atl
from atl.core.program import Program
from atl.errors import NotAssembled
from rewrites import Session

n, m = atl.sizes("n m")
A, B, C = (atl.tensor(name, n, m) for name in "ABC")
S, T = (atl.tensor(name, n, n) for name in "ST")
ADDED = atl.program("added", [A, B], A + B)
PROGRAMS = (
    ADDED,
    atl.program("difference", [A, B], A - B),
    atl.program("three", [A, B, C], (A + B) + C),
    atl.program("product", [S, T], atl.gen(n, n, lambda i, j: atl.sum(n, lambda k: S[i, k] * T[k, j]))),
)


def sparse(program: Program, form: Any = None) -> Session:
    form = form or atl.CSR.sorted()
    s = atl.reschedule(program)
    for each in program.inputs:
        s = s.sparsify(each.name, form)
    return s.assemble(form)


def matrix(numbers: np.random.Generator) -> Any:
    """Return a matrix whose sums round, with entries -0."""
    made = scipy.sparse.random(12, 12, 0.3, format="csr", random_state=numbers, dtype=np.float32)
    made.data = (numbers.uniform(-1, 1, made.nnz) * 10.0 ** numbers.integers(-4, 5, made.nnz)).astype(np.float32)
    made.data[numbers.uniform(size=made.nnz) < 0.3] = -0.0
    return scipy.sparse.csr_array(made)


@pytest.mark.long
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda each: each.name)
def test_entries_have_the_bits_of_the_goal(program: Program) -> None:
    s, numbers = sparse(program), np.random.default_rng(3)
    given = [matrix(numbers) for _ in program.inputs]
    made = s.compile(strict=True)(*given)
    expected = np.asarray(atl.evaluate(s.goal, *given), np.float32)
    rows = np.repeat(np.arange(12), np.diff(made.indptr))
    assert made.nnz == s.compile()(*given).nnz < 144
    assert made.data.tobytes() == expected[rows, made.indices].tobytes()


@pytest.mark.parametrize(
    ("program", "form", "message"),
    [
        (atl.program("right", [A, B, C], A + (B + C)), atl.CSR.sorted(), "a sum of entries, itself computed by two"),
        (ADDED, atl.CSR, "the sum over p, several terms of which may be one entry"),
    ],
    ids=["a + (b + c)", "repeated entries"],
)
def test_sums_that_need_a_dense_buffer_are_refused(program: Program, form: Any, message: str) -> None:
    s = sparse(program, form)
    with pytest.raises(NotAssembled, match=f"adds {message}".replace("(", r"\(").replace("+", r"\+")):
        s.compile(strict=True)
    s.compile()
