"""Baselines by NumPy and its BLAS, SciPy, PyTorch and numba: one function each.

The measuring process sets the number of threads of the libraries.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench.comparison import Baseline, Problem
from lowering import TimedFunction

TORCH: Final = ("torch",)
NUMBA: Final = ("numba",)


def numpy(name: str, of: Callable[..., object], *, allocates: bool = False) -> Baseline:
    """Return a NumPy baseline: `of(*inputs, out)` writes into `out`, or returns its result if it allocates."""
    return Baseline(name, lambda problem, _: lambda: of(*problem.inputs, problem.out), allocates=allocates)


def torch(name: str, of: Callable[..., Any], *, allocates: bool = False) -> Baseline:
    """Return a PyTorch baseline: `of(torch, *inputs, out)` on tensors that share the problem's memory."""

    def make(problem: Problem, threads: int) -> TimedFunction:
        import torch as library

        library.set_num_threads(threads)
        inputs = [library.from_numpy(array) for array in problem.inputs]
        out = library.from_numpy(problem.out)

        def run() -> object:
            with library.inference_mode():
                return of(library, *inputs, out)

        return run

    return Baseline(name, make, TORCH, allocates=allocates)


def numba(name: str, loops: Callable[[Any], Callable[..., None]]) -> Baseline:
    """Return a numba baseline: `loops(prange)` is a function of the inputs and the result."""

    def make(problem: Problem, threads: int) -> TimedFunction:
        import numba as library

        compiled = library.njit(
            loops(library.prange), parallel=threads > 1, fastmath={"nsz", "reassoc", "contract"}, error_model="numpy"
        )
        return lambda: compiled(*problem.inputs, problem.out)

    return Baseline(name, make, NUMBA)


def scipy(name: str, of: Callable[..., object], *, allocates: bool = False) -> Baseline:
    """Return a SciPy baseline: `of(*inputs, out)`, which imports SciPy itself."""
    return Baseline(name, lambda problem, _: lambda: of(*problem.inputs, problem.out), ("scipy",), allocates=allocates)
