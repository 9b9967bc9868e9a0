"""Our schedules: dense formulas, sparse formats, and what is done to the loops then."""

from __future__ import annotations

from functools import cache
from typing import Final

import atl
import sparse
from rewrites import Session, reschedule

RANK = 32
n, m, k = atl.sizes("n m k")
FIBRES: Final = sparse.CSF.sorted()
"""Fibres in order, as the rival takes them to be: then each element of a result is stored once, and not added."""


@cache
def _spmv() -> atl.Program:
    matrix, x = atl.tensor("A", n, m, dtype="float64"), atl.tensor("x", m, dtype="float64")
    return atl.program("spmv", [matrix, x], atl.gen(n, lambda i: atl.sum(m, lambda j: matrix[i, j] * x[j])))


def by_entries(form: sparse.Format) -> Session:
    """A matrix times a vector, as the format gives it."""
    return reschedule(_spmv()).sparsify("A", form)


def in_runs(form: sparse.Format) -> Session:
    """The same by coordinates: what entries of one row that stand together add is stored once."""
    return by_entries(form).mark("p", "runs")


def by_blocks(form: sparse.Format) -> Session:
    """The same by blocks of constant extents: the vector with zeros behind it, rows that hang over the edge apart.

    What the blocks of a row of blocks add is kept in registers, element by element, and stored at the end of the row.
    """
    s = by_entries(form).pad("x").tails(strategy="split")
    s.interchange("p1").rw("place_of_sum", reverse=True).interchange("p2")
    return s.accumulate("p3", at="p", name="block").mark("block", "registers")


COLUMNS: Final = 1024
"""Of so many columns the elements of both vectors stay in the first cache."""


def by_diagonals(form: sparse.Format) -> Session:
    """The same by some columns of all diagonals after the others, each from where it enters them to where it leaves."""
    return by_entries(form).tile("j", COLUMNS).interchange("ji").tails()


def ttv() -> Session:
    """A tensor times a vector along its last dimension."""
    tensor, x = atl.tensor("T", n, m, k, dtype="float64"), atl.tensor("x", k, dtype="float64")
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: tensor[i, j, p] * x[p]))
    return reschedule(atl.program("ttv", [tensor, x], body)).sparsify("T", FIBRES)


def mttkrp() -> Session:
    """A matricised tensor times two matrices of a constant rank; rows of the result are added up in registers."""
    tensor = atl.tensor("T", n, m, k, dtype="float64")
    last, middle = atl.tensor("D", k, RANK, dtype="float64"), atl.tensor("C", m, RANK, dtype="float64")
    body = atl.gen(
        n,
        RANK,
        lambda i, r: atl.sum(m, lambda j: atl.sum(k, lambda p: tensor[i, j, p] * last[p, r] * middle[j, r])),
    )
    s = reschedule(atl.program("mttkrp", [tensor, last, middle], body)).sparsify("T", sparse.CSF)
    return s.accumulate("p1", name="row").mark("row", "registers")


def sddmm() -> Session:
    """A product of dense matrices where a sparse one has entries, times these; stored as that one is."""
    pattern = atl.tensor("A", n, m, dtype="float64")
    left, right = atl.tensor("U", n, RANK, dtype="float64"), atl.tensor("V", m, RANK, dtype="float64")
    body = atl.gen(n, m, lambda i, j: pattern[i, j] * atl.sum(RANK, lambda r: left[i, r] * right[j, r]))
    return reschedule(atl.program("sddmm", [pattern, left, right], body)).sparsify("A", sparse.CSR, result=True)
