"""Worker processes: each builds, checks and times one candidate, one sample per request.

A worker is forked, so it shares the inputs and the expected result without a copy. Its writes go to private pages. A
library that crashes or hangs there does not affect the other measurements.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Any, Final, Literal, TypeAlias

from atl.errors import brief
from bench.comparison import Problem
from bench.cooldown import wait_until_idle
from bench.threads import THREADS, Pools, settable
from lowering import Clock, Sampler, TimedFunction

Watch: TypeAlias = Callable[[str], None]
Prepare: TypeAlias = Callable[[Watch], tuple[Any, TimedFunction | None]]
"""Builds and checks a candidate. Returns its description and a function that runs it, or None if it is left out."""

GRACE: Final = 2.0
"""Seconds for a process to exit and remove its temporary files, before it is killed."""


class Gone(Exception):
    """A candidate stopped: its process crashed, or it raised an exception."""

    def __init__(self, why: Literal["crashed", "failed"], message: str) -> None:
        super().__init__(message)
        self.why = why


class Worker:
    """A process with one candidate. It waits during the turns of the others."""

    def __init__(
        self, prepare: Prepare, problem: Problem, clock: Clock, threads: int, timeout: float, others: Sequence[Worker]
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._timeout = timeout
        self._busy = True
        self.connection, there = context.Pipe()
        inherited = [self.connection, *(other.connection for other in others)]
        self.process = context.Process(
            target=_served, args=(there, inherited, prepare, problem, clock, threads), daemon=True
        )
        self.process.start()
        there.close()

    def ready(self, watch: Watch) -> Any:
        """Wait for `prepare` and return its value; its progress is passed to `watch`. Raises `Gone`."""
        return self._answer(watch)

    def sample(self) -> tuple[float | None, float]:
        """Take one sample. Return its milliseconds, None if it is invalid, and the nanoseconds used. Raises `Gone`."""
        self._busy = True
        with suppress(OSError):  # the process has ended; `_answer` reports that
            self.connection.send(None)
        taken, nanoseconds = self._answer(lambda _: None)
        return taken, nanoseconds

    def _answer(self, watch: Watch) -> Any:
        """Return the next message of the process. Raises `Gone`, or `KeyboardInterrupt` after an interrupt."""
        while True:
            if not self.connection.poll(self._timeout):
                self.end()
                raise Gone("crashed", f"no response for {self._timeout:g} s")
            try:
                kind, value = self.connection.recv()
            except (EOFError, OSError):
                self.process.join()
                raise Gone("crashed", _ended(self.process.exitcode)) from None
            match kind:
                case "progress":
                    watch(value)
                case "failed":
                    self._busy = False  # it ends by itself
                    raise Gone("failed", value)
                case "interrupted":
                    raise KeyboardInterrupt
                case _:
                    self._busy = False
                    return value

    def end(self) -> None:
        """End the process. An idle process exits by itself; a busy one is interrupted, then killed."""
        self.connection.close()
        if self._busy and self.process.is_alive():
            os.kill(self.process.pid or 0, signal.SIGINT)
        self.process.join(GRACE)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def _ended(status: int | None) -> str:
    """Name the signal that ended a process, or its exit status."""
    return signal.Signals(-status).name if status is not None and status < 0 else f"exit status {status}"


def _served(
    there: Connection, inherited: Sequence[Connection], prepare: Prepare, problem: Problem, clock: Clock, threads: int
) -> None:
    """Prepare a candidate and answer each request with a sample, until the connection is closed."""
    # Memory that NumPy freed before the fork would be reused as small copied pages, instead of huge pages.
    with suppress(AttributeError):  # not in the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    for connection in inherited:  # otherwise the candidates would not notice the end of the measuring process
        connection.close()
    try:
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
        if settable():
            Pools().use(threads)
        value, run = prepare(lambda message: there.send(("progress", message)))
        if run is not None:
            wait_until_idle()
            problem.give_memory_back()
        there.send(("ready", value))
        if run is None:
            return
        sampler = Sampler(run, clock)
        while True:
            there.recv()
            problem.take_memory()
            taken = sampler.sample()
            # Spinning threads must not share the cores with the next candidate.
            wait_until_idle()
            problem.give_memory_back()
            there.send(("sample", taken))
    except KeyboardInterrupt:
        with suppress(OSError):
            there.send(("interrupted", None))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:  # noqa: BLE001 (an error in one library must not end the whole run)
        with suppress(OSError):
            there.send(("failed", f"{type(error).__name__}: {brief(str(error), 300)}"))
