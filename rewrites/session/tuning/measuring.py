"""The interface of what measures candidates, which `lowering.measure` implements; and what their times tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from statistics import median
from typing import Any, Final, Literal, Protocol, runtime_checkable

from atl.core.program import Program

FIRST: Final = 7
"""So many rounds tell most candidates from the best."""
ROUNDS: Final = 31
"""So many more where they do not."""
SURE: Final = 0.95
"""How sure it is that the middle of many more rounds would lie within the ends of an interval."""
WORTH: Final = 1.01
"""Who is not this many times as fast is as fast as the other: it is no reason to change a schedule."""


class Entrant(Protocol):
    """A candidate that was built. Two of one identity are the same machine code."""

    @property
    def identity(self) -> str:
        """A text that tells machine codes, and what they were made by, apart."""


@runtime_checkable
class Contest(Protocol):
    """Where schedules of one program are compared with it, and timed in turn, at some sizes."""

    @property
    def conditions(self) -> Mapping[str, str]:
        """What a time depends on besides the program and its sizes: machine, compiler, flags."""

    @property
    def folder(self) -> Path:
        """Where a table of times may be kept."""

    def candidate(self, program: Program) -> Any:
        """A candidate, built. Raises `ATLError` where it cannot be."""

    def fault_of(self, candidate: Any) -> str | None:
        """What is wrong with the result of a candidate, if anything is."""

    def time_pair(self, new: Any, best: Any, *, rounds: int, seconds: float) -> Sequence[tuple[float, float]]:
        """Milliseconds of both, for each round in which neither was disturbed."""


class Measure(Protocol):
    """Makes a contest of a program and its sizes."""

    def __call__(self, program: Program, sizes: Mapping[str, int], /) -> Contest:
        """The contest, with inputs for these sizes."""


@dataclass(frozen=True, slots=True)
class Interval:
    """How many times as fast as another one somebody is: the median over the rounds, and between which ends it lies."""

    middle: float
    low: float
    high: float
    rounds: int

    @property
    def verdict(self) -> Literal["faster", "slower", "even"]:
        """Faster or slower only where the whole interval is; whatever is within the noise is even."""
        if self.low > 1 and self.middle >= WORTH:
            return "faster"
        return "slower" if self.high < 1 else "even"

    def times(self, factor: float) -> Interval:
        """Compared with a third one, which the other is so many times as fast as."""
        return Interval(self.middle * factor, self.low * factor, self.high * factor, self.rounds)


def interval(ratios: Sequence[float]) -> Interval:
    """The median with its ends, so that a median over ever more rounds would lie within them with 95 % (a sign test).

    Fewer than six rounds cannot tell as much: then the ends are those of all of them.

    >>> interval([1.0, 1.2, 1.1, 1.3, 1.2, 1.1, 1.2])
    Interval(middle=1.2, low=1.0, high=1.3, rounds=7)
    """
    ordered = sorted(ratios)
    count = len(ordered)
    cut, below = 0, 0.5**count
    # As many are cut from each end as leaves it this sure that the middle is not among them.
    while cut + 1 < (count + 1) // 2 and 1 - 2 * (below + comb(count, cut + 1) * 0.5**count) >= SURE:
        cut += 1
        below += comb(count, cut) * 0.5**count
    return Interval(median(ordered), ordered[cut], ordered[count - 1 - cut], count)


def compared(contest: Contest, new: Any, best: Any, seconds: float) -> tuple[Interval, float] | None:
    """How many times as fast as the best so far a candidate is, and its milliseconds; None without a clean round."""
    pairs = list(contest.time_pair(new, best, rounds=FIRST, seconds=seconds / 3))
    if not pairs or interval([b / a for a, b in pairs]).verdict == "even" or len(pairs) < FIRST:
        pairs += contest.time_pair(new, best, rounds=ROUNDS, seconds=seconds)
    if not pairs:
        return None
    return interval([b / a for a, b in pairs]), median(a for a, _ in pairs)
