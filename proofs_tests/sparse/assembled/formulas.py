"""The formulas of `atl fuzz sparse --assembled`, and their kernels for formats of the operands and of the result."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

import atl
from lowering import Kernel
from lowering import compile as compiled
from proofs_tests.sparse.ellpack import ELL
from rewrites import Session, reschedule
from sparse import (
    BCSR,
    BITMASK,
    COO,
    CSB,
    CSC,
    CSF,
    CSR,
    DCSC,
    DCSR,
    DIA,
    HASH,
    MODE_GENERIC,
    VECTOR,
    Compressed,
    Dense,
    Format,
    Permuted,
)

n, m, k = atl.sizes("n m k")

OPERANDS: Final = (CSR, CSR.sorted(), CSC, COO, DCSR.sorted(), CSR.with_index_dtype("int64"))
RESULTS: Final = (
    CSR, CSR.sorted(), CSC, CSC.sorted(), COO, DCSR, DCSC, CSF, BCSR(2, 3), DIA, CSR.sorted().with_index_dtype("int64"),
    COO.sorted(), DCSR.sorted().with_index_dtype("int64"), CSB(3, 2), BITMASK, HASH, ELL,
)  # fmt: skip
CUBES: Final = (CSF, CSF.sorted(), COO)
FIBRES: Final = Format("FIBRES", (Dense(), Compressed(), Compressed()))
"""Dense slices of compressed fibres, as a user may compose them."""
TURNED: Final = Format("TURNED", (Compressed(), Compressed(), Compressed()), Permuted((2, 0, 1)))
CUBE_RESULTS: Final = (CSF, COO, FIBRES, TURNED, CSF.with_index_dtype("int64"), MODE_GENERIC, BITMASK)
WITH_ZEROS: Final = ("BCSR(2, 3)", "DIA", "MODE_GENERIC")
"""The formats that also store zeros."""
UNSORTED: Final = ("HASH", "CSB(3, 2)")
"""The formats that store entries in another order than that of their coordinates."""


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula over sparse operands with these extents, and other inputs; `meant` is its meaning in NumPy.

    `pattern` returns positive numbers exactly at the entries of the result, for operands that are 1 at their entries
    and other inputs that are 1 everywhere; by default, it is `meant`.
    `finish` completes the schedule. `dtype` is the element type of the operands, others than float64 are passed packed.
    """

    name: str
    operands: Mapping[str, tuple[Any, ...]]
    body: Callable[..., atl.Tensor]
    meant: Callable[..., Any] = field(compare=False)
    others: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    formats: tuple[Format, ...] = OPERANDS
    results: tuple[Format, ...] = RESULTS
    finish: Callable[[Session], Session] = field(default=lambda s: s, compare=False)
    pattern: Callable[..., Any] | None = field(default=None, compare=False)
    dtype: str = "float64"

    def __hash__(self) -> int:
        return hash(self.name)


def _product(a: atl.Tensor, b: atl.Tensor) -> atl.Tensor:
    return atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: a[i, q] * b[q, j]))


def _masked(a: atl.Tensor, b: atl.Tensor, c: atl.Tensor) -> atl.Tensor:
    """Return a product of two matrices at the entries of a third one, with a workspace of one row."""

    def row(i: atl.IndexExpr) -> atl.Tensor:
        product = atl.gen(m, lambda j: atl.sum(k, lambda q: a[i, q] * b[q, j]))
        return atl.let(product, lambda w: atl.gen(m, lambda j: c[i, j] * w[j]))

    return atl.gen(n, row)


def _wide(e: atl.Tensor) -> atl.Tensor:
    return atl.cast("float32", e)


def _half(e: atl.Tensor) -> atl.Tensor:
    return atl.cast("float16", e)


def _cube(t: atl.Tensor) -> atl.Tensor:
    return atl.gen(n, m, lambda i, j: atl.gen(k, lambda q: t[i, j, q]))


def _merged(s: Session) -> Session:
    return s.mark("p", "merge").mark("p1", "merge")


def _parallel(s: Session) -> Session:
    return s.mark("i", "parallel")


NM, MM, NN, NMK = (n, m), (m, m), (n, n), (n, m, k)
SORTED: Final = (CSR.sorted(),)
DISTINCT: Final = (CSR.sorted(), CSC.sorted(), DCSR.sorted(), CSR.sorted().with_index_dtype("int64"))
ROWS: Final = (CSR, CSR.sorted(), CSR.with_index_dtype("int64"))
FORMULAS: Final = (
    Formula("A B", {"A": (n, k), "B": (k, m)}, _product, lambda a, b: a @ b),
    Formula("A", {"A": NM}, lambda a: atl.gen(n, m, lambda i, j: a[i, j]), lambda a: a),
    Formula("A + B", {"A": NM, "B": NM}, lambda a, b: a + b, lambda a, b: a + b),
    Formula(
        "2 A - 3 B",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: 2.0 * a[i, j] - 3.0 * b[i, j]),
        lambda a, b: 2 * a - 3 * b,
        pattern=lambda a, b: a + b,
    ),
    Formula(
        "A - A",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: a[i, j] - a[i, j]),
        lambda a: a - a,
        pattern=lambda a: a,
    ),
    Formula(
        "A * B",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: a[i, j] * b[i, j]),
        lambda a, b: a * b,
        formats=ROWS,
    ),
    Formula("A * B as tensors", {"A": NM, "B": NM}, lambda a, b: a * b, lambda a, b: a * b, formats=ROWS),
    Formula(
        "A * B merged",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: a[i, j] * b[i, j]),
        lambda a, b: a * b,
        formats=SORTED,
        finish=_merged,
    ),
    Formula(
        "A * B merged by both coordinates",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: a[i, j] * b[i, j]),
        lambda a, b: a * b,
        formats=(COO.sorted(), COO.sorted().with_index_dtype("int64")),
        finish=_merged,
    ),
    Formula(
        "A B in parallel",
        {"A": (n, k), "B": (k, m)},
        _product,
        lambda a, b: a @ b,
        formats=ROWS,
        results=(CSR, CSR.sorted(), COO),
        finish=_parallel,
    ),
    Formula(
        "A + B in parallel",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: a[i, j] + b[i, j]),
        lambda a, b: a + b,
        formats=ROWS,
        results=(CSR, CSR.sorted(), COO),
        finish=_parallel,
    ),
    Formula(
        "A scaled in parallel",
        {"A": NM},
        lambda a, d: atl.gen(n, m, lambda i, j: atl.guard(i != 1, d[j] * a[i, j])),
        lambda a, d: np.where(np.arange(len(a))[:, None] != 1, d * a, 0),
        others={"d": (m,)},
        formats=ROWS,
        results=SORTED,
        finish=_parallel,
    ),
    Formula("A transposed", {"A": NM}, lambda a: atl.gen(m, n, lambda j, i: a[i, j]), lambda a: a.T),
    Formula(
        "A + A transposed",
        {"A": NN},
        lambda a: atl.gen(n, n, lambda i, j: a[i, j] + a[j, i]),
        lambda a: a + a.T,
        formats=ROWS,
    ),
    Formula(
        "lower triangle of A",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: atl.guard(j <= i, a[i, j])),
        np.tril,
    ),
    Formula(
        "A stacked on B",
        {"A": (n, m), "B": (k, m)},
        lambda a, b: atl.concat(atl.gen(n, m, lambda i, j: a[i, j]), atl.gen(k, m, lambda i, j: b[i, j])),
        lambda a, b: np.vstack([a, b]),
        formats=ROWS,
    ),
    Formula(
        "A next to B",
        {"A": (n, m), "B": (n, k)},
        lambda a, b: atl.gen(n, lambda i: atl.concat(atl.gen(m, lambda j: a[i, j]), atl.gen(k, lambda j: b[i, j]))),
        lambda a, b: np.hstack([a, b]),
        formats=ROWS,
    ),
    Formula(
        "rows of A scaled",
        {"A": NM},
        lambda a, d: atl.gen(n, m, lambda i, j: d[i] * a[i, j]),
        lambda a, d: d[:, None] * a,
        others={"d": (n,)},
    ),
    Formula(
        "A with a diagonal",
        {"A": NN},
        lambda a, d: atl.gen(n, n, lambda i, j: a[i, j] + atl.guard(i == j, d[i])),
        lambda a, d: a + np.diag(d),
        others={"d": (n,)},
        formats=ROWS,
    ),
    Formula(
        "Laplacian of A",
        {"A": NN},
        lambda a: atl.gen(n, n, lambda i, j: atl.guard(i == j, atl.sum(n, lambda q: a[i, q])) - a[i, j]),
        lambda a: np.diag(a.sum(axis=1)) - a,
        pattern=lambda a: np.diag(a.sum(axis=1)) + a,
        formats=ROWS,
    ),
    Formula(
        "A B + C",
        {"A": (n, k), "B": (k, m), "C": NM},
        lambda a, b, c: atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: a[i, q] * b[q, j]) + c[i, j]),
        lambda a, b, c: a @ b + c,
        formats=ROWS,
    ),
    Formula(
        "C * (A B)",
        {"A": (n, k), "B": (k, m), "C": NM},
        lambda a, b, c: atl.gen(n, m, lambda i, j: c[i, j] * atl.sum(k, lambda q: a[i, q] * b[q, j])),
        lambda a, b, c: c * (a @ b),
        formats=ROWS,
    ),
    Formula(
        "C * (A B) by rows",
        {"A": (n, k), "B": (k, m), "C": NM},
        _masked,
        lambda a, b, c: c * (a @ b),
        formats=ROWS,
        pattern=lambda a, b, c: c,
    ),
    Formula(
        "A sampled at U W",
        {"A": NM},
        lambda a, u, w: atl.gen(n, m, lambda i, j: a[i, j] * atl.sum(2, lambda r: u[i, r] * w[j, r])),
        lambda a, u, w: a * (u @ w.T),
        others={"u": (n, 2), "w": (m, 2)},
    ),
    Formula(
        "x + y",
        {"x": (n,), "y": (n,)},
        lambda x, y: x + y,
        lambda x, y: x + y,
        formats=(CSR,),
        results=(VECTOR, VECTOR.sorted(), COO),
    ),
    Formula(
        "A x",
        {"A": NM, "x": (m,)},
        lambda a, x: atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])),
        lambda a, x: a @ x,
        formats=(CSC, COO),
        results=(VECTOR, VECTOR.sorted()),
    ),
    Formula("T", {"T": NMK}, _cube, lambda t: t, formats=CUBES, results=CUBE_RESULTS),
    Formula(
        "T + U",
        {"T": NMK, "U": NMK},
        lambda t, u: t + u,
        lambda t, u: t + u,
        formats=CUBES,
        results=CUBE_RESULTS,
    ),
    Formula(
        "T * U merged by three coordinates",
        {"T": NMK, "U": NMK},
        lambda t, u: t * u,
        lambda t, u: t * u,
        formats=(COO.sorted(),),
        results=CUBE_RESULTS,
        finish=_merged,
    ),
    Formula(
        "T turned",
        {"T": NMK},
        lambda t: atl.gen(k, n, lambda q, i: atl.gen(m, lambda j: t[i, j, q])),
        lambda t: t.transpose(2, 0, 1),
        formats=CUBES,
        results=CUBE_RESULTS,
    ),
    Formula(
        "relu of A",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: atl.maximum(a[i, j], 0.0)),
        lambda a: np.maximum(a, 0),
        formats=DISTINCT,
    ),
    Formula(
        "relu of the lower triangle of A",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: atl.maximum(atl.guard(j <= i, a[i, j]), 0.0)),
        lambda a: np.tril(np.maximum(a, 0)),
        formats=DISTINCT,
    ),
    Formula(
        "root of |A|, as a tensor",
        {"A": NM},
        lambda a: atl.sqrt(atl.abs(a)),
        lambda a: np.sqrt(abs(a)),
        formats=DISTINCT,
    ),
    Formula(
        "half of A, rounded",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: atl.floor(a[i, j] * 0.5)),
        lambda a: np.floor(a * 0.5),
        formats=DISTINCT,
        pattern=lambda a: a,
    ),
    Formula(
        "A or a quarter of A",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: atl.where(a[i, j] < 0, 0.25 * a[i, j], a[i, j])),
        lambda a: np.where(a < 0, 0.25 * a, a),
        formats=DISTINCT,
    ),
    Formula(
        "A |A|",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: a[i, j] * atl.abs(a[i, j])),
        lambda a: a * abs(a),
        formats=DISTINCT,
    ),
    Formula(
        "relu of A * B",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: atl.maximum(a[i, j] * b[i, j], 0.0)),
        lambda a, b: np.maximum(a * b, 0),
        formats=SORTED,
        finish=_merged,
    ),
    Formula(
        "A of 16 bits",
        {"A": NM},
        lambda a: atl.gen(n, m, lambda i, j: a[i, j]),
        lambda a: a,
        dtype="float16",
    ),
    Formula(
        "A + 2 B of 16 bits",
        {"A": NM, "B": NM},
        lambda a, b: atl.gen(n, m, lambda i, j: _half(_wide(a[i, j]) + 2 * _wide(b[i, j]))),
        lambda a, b: a + 2 * b,
        formats=DISTINCT,
        dtype="float16",
    ),
    Formula(
        "A B of 16 bits",
        {"A": (n, k), "B": (k, m)},
        lambda a, b: atl.gen(n, m, lambda i, j: _half(atl.sum(k, lambda q: _wide(a[i, q]) * _wide(b[q, j])))),
        lambda a, b: a @ b,
        formats=DISTINCT,
        dtype="float16",
    ),
)


@cache
def kernel_for(formula: Formula, form: Format, result: Format, zeros: bool) -> Kernel:
    """Return the kernel of a formula for these formats of its operands and of its result."""
    tensors = {
        name: atl.tensor(name, *extents, dtype=formula.dtype)
        for name, extents in {**formula.operands, **formula.others}.items()
    }
    s = reschedule(atl.program("formula", list(tensors.values()), formula.body(*tensors.values())))
    for name, extents in formula.operands.items():
        s = s.sparsify(name, VECTOR if len(extents) == 1 else form)
    return compiled(formula.finish(s).assemble(result, zeros=zeros).done().rhs)
