"""Nests with a workspace that is scattered from sparse rows, as they reach the pass that empties workspaces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

import atl
from lowering.lower import lower_unchecked
from lowering.nest.interpreter import AnyArray
from lowering.nest.loopnest import LoopNest
from lowering.passes import PASSES, after_passes
from lowering.passes.workspaces import with_emptied_workspaces
from sparse import CSR, pack

n, m, k = atl.sizes("n m k")
A = atl.tensor("A", n, m, dtype="float64")


def _rows(made: Any, read: Any) -> atl.Program:
    body = atl.gen(n, lambda i: atl.let(made(i), lambda w: atl.gen(m, lambda j: read(w, i, j)), name="w"))
    return atl.reschedule(atl.program("rows", [A], body)).sparsify("A", CSR).goal


def _row(i: Any) -> atl.Tensor:
    return atl.gen(m, lambda j: A[i, j])


WORKSPACES: Final = {
    "read in reverse": _rows(_row, lambda w, i, j: w[j] + w[m - 1 - j]),
    "in part under a condition": _rows(
        lambda i: _row(i) + atl.guard(i != 1, _row(n - 1 - i)), lambda w, i, j: w[m - 1 - j] * w[j]
    ),
    "of two rows": _rows(lambda i: atl.gen(m, lambda j: A[i, j] + 2 * A[n - 1 - i, j]), lambda w, i, j: w[m - 1 - j]),
    "of all rows": _rows(lambda i: atl.gen(m, lambda j: atl.sum(n, lambda q: A[q, j])), lambda w, i, j: w[j] * w[0]),
}
"""Programs with a workspace that the pass empties by the loops that fill it."""


def workspace_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """Yield the nests with sizes and arrays."""
    numbers = np.random.default_rng(3)
    for program in WORKSPACES.values():
        before = after_passes(lower_unchecked(program), PASSES[: PASSES.index(with_emptied_workspaces)])
        for rows, columns in ((3, 4), (4, 1), (2, 6)):
            packed = pack(numbers.integers(0, 3, (rows, columns)).astype(np.float64), CSR)
            pos, crd, val = packed.arrays
            sizes = {"n": rows, "m": columns, "A_nnz": len(crd)}
            yield before, sizes, {"A_pos": pos, "A_crd": crd, "A_val": val}
