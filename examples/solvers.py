"""Solvers of linear equations, and the blocked algorithms that follow from them.

Each program is a recurrence over rows, as in a textbook. In blocks of rows, the sums over rows of earlier blocks are
products of matrices, which `optimize` computes in register tiles. `python -m bench.solvers 1000` compares
them with SciPy.
"""

from __future__ import annotations

import atl
from atl import IndexExpr, Tensor


def triangular() -> atl.Program:
    """Return X of L X = B for a lower triangular L."""
    n, m = atl.sizes("n m")
    L, B = atl.tensor("L", n, n, dtype="float64"), atl.tensor("B", n, m, dtype="float64")  # noqa: N806

    def row(i: IndexExpr, x: Tensor) -> Tensor:
        return atl.gen(m, lambda c: (B[i, c] - atl.sum(i, lambda j: L[i, j] * x[j, c])) / L[i, i])

    return atl.program("triangular", [L, B], atl.rec(n, row, of=(m,)))


def cholesky() -> atl.Program:
    """Return the upper triangular R of A = Rᵀ R, like `scipy.linalg.cholesky`."""
    n = atl.sizes("n")
    A = atl.tensor("A", n, n, dtype="float64")  # noqa: N806

    def row(p: IndexExpr, r: Tensor) -> Tensor:
        def rest(i: IndexExpr) -> Tensor:
            return A[p, i] - atl.sum(p, lambda q: r[q, p] * r[q, i])

        def scaled(d: Tensor) -> Tensor:
            return atl.gen(n, lambda i: atl.guard(p <= i, rest(i) / d))

        return atl.let(atl.sqrt(rest(p)), scaled)

    return atl.program("cholesky", [A], atl.rec(n, row, of=(n,)))


def lu() -> atl.Program:
    """Return the factors of A = L U without pivoting (Doolittle): element p has row p of U and column p of L.

    The diagonal of L, which is 1, is left out. In F = lu(A), U is F[:, 0], and L is F[:, 1].T + I.
    """
    n = atl.sizes("n")
    A = atl.tensor("A", n, n, dtype="float64")  # noqa: N806

    def row(p: IndexExpr, f: Tensor) -> Tensor:
        def upper(j: IndexExpr) -> Tensor:
            return A[p, j] - atl.sum(p, lambda q: f[q, 1, p] * f[q, 0, j])

        def lower(i: IndexExpr) -> Tensor:
            return A[i, p] - atl.sum(p, lambda q: f[q, 1, i] * f[q, 0, p])

        def both(d: Tensor) -> Tensor:
            of_u = atl.gen(1, n, lambda _, j: atl.guard(p <= j, upper(j)))
            of_l = atl.gen(1, n, lambda _, i: atl.guard(p < i, lower(i) / d))
            return atl.concat(of_u, of_l)

        return atl.let(upper(p), both)

    return atl.program("lu", [A], atl.rec(n, row, of=(2, n)))


def triangular_in_blocks(rows: int = 64, within: int = 8) -> atl.Session:
    """Solve for a block of rows after subtracting a product of matrices, the part of the blocks before."""
    return _in_blocks(triangular(), "x", rows, within)


def cholesky_in_blocks(rows: int = 128, within: int = 16) -> atl.Session:
    """Compute R in blocks of rows, which begin with products of the blocks before (left-looking)."""
    return _in_blocks(cholesky(), "r", rows, within)


def lu_in_blocks(rows: int = 128, within: int = 16) -> atl.Session:
    """Compute U and L in blocks of rows and of columns, which begin with products of the blocks before (Crout)."""
    return _in_blocks(lu(), "f", rows, within)


def _in_blocks(program: atl.Program, name: str, rows: int, within: int) -> atl.Session:
    """Compute a recurrence in blocks of `rows`, and each of them in blocks of `within` rows."""
    return atl.reschedule(program).block_rows(name, rows).block_rows(name, within).optimize()
