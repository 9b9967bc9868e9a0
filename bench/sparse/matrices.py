"""Matrices and tensors of several kinds and any size, generated deterministically."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Matrix = Any


def uniform(count: int) -> Matrix:
    """Return a matrix with ten entries per row at random columns."""
    n, random = max(1, count // 10), np.random.default_rng(1)
    return _matrix(n, random.integers(0, n, count), random.integers(0, n, count))


def banded(count: int) -> Matrix:
    """Return a matrix with eleven diagonals around the main one."""
    n = max(6, count // 11)
    row = np.repeat(np.arange(n), 11)
    column = row + np.tile(np.arange(-5, 6), n)
    inside = (column >= 0) & (column < n)
    return _matrix(n, row[inside], column[inside])


def power_law(count: int) -> Matrix:
    """Return a matrix with few very long rows, and many short ones."""
    n, random = max(1, count // 10), np.random.default_rng(2)
    lengths = np.minimum(random.pareto(1.1, n) + 0.2, n / 8)
    row = np.repeat(np.arange(n), np.ceil(lengths * (count / lengths.sum())).astype(np.int64))[:count]
    return _matrix(n, row, random.integers(0, n, len(row)))


def blocks(count: int) -> Matrix:
    """Return a matrix of dense blocks of 4 × 4 at random positions, ten per row of blocks."""
    n, random = max(1, count // 160), np.random.default_rng(3)
    row, column = random.integers(0, n, count // 16), random.integers(0, n, count // 16)
    inner = np.arange(4)
    rows = np.repeat(4 * row[:, None] + inner, 4, axis=1)
    columns = np.tile(4 * column[:, None] + inner, 4)
    return _matrix(4 * n, rows.ravel(), columns.ravel())


def finite_elements(count: int) -> Matrix:
    """Return the matrix of bilinear elements on a square grid with two unknowns per node, in blocks of 2 × 2."""
    side = max(2, int((count / 36) ** 0.5))
    node = np.arange(side * side)
    rows, columns = [], []
    for up in (-1, 0, 1):
        for right in (-1, 0, 1):
            y, x = node // side + up, node % side + right
            inside = (y >= 0) & (y < side) & (x >= 0) & (x < side)
            for k in (0, 1):
                for j in (0, 1):
                    rows.append(2 * node[inside] + k)
                    columns.append(2 * (y * side + x)[inside] + j)
    return _matrix(2 * side * side, np.concatenate(rows), np.concatenate(columns))


MATRICES: Final[dict[str, Callable[[int], Matrix]]] = {
    "uniform": uniform,
    "banded": banded,
    "power law": power_law,
    "blocks": blocks,
    "finite elements": finite_elements,
}


EXAMPLES: Final = (
    "airfoil", "bar", "knot", "local_disc_galerkin_diffusion", "recirc_flow", "unit_cube", "unit_square",
)  # fmt: skip
"""Real matrices of pyamg, of 1,243 to 35,338 entries. At these sizes the overhead of a call matters."""


def example(name: str) -> Matrix:
    """Return one of pyamg's matrices as CSR. Raises `ModuleNotFoundError` if pyamg is not installed."""
    import scipy.sparse as sp
    from pyamg.gallery import load_example

    held = sp.csr_array(load_example(name)["A"])
    held.sum_duplicates()
    indices, pos = held.indices.astype(np.int32), held.indptr.astype(np.int32)
    return sp.csr_array((held.data.astype(np.float64), indices, pos), shape=held.shape)


def _matrix(n: int, row: Any, column: Any) -> Matrix:
    """Return the sorted CSR matrix with these coordinates, and random values between 0 and 1."""
    import scipy.sparse as sp

    made = sp.coo_array((np.ones(len(row)), (row.astype(np.int32), column.astype(np.int32))), shape=(n, n)).tocsr()
    made.sort_indices()
    values = np.random.default_rng(0).random(made.nnz)
    return sp.csr_array((values, made.indices.astype(np.int32), made.indptr.astype(np.int32)), shape=(n, n))


def tensor(density: float, side: int) -> Any:
    """Return a tensor of three equal dimensions with random coordinates, as COO."""
    import scipy.sparse as sp

    random = np.random.default_rng(4)
    at = np.unique(random.integers(0, side**3, max(1, int(density * side**3))))
    coordinates = (at // side**2, at // side % side, at % side)
    return sp.coo_array((random.random(len(at)), coordinates), shape=(side,) * 3)
