"""Arithmetic of whole sparse matrices, without element indices, has no dense loops: they visit rows or entries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.index import Read, Size, atoms, index
from lowering.nest import loopnest as ln

n = atl.sizes("n")
A, B = (atl.tensor(name, n, n, dtype="float64") for name in "AB")
x = atl.tensor("x", n, dtype="float64")
FORMULAS: dict[str, Callable[..., Any]] = {
    "A * B": lambda a, b, x: a * b,
    "A * B + A": lambda a, b, x: a * b + a,
    "(A + B) * A": lambda a, b, x: (a + b) * a,
    "A * A - B": lambda a, b, x: a * a - b,
    "A + A.T": lambda a, b, x: a + a.T,
    "A * B.T": lambda a, b, x: a * b.T,
    "A * x": lambda a, b, x: a * x,
    "A @ B + A": lambda a, b, x: a @ b + a,
    "(A * B) @ x": lambda a, b, x: (a * b) @ x,
    "A.sum(0)": lambda a, b, x: a.sum(0),
    "-A / 2": lambda a, b, x: -a / 2,
}


@pytest.mark.sampled
@pytest.mark.parametrize("formula", FORMULAS)
def test_whole_sparse_matrices_have_no_dense_loops(formula: str) -> None:
    names = [name for name in "ABx" if name in formula]
    inputs = [{"A": A, "B": B, "x": x}[name] for name in names]
    s = atl.reschedule(atl.program("whole", inputs, FORMULAS[formula](A, B, x)))
    for name in "AB":
        s = s.sparsify(name, atl.CSR.sorted()) if name in formula else s
    s = s.assemble(atl.CSR.sorted()) if s.goal.type.rank == 2 else s
    kernel = s.compile()
    assert dense_loops(kernel.nest.body, outside=True) == []
    rng = np.random.default_rng(2)
    a, b = (np.where(rng.random((9, 9)) < 0.3, rng.integers(-3, 4, (9, 9)), 0).astype(np.float64) for _ in "ab")
    vector = rng.integers(-3, 4, 9).astype(np.float64)
    found = kernel(*[{"A": a, "B": b, "x": vector}[name] for name in names])
    dense = found if isinstance(found, np.ndarray) else found.toarray()
    assert np.array_equal(dense, FORMULAS[formula](a, b, vector))


def dense_loops(block: ln.Block, *, outside: bool) -> list[ln.For]:
    """Return the loops whose bounds are not positions of entries, except the outermost ones over all rows."""
    found: list[ln.For] = []
    for each in block:
        if not isinstance(each, ln.For | ln.If):
            continue
        if isinstance(each, ln.For):
            of_entries = any(isinstance(atom, Read) for atom in atoms(each.high))
            if not of_entries and not (outside and each.high == index(Size("n"))):
                found.append(each)
        found += dense_loops(each.body, outside=outside and isinstance(each, ln.If))
    return found


@pytest.mark.long
def test_a_dense_loop_is_seen() -> None:
    kernel = atl.reschedule(atl.program("half", [A, B], A * B)).sparsify("A", atl.CSR).compile()
    assert dense_loops(kernel.nest.body, outside=True) == []
    dense = atl.compile(atl.program("dense", [A, B], A * B)).nest
    assert [each.high for each in dense_loops(dense.body, outside=True)] == [n.node]
