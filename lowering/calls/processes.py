"""Kernels and other processes: calls after a fork, pickling, and calls that are bound to this process."""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from atl.core.program import Program
from atl.errors import ForkedProcess, InvalidArgument

T = TypeVar("T")

DECLARED: Final = "int omp_get_max_threads(void); void __kmpc_fork_call(void);"
"""Functions of OpenMP's libraries, for cffi. LLVM's and Intel's has the second one, gcc's has not."""


class _Team(threading.local):
    """The threads of gcc's OpenMP that wait for this thread's next parallel loop; a fork loses them.

    The child's first parallel loop on the forking thread would wait for them for ever. Other threads get new teams.
    """

    started = False
    lost = False

    def fork(self) -> None:
        """Notes that this process is a forked child."""
        self.lost = self.started


TEAM: Final = _Team()
os.register_at_fork(after_in_child=TEAM.fork)


def checked_after_fork(function: Callable[..., int], library: Any, name: str) -> Callable[..., int]:
    """Return a function with parallel loops such that it is refused where it would wait for threads that a fork lost.

    `library` is the loaded kernel with the functions in `DECLARED`. A team of one thread needs no other threads, and
    LLVM's OpenMP makes new threads after a fork: neither is refused.
    """
    if hasattr(library, "__kmpc_fork_call"):
        return function
    team_size = library.omp_get_max_threads

    def call(*arguments: Any) -> int:
        if team_size() > 1:
            if TEAM.lost:
                raise _forked(name)
            TEAM.started = True
        return function(*arguments)

    return call


def _forked(name: str) -> ForkedProcess:
    return ForkedProcess(
        f"{name} has parallel loops and cannot run in this process, which was forked after such a loop had run:"
        " the threads of OpenMP are lost in a fork",
        required="a process that is spawned, or forked before the first parallel loop; or one thread",
        suggestions=(
            'multiprocessing.get_context("spawn") starts such processes; kernels can be pickled',
            "set OMP_NUM_THREADS=1 before Python starts, and parallel loops run on one thread",
        ),
    )


class BoundCall(partial[T]):
    """A call that is bound to arrays, or to a stream of a GPU, which other processes do not have."""

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            "a prepared call, or a kernel on a stream, is not pickled: it is bound to memory of this process",
            required="a kernel, which can be pickled; the other process prepares a call of its own",
        )

    def __copy__(self) -> BoundCall[T]:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> BoundCall[T]:
        return self


def checked_pickle(program: Program) -> Program:
    """Return a program that can be pickled. Raises `InvalidArgument` for a format of which pickle finds no class."""
    try:
        pickle.dumps(program)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"the kernel of {program.name} is not pickled: {error}",
            required="formats whose classes and functions can be imported by their names",
            suggestions=("define the format at the top of a module",),
        ) from error
    return program
