"""Unscheduled programs, for workloads without one in the examples."""

from __future__ import annotations

import atl
from atl import Program

n, m, k = atl.sizes("n m k", min=1)


def transpose() -> Program:
    """Return the transpose of a matrix."""
    x = atl.tensor("x", n, m)
    return atl.program("transposed", [x], atl.gen(m, n, lambda j, i: x[i, j]))


def matrix_vector() -> Program:
    """Return a matrix times a vector."""
    a, x = atl.tensor("a", n, m), atl.tensor("x", m)
    return atl.program("applied", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))


def product_float64() -> Program:
    """Return a matrix product in double precision."""
    a, b = atl.tensor("A", n, k, dtype="float64"), atl.tensor("B", k, m, dtype="float64")
    return atl.program("product", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j])))
