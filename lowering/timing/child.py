"""A run of a function in a child process, which is stopped if it takes too long."""

from __future__ import annotations

import os
import select
import signal
import struct
import time
import warnings
from contextlib import suppress
from typing import Final

from atl.errors import KernelCrashed, OutOfMemory
from lowering.timing.harness import TimedFunction

NANOSECONDS: Final = struct.Struct("q")


def run_in_child(run: TimedFunction, seconds: float) -> int | None:
    """Return the nanoseconds of CPU time of one run in a forked process, or None if it was stopped after `seconds`.

    The run changes only shared memory of this process. Raises `OutOfMemory` if the run was killed, `KernelCrashed` if
    another signal ended it, and what `run` raises, after another run in this process.

    >>> run_in_child(lambda: time.sleep(60), 0.01) is None
    True
    """
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # Python 3.12 warns if there are threads, such as the tuner's for the C compiler: in the child, their locks stay
        # locked. A child that waits for such a lock is stopped after `seconds`.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        with suppress(BaseException):
            begun = time.thread_time_ns()
            run()
            os.write(writing, NANOSECONDS.pack(time.thread_time_ns() - begun))
            status = 0
        os._exit(status)
    os.close(writing)
    ended = False
    try:
        ended = bool(select.select([reading], [], [], max(0.0, seconds))[0])
        answer = os.read(reading, NANOSECONDS.size) if ended else b""
    finally:
        os.close(reading)
        if not ended:
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if not ended:
        return None
    if len(answer) == NANOSECONDS.size:
        return int(NANOSECONDS.unpack(answer)[0])
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        # The system kills a process when memory is short.
        if number == signal.SIGKILL:
            raise OutOfMemory("a run of the kernel was killed (SIGKILL)", required="enough memory for its buffers")
        name = next((each.name for each in signal.Signals if each == number), f"signal {number}")
        raise KernelCrashed(
            f"a run of the kernel was ended by {name}",
            required="inputs for which the kernel runs to its end, and a stack for its buffers",
            suggestions=("ulimit -s unlimited",),
        )
    begun = time.thread_time_ns()
    run()
    return time.thread_time_ns() - begun
