"""Kernels and processes: calls after a fork, pickling, and calls that are bound to this process."""

from __future__ import annotations

import faulthandler
import os
import pickle
import threading
import traceback
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NoReturn, TypeVar

from atl.core.program import Program
from atl.errors import ForkedProcess, InvalidArgument

T = TypeVar("T")

DECLARED: Final = "int omp_get_max_threads(void); void __kmpc_fork_call(void);"
"""Functions of OpenMP libraries, for cffi. Those of LLVM and Intel have the second one; gcc's does not."""


class _Team(threading.local):
    """The team of threads that gcc's OpenMP keeps for this thread's next parallel loop.

    A fork loses them, and the child's first parallel loop on the forking thread would wait for them forever. Other
    threads get new teams.
    """

    started = False
    lost = False

    def fork(self) -> None:
        """Record that this process is a forked child."""
        self.lost = self.started


TEAM: Final = _Team()
os.register_at_fork(after_in_child=TEAM.fork)


def in_child(call: Callable[[], str]) -> tuple[str, int]:
    """Return the text that a call returns in a forked process, and the exit status of the process.

    The status is -n if signal n ended the process. If the call raises an error, its traceback is printed, and the
    status is 1. C code that may write out of bounds runs in this way.

    >>> in_child(lambda: "made there")
    ('made there', 0)
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 and later warn of threads, which are idle here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        faulthandler.disable()
        status = 1
        try:
            os.close(reader)
            with os.fdopen(writer, "w", encoding="utf-8") as stream:
                stream.write(call())
            status = 0
        finally:
            if status:
                traceback.print_exc()
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, encoding="utf-8") as stream:
        text = stream.read()
    return text, os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def checked_after_fork(function: Callable[..., int], library: Any, name: str) -> Callable[..., int]:
    """Wrap a function with parallel loops such that it raises an error instead of waiting for threads lost by a fork.

    `library` is the loaded kernel with the functions in `DECLARED`. Calls with one thread, or with LLVM's OpenMP, which
    starts new threads after a fork, are allowed.
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
        " a fork loses the threads of OpenMP",
        required="a process that is spawned, or forked before the first parallel loop; or one thread",
        suggestions=(
            'multiprocessing.get_context("spawn") starts such processes, to which kernels can be sent',
            "set OMP_NUM_THREADS=1 before Python starts, and parallel loops run on one thread",
        ),
    )


class BoundCall(partial[T]):
    """A call that is bound to arrays or to a GPU stream, and so to this process."""

    def __reduce__(self) -> NoReturn:
        raise InvalidArgument(
            "a prepared call, or a kernel on a stream, cannot be pickled: it is bound to memory of this process",
            required="a kernel, which can be pickled; prepare the call in the other process",
        )

    def __copy__(self) -> BoundCall[T]:
        return self

    def __deepcopy__(self, _: dict[int, object]) -> BoundCall[T]:
        return self


def checked_pickle(program: Program) -> Program:
    """Return the program if it can be pickled. Raises `InvalidArgument` for formats that pickle cannot import."""
    try:
        pickle.dumps(program)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidArgument(
            f"the kernel of {program.name} cannot be pickled: {error}",
            required="formats whose classes and functions can be imported by name",
            suggestions=("define the format at module level",),
        ) from error
    return program
