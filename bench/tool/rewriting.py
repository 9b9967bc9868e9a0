"""Time of derivations by call, of replaying certificates, and of long derivations: `python -m bench.tool.rewriting`."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final
from unittest.mock import patch

import atl
from atl.prove import forget
from examples import derivations

RUNS: Final = 9
LONG: Final = (250, 500, 1000, 2000)

DERIVATIONS: Final[tuple[Callable[[], atl.Session], ...]] = (
    derivations.pipeline_fused,
    derivations.pipeline_split,
    derivations.pipeline_tiled,
    derivations.matmul_tiled,
    derivations.matmul_tiled_with_tails,
    derivations.addition_flat,
    derivations.convolution_shift,
    derivations.scatter_to_gather,
    derivations.im2col,
    derivations.blur_fused,
    derivations.blur_two_stage_with_tails,
    derivations.blur_fused_with_tails,
    derivations.blur_tiled_staged_with_tails,
)


def main() -> None:
    print(f"Python {platform.python_version()} on {platform.machine()}; milliseconds, medians of {RUNS} runs,")
    print("each with an empty prover cache")
    print(f"{'derivation':32}{'calls':>6}{'kernel steps':>14}{'whole':>9}{'median call':>13}{'worst call':>12}")
    for derive in DERIVATIONS:
        derive()
        runs = [_timed(derive) for _ in range(RUNS)]
        calls = [median(times) for times in zip(*(times for _, times in runs), strict=True)]
        session = runs[0][0]
        print(
            f"{derive.__name__:32}{len(session.steps):6}{len(session.theorem.steps):14}"
            f"{median(sum(times) for _, times in runs):9.1f}{median(calls):13.2f}{max(calls):12.1f}"
        )

    replay()
    for steps in LONG:
        long_derivation(steps)


def replay() -> None:
    """Load a certificate of every derivation. Each is replayed by the kernel alone."""
    theorems = [derive().done() for derive in DERIVATIONS]
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{place}.atl.json" for place in range(len(theorems))]
        for file, theorem in zip(files, theorems, strict=True):
            theorem.save(file)
        forget()
        start = time.perf_counter()
        for file in files:
            atl.load(file)
        print(f"\nall {len(files)} certificates replayed in {time.perf_counter() - start:.2f} s")


def long_derivation(steps: int) -> None:
    """Apply a rule and its inverse in alternation. The time of a step should not depend on the number before it."""
    forget()
    session = derivations.blur_fused()
    start = time.perf_counter()
    for _ in range(steps // 2):
        session.rw("add_comm")
        session.rw("add_comm")
    took = time.perf_counter() - start
    print(f"{steps:6} calls of rw: {took:6.2f} s, {1e3 * took / steps:.2f} ms each")


def _timed(derive: Callable[[], atl.Session]) -> tuple[atl.Session, list[float]]:
    """Return a session and the milliseconds of each call, including the time since the call before."""
    ends: list[float] = []
    record = atl.Session.record

    def recorded(self: atl.Session, text: str, work: atl.Derivation) -> atl.Session:
        ends.append(time.perf_counter())
        return record(self, text, work)

    forget()
    with patch.object(atl.Session, "record", recorded):
        start = time.perf_counter()
        session = derive()
    return session, [1e3 * (end - begin) for begin, end in pairwise([start, *ends])]


if __name__ == "__main__":
    main()
