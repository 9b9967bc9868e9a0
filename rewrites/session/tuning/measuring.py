"""The interface for timing candidates, which `lowering.measure` implements, and statistics on their times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, Protocol, runtime_checkable

from atl.core.program import Program

FIRST: Final = 7
"""Rounds that suffice for most candidates."""
ROUNDS: Final = 31
"""Additional rounds if the first ones are inconclusive."""
SURE: Final = 0.95
"""Confidence level of the intervals."""
WORTH: Final = 1.01
"""The least speedup that counts: a smaller one does not justify another schedule."""


class Built(Protocol):
    """A candidate that was built. Candidates with the same identity are the same machine code."""

    @property
    def identity(self) -> str:
        """A text that identifies the machine code and how it was built."""


@runtime_checkable
class Comparison(Protocol):
    """A comparison of schedules of one program at some sizes: checks their results and times them in turn."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """The conditions of a time besides the program and its sizes: machine, compiler, flags."""

    @property
    def folder(self) -> Path:
        """The folder for a table of times."""

    def candidate(self, program: Program) -> Any:
        """Build a candidate. Raises `ATLError` on failure."""

    def fault_of(self, candidate: Any) -> str | None:
        """Describe what is wrong with the result of a candidate; None if it is right."""

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


def compared(comparison: Comparison, new: Any, best: Any, seconds: float) -> tuple[Interval, float] | None:
    """Return a candidate's speed ratio to the best so far, and its milliseconds; None without an undisturbed round."""
    pairs = list(comparison.time_pair(new, best, rounds=FIRST, seconds=seconds / 3))
    if not pairs or interval([b / a for a, b in pairs]).verdict == "even" or len(pairs) < FIRST:
        pairs += comparison.time_pair(new, best, rounds=ROUNDS, seconds=seconds)
    if not pairs:
        return None
    return interval([b / a for a, b in pairs]), median(a for a, _ in pairs)
