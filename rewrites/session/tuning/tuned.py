"""Results of autotuning: every candidate with its time or the reason for having none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Final, Generic, Literal, Protocol, TypeAlias, TypeVar

from atl.core.program import Program
from atl.errors import ATLError
from atl.files.atomic import write_text
from atl.text.markup import element, lines, svg
from rewrites.kernel import Theorem
from rewrites.session.compiling import HasGoal
from rewrites.session.tuning.measuring import Interval
from rewrites.session.tuning.space import Parameters, called

LINE: Final = 18
LETTER: Final = 7
BARS: Final = 420
GAP: Final = 12


@dataclass(frozen=True, slots=True)
class Bar:
    """A bar of the chart: a candidate's name, time and interval; the chosen candidate is dark."""

    name: str
    time: float
    low: float
    high: float
    chosen: bool = False


def bar_chart(title: str, bars: Sequence[Bar], left_out: Sequence[str]) -> str:
    """Return an SVG bar chart, the shortest bar first, with the untimed candidates listed below."""
    ordered = sorted(bars, key=lambda bar: bar.time)
    longest = max((bar.high for bar in ordered), default=1.0)
    text = GAP + LETTER * max((len(bar.name) for bar in ordered), default=0)
    body = [element("text", title, x=GAP, y=LINE)]
    y = LINE + GAP
    for bar in ordered:
        scale = BARS / longest
        x = text + GAP
        ink = "#345" if bar.chosen else "#a9c6d9"
        body.append(element("text", bar.name, x=text, y=y + 13, text_anchor="end"))
        body.append(element("rect", x=x, y=y + 2, width=f"{bar.time * scale:.1f}", height=LINE - 5, fill=ink))
        ends = f"M{x + bar.low * scale:.1f} {y + 8} H{x + bar.high * scale:.1f}"
        body.append(element("path", d=ends, stroke="#a33", stroke_width=2))
        body.append(element("text", f"{bar.time:.2f}", x=f"{x + bar.high * scale + 5:.1f}", y=y + 13))
        y += LINE
    for line in left_out:
        body.append(element("text", line, x=GAP, y=y + 13, fill="#777"))
        y += LINE
    width = max([text + BARS + 6 * GAP, *(2 * GAP + LETTER * len(line) for line in (title, *left_out))])
    return svg(width, y + GAP, lines(body), font_family="monospace", font_size=11)


Outcome: TypeAlias = Literal["measured", "remembered", "same", "slow", "refused", "wrong", "unjudged", "noisy"]
Stopped: TypeAlias = Literal["exhausted", "budget", "interrupted"]

START: Final = "start"
"""Name of the unscheduled program in tables."""


class Scheduled(HasGoal, Protocol):
    """A session whose goal is a candidate."""

    @property
    def theorem(self) -> Theorem:
        """The theorem that it equals the program at the start."""


S = TypeVar("S", bound=Scheduled)


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate: its parameters, and its speed or the reason why it has none.

    `speed` is relative to the baseline, computed through the best candidate at that time. A refused candidate has its
    `error`. For machine code seen before, `note` names the earlier candidate. A slow candidate was stopped after its
    first run, of `ms` milliseconds, or during that run. The result of an unjudged one differs from the reference by
    more than the usual rounding error, and was not judged within its time limit.
    """

    parameters: Parameters
    outcome: Outcome
    note: str = ""
    speed: Interval | None = None
    ms: float | None = None
    error: ATLError | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        """The parameters as keyword arguments; "the schedule" if it has none.

        >>> Tried({"by": 8}, "measured").name, Tried({}, "measured").name
        ('by=8', 'the schedule')
        """
        return called(self.parameters) or "the schedule"

    def __str__(self) -> str:
        if self.speed is None or self.ms is None:
            return f"{self.name}: {self.outcome}: {self.note}"
        return f"{self.name}: {_speed(self.speed)} times as fast, {self.ms:.3f} ms{_more(self)}"


@dataclass(frozen=True, slots=True, eq=False)
class Tuned(Generic[S]):
    """The result of autotuning. It prints as a table, the fastest first.

    `best` is None if nothing was faster than the start, or nothing was measured. `stopped` is the reason for the end:
    all candidates were tried ("exhausted"), the time was up ("budget"), or ctrl-C ("interrupted"). `untried` have not
    been tried.
    """

    start: Program
    sizes: Mapping[str, int]
    tried: tuple[Tried, ...]
    best: Tried | None
    session: S | None
    """The session at the best candidate."""
    stopped: Stopped
    untried: tuple[Parameters, ...]
    baseline: str
    """The name of what speeds are relative to: "start", or the first candidate if the start has no time."""
    start_ms: float | None
    """The milliseconds of the one run of the start; None if it was not run, or was stopped."""
    start_note: str
    """Why the start was not run, or was stopped."""
    seconds: float
    table: Path
    """The file of times, from which the next run continues."""

    @property
    def theorem(self) -> Theorem | None:
        """The theorem that the best candidate equals the start; None if nothing was faster."""
        return None if self.session is None else self.session.theorem

    def __str__(self) -> str:
        sizes = ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        left = f", {len(self.untried)} not tried" if self.untried else ""
        count = f"{len(self.tried)} candidate{'' if len(self.tried) == 1 else 's'}"
        lines = [f"{self.start.name} at {sizes}: {self.stopped} after {count}, {self.seconds:.1f} s{left}"]
        lines.append(f"    {'times as fast [95 %]':<24}{'ms':>10}")
        rows: list[tuple[float, str]] = []
        for one in self.ranked:
            assert one.speed is not None
            mark, ms = "*" if one is self.best else " ", "" if one.ms is None else f"{one.ms:.3f}"
            rows.append((one.speed.middle, f"{mark}   {_speed(one.speed):<24}{ms:>10}  {one.name}{_more(one)}"))
        if self.start_ms is not None:
            mark = " " if self.best else "*"
            rows.append((1.0, f"{mark}   {'1.00':<24}{self.start_ms:>10.3f}  {START}"))
        lines += [line for _, line in sorted(rows, key=lambda row: -row[0])]
        if self.start_note:
            lines.append(f"    {START}: {self.start_note}")
        lines += [f"    {one.outcome:<9}{one.name}: {one.note}" for one in self.tried if one.speed is None]
        return "\n".join(lines)

    __repr__ = __str__

    @property
    def ranked(self) -> tuple[Tried, ...]:
        """The candidates with known speed, the fastest first."""
        known = [one for one in self.tried if one.speed is not None]
        return tuple(sorted(known, key=lambda one: -one.speed.middle if one.speed is not None else 0.0))

    def picture(self, path: str | PathLike[str]) -> None:
        """Write an SVG bar chart of the times with their intervals; the best is dark.

        Raises `InvalidArgument` if the file cannot be written.
        """
        bars = [] if self.start_ms is None else [Bar(START, 1.0, 1.0, 1.0, chosen=self.best is None)]
        for one in self.ranked:
            assert one.speed is not None
            # Relative times are reciprocals of speeds, so the interval's ends swap.
            ends = 1 / one.speed.middle, 1 / one.speed.high, 1 / one.speed.low
            bars.append(Bar(one.name, *ends, chosen=one is self.best))
        left_out = [f"{START}: {self.start_note}"] if self.start_note else []
        left_out += [f"{one.name}: {one.outcome}" for one in self.tried if one.speed is None]
        text = bar_chart(f"{self.start.name}: relative time ({self.baseline} = 1)", bars, left_out)
        write_text(path, text, what="the picture", required='the path of a file: "tuned.svg"')


def _speed(speed: Interval) -> str:
    return f"{speed.middle:.2f} [{speed.low:.2f}-{speed.high:.2f}]"


def _more(one: Tried) -> str:
    return f" ({one.note})" if one.note else ""
