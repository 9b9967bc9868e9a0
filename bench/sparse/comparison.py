"""Comparison of implementations of a kernel on one matrix or tensor: checked, then timed in turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from typing import Any, Final

import numpy as np

import atl
from bench.sparse import ours, taco
from bench.sparse.matrices import Matrix
from lowering import Clock, Samples, TimedFunction, alternate, ratio, spread

TOLERANCE: Final = 1e-9
"""Tolerance of an element, relative to the greatest one."""
PREPARED: Final = "ours, prepared"
"""A prepared call, like that of the baseline in C: with existing pointers and sizes, and without checks."""


@dataclass(frozen=True, slots=True)
class Line:
    """The result of one candidate: its median time, and its time over that of our kernel.

    `ratio` compares medians over the rounds, `of_minima` minima. `of_prepared` compares with a prepared call of our
    kernel (`Kernel.prepared`).
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
class Comparison:
    """Our kernel by an ordinary and by a prepared call, and the baselines.

    They store to `out`. `result` maps the return value of a run to its result.
    """

    ours: TimedFunction
    prepared: TimedFunction
    baselines: Mapping[str, TimedFunction]
    out: Any
    result: Callable[[object], Any]
    expected: Any


class WrongResult(Exception):
    """A candidate computed a wrong result."""


def measured(comparison: Comparison, clock: Clock, *, seconds: float, rounds: int) -> Samples:
    """Check every candidate, then time them in turn. Raises `WrongResult`."""
    candidates = {"ours": comparison.ours, PREPARED: comparison.prepared, **comparison.baselines}
    allowed = TOLERANCE * float(np.abs(comparison.expected).max(initial=1.0))
    for name, run in candidates.items():
        comparison.out.fill(np.nan)  # elements that a candidate does not store fail the check
        found = comparison.result(run())
        if found.shape != comparison.expected.shape or not (np.abs(found - comparison.expected) <= allowed).all():
            raise WrongResult(name)
    return alternate(candidates, rounds=rounds, seconds=seconds, clock=clock)


def lines_of(samples: Samples, form: str, matrix: str, entries: int) -> list[Line]:
    """Return a line for our kernel, then one for each other candidate."""
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
    """A matrix format: our schedule, scipy's name of the format, and TACO's name if it differs."""

    form: atl.Format
    schedule: Callable[[atl.Format], atl.Session]
    scipy: str = ""
    taco: str = ""


FORMS: Final[dict[str, Form]] = {
    "CSR": Form(atl.CSR, ours.by_entries, "csr"),
    "CSC": Form(atl.CSC, ours.by_entries, "csc"),
    "DCSR": Form(atl.DCSR.sorted(), ours.by_entries),
    "DCSC": Form(atl.DCSC, ours.by_entries),
    "COO": Form(atl.COO, ours.in_runs, "coo"),
    "COO-cells": Form(atl.COO, ours.by_entries, "coo", "COO"),
    "BCSR": Form(atl.BCSR, ours.by_blocks, "bsr"),
    "DIA": Form(atl.DIA, ours.by_diagonals, "dia"),
}


@cache
def kernel_for(name: str) -> atl.Kernel:
    """Return our kernel for a format."""
    return atl.compile(FORMS[name].schedule(FORMS[name].form).done().rhs)


def product(name: str, matrix: Matrix) -> Comparison:
    """Compare products of a matrix in a format and a vector."""
    form = FORMS[name]
    if name == "BCSR":  # scipy and TACO have no partial blocks
        whole = matrix.shape[0] // 4 * 4
        matrix = matrix[:whole, :whole]
    n = matrix.shape[0]
    x = np.random.default_rng(5).random(n)
    y = np.empty(n)
    packed = atl.pack(matrix, form.form)
    kernel = kernel_for(name)
    baselines: dict[str, TimedFunction] = {}
    if form.scipy:
        theirs = atl.to_scipy(packed)
        baselines["scipy"] = lambda: theirs @ x
        # The same kernel, called with scipy's matrix: each call checks its indices.
        baselines["ours, checked in each call"] = lambda: kernel(theirs, x, out=y)
    shape = form.taco or name
    if shape in taco.KERNELS:
        passed = [*packed.arrays, x, *_numbers(shape, packed, n), y]
        for called, flags in taco.FLAGS.items():
            baselines[called] = taco.shaped(shape, flags)(*passed)
    if name in ("CSR", "COO") and find_spec("numba") is not None:
        baselines["numba"] = _by_numba(name, packed, x, y)
    prepared = kernel.prepared(packed, x, out=y)

    def result(made: object) -> Any:
        return y if made is None else made

    return Comparison(lambda: kernel(packed, x, out=y), prepared, baselines, y, result, matrix @ x)


def _numbers(name: str, packed: atl.SparseTensor, n: int) -> list[int]:
    match name:
        case "DCSR" | "DCSC":
            return [len(packed.arrays[0]), n]
        case "COO":
            return [len(packed.values), n]
        case "BCSR":
            return [len(packed.arrays[0]) - 1, 4, 4, n]
        case _:
            return [n]


def _by_numba(name: str, packed: atl.SparseTensor, x: Any, y: Any) -> TimedFunction:
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
def _kernel(schedule: Callable[[], atl.Session]) -> atl.Kernel:
    return atl.compile(schedule().done().rhs)


def tensor_times_vector(tensor: Any) -> Comparison:
    """Compare TTV: a tensor times a vector along its last dimension."""
    packed = atl.pack(tensor, ours.FIBRES)
    n, m, k = packed.shape
    x, y = np.random.default_rng(5).random(k), np.empty((n, m))
    kernel = _kernel(ours.ttv)
    passed = [*packed.arrays, x, len(packed.arrays[0]), m, n, y]
    baselines = {called: taco.shaped("TTV", flags)(*passed) for called, flags in taco.FLAGS.items()}
    expected = np.zeros((n, m))
    i, j, last = tensor.coords
    np.add.at(expected, (i, j), tensor.data * x[last])
    prepared = kernel.prepared(packed, x, out=y)
    return Comparison(lambda: kernel(packed, x, out=y), prepared, baselines, y, lambda _: y, expected)


def matrix_times_sparse(matrix: Matrix, density: float) -> Comparison:
    """Compare SpMSpV: each row of a sparse matrix is merged with a sparse vector of this density."""
    packed = atl.pack(matrix, atl.CSR.sorted())
    n, m = matrix.shape
    x, entries, y = *_sparse_vector(m, density), np.empty(n)
    kernel = _kernel(ours.spmspv)
    passed = [*packed.arrays, *entries.arrays, len(entries.values), n, y]
    baselines = {called: taco.shaped("SpMSpV", flags)(*passed) for called, flags in taco.FLAGS.items()}
    prepared = kernel.prepared(packed, entries, out=y)
    return Comparison(lambda: kernel(packed, entries, out=y), prepared, baselines, y, lambda _: y, matrix @ x)


def tensor_times_sparse(tensor: Any, density: float) -> Comparison:
    """Compare SpTSpV: each fibre of a sparse tensor is merged with a sparse vector of this density."""
    packed = atl.pack(tensor, ours.FIBRES)
    n, m, k = packed.shape
    x, entries, y = *_sparse_vector(k, density), np.empty((n, m))
    kernel = _kernel(ours.sptspv)
    passed = [*packed.arrays, *entries.arrays, len(entries.values), len(packed.arrays[0]), m, n, y]
    baselines = {called: taco.shaped("SpTSpV", flags)(*passed) for called, flags in taco.FLAGS.items()}
    expected = np.zeros((n, m))
    i, j, last = tensor.coords
    np.add.at(expected, (i, j), tensor.data * x[last])
    prepared = kernel.prepared(packed, entries, out=y)
    return Comparison(lambda: kernel(packed, entries, out=y), prepared, baselines, y, lambda _: y, expected)


def _sparse_vector(length: int, density: float) -> tuple[Any, atl.SparseTensor]:
    """Return a vector with random entries, at least one, as an array and in the format of our kernels."""
    random = np.random.default_rng(6)
    x = np.zeros(length)
    x[random.choice(length, max(1, round(density * length)), replace=False)] = 1.0 + random.random()
    return x, atl.pack(x, ours.VECTOR)


def matricised(tensor: Any) -> Comparison:
    """Compare MTTKRP of a constant rank."""
    packed = atl.pack(tensor, atl.CSF)
    n, m, k = packed.shape
    random = np.random.default_rng(5)
    last, middle, y = random.random((k, ours.RANK)), random.random((m, ours.RANK)), np.empty((n, ours.RANK))
    kernel = _kernel(ours.mttkrp)
    passed = [*packed.arrays, last, middle, len(packed.arrays[0]), ours.RANK, n, y]
    baselines = {called: taco.shaped("MTTKRP", flags)(*passed) for called, flags in taco.FLAGS.items()}
    expected = np.zeros((n, ours.RANK))
    i, j, p = tensor.coords
    np.add.at(expected, i, tensor.data[:, None] * last[p] * middle[j])
    prepared = kernel.prepared(packed, last, middle, out=y)
    return Comparison(lambda: kernel(packed, last, middle, out=y), prepared, baselines, y, lambda _: y, expected)


def sampled(matrix: Matrix) -> Comparison:
    """Compare SDDMM: a product of dense matrices, sampled at the entries of a sparse one."""
    packed = atl.pack(matrix, atl.CSR)
    n, m = matrix.shape
    random = np.random.default_rng(5)
    left, right, y = random.random((n, ours.RANK)), random.random((m, ours.RANK)), np.empty(len(packed.values))
    kernel = _kernel(ours.sddmm)
    passed = [*packed.arrays, left, right, n, ours.RANK, m, y]
    baselines = {called: taco.shaped("SDDMM", flags)(*passed) for called, flags in taco.FLAGS.items()}
    row = np.repeat(np.arange(n), np.diff(matrix.indptr))
    expected = matrix.data * (left[row] * right[matrix.indices]).sum(axis=1)
    prepared = kernel.prepared(packed, left, right, out=y)
    return Comparison(lambda: kernel(packed, left, right, out=y), prepared, baselines, y, lambda _: y, expected)
