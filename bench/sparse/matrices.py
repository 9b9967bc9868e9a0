"""Matrices and tensors of several kinds, as large as is asked for; the same ones each time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

Matrix = Any


def uniform(count: int) -> Matrix:
    """Entries anywhere, ten a row: what is read of the vector is in no order."""
    n, random = max(1, count // 10), np.random.default_rng(1)
    return _matrix(n, random.integers(0, n, count), random.integers(0, n, count))


def banded(count: int) -> Matrix:
    """Eleven diagonals around the main one."""
    n = max(6, count // 11)
    row = np.repeat(np.arange(n), 11)
    column = row + np.tile(np.arange(-5, 6), n)
    inside = (column >= 0) & (column < n)
    return _matrix(n, row[inside], column[inside])


def power_law(count: int) -> Matrix:
    """Few rows with very many entries, and many with few."""
    n, random = max(1, count // 10), np.random.default_rng(2)
    lengths = np.minimum(random.pareto(1.1, n) + 0.2, n / 8)
    row = np.repeat(np.arange(n), np.ceil(lengths * (count / lengths.sum())).astype(np.int64))[:count]
    return _matrix(n, row, random.integers(0, n, len(row)))


def blocks(count: int) -> Matrix:
    """Dense blocks of 4 × 4 anywhere, ten a row of blocks."""
    n, random = max(1, count // 160), np.random.default_rng(3)
    row, column = random.integers(0, n, count // 16), random.integers(0, n, count // 16)
    inner = np.arange(4)
    rows = np.repeat(4 * row[:, None] + inner, 4, axis=1)
    columns = np.tile(4 * column[:, None] + inner, 4)
    return _matrix(4 * n, rows.ravel(), columns.ravel())


def finite_elements(count: int) -> Matrix:
    """Bilinear elements on a square grid with two unknowns at each node: nine neighbours, blocks of 2 × 2."""
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
"""The matrices of real numbers that pyamg ships, of 1,243 to 35,338 entries: at these sizes the call counts too."""


def example(name: str) -> Matrix:
    """One of pyamg's matrices, by rows. Raises `ModuleNotFoundError` where pyamg is not installed."""
    import scipy.sparse as sp
    from pyamg.gallery import load_example

    held = sp.csr_array(load_example(name)["A"])
    held.sum_duplicates()
    indices, pos = held.indices.astype(np.int32), held.indptr.astype(np.int32)
    return sp.csr_array((held.data.astype(np.float64), indices, pos), shape=held.shape)


def _matrix(n: int, row: Any, column: Any) -> Matrix:
    """The matrix by rows, sorted, with a number between 0 and 1 at each place."""
    import scipy.sparse as sp

    made = sp.coo_array((np.ones(len(row)), (row.astype(np.int32), column.astype(np.int32))), shape=(n, n)).tocsr()
    made.sort_indices()
    values = np.random.default_rng(0).random(made.nnz)
    return sp.csr_array((values, made.indices.astype(np.int32), made.indptr.astype(np.int32)), shape=(n, n))


def tensor(density: float, side: int) -> Any:
    """A tensor of three equal dimensions with entries anywhere, by its coordinates."""
    import scipy.sparse as sp

    random = np.random.default_rng(4)
    at = np.unique(random.integers(0, side**3, max(1, int(density * side**3))))
    coordinates = (at // side**2, at // side % side, at % side)
    return sp.coo_array((random.random(len(at)), coordinates), shape=(side,) * 3)
