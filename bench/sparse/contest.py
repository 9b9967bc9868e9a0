"""One contest: everybody who computes the same on one matrix or tensor, checked, then timed in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import sparse
from bench.sparse import ours, taco
from bench.sparse.matrices import Matrix
from lowering import Clock, Kernel, Samples, TimedFunction, alternate, ratio, spread
from lowering import compile as compiled
from rewrites import Session
from sparse import SparseTensor, pack

TOLERANCE: Final = 1e-9
"""How far an element may be off, relative to the greatest one."""
PREPARED: Final = "ours, prepared"
"""Called as the rival in C is: with pointers and sizes that were made before, and nothing checked."""


@dataclass(frozen=True, slots=True)
class Line:
    """One contestant: the median of its milliseconds, and its time over ours, medians and minima of rounds.

    Ours is a call of the kernel; `of_prepared` is over the time of one that was prepared (`Kernel.prepared`).
    """

    format: str
    matrix: str
    entries: int
    name: str
    ms: float
    ratio: float
    of_minima: float
    of_prepared: float


@dataclass(frozen=True, slots=True)
class Contest:
    """Who takes part: our kernel as it is called, a call of it that was prepared, and the rivals.

    They store to `out`; `result` has the result, given what a run gives back.
    """

    ours: TimedFunction
    prepared: TimedFunction
    rivals: Mapping[str, TimedFunction]
    out: Any
    result: Callable[[object], Any]
    expected: Any


class WrongResult(Exception):
    """Somebody computed something else than the others."""


def measured(contest: Contest, clock: Clock, *, seconds: float, rounds: int) -> Samples:
    """Checks every contestant, then times them in turn. Raises `WrongResult`."""
    everybody = {"ours": contest.ours, PREPARED: contest.prepared, **contest.rivals}
    most = TOLERANCE * float(np.abs(contest.expected).max(initial=1.0))
    for name, run in everybody.items():
        contest.out.fill(np.nan)  # what is not stored is no number, and not what the one before has stored
        found = contest.result(run())
        if found.shape != contest.expected.shape or not (np.abs(found - contest.expected) <= most).all():
            raise WrongResult(name)
    return alternate(everybody, rounds=rounds, seconds=seconds, clock=clock)


def lines_of(samples: Samples, form: str, matrix: str, entries: int) -> list[Line]:
    """Ours first, then each other one with its time over ours."""
    found = []
    least = min(samples.clean("ours"), default=float("nan"))
    for name in samples.times:
        taken, compared = spread(samples.clean(name)), ratio(samples, name, "ours")
        of_prepared = ratio(samples, name, PREPARED)
        if taken is not None and compared is not None and of_prepared is not None:
            minima = min(samples.clean(name)) / least
            ratios = compared.middle, minima, of_prepared.middle
            found.append(Line(form, matrix, entries, name, taken.middle, *ratios))
    return found


# -- matrix times vector ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """A format of matrices: our schedule of it, scipy's name of it, and the rival's, if it has another one."""

    form: sparse.Format
    schedule: Callable[[sparse.Format], Session]
    scipy: str = ""
    taco: str = ""


FORMS: Final[dict[str, Form]] = {
    "CSR": Form(sparse.CSR, ours.by_entries, "csr"),
    "CSC": Form(sparse.CSC, ours.by_entries, "csc"),
    "DCSR": Form(sparse.DCSR.sorted(), ours.by_entries),
    "DCSC": Form(sparse.DCSC, ours.by_entries),
    "COO": Form(sparse.COO, ours.in_runs, "coo"),
    "COO-cells": Form(sparse.COO, ours.by_entries, "coo", "COO"),
    "BCSR": Form(sparse.BCSR, ours.by_blocks, "bsr"),
    "DIA": Form(sparse.DIA, ours.by_diagonals, "dia"),
}


@cache
def kernel_for(name: str) -> Kernel:
    """Our kernel for a format."""
    return compiled(FORMS[name].schedule(FORMS[name].form).done().rhs)


def product(name: str, matrix: Matrix) -> Contest:
    """A matrix in a format times a vector."""
    form = FORMS[name]
    if name == "BCSR":  # scipy and the rival have no blocks that hang over the edge
        whole = matrix.shape[0] // 4 * 4
        matrix = matrix[:whole, :whole]
    n = matrix.shape[0]
    x = np.random.default_rng(5).random(n)
    y = np.empty(n)
    packed = pack(matrix, form.form)
    kernel = kernel_for(name)
    rivals: dict[str, TimedFunction] = {}
    if form.scipy:
        theirs = sparse.to_scipy(packed)
        rivals["scipy"] = lambda: theirs @ x
        # The same kernel called with scipy's matrix, whose indices each call checks.
        rivals["ours, checked in each call"] = lambda: kernel(theirs, x, out=y)
    shape = form.taco or name
    if shape in taco.KERNELS:
        passed = [*packed.arrays, x, *_numbers(shape, packed, n), y]
        for called, flags in taco.FLAGS.items():
            rivals[called] = taco.shaped(shape, flags)(*passed)
    if name in ("CSR", "COO") and find_spec("numba") is not None:
        rivals["numba"] = _by_numba(name, packed, x, y)
    prepared = kernel.prepared(packed, x, out=y)

    def result(made: object) -> Any:
        return y if made is None else made

    return Contest(lambda: kernel(packed, x, out=y), prepared, rivals, y, result, matrix @ x)


def _numbers(name: str, packed: SparseTensor, n: int) -> list[int]:
    match name:
        case "DCSR" | "DCSC":
            return [len(packed.arrays[0]), n]
        case "COO":
            return [len(packed.values), n]
        case "BCSR":
            return [len(packed.arrays[0]) - 1, 4, 4, n]
        case _:
            return [n]


def _by_numba(name: str, packed: SparseTensor, x: Any, y: Any) -> TimedFunction:
    compiled_loops = _numba_loops(name)
    arrays = packed.arrays
    return lambda: compiled_loops(*arrays, x, y)


@cache
def _numba_loops(name: str) -> Callable[..., None]:
    import numba

    def by_rows(pos: Any, crd: Any, val: Any, x: Any, y: Any) -> None:
        for i in range(len(y)):
            total = 0.0
            for p in range(pos[i], pos[i + 1]):
                total += val[p] * x[crd[p]]
            y[i] = total

    def by_coordinates(row: Any, column: Any, val: Any, x: Any, y: Any) -> None:
        y[:] = 0.0
        for p in range(len(val)):
            y[row[p]] += val[p] * x[column[p]]

    loops = by_rows if name == "CSR" else by_coordinates
    made: Callable[..., None] = numba.njit(loops, fastmath={"nsz", "reassoc", "contract"})
    return made


# -- tensors of three dimensions, and results on a pattern ------------------------------------------------------------


@cache
def _kernel(schedule: Callable[[], Session]) -> Kernel:
    return compiled(schedule().done().rhs)


def tensor_times_vector(tensor: Any) -> Contest:
    """TTV: the last dimension summed with a vector."""
    packed = pack(tensor, ours.FIBRES)
    n, m, k = packed.shape
    x, y = np.random.default_rng(5).random(k), np.empty((n, m))
    kernel = _kernel(ours.ttv)
    passed = [*packed.arrays, x, len(packed.arrays[0]), m, n, y]
    rivals = {called: taco.shaped("TTV", flags)(*passed) for called, flags in taco.FLAGS.items()}
    expected = np.zeros((n, m))
    i, j, last = tensor.coords
    np.add.at(expected, (i, j), tensor.data * x[last])
    prepared = kernel.prepared(packed, x, out=y)
    return Contest(lambda: kernel(packed, x, out=y), prepared, rivals, y, lambda _: y, expected)


def matricised(tensor: Any) -> Contest:
    """MTTKRP of a constant rank."""
    packed = pack(tensor, sparse.CSF)
    n, m, k = packed.shape
    random = np.random.default_rng(5)
    last, middle, y = random.random((k, ours.RANK)), random.random((m, ours.RANK)), np.empty((n, ours.RANK))
    kernel = _kernel(ours.mttkrp)
    passed = [*packed.arrays, last, middle, len(packed.arrays[0]), ours.RANK, n, y]
    rivals = {called: taco.shaped("MTTKRP", flags)(*passed) for called, flags in taco.FLAGS.items()}
    expected = np.zeros((n, ours.RANK))
    i, j, p = tensor.coords
    np.add.at(expected, i, tensor.data[:, None] * last[p] * middle[j])
    prepared = kernel.prepared(packed, last, middle, out=y)
    return Contest(lambda: kernel(packed, last, middle, out=y), prepared, rivals, y, lambda _: y, expected)


def sampled(matrix: Matrix) -> Contest:
    """SDDMM: the values of a product of dense matrices where a sparse one has entries."""
    packed = pack(matrix, sparse.CSR)
    n, m = matrix.shape
    random = np.random.default_rng(5)
    left, right, y = random.random((n, ours.RANK)), random.random((m, ours.RANK)), np.empty(len(packed.values))
    kernel = _kernel(ours.sddmm)
    passed = [*packed.arrays, left, right, n, ours.RANK, m, y]
    rivals = {called: taco.shaped("SDDMM", flags)(*passed) for called, flags in taco.FLAGS.items()}
    row = np.repeat(np.arange(n), np.diff(matrix.indptr))
    expected = matrix.data * (left[row] * right[matrix.indices]).sum(axis=1)
    prepared = kernel.prepared(packed, left, right, out=y)
    return Contest(lambda: kernel(packed, left, right, out=y), prepared, rivals, y, lambda _: y, expected)
