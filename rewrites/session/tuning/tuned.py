"""What autotuning found: every candidate with its time or the reason why it has none, the best, and why it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from atl.core.program import Program
from atl.errors import ATLError
from atl.files.atomic import write_text
from rewrites.kernel import Theorem
from rewrites.session.tuning.measuring import Interval
from rewrites.session.tuning.picture import Bar, drawn
from rewrites.session.tuning.space import Parameters, called

Outcome: TypeAlias = Literal["measured", "remembered", "same", "refused", "wrong", "disturbed"]
Stopped: TypeAlias = Literal["exhausted", "budget", "interrupted"]

START: Final = "as it stands"
"""What the program is called that the candidates are compared with."""
WIDE: Final = 118


class Scheduled(Protocol):
    """A session that stands at a candidate."""

    @property
    def goal(self) -> Program:
        """The candidate."""

    @property
    def theorem(self) -> Theorem:
        """That it equals the program at the start."""


S = TypeVar("S", bound=Scheduled)


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate: its parameters, and how fast it is, or why that is not known.

    `speed` is how many times as fast as the start it is. Where it was measured that is by way of the best at that time,
    which it took turns with. A refused candidate has its `error`; of one that is the same machine code as an earlier
    one `said` names that.
    """

    parameters: Parameters
    outcome: Outcome
    said: str = ""
    speed: Interval | None = None
    ms: float | None = None
    error: ATLError | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """Its parameters, as they are passed."""
        return called(self.parameters) or START

    def __str__(self) -> str:
        if self.speed is None or self.ms is None:
            return f"{self.name}: {self.outcome}: {self.said}"
        return f"{self.name}: {_speed(self.speed)} times as fast, {self.ms:.3f} ms{_more(self)}"


@dataclass(frozen=True, slots=True, eq=False)
class Tuned(Generic[S]):
    """What autotuning found. It prints as a table, the fastest first.

    `best` is None where nothing was faster than the start; `stopped` says why it ended: all candidates were tried
    ("exhausted"), the seconds were over ("budget"), or it was interrupted. `waiting` have not been tried.
    """

    start: Program
    sizes: Mapping[str, int]
    tried: tuple[Tried, ...]
    best: Tried | None
    session: S | None
    """The session at the best candidate."""
    stopped: Stopped
    waiting: tuple[Parameters, ...]
    start_ms: float | None
    seconds: float
    table: Path
    """The file of times, from which the next run goes on."""

    @property
    def theorem(self) -> Theorem | None:
        """That the best candidate equals the start; None where nothing was faster."""
        return None if self.session is None else self.session.theorem

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        left = f", {len(self.waiting)} not tried" if self.waiting else ""
        count = f"{len(self.tried)} candidate{'' if len(self.tried) == 1 else 's'}"
        lines = [f"{self.start.name} at {sizes}: {self.stopped} after {count}, {self.seconds:.1f} s{left}"]
        lines.append(f"    {'times as fast [95 %]':<24}{'ms':>10}")
        at_start = "" if self.start_ms is None else f"{self.start_ms:.3f}"
        rows = [None, *self.ranked]
        rows.sort(key=lambda one: -(one.speed.middle if one is not None and one.speed is not None else 1.0))
        for one in rows:
            if one is None:
                lines.append(f"{' ' if self.best else '*'}   {'1.00':<24}{at_start:>10}  {START}")
            else:
                assert one.speed is not None
                mark, ms = "*" if one is self.best else " ", "" if one.ms is None else f"{one.ms:.3f}"
                lines.append(f"{mark}   {_speed(one.speed):<24}{ms:>10}  {one.name}{_more(one)}")
        lines += [f"    {one.outcome:<8}{one.name}: {one.said}"[:WIDE] for one in self.tried if one.speed is None]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def ranked(self) -> tuple[Tried, ...]:
        """The candidates whose speed is known, the fastest first."""
        known = [one for one in self.tried if one.speed is not None]
        return tuple(sorted(known, key=lambda one: -one.speed.middle if one.speed is not None else 0.0))

    def picture(self, path: str | PathLike[str]) -> None:
        """Writes the candidates by their times as SVG: a bar for each with the ends of its interval; the best is dark.

        Raises `InvalidArgument` where it cannot be written.
        """
        bars = [Bar(START, 1.0, 1.0, 1.0, chosen=self.best is None)]
        for one in self.ranked:
            assert one.speed is not None
            # Times, as parts of the one at the start: the ends of speeds change places.
            ends = 1 / one.speed.middle, 1 / one.speed.high, 1 / one.speed.low
            bars.append(Bar(one.name, *ends, chosen=one is self.best))
        left_out = [f"{one.name}: {one.outcome}" for one in self.tried if one.speed is None]
        text = drawn(f"{self.start.name}: time, as part of that of the start", bars, left_out)
        write_text(path, text, what="the picture", required='a place for a file: "tuned.svg"')


def _speed(speed: Interval) -> str:
    return f"{speed.middle:.2f} [{speed.low:.2f}-{speed.high:.2f}]"


def _more(one: Tried) -> str:
    return f" ({one.said})" if one.said else ""
