"""The measuring: contestants take turns, clean samples count, ratios are taken within a round.

The machine is shared and drifts, so no time is compared with one of another minute. In every round each contestant
runs once, and a ratio is the median over the rounds of the two times of one round.
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
"""Takes a sample: milliseconds, None if it does not count, and the nanoseconds that the contestant has spent on it."""

LONG_SAMPLE: Final = 4_000_000
"""A sample of so many nanoseconds counts even if the thread was switched out meanwhile: CPU time hardly sees it."""
SHORT_RUN: Final = 200_000
"""What takes less than so many nanoseconds is run several times for one sample."""
MIN_SAMPLES: Final = 3
"""So many samples everybody gets, however slow."""
MOST_RETRIES: Final = 4
"""So often a sample is taken again in its round, when this thread was switched out; then there is none."""
NO_WARM_UP: Final = 100_000_000
"""What takes longer than so many nanoseconds needs no run beforehand that fills the caches."""


class Clock(Protocol):
    """Nanoseconds, and how often this thread was switched out against its will."""

    def now(self) -> int:
        """The time in nanoseconds, from some start."""

    def preemptions(self) -> int:
        """How often another thread took the core away."""


class ThreadClock:
    """The CPU time of this thread: what others do on the machine counts as little as it can."""

    def now(self) -> int:
        """CPU time in nanoseconds."""
        return time.thread_time_ns()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def preemptions(self) -> int:
        """Involuntary switches of this thread since it began."""
        return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class WallClock(ThreadClock):
    """The time on the wall, for work that several threads share."""

    def now(self) -> int:
        """Wall time in nanoseconds."""
        return time.perf_counter_ns()


@dataclass(slots=True)
class Samples:
    """Milliseconds of each contestant, round by round; None where it did not run or was switched out."""

    times: dict[str, list[float | None]]
    interrupted: bool = False

    def clean(self, name: str) -> list[float]:
        """The samples that count."""
        return [taken for taken in self.times[name] if taken is not None]


@dataclass(frozen=True, slots=True)
class Spread:
    """The median of some values, and the tenth and ninetieth percent of them."""

    middle: float
    low: float
    high: float
    count: int


def spread(values: list[float]) -> Spread | None:
    """The median with its spread; nothing where there are no values.

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
    """The median of scale times one's time over another's, of rounds in which both have a clean sample."""
    if not isinstance(samples, Samples):
        raise InvalidArgument(f"samples={brief(samples)}", required="what alternate() gives")
    for name in (over, under):
        if not isinstance(name, str) or name not in samples.times:
            raise InvalidArgument(f"{brief(name)} is no contestant", required=f"one of {', '.join(samples.times)}")
    pairs = zip(samples.times[over], samples.times[under], strict=True)
    return spread([scale * a / b for a, b in pairs if a is not None and b])  # a coarse clock may say 0


def alternate(
    contestants: Mapping[str, TimedFunction],
    *,
    rounds: int,
    seconds: float,
    clock: Clock,
    watch: Callable[[int], None] = lambda _: None,
) -> Samples:
    """Runs all in turn, as `take_turns` says, in this process."""
    if not isinstance(contestants, Mapping) or not all(map(callable, contestants.values())):
        raise InvalidArgument(f"contestants={brief(contestants)}", required="a function for each name")
    if not callable(getattr(clock, "now", None)):
        raise InvalidArgument(f"clock={brief(clock)}", required="a clock, such as ThreadClock()")
    turns = {name: Sampler(run, clock).sample for name, run in contestants.items()}
    return take_turns(turns, rounds=rounds, seconds=seconds, watch=watch)


def take_turns(
    turns: Mapping[str, Turn], *, rounds: int, seconds: float, watch: Callable[[int], None] = lambda _: None
) -> Samples:
    """Take so many rounds of samples, or until each contestant has had its share of the seconds, but three at least.

    A contestant that has used up its share sits out, so a slow program does not keep the others from being measured
    well. The order is rotated from round to round, so the caches are not always left by the same neighbour. An
    interrupt ends the measuring; what was measured until then is kept.
    """
    if not isinstance(turns, Mapping) or not all(map(callable, turns.values())):
        raise InvalidArgument(f"turns={brief(turns)}", required="a function for each name")
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
    """The order of a round, each of which begins one further: nobody always comes after the same neighbour's caches.

    >>> rotated(["a", "b", "c"], 4)
    ['b', 'c', 'a']
    """
    turn = number % max(1, len(names))
    return [*names[turn:], *names[:turn]]


class Sampler:
    """The samples of one contestant, taken in this process; the first one says how many runs make one."""

    def __init__(self, run: TimedFunction, clock: Clock) -> None:
        self._run, self._clock = run, clock
        self._repeats: int | None = None

    def sample(self) -> tuple[float | None, float]:
        """Return the milliseconds of a run, None if it was disturbed, and the nanoseconds that the turn took."""
        begun = self._clock.now()
        taken = self._sample()
        return taken, self._clock.now() - begun

    def _sample(self) -> float | None:
        """Take a sample after a run that is not timed and fills the caches; what takes long needs none."""
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
    """Nanoseconds of some runs, and whether this thread kept its core meanwhile."""
    before, begun = clock.preemptions(), clock.now()
    for _ in range(count):
        run()
    taken = clock.now() - begun
    return taken, clock.preemptions() == before
