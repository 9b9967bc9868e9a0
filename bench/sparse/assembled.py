"""Compare assembled sparse results with scipy and C code: `python -m bench.sparse.assembled`.

Each call of ours takes scipy matrices and returns one, with all checks. The C code checks nothing. All sides
alternate, and CPU time is compared. A ratio is the time of a baseline over ours.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from math import exp, log
from typing import Any, Final

import numpy as np

import atl
from bench.measure import pinned
from bench.sparse.by_hand import Result, gustavson, taco
from bench.sparse.comparison import TOLERANCE, WrongResult
from bench.sparse.matrices import MATRICES, Matrix
from lowering import ThreadClock, alternate, ratio, spread

COUNTS: Final = (10**5, 10**6)
MOST_PRODUCTS: Final = 2 * 10**8
"""Products of matrices with more multiplications are left out."""

n, m, k = atl.sizes("n m k")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel, the arguments of a call for a matrix A and another one B, and the same by scipy and by C code."""

    session: Callable[[], atl.Session]
    arguments: Callable[[Matrix, Matrix], tuple[Matrix, ...]]
    scipy: Callable[[Matrix, Matrix], Matrix]
    by_hand: Mapping[str, Callable[[Matrix, Matrix], Result]] = field(default_factory=dict)

    def runs(self, kernel: Callable[..., Matrix], a: Matrix, b: Matrix) -> dict[str, Callable[[], Any]]:
        """Return the calls to compare, by name."""
        others = {name: partial(run, a, b) for name, run in self.by_hand.items()}
        return {"ours": partial(kernel, *self.arguments(a, b)), "scipy": partial(self.scipy, a, b), **others}


def _tensor(name: str, *extents: Any) -> atl.Tensor:
    return atl.tensor(name, *extents, dtype="float64")


def _product(form: atl.Format) -> atl.Session:
    a, b = _tensor("A", n, k), _tensor("B", k, m)
    body = atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: a[i, q] * b[q, j]))
    s = atl.reschedule(atl.program("product", [a, b], body))
    return s.sparsify("A", atl.CSR).sparsify("B", atl.CSR).assemble(form)


def _of_two(body: Callable[[atl.Tensor, atl.Tensor], atl.Tensor]) -> atl.Session:
    a, b = _tensor("A", n, m), _tensor("B", n, m)
    s = atl.reschedule(atl.program("elementwise", [a, b], body(a, b)))
    return s.sparsify("A", atl.CSR.sorted()).sparsify("B", atl.CSR.sorted()).assemble(atl.CSR.sorted())


def _masked() -> atl.Session:
    a, b, c = _tensor("A", n, k), _tensor("B", k, m), _tensor("C", n, m)

    def row(i: atl.IndexExpr) -> atl.Tensor:
        product = atl.gen(m, lambda j: atl.sum(k, lambda q: a[i, q] * b[q, j]))
        return atl.let(product, lambda w: atl.gen(m, lambda j: c[i, j] * w[j]), name="w")

    s = atl.reschedule(atl.program("masked", [a, b, c], atl.gen(n, row)))
    s = s.sparsify("A", atl.CSR).sparsify("B", atl.CSR).sparsify("C", atl.CSR.sorted())
    return s.assemble(atl.CSR.sorted())


def _conversion(start: atl.Format, end: atl.Format) -> atl.Session:
    a = _tensor("A", n, m)
    s = atl.reschedule(atl.program("converted", [a], atl.gen(n, m, lambda i, j: a[i, j])))
    return s.sparsify("A", start).assemble(end)


TACO: Final = "TACO-shaped C"

CANDIDATES: Final = {
    "A @ A": Candidate(
        lambda: _product(atl.CSR), lambda a, _: (a, a), lambda a, _: a @ a, {"C": lambda a, _: gustavson(a, a)}
    ),
    "A @ A sorted": Candidate(
        lambda: _product(atl.CSR.sorted()),
        lambda a, _: (a, a),
        lambda a, _: a @ a,
        {TACO: lambda a, _: taco("product")(a, a)},
    ),
    "A + B": Candidate(
        lambda: _of_two(lambda a, b: a + b), lambda a, b: (a, b), lambda a, b: a + b, {TACO: taco("sum")}
    ),
    "A * B": Candidate(
        lambda: _of_two(lambda a, b: a * b).mark("p", "merge").mark("p1", "merge"),
        lambda a, b: (a, b),
        lambda a, b: a.multiply(b),
        {TACO: taco("elementwise_product")},
    ),
    "B * (A @ A)": Candidate(_masked, lambda a, b: (a, a, b), lambda a, b: (a @ a).multiply(b)),
    "CSR to CSC": Candidate(
        lambda: _conversion(atl.CSR.sorted(), atl.CSC.sorted()), lambda a, _: (a,), lambda a, _: a.tocsc()
    ),
    "COO to CSR": Candidate(
        lambda: _conversion(atl.COO, atl.CSR.sorted()),
        lambda a, _: (_shuffled(a),),
        lambda a, _: _shuffled(a).tocsr(),
    ),
}


@cache
def _kernel(name: str) -> Callable[..., Matrix]:
    return CANDIDATES[name].session().compile()


_SHUFFLED: dict[int, Matrix] = {}


def _shuffled(matrix: Matrix) -> Matrix:
    """Return the entries of a matrix in random order, the same object for the same matrix."""
    import scipy.sparse as sp

    if id(matrix) not in _SHUFFLED:
        found = matrix.tocoo()
        order = np.random.default_rng(5).permutation(found.nnz)
        at = tuple(each[order].astype(np.int32) for each in found.coords)
        _SHUFFLED.clear()
        _SHUFFLED[id(matrix)] = sp.coo_array((found.data[order], at), shape=found.shape)
    return _SHUFFLED[id(matrix)]


def _pairs(counts: Sequence[int]) -> Iterator[tuple[str, int, Matrix, Matrix]]:
    """Yield matrices, each with another one of the same shape: its rows in reverse order."""
    for kind, make in MATRICES.items():
        for count in counts:
            matrix = make(count)
            other = matrix[::-1].copy()
            for each in (matrix, other):
                each.sum_duplicates()
            yield kind, count, matrix, other


def _check(name: str, made: Matrix, wanted: Matrix) -> None:
    error = abs(made - wanted).max()
    if not error <= TOLERANCE * abs(wanted).max():
        raise WrongResult(f"{name}: the largest error is {error:.3g}")


def ratios(
    names: Sequence[str], counts: Sequence[int], seconds: float
) -> Iterator[tuple[str, str, int, float, dict[str, float]]]:
    """Yield kernel, matrix, number of entries, our milliseconds, and the ratios by baseline, for each comparison.

    Raises `WrongResult`.
    """
    for kind, count, matrix, other in _pairs(counts):
        for name in names:
            if "@" in name and int(np.diff(matrix.indptr)[matrix.indices].sum()) > MOST_PRODUCTS:
                continue
            runs = CANDIDATES[name].runs(_kernel(name), matrix, other)
            for side, run in runs.items():
                made = run()
                _check(
                    f"{name} of {side} for {kind}", getattr(made, "matrix", lambda made=made: made)(), runs["scipy"]()
                )
            samples = alternate(runs, rounds=101, seconds=seconds, clock=ThreadClock())
            taken = spread(samples.clean("ours"))
            found = {side: ratio(samples, side, "ours") for side in runs if side != "ours"}
            if taken is not None:
                yield name, kind, count, taken.middle, {side: each.middle for side, each in found.items() if each}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m bench.sparse.assembled", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="KERNEL", help=f"some of {', '.join(CANDIDATES)} (default: all)")
    parser.add_argument("--entries", type=lambda text: int(float(text)), action="append", help="non-zeros: 1e5, 1e6 …")
    parser.add_argument("--seconds", type=float, default=1.0, help="measuring time of each comparison")
    chosen = parser.parse_args(arguments)
    if unknown := [name for name in chosen.names if name not in CANDIDATES]:
        parser.error(f"unknown kernel {unknown[0]!r}; choose from {', '.join(CANDIDATES)}")
    pinned()
    found: dict[tuple[str, int, str], list[float]] = {}
    for name, kind, count, taken, over in ratios(
        chosen.names or [*CANDIDATES], chosen.entries or COUNTS, chosen.seconds
    ):
        for side, each in over.items():
            found.setdefault((name, count, side), []).append(each)
        shown = ", ".join(f"{side}/ours {each:.2f}" for side, each in over.items())
        print(f"{name:14} {kind:16} {count:.0e}  {taken:9.3f} ms  {shown}", flush=True)
    for (name, count, side), all_of in found.items():
        mean = exp(sum(map(log, all_of)) / len(all_of))
        print(f"{name:14} {count:.0e}  {side}/ours: geometric mean of {len(all_of)}: {mean:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
