"""A triangular solve is split in parts and in blocks, and its certificates are replayed."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl import Program
from rewrites import reschedule
from rewrites.certificates.certificate import dumps, loads

n, m = atl.sizes("n m")


def solve(extent: atl.IndexExpr) -> Program:
    a, b = atl.tensor("a", extent, extent, dtype="float64"), atl.tensor("b", extent, dtype="float64")
    solution = atl.rec(extent, lambda i, x: (b[i] - atl.sum(i, lambda j: a[i, j] * x[j])) / a[i, i], dtype="float64")
    return atl.program("trisolv", [a, b], solution)


@pytest.fixture
def system() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    return np.tril(random.random((16, 16))) + 16 * np.eye(16), random.random(16)


def test_triangular_solve_in_two_parts(system: tuple[np.ndarray, np.ndarray]) -> None:
    s = reschedule(solve(n), given=[n >= 8]).rw("rec_split", k=8)
    theorem = loads(dumps(s.done()))
    assert str(theorem.rhs).count("rec[") == 2
    np.testing.assert_allclose(atl.evaluate(theorem.rhs, *system), np.linalg.solve(*system), rtol=1e-12)


def test_triangular_solve_in_blocks(system: tuple[np.ndarray, np.ndarray]) -> None:
    s = reschedule(solve(4 * m)).rw("rec_blocks", n="m", k=4)
    theorem = loads(dumps(s.done()))
    assert str(theorem.rhs).count("rec[") == 2
    assert "flatten" in str(theorem.rhs)
    np.testing.assert_allclose(atl.evaluate(theorem.rhs, *system), np.linalg.solve(*system), rtol=1e-12)
