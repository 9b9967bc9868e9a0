"""The time of a kernel's call: the median and percentiles of many calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from atl.errors import InvalidArgument, brief
from lowering.timing.harness import Clock, ThreadClock, TimedFunction, WallClock, alternate, spread

ROUNDS: Final = 100_000
"""Maximum number of samples."""
LONGEST: Final = 3600.0


@dataclass(frozen=True, slots=True)
class KernelTime:
    """The time of one call in milliseconds: the median, and the 10th and 90th percentile (`low`, `high`).

    A sample is one call, or the mean of several short ones. It is CPU time of the calling thread, or wall time if
    `threads` is set, for kernels with parallel loops.
    """

    name: str
    median: float
    low: float
    high: float
    samples: int
    threads: bool

    def __str__(self) -> str:
        unit, scale = ("ms", 1.0) if self.median >= 1 else ("µs", 1e3)
        clock = "wall time" if self.threads else "CPU time"
        middle, low, high = (f"{value * scale:.3g}" for value in (self.median, self.low, self.high))
        return f"{self.name}: {middle} {unit} a call ({low} to {high} for 80 % of {self.samples} samples, {clock})"

    __repr__ = __str__


def time_of(name: str, run: TimedFunction, *, seconds: object, threads: bool) -> KernelTime:
    """Time a function for `seconds`, and at least three runs. An interrupt ends the measurement."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= LONGEST:
        raise InvalidArgument(
            f"seconds={brief(seconds)}", required=f"a number of seconds, above 0 and up to {LONGEST:g}"
        )
    clock: Clock = WallClock() if threads else ThreadClock()
    samples = alternate({name: run}, rounds=ROUNDS, seconds=float(seconds), clock=clock)
    found = spread(samples.clean(name))
    if found is None:
        if samples.interrupted:
            raise KeyboardInterrupt
        # All samples were disturbed; report disturbed ones.
        found = spread([_one_sample(run, clock) for _ in range(3)])
        assert found is not None
    return KernelTime(name, found.middle, found.low, found.high, found.count, threads)


def _one_sample(run: TimedFunction, clock: Clock) -> float:
    begun = clock.now()
    run()
    return (clock.now() - begun) / 1e6
