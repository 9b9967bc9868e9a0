"""The interface for timing candidates, which `lowering.measure` implements, and statistics on their times."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, Protocol, runtime_checkable

from atl.core.program import Program

ROUNDS: Final = (3, 4, 8, 8, 8, 7)
"""Numbers of rounds after each of which a comparison may end."""
SUFFICIENT: Final = 7
"""Rounds that suffice if the verdict is clear."""
SURE: Final = 0.95
"""Confidence level of the intervals."""
WORTH: Final = 1.01
"""The least speedup that counts: a smaller one does not justify another schedule."""
CLEARLY: Final = 1.1
"""A candidate that is slower by this factor in each of the first rounds has lost."""
LOSING: Final = 1.5
"""A candidate is dropped if its first run takes this many times as long as that of one of the best."""
SHORT: Final = 10.0
"""Milliseconds below which the first run may be slow because caches are cold; then later ones count."""
RERUNS: Final = 3
"""The number of later runs of which the fastest counts."""


class Built(Protocol):
    """A candidate that was built. Candidates with the same identity are the same machine code."""

    @property
    def identity(self) -> str:
        """A text that identifies the machine code and how it was built."""

    @property
    def threaded(self) -> bool:
        """True if several threads run it, so that it is measured in wall time."""


class Unbuilt(Protocol):
    """A candidate before the C compiler has run."""

    def build(self) -> object:
        """Run the C compiler, in any thread. Raises `ATLError` on failure."""

    def finish(self) -> Any:
        """Return the candidate, built now if it was not. Raises `ATLError` on failure."""


class Judgement(Protocol):
    """The judgement of a candidate's result."""

    @property
    def outcome(self) -> Literal["right", "wrong", "unjudged"]:
        """The outcome; "unjudged" if the time limit did not suffice."""

    @property
    def note(self) -> str:
        """The wrong element, what was not judged, or how the result was found right."""


@runtime_checkable
class Comparison(Protocol):
    """A comparison of schedules of one program at some sizes: checks their results and times them in turn."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """The conditions of a time besides the program and its sizes: machine, compiler, flags."""

    @property
    def folder(self) -> Path:
        """The folder for a table of times."""

    @property
    def builds_ahead(self) -> bool:
        """True if a core is free for the C compiler while another one is timed."""

    @property
    def predicted_ms(self) -> float:
        """A prediction of the milliseconds of the unscheduled program, which is low unless it runs in vectors."""

    def begin(self, program: Program) -> Any:
        """Return a candidate that is not built. Raises `ATLError` on failure."""

    def judge_by(self, candidate: Any, seconds: float) -> Judgement:
        """Compare other results with this candidate's, more precisely, if it is right. Raises `ATLError` on failure."""

    def run_start(self, seconds: float) -> float | None:
        """Run the unscheduled program once, to compare other results with its result; return the milliseconds.

        None if it was stopped after these seconds.
        """

    def is_start(self, candidate: Any) -> bool:
        """Return whether a candidate is the machine code of the unscheduled program."""

    def run_once(self, candidate: Any, seconds: float) -> float | None:
        """Run a candidate once; return the milliseconds, or None if it was stopped after these seconds."""

    def judgement_of(self, candidate: Any, seconds: float) -> Judgement:
        """Judge the result of a candidate in these seconds."""

    def time_pair(self, new: Any, best: Any, *, rounds: int, seconds: float) -> Sequence[tuple[float, float]]:
        """Return the milliseconds of both, for each round that was not disturbed."""


class Measure(Protocol):
    """A factory of comparisons."""

    def __call__(self, program: Program, sizes: Mapping[str, int], /) -> Comparison:
        """Return a comparison for a program at these sizes, with inputs."""


@dataclass(frozen=True, slots=True)
class Interval:
    """A speed ratio: the median over the rounds, with a confidence interval."""

    middle: float
    low: float
    high: float
    rounds: int

    @property
    def verdict(self) -> Literal["faster", "slower", "even"]:
        """ "faster" or "slower" if the whole interval is; otherwise "even"."""
        if self.low > 1 and self.middle >= WORTH:
            return "faster"
        return "slower" if self.high < 1 else "even"

    @property
    def is_decided(self) -> bool:
        """True if more rounds would hardly make it faster by an amount that counts, or slower."""
        return self.verdict != "even" or self.high < WORTH

    def times(self, factor: float) -> Interval:
        """Return the speed ratio relative to a third candidate, given the second one's ratio to it."""
        return Interval(self.middle * factor, self.low * factor, self.high * factor, self.rounds)


def interval(ratios: Sequence[float]) -> Interval:
    """Return the median with its 95 % confidence interval by a sign test.

    With fewer than six rounds, the interval is the range of all of them.

    >>> interval([1.0, 1.2, 1.1, 1.3, 1.2, 1.1, 1.2])
    Interval(middle=1.2, low=1.0, high=1.3, rounds=7)
    """
    ordered = sorted(ratios)
    count = len(ordered)
    cut, below = 0, 0.5**count
    # Cut as many values from each end as the confidence level allows.
    while cut + 1 < (count + 1) // 2 and 1 - 2 * (below + comb(count, cut + 1) * 0.5**count) >= SURE:
        cut += 1
        below += comb(count, cut) * 0.5**count
    return Interval(median(ordered), ordered[cut], ordered[count - 1 - cut], count)


def compared(
    comparison: Comparison, new: Any, best: Any, *, ms: float, time_left: Callable[[], float]
) -> tuple[Interval, float] | None:
    """Return a candidate's speed ratio to the best so far, and its milliseconds; None without an undisturbed round.

    It ends when the candidate is clearly slower, when enough rounds agree, or when no round fits in the seconds that
    are left. `ms` is the expected time of a round.
    """
    pairs: list[tuple[float, float]] = []
    for rounds in ROUNDS:
        fitting = min(rounds, int(1e3 * time_left() / max(ms, 1e-6)))
        if fitting < (ROUNDS[0] if not pairs else 1):
            break
        left = time_left()
        pairs += comparison.time_pair(new, best, rounds=fitting, seconds=left)
        ms = max(ms, 1e3 * (left - time_left()) / fitting)
        if not pairs:
            continue
        ratios = [b / a for a, b in pairs]
        is_clear = len(ratios) >= ROUNDS[0] and max(ratios) * CLEARLY < 1
        if is_clear or (len(ratios) >= SUFFICIENT and interval(ratios).is_decided):
            break
    if not pairs:
        return None
    return interval([b / a for a, b in pairs]), median(a for a, _ in pairs)
