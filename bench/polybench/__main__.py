"""Time the kernels of PolyBench/C, as written and by `s.optimize()`, against plain loops in C with the same flags.

`python -m bench.polybench MEDIUM gemm atax` times two kernels at the sizes of a data set. A ratio is the time of C over
ours, so above 1 we are faster. `--rival "clang -mllvm -polly"` adds a column for the C by another compiler, which gets
the sizes as constants.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import geometric_mean
from typing import Any, Final

import numpy as np

import atl
from bench.comparison import Array
from bench.isa import ISAS, settings
from bench.measure import pinned
from bench.polybench.references import REFERENCES
from examples.polybench import BENCHMARKS, DATA_SETS, Benchmark
from lowering import Clock, Samples, ThreadClock, ratio, spread, take_turns
from lowering.c_compiler import Compiler, compiler_of
from lowering.timing.harness import LONG_SAMPLE, MOST_RETRIES

PLAIN: Final = "C"
WRITTEN: Final = "as written"
OPTIMIZED: Final = "optimize()"
RELATIVE: Final = 1e-9
"""Largest error of a result, relative to the largest element of all results."""


class WrongResult(Exception):
    """A kernel whose results are not those of plain C."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A kernel to be timed: `reset` restores the arrays that `run` overwrites, and is not timed."""

    reset: Callable[[], object]
    run: Callable[[], object]
    results: Callable[[], Array]

    def turn(self, clock: Clock) -> tuple[float | None, float]:
        """Run with warm caches. Return the milliseconds, or None if the thread was preempted, and the nanoseconds."""
        spent = 0
        for _ in range(MOST_RETRIES):
            self.reset()
            self.run()
            self.reset()
            preemptions, begun = clock.preemptions(), clock.now()
            self.run()
            taken = clock.now() - begun
            spent += 2 * taken
            if clock.preemptions() == preemptions or taken > LONG_SAMPLE:
                return taken / 1e6, spent
        return None, spent


def plain(
    benchmark: Benchmark, arguments: Mapping[str, Any], sizes: Mapping[str, int], compiler: Compiler | None = None
) -> Candidate:
    """Return the kernel in C, which overwrites its arrays."""
    reference = REFERENCES[benchmark.name]
    values = reference.values(arguments, sizes)
    kept = {name: value.copy() for name, value in values.items() if isinstance(value, np.ndarray)}

    def reset() -> None:
        for name, value in kept.items():
            np.copyto(values[name], value)

    return Candidate(
        reset,
        reference.bound(values, compiler),
        lambda: np.concatenate([values[name].ravel() for name in reference.results]),
    )


def ours(program: atl.Program, arguments: Mapping[str, Any]) -> Candidate:
    """Return our kernel, with its own copies of the inputs, which are written before each run as those of C are."""
    copies = {name: np.array(value) if isinstance(value, np.ndarray) else value for name, value in arguments.items()}
    kernel = atl.compile(program)
    made = kernel(**copies)
    out = np.concatenate([each.ravel() for each in made]) if program.results else made

    def reset() -> None:
        for name, value in copies.items():
            if isinstance(value, np.ndarray):
                np.copyto(value, arguments[name])

    return Candidate(reset, kernel.prepared(out=out, **copies), out.ravel)


def measured(name: str, data_set: str, seconds: float, rivals: Sequence[str] = ()) -> Samples:
    """Return the samples of a kernel in C, of our program as written, of its optimized schedule, and of rivals."""
    benchmark = BENCHMARKS[name]
    sizes, arguments = benchmark.call(benchmark.data_set(data_set))
    session = atl.reschedule(benchmark.program).optimize(sizes)
    candidates = {
        PLAIN: plain(benchmark, arguments, sizes),
        WRITTEN: ours(benchmark.program, arguments),
        OPTIMIZED: ours(session.goal, arguments),
        **{rival: plain(benchmark, arguments, sizes, compiler_of(rival)) for rival in rivals},
    }
    _check(name, candidates)
    clock = ThreadClock()
    turns = {each: partial(candidate.turn, clock) for each, candidate in candidates.items()}
    return take_turns(turns, rounds=1000, seconds=seconds)


def _check(name: str, candidates: Mapping[str, Candidate]) -> None:
    for candidate in candidates.values():
        candidate.reset()
        candidate.run()
    wanted = candidates[PLAIN].results()
    for each, candidate in candidates.items():
        error = np.abs(candidate.results() - wanted).max()
        if not error <= RELATIVE * np.abs(wanted).max():
            raise WrongResult(f"{name} {each}: the largest error is {error:.3g}")


def rows(names: Sequence[str], data_set: str, seconds: float, rivals: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of the table of these kernels."""
    ratios: dict[str, list[float]] = {each: [] for each in (WRITTEN, OPTIMIZED, *rivals)}
    yield f"{'':16} {'C, ms':>10}" + "".join(f" {each:>12}" for each in ratios)
    for name in names:
        samples = measured(name, data_set, seconds, rivals)
        time = spread(samples.clean(PLAIN))
        line = f"{name:16} {time.middle:10.3f}" if time else f"{name:16} {'-':>10}"
        for each, found in ratios.items():
            faster = ratio(samples, PLAIN, each)
            if faster is not None:
                found.append(faster.middle)
            line += f" {faster.middle if faster else '-':>{max(12, len(each))}{'.2f' if faster else ''}}"
        yield line
    if all(ratios.values()):
        means = "".join(f" {geometric_mean(found):{max(12, len(each))}.2f}" for each, found in ratios.items())
        yield f"{'geometric mean':27}{means}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table of the chosen kernels."""
    parser = argparse.ArgumentParser(prog="python -m bench.polybench", description=__doc__)
    parser.add_argument("data_set", choices=DATA_SETS)
    parser.add_argument("kernels", nargs="*", metavar="KERNEL", help=f"of {', '.join(BENCHMARKS)}; without any, all")
    parser.add_argument("--seconds", type=float, default=3.0, help="time for each kernel (default: 3)")
    parser.add_argument("--isa", choices=ISAS, help="limit both to an older instruction set")
    parser.add_argument("--rival", action="append", default=[], metavar="CC", help="another compiler for the C")
    given = parser.parse_intermixed_args(arguments)
    for name in given.kernels:
        if name not in BENCHMARKS:
            parser.error(f"unknown kernel {name!r}; one of {', '.join(BENCHMARKS)}")
    os.environ.update(settings(given.isa))
    pinned()
    for line in rows(given.kernels or list(BENCHMARKS), given.data_set, given.seconds, given.rival):
        print(line, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
