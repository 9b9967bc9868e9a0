"""The timing harness: functions take turns, only undisturbed samples count, and ratios are taken within a round.

The speed of a shared machine drifts, so times of different minutes are not compared. In every round each function runs
once. A ratio of times is the median of the ratios of all rounds.
"""

from __future__ import annotations

import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median, quantiles
from typing import Final, Protocol, TypeAlias

from atl.errors import InvalidArgument, brief

TimedFunction: TypeAlias = Callable[[], object]
Turn: TypeAlias = Callable[[], tuple[float | None, float]]
"""A function that takes a sample: its milliseconds, or None if it was disturbed, and its wall time in nanoseconds."""

LONG_SAMPLE: Final = 4_000_000
"""Nanoseconds above which a sample counts even if the thread was preempted, since CPU time hardly shows it."""
SHORT_RUN: Final = 200_000
"""Nanoseconds below which a function runs several times for one sample."""
MIN_SAMPLES: Final = 3
"""Minimum number of samples of each function, however slow."""
MOST_RETRIES: Final = 4
"""Maximum number of attempts at an undisturbed sample in a round."""
NO_WARM_UP: Final = 100_000_000
"""Nanoseconds above which a function needs no run to warm up the caches."""


class Clock(Protocol):
    """A clock in nanoseconds, with a count of preemptions of this thread."""

    def now(self) -> int:
        """Return the time in nanoseconds since an arbitrary start."""

    def wall(self) -> int:
        """Return the wall time in nanoseconds, in which a budget is counted."""

    def preemptions(self) -> int:
        """Return the number of preemptions of this thread."""


class ThreadClock:
    """The CPU time of this thread, on which other processes have the least influence."""

    def now(self) -> int:
        """Return the CPU time in nanoseconds."""
        return time.thread_time_ns()

    def wall(self) -> int:
        """Return the wall time in nanoseconds."""
        return time.perf_counter_ns()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def preemptions(self) -> int:
        """Return the number of involuntary context switches of this thread since it started."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class WallClock(ThreadClock):
    """The wall time, for work that several threads share."""

    def now(self) -> int:
        """Return the wall time in nanoseconds."""
        return self.wall()


@dataclass(slots=True)
class Samples:
    """Milliseconds of each function, round by round; None if it did not run or was preempted."""

    times: dict[str, list[float | None]]
    interrupted: bool = False

    def clean(self, name: str) -> list[float]:
        """Return the undisturbed samples."""
        return [taken for taken in self.times[name] if taken is not None]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of values, with their 10th and 90th percentile."""

    middle: float
    low: float
    high: float
    count: int


def spread(values: list[float]) -> Spread | None:
    """Return the median and percentiles of values, or None if there are none.

    >>> spread([1.0, 2.0, 9.0])
    Spread(middle=2.0, low=1.2, high=7.6, count=3)
    """
    if not isinstance(values, list) or not all(isinstance(value, (int, float)) for value in values):
        raise InvalidArgument(f"values={brief(values)}", required="a list of numbers")
    if not values:
        return None
    if len(values) == 1:
        return Spread(values[0], values[0], values[0], 1)
    tenths = quantiles(values, n=10, method="inclusive")
    return Spread(median(values), round(tenths[0], 12), round(tenths[-1], 12), len(values))


def ratio(samples: Samples, over: str, under: str, scale: float = 1.0) -> Spread | None:
    """Return the spread of scale * time of `over` / time of `under` over the rounds in which both are undisturbed."""
    if not isinstance(samples, Samples):
        raise InvalidArgument(f"samples={brief(samples)}", required="the result of alternate()")
    for name in (over, under):
        if not isinstance(name, str) or name not in samples.times:
            raise InvalidArgument(
                f"there are no samples of {brief(name)}", required=f"one of {', '.join(samples.times)}"
            )
    pairs = zip(samples.times[over], samples.times[under], strict=True)
    return spread([scale * a / b for a, b in pairs if a is not None and b])  # a coarse clock may return 0


def alternate(
    functions: Mapping[str, TimedFunction],
    *,
    rounds: int,
    seconds: float,
    clock: Clock,
) -> Samples:
    """Time functions in turns (`take_turns`) in this process."""
    if not isinstance(functions, Mapping) or not all(map(callable, functions.values())):
        raise InvalidArgument(f"functions={brief(functions)}", required="a dictionary from names to functions")
    if not callable(getattr(clock, "now", None)):
        raise InvalidArgument(f"clock={brief(clock)}", required="a clock, such as ThreadClock()")
    turns = {name: Sampler(run, clock).sample for name, run in functions.items()}
    return take_turns(turns, rounds=rounds, seconds=seconds)


def take_turns(
    turns: Mapping[str, Turn], *, rounds: int, seconds: float, watch: Callable[[int], None] = lambda _: None
) -> Samples:
    """Take rounds of samples, until each function has used its share of the seconds, but at least three rounds.

    A function that has used up its share is skipped, so slow functions do not reduce the number of samples of others.
    The order is rotated from round to round, so a function does not always follow the same one. An interrupt ends the
    measurement; the samples taken so far are kept.
    """
    if not isinstance(turns, Mapping) or not all(map(callable, turns.values())):
        raise InvalidArgument(f"turns={brief(turns)}", required="a dictionary from names to functions")
    if not isinstance(rounds, int) or not isinstance(seconds, (int, float)) or not callable(watch):
        raise InvalidArgument(
            f"rounds={brief(rounds)}, seconds={brief(seconds)}, watch={brief(watch)}",
            required="two numbers, the first whole, and a function",
        )
    samples = Samples({name: [] for name in turns})
    spent = dict.fromkeys(turns, 0.0)
    share = 1e9 * seconds / max(1, len(turns))
    names = list(turns)
    try:
        for number in range(rounds):
            playing = {name for name in names if spent[name] < share or number < MIN_SAMPLES}
            if not playing:
                break
            for name in rotated(names, number):
                taken: float | None = None
                if name in playing:
                    taken, nanoseconds = turns[name]()
                    spent[name] += nanoseconds
                samples.times[name].append(taken)
            watch(number + 1)
    except KeyboardInterrupt:
        samples.interrupted = True
        shortest = min(map(len, samples.times.values()))
        for taken_so_far in samples.times.values():
            del taken_so_far[shortest:]
    return samples


def rotated(names: Sequence[str], number: int) -> list[str]:
    """Rotate the order of the functions by the number of the round.

    >>> rotated(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    turn = number % max(1, len(names))
    return [*names[turn:], *names[:turn]]


class Sampler:
    """A sampler of one function in this process. The first sample determines the number of runs per sample."""

    def __init__(self, run: TimedFunction, clock: Clock) -> None:
        self._run, self._clock = run, clock
        self._repeats: int | None = None

    def sample(self) -> tuple[float | None, float]:
        """Return the milliseconds of a run, or None if it was disturbed, and the nanoseconds of wall time."""
        begun = self._clock.wall()
        taken = self._sample()
        return taken, self._clock.wall() - begun

    def _sample(self) -> float | None:
        """Take a sample, after an untimed run that warms up the caches unless the function is slow."""
        if self._repeats is None:
            first = max(1, _timed(self._run, 1, self._clock)[0])
            self._repeats = 0 if first > NO_WARM_UP else max(1, SHORT_RUN // first)
            if first > NO_WARM_UP:
                return first / 1e6
        elif self._repeats:
            self._run()
        count = max(1, self._repeats)
        for _ in range(MOST_RETRIES):
            taken, undisturbed = _timed(self._run, count, self._clock)
            if undisturbed or taken > LONG_SAMPLE:
                return taken / count / 1e6
        return None


def _timed(run: TimedFunction, count: int, clock: Clock) -> tuple[int, bool]:
    """Return the nanoseconds of some runs, and whether this thread was not preempted."""
    before, begun = clock.preemptions(), clock.now()
    for _ in range(count):
        run()
    taken = clock.now() - begun
    return taken, clock.preemptions() == before
