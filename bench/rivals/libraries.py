"""NumPy with its BLAS, SciPy, PyTorch and numba: one function each, which gives what runs it on a problem.

The libraries' threads are set where the measuring process begins, not here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from bench.contest import Problem, Rival
from lowering import TimedFunction

TORCH: Final = ("torch",)
NUMBA: Final = ("numba",)


def numpy(name: str, of: Callable[..., object], *, allocates: bool = False) -> Rival:
    """NumPy: `of(*inputs, out)`; what allocates gives its result back."""
    return Rival(name, lambda problem, _: lambda: of(*problem.inputs, problem.out), allocates=allocates)


def torch(name: str, of: Callable[..., Any], *, allocates: bool = False) -> Rival:
    """PyTorch: `of(torch, *inputs, out)` on tensors that share the memory of the problem's arrays."""

    def make(problem: Problem, threads: int) -> TimedFunction:
        import torch as library

        library.set_num_threads(threads)
        inputs = [library.from_numpy(array) for array in problem.inputs]
        out = library.from_numpy(problem.out)

        def run() -> object:
            with library.inference_mode():
                return of(library, *inputs, out)

        return run

    return Rival(name, make, TORCH, allocates=allocates)


def numba(name: str, loops: Callable[[Any], Callable[..., None]]) -> Rival:
    """Loops that numba compiles: `loops(prange)` is a function of the inputs and the result."""

    def make(problem: Problem, threads: int) -> TimedFunction:
        import numba as library

        compiled = library.njit(
            loops(library.prange), parallel=threads > 1, fastmath={"nsz", "reassoc", "contract"}, error_model="numpy"
        )
        return lambda: compiled(*problem.inputs, problem.out)

    return Rival(name, make, NUMBA)


def scipy(name: str, of: Callable[..., object], *, allocates: bool = False) -> Rival:
    """SciPy: `of(*inputs, out)`, which imports what it needs."""
    return Rival(name, lambda problem, _: lambda: of(*problem.inputs, problem.out), ("scipy",), allocates=allocates)
