"""Workloads with candidates that crash, hang or fail, for `bench.measure` to measure in processes of their own."""

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


def doubled() -> atl.Program:
    """Twice each element."""
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    return atl.program("doubled", [x], 2 * x)


def doubled_in_tiles(by: int) -> Session:
    """The same, in tiles."""
    return reschedule(doubled()).tile("i", by)


def by_numpy(problem: Problem, _: int) -> TimedFunction:
    """What is right."""
    return lambda: np.multiply(problem.inputs[0], 2, out=problem.out)


def after(runs: int, end: Callable[[], object]) -> Callable[[Problem, int], TimedFunction]:
    """What is right for so many runs; then it ends."""

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
    """An instruction that the processor does not have."""
    faulthandler.disable()  # pytest would print where this process was
    os.kill(os.getpid(), signal.SIGILL)


def hang() -> None:
    """Nothing more, and no interrupt ends it either."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        signal.pause()


def fail() -> None:
    """An exception."""
    raise OSError("its licence has run out")


def with_threads(problem: Problem, wanted: int) -> TimedFunction:
    """What is right, if the libraries use as many threads as they are to."""

    def run() -> None:
        np.multiply(problem.inputs[0], 2, out=problem.out)
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {wanted}

    return run


def planted(*baselines: Baseline, ours: tuple[Ours, ...] = (Ours(doubled),)) -> Workload:
    """A workload with these baselines."""
    pose = posed(lambda values: 2 * values, lambda size: ((size,), (size,)))
    return Workload(
        "doubling", "twice n numbers", (100,), pose, ours, baselines, Roofline("copy", moved), max_size=1000
    )


def _unsettable(size: int) -> Problem:
    vars(threads)["NEEDED"] = "no_such_module"
    return planted().pose(size)


ADDITION: Final = workloads.WORKLOADS["addition"]
GOOD: Final = Baseline("good", by_numpy)
CRASHING: Final = planted(
    GOOD,
    Baseline("bad at once", after(0, illegal)),
    Baseline("bad when timed", after(3, illegal)),
    Baseline("failing when timed", after(3, fail)),
)
THREADED: Final = planted(
    Baseline("with threads", with_threads),
    ours=(Ours(doubled_in_tiles, tiles={"by": 4}, fixed=lambda size: {"n": size}, parallel=("io",)),),
)
WORKLOADS: Final = {
    **workloads.WORKLOADS,
    "addition": replace(ADDITION, baselines=(Baseline("crashing", after(0, illegal)), *ADDITION.baselines)),
    "crashing": CRASHING,
    "hanging": planted(GOOD, Baseline("hanging", after(3, hang)), ours=()),
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
