"""How long derivations take, call by call, certificates to replay, long ones: `python -m bench.tool.rewriting`."""

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

from atl.prove import forget
from examples import derivations
from rewrites import Derivation, Session, load

RUNS: Final = 9
LONG: Final = (250, 500, 1000, 2000)

DERIVATIONS: Final[tuple[Callable[[], Session], ...]] = (
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
    print(
        f"Python {platform.python_version()} on {platform.machine()}; milliseconds, medians of {RUNS} runs, each with"
    )
    print("an empty memo of the prover")
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
    """Loads a certificate of every derivation: each is replayed by the kernel alone."""
    theorems = [derive().done() for derive in DERIVATIONS]
    with TemporaryDirectory() as folder:
        files = [Path(folder) / f"{place}.atl.json" for place in range(len(theorems))]
        for file, theorem in zip(files, theorems, strict=True):
            theorem.save(file)
        forget()
        start = time.perf_counter()
        for file in files:
            load(file)
        print(f"\nall {len(files)} certificates replayed in {time.perf_counter() - start:.2f} s")


def long_derivation(steps: int) -> None:
    """As many steps as this, there and back again; one step should cost the same however many came before."""
    forget()
    session = derivations.blur_fused()
    start = time.perf_counter()
    for _ in range(steps // 2):
        session.rw("add_comm")
        session.rw("add_comm")
    took = time.perf_counter() - start
    print(f"{steps:6} calls of rw: {took:6.2f} s, {1e3 * took / steps:.2f} ms each")


def _timed(derive: Callable[[], Session]) -> tuple[Session, list[float]]:
    """A session and how long each of its calls took, in milliseconds; what lies between them counts to the later."""
    ends: list[float] = []
    record = Session.record

    def recorded(self: Session, text: str, work: Derivation) -> Session:
        ends.append(time.perf_counter())
        return record(self, text, work)

    forget()
    with patch.object(Session, "record", recorded):
        start = time.perf_counter()
        session = derive()
    return session, [1e3 * (end - begin) for begin, end in pairwise([start, *ends])]


if __name__ == "__main__":
    main()
