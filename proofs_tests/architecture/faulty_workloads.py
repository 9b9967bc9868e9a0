"""Workloads with candidates that crash, hang or fail, for tests of the benchmark."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np
from threadpoolctl import threadpool_info

import atl
from bench import threads, workloads
from bench.comparison import Baseline, Ours, Problem, Roofline, Workload, moved, posed
from lowering import TimedFunction
from rewrites import Session, reschedule

COPIED: Final = Roofline("copy", moved)


class FakeClock:
    """Clock that advances only when a candidate runs, and a counter of preemptions."""

    def __init__(self) -> None:
        self.time = 0
        self.switched = 0
        self.ran: list[str] = []

    def now(self) -> int:
        return self.time

    wall = now

    def preemptions(self) -> int:
        return self.switched

    def running(self, name: str, *took: int, preempted: Callable[[int], bool] = lambda _: False) -> Callable[[], None]:
        """Return a candidate with these run times in nanoseconds. The last one repeats."""
        count = 0

        def run() -> None:
            nonlocal count
            self.ran.append(name)
            self.time += took[min(count, len(took) - 1)]
            self.switched += preempted(count)
            count += 1

        return run


def doubled() -> atl.Program:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    return atl.program("doubled", [x], 2 * x)


def doubled_in_tiles(by: int) -> Session:
    return reschedule(doubled()).tile("i", by)


def by_numpy(problem: Problem, _: int) -> TimedFunction:
    return lambda: np.multiply(problem.inputs[0], 2, out=problem.out)


def after(runs: int, end: Callable[[], object]) -> Callable[[Problem, int], TimedFunction]:
    """Return a correct candidate that calls `end` after a number of runs."""

    def make(problem: Problem, _: int) -> TimedFunction:
        done = [0]

        def run() -> None:
            if done[0] == runs:
                end()
            done[0] += 1
            np.multiply(problem.inputs[0], 2, out=problem.out)

        return run

    return make


def illegal() -> None:
    """Crash with an illegal instruction."""
    faulthandler.disable()  # disable pytest's traceback
    os.kill(os.getpid(), signal.SIGILL)


def hang() -> None:
    """Ignore interrupts and never return."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        signal.pause()


def fail() -> None:
    raise OSError("its licence has run out")


def with_threads(problem: Problem, wanted: int) -> TimedFunction:
    """Return a candidate that checks the number of threads of the libraries."""

    def run() -> None:
        np.multiply(problem.inputs[0], 2, out=problem.out)
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {wanted}

    return run


def doubling(*baselines: Baseline, ours: tuple[Ours, ...] = (Ours(doubled),)) -> Workload:
    """Return a workload with these baselines."""
    pose = posed(lambda values: 2 * values, lambda size: ((size,), (size,)))
    return Workload(
        "doubling", "twice n numbers", (100,), pose, ours, baselines, Roofline("copy", moved), max_size=1000
    )


def _unsettable(size: int) -> Problem:
    vars(threads)["NEEDED"] = "no_such_module"
    return doubling().pose(size)


ADDITION: Final = workloads.WORKLOADS["addition"]
GOOD: Final = Baseline("good", by_numpy)
CRASHING: Final = doubling(
    GOOD,
    Baseline("bad at once", after(0, illegal)),
    Baseline("bad when timed", after(3, illegal)),
    Baseline("failing when timed", after(3, fail)),
)
THREADED: Final = doubling(
    Baseline("with threads", with_threads),
    ours=(Ours(doubled_in_tiles, tiles={"by": 4}, fixed=lambda size: {"n": size}, parallel=("io",)),),
)
WORKLOADS: Final = {
    **workloads.WORKLOADS,
    "addition": replace(ADDITION, baselines=(Baseline("crashing", after(0, illegal)), *ADDITION.baselines)),
    "crashing": CRASHING,
    "hanging": doubling(GOOD, Baseline("hanging", after(3, hang)), ours=()),
    "threaded": THREADED,
    "unsettable": Workload(
        "doubling",
        "twice n numbers",
        (100,),
        _unsettable,
        (Ours(doubled),),
        (GOOD,),
        Roofline("copy", moved),
        max_size=1000,
    ),
}
