"""The formulas of `atl fuzz sparse`, the formats tested for each, and their kernels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

import atl
import sparse
from atl.core.terms import Reduce
from atl.core.traversal import subterms
from lowering import Kernel
from lowering import compile as compiled
from rewrites import Session, reschedule
from sparse import COO, CSC, CSF, CSR, DCSC, DCSR, VECTOR, Format

n, m, k = atl.sizes("n m k")

MATRICES: Final = (
    sparse.CSR, sparse.CSC, sparse.DCSR, sparse.DCSC, sparse.CSF, sparse.COO, sparse.BCSR, sparse.BCSR(2, 3),
    sparse.CSB(3, 2), sparse.DIA, sparse.BITMASK, sparse.HASH, CSR.sorted(), DCSR.sorted(), COO.sorted(),
)  # fmt: skip
CUBES: Final = (sparse.CSF, sparse.COO, sparse.BITMASK, sparse.HASH, sparse.MODE_GENERIC, CSF.sorted())


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula on a tensor A and a second operand, as functions of the extents.

    `second` is the format of the second operand if it is sparse too. `finish` completes the schedule. If `result` is
    true, the result is stored in the format of A.
    """

    name: str
    operand: Callable[[tuple[Any, ...]], tuple[Any, ...]]
    body: Callable[[atl.Tensor, atl.Tensor, tuple[Any, ...]], atl.Tensor]
    meant: Callable[[Any, Any], Any] = field(compare=False)
    formats: tuple[Format, ...] = MATRICES
    cubes: tuple[Format, ...] = ()
    second: Format | None = None
    finish: Callable[[Session], Session] = field(default=lambda s: s, compare=False)
    result: bool = False


def _times_vector(tensor: atl.Tensor, v: atl.Tensor, shape: tuple[Any, ...]) -> atl.Tensor:
    def element(*at: atl.IndexExpr) -> atl.Tensor:
        return atl.sum(shape[-1], lambda last: tensor[(*at, last)] * v[last])

    return atl.gen(*shape[:-1], element)


def _times_matrix(a: atl.Tensor, b: atl.Tensor, shape: tuple[Any, ...]) -> atl.Tensor:
    return atl.gen(shape[0], b.shape[1], lambda i, r: atl.sum(shape[1], lambda j: a[i, j] * b[j, r]))


def _running(a: atl.Tensor, v: atl.Tensor, shape: tuple[Any, ...]) -> atl.Tensor:
    def row(i: atl.IndexExpr, y: atl.Tensor) -> atl.Tensor:
        return atl.select(i >= 1, y[i - 1], 0) + atl.sum(shape[1], lambda j: a[i, j] * v[j])

    return atl.rec(shape[0], row, dtype="float64")


def _elementwise(a: atl.Tensor, d: atl.Tensor, shape: tuple[Any, ...]) -> atl.Tensor:
    return atl.gen(*shape, lambda *at: a[at] * d[at])


def merged(s: Session) -> Session:
    """Mark the two innermost sums, whose coordinates are compared, for co-iteration."""
    return _marked(s, _sums(s)[-2:])


def _merged_rows(s: Session) -> Session:
    """Mark the sums over nonempty fibres of two tensors for co-iteration."""
    return _marked(s.interchange("j"), ["p", "p1"])


def merged_at_all_levels(s: Session) -> Session:
    """Mark all sums for co-iteration, one pair for each level."""
    return _marked(s, _sums(s))


def _sums(s: Session) -> list[str]:
    count = sum(isinstance(each, Reduce) for each in subterms(s.goal.body))
    return ["p", *(f"p{number}" for number in range(1, count))]


def _marked(s: Session, names: list[str]) -> Session:
    for name in names:
        s = s.mark(name, "merge")
    return s


def _in_runs(s: Session) -> Session:
    return s.mark("p", "runs")


FORMULAS: Final = (
    Formula("A v", lambda shape: shape[-1:], _times_vector, lambda a, v: a @ v, cubes=CUBES),
    Formula("A B", lambda shape: (shape[-1], 2), _times_matrix, lambda a, b: a @ b),
    Formula("A * D", lambda shape: shape, _elementwise, lambda a, d: a * d),
    Formula(
        "A + D",
        lambda shape: shape,
        lambda a, d, shape: atl.gen(*shape, lambda i, j: a[i, j] + d[i, j]),
        lambda a, d: a + d,
    ),
    Formula(
        "A v, summed over the rows before",
        lambda shape: shape[-1:],
        _running,
        lambda a, v: np.cumsum(a @ v),
        formats=(CSR, CSR.sorted()),
    ),
    Formula(
        "A * D where D is positive",
        lambda shape: shape,
        lambda a, d, shape: atl.gen(*shape, lambda i, j: a[i, j] * atl.where(d[i, j] > 0, d[i, j], 1)),
        lambda a, d: a * np.where(d > 0, d, 1),
    ),
    Formula(
        "rows of A scaled, stored as A",
        lambda shape: shape[:1],
        lambda a, w, shape: atl.gen(*shape, lambda i, j: w[i] * a[i, j]),
        lambda a, w: w[:, None] * a,
        result=True,
    ),
    Formula(
        "A x merged, x sparse",
        lambda shape: shape[-1:],
        _times_vector,
        lambda a, x: a @ x,
        formats=(CSR.sorted(), DCSR.sorted()),
        cubes=(CSF.sorted(),),
        second=VECTOR.sorted(),
        finish=merged,
    ),
    Formula(
        "A * C merged, C by rows",
        lambda shape: shape,
        _elementwise,
        lambda a, c: a * c,
        formats=(CSR.sorted(), DCSR.sorted()),
        second=CSR.sorted(),
        finish=merged,
    ),
    Formula(
        "A * C merged by all coordinates",
        lambda shape: shape,
        _elementwise,
        lambda a, c: a * c,
        formats=(COO.sorted(),),
        cubes=(COO.sorted(),),
        second=COO.sorted(),
        finish=merged,
    ),
    Formula(
        "A * C merged by two of three coordinates",
        lambda shape: shape,
        lambda a, c, shape: atl.gen(*shape, lambda i, j, q: a[i, j, q] * c[i, j, q]),
        lambda a, c: a * c,
        formats=(),
        cubes=(sparse.MODE_GENERIC.sorted(),),
        second=sparse.MODE_GENERIC.sorted(),
        finish=_merged_rows,
    ),
    Formula(
        "A * C merged twice, by rows",
        lambda shape: shape,
        _elementwise,
        lambda a, c: a * c,
        formats=(DCSR.sorted(),),
        second=DCSR.sorted(),
        finish=merged_at_all_levels,
    ),
    Formula(
        "A * C merged twice, by columns",
        lambda shape: shape,
        _elementwise,
        lambda a, c: a * c,
        formats=(DCSC.sorted(),),
        second=DCSC.sorted(),
        finish=merged_at_all_levels,
    ),
    Formula(
        "A B merged, B by columns",
        lambda shape: (shape[-1], shape[0]),
        _times_matrix,
        lambda a, b: a @ b,
        formats=(CSR.sorted(), DCSR.sorted()),
        second=CSC.sorted(),
        finish=merged,
    ),
    Formula(
        "A * C of three dimensions, merged",
        lambda shape: shape,
        _elementwise,
        lambda a, c: a * c,
        formats=(CSF.sorted(),),
        cubes=(CSF.sorted(),),
        second=CSF.sorted(),
        finish=merged_at_all_levels,
    ),
    Formula(
        "A v in runs",
        lambda shape: shape[-1:],
        _times_vector,
        lambda a, v: a @ v,
        formats=(COO, COO.sorted()),
        cubes=(COO,),
        finish=_in_runs,
    ),
    Formula(
        "A B in runs",
        lambda shape: (shape[-1], 2),
        _times_matrix,
        lambda a, b: a @ b,
        formats=(COO, COO.sorted()),
        finish=_in_runs,
    ),
    Formula(
        "largest of A v in each row",
        lambda shape: shape[-1:],
        lambda a, v, shape: atl.gen(shape[0], lambda i: atl.reduce("max", shape[1], lambda j: a[i, j] * v[j])),
        lambda a, v: (a * v).max(axis=1) if a.shape[1] else np.zeros(len(a)),
        formats=(CSR.sorted(),),
    ),
    Formula(
        "least of each column of A",
        lambda shape: shape[:1],
        lambda a, v, shape: atl.gen(shape[1], lambda j: atl.reduce("min", shape[0], lambda i: a[i, j] * v[i])),
        lambda a, v: (a * v[:, None]).min(axis=0) if len(a) else np.zeros(a.shape[1]),
        formats=(CSC.sorted(),),
    ),
)  # fmt: skip


@cache
def kernel_for(form: Format, formula: Formula, rank: int) -> Kernel:
    """Compile a formula for a tensor in a format."""
    shape = (n, m, k)[:rank]
    tensor = atl.tensor("A", *shape, dtype="float64")
    other = atl.tensor("B", *formula.operand(shape), dtype="float64")
    program = atl.program("formula", [tensor, other], formula.body(tensor, other, shape))
    s = reschedule(program).sparsify("A", form, result=formula.result)
    if formula.second is not None:
        s = s.sparsify("B", formula.second)
    return compiled(formula.finish(s).done().rhs)


def dense_of(result: Any) -> Any:
    """Return a result as a dense array."""
    if isinstance(result, sparse.SparseTensor):
        return sparse.decompress(result)
    return result if isinstance(result, np.ndarray) else result.toarray()
