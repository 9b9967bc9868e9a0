"""Our schedules: dense formulas in sparse formats, with further rewrites of the loops."""

from __future__ import annotations

from functools import cache
from typing import Final

import atl

RANK = 32
n, m, k = atl.sizes("n m k")
FIBRES: Final = atl.CSF.sorted()
"""CSF with sorted fibres, as TACO assumes: each element of a result is stored once instead of accumulated."""


@cache
def _spmv() -> atl.Program:
    matrix, x = atl.tensor("A", n, m, dtype="float64"), atl.tensor("x", m, dtype="float64")
    return atl.program("spmv", [matrix, x], atl.gen(n, lambda i: atl.sum(m, lambda j: matrix[i, j] * x[j])))


def by_entries(form: atl.Format) -> atl.Session:
    """Derive a matrix times a vector in the loop order of the format."""
    return atl.reschedule(_spmv()).sparsify("A", form)


def in_runs(form: atl.Format) -> atl.Session:
    """Derive the same for coordinates, as a segmented reduction: adjacent entries of a row are stored once."""
    return by_entries(form).mark("p", "runs")


def by_blocks(form: atl.Format) -> atl.Session:
    """Derive the same for blocks of constant extents, with a zero-padded vector and the partial rows peeled.

    The sums of a row of blocks are kept in registers, and stored at the end of the row.
    """
    s = by_entries(form).pad("x").tails(strategy="split")
    s.interchange("p1").rw("place_of_sum", reverse=True).interchange("p2")
    return s.accumulate("p3", at="p", name="block").mark("block", "registers")


COLUMNS: Final = 1024
"""Columns of a tile. The elements of both vectors for them fit into the L1 cache."""


def by_diagonals(form: atl.Format) -> atl.Session:
    """Derive the same for diagonals, tiled by columns: all diagonals of one tile, then of the next."""
    return by_entries(form).tile("j", COLUMNS).interchange("ji").tails()


VECTOR: Final = atl.VECTOR.sorted()


def spmspv() -> atl.Session:
    """Derive a sparse matrix times a sparse vector: each row is merged with the vector."""
    s = atl.reschedule(_spmv()).sparsify("A", atl.CSR.sorted()).sparsify("x", VECTOR)
    return s.mark("p", "merge").mark("p1", "merge")


def sptspv() -> atl.Session:
    """Derive a sparse tensor times a sparse vector along its last dimension: each fibre is merged with the vector."""
    return ttv().sparsify("x", VECTOR).mark("p2", "merge").mark("p3", "merge")


def ttv() -> atl.Session:
    """Derive a tensor times a vector along its last dimension."""
    tensor, x = atl.tensor("T", n, m, k, dtype="float64"), atl.tensor("x", k, dtype="float64")
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: tensor[i, j, p] * x[p]))
    return atl.reschedule(atl.program("ttv", [tensor, x], body)).sparsify("T", FIBRES)


def mttkrp() -> atl.Session:
    """Derive MTTKRP of a constant rank, with the rows of the result accumulated in registers."""
    tensor = atl.tensor("T", n, m, k, dtype="float64")
    last, middle = atl.tensor("D", k, RANK, dtype="float64"), atl.tensor("C", m, RANK, dtype="float64")
    body = atl.gen(
        n,
        RANK,
        lambda i, r: atl.sum(m, lambda j: atl.sum(k, lambda p: tensor[i, j, p] * last[p, r] * middle[j, r])),
    )
    s = atl.reschedule(atl.program("mttkrp", [tensor, last, middle], body)).sparsify("T", atl.CSF)
    return s.accumulate("p1", name="row").mark("row", "registers")


def sddmm() -> atl.Session:
    """Derive SDDMM, with the result in the format of the sparse operand."""
    pattern = atl.tensor("A", n, m, dtype="float64")
    left, right = atl.tensor("U", n, RANK, dtype="float64"), atl.tensor("V", m, RANK, dtype="float64")
    body = atl.gen(n, m, lambda i, j: pattern[i, j] * atl.sum(RANK, lambda r: left[i, r] * right[j, r]))
    return atl.reschedule(atl.program("sddmm", [pattern, left, right], body)).sparsify("A", atl.CSR, result=True)
