"""A contestant in a process of its own, which builds, checks and times it when it is asked, one sample at a time.

The process is forked: it has the inputs and the expected result without a copy. What it writes, it writes to pages of
its own, and a library that crashes there or hangs ends no other measurement.
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
from bench.contest import Problem
from bench.settling import settle
from bench.threads import THREADS, Pools, settable
from lowering import Clock, Sampler, TimedFunction

Watch: TypeAlias = Callable[[str], None]
Prepare: TypeAlias = Callable[[Watch], tuple[Any, TimedFunction | None]]
"""Builds and checks: gives what is known of the contestant, and what runs it, or None where it does not take part."""

GRACE: Final = 2.0
"""Seconds that a process has to end by itself, and to remove its temporary files."""


class Gone(Exception):
    """A contestant that gives no more samples: its process has crashed, or what it runs has failed by an exception."""

    def __init__(self, why: Literal["crashed", "failed"], said: str) -> None:
        super().__init__(said)
        self.why = why


class Worker:
    """A process with one contestant. It waits while others have their turns."""

    def __init__(
        self, prepare: Prepare, problem: Problem, clock: Clock, threads: int, timeout: float, others: Sequence[Worker]
    ) -> None:
        context = multiprocessing.get_context("fork")
        self._timeout = timeout
        self._asked = True
        self.connection, there = context.Pipe()
        inherited = [self.connection, *(other.connection for other in others)]
        self.process = context.Process(
            target=_served, args=(there, inherited, prepare, problem, clock, threads), daemon=True
        )
        self.process.start()
        there.close()

    def ready(self, watch: Watch) -> Any:
        """Wait for `prepare` and return what it gave; its progress goes to `watch`. Raises `Gone`."""
        return self._answer(watch)

    def sample(self) -> tuple[float | None, float]:
        """Take a turn: milliseconds if the sample counts, and nanoseconds that it took. Raises `Gone`."""
        self._asked = True
        with suppress(OSError):  # it has ended: there is no answer
            self.connection.send(None)
        taken, nanoseconds = self._answer(lambda _: None)
        return taken, nanoseconds

    def _answer(self, watch: Watch) -> Any:
        """Return what the process sends next. Raises `Gone`, and `KeyboardInterrupt` where the process had one."""
        while True:
            if not self.connection.poll(self._timeout):
                self.end()
                raise Gone("crashed", f"no answer for {self._timeout:g} s")
            try:
                kind, value = self.connection.recv()
            except (EOFError, OSError):
                self.process.join()
                raise Gone("crashed", _ended(self.process.exitcode)) from None
            match kind:
                case "said":
                    watch(value)
                case "failed":
                    raise Gone("failed", value)
                case "interrupted":
                    raise KeyboardInterrupt
                case _:
                    self._asked = False
                    return value

    def end(self) -> None:
        """End the process: one that waits ends by itself, one that works is interrupted, and killed if need be."""
        self.connection.close()
        if self._asked and self.process.is_alive():
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
    """Prepare a contestant and answer each request with a sample; end where the other side has gone."""
    # What NumPy freed before the fork would come back as small pages, copied one by one, in place of huge ones.
    with suppress(AttributeError):  # not in the GNU C library
        ctypes.CDLL(None).malloc_trim(0)
    for connection in inherited:  # else no contestant would see that the measuring process has ended
        connection.close()
    try:
        os.environ.update(dict.fromkeys(THREADS, str(threads)))
        if settable():
            Pools().use(threads)
        value, run = prepare(lambda said: there.send(("said", said)))
        if run is not None:
            settle()
            problem.give_memory_back()
        there.send(("ready", value))
        if run is None:
            return
        sampler = Sampler(run, clock)
        while True:
            there.recv()
            problem.take_memory()
            taken = sampler.sample()
            # The threads of a library spin for a while: they are not to share the cores with the next contestant.
            settle()
            problem.give_memory_back()
            there.send(("sample", taken))
    except KeyboardInterrupt:
        with suppress(OSError):
            there.send(("interrupted", None))
    except (EOFError, BrokenPipeError):
        pass
    except Exception as error:  # noqa: BLE001 (whatever goes wrong in another's library is no reason to measure nobody)
        with suppress(OSError):
            there.send(("failed", f"{type(error).__name__}: {brief(str(error), 300)}"))
