"""Outcome of one workload at one size: the times of all candidates, and their ratios with a spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lowering import Samples, ratio, spread

Why = Literal["absent", "crashed", "failed", "wrong", "size"]


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at a size, with the number of threads and the bounds of the measurement.

    Measuring ends after `rounds` rounds or `seconds` seconds. Each schedule with parameters is tuned for `tune` seconds
    first; with 0, known results are used. A candidate that does not respond for `timeout` seconds is stopped.
    """

    workload: str
    size: int
    threads: int = 1
    rounds: int = 31
    seconds: float = 10.0
    tune: float = 0.0
    timeout: float = 600.0

    def __str__(self) -> str:
        return f"{self.workload}@{self.size}"


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A candidate that was not measured: not installed, crashed, not built, wrong results, or not at this size."""

    name: str
    ours: bool
    why: Why
    detail: str


@dataclass(frozen=True, slots=True)
class Entry:
    """A measured candidate: its time in milliseconds, as the median and 10–90 % of the valid samples.

    `roofline_ratio` is the time at the roofline over this time. With several threads, `speed_up` is the time with one
    thread over this time, in the same rounds.
    """

    name: str
    ours: bool
    derived: bool
    allocates: bool
    ms: float | None
    low: float | None
    high: float | None
    samples: int
    roofline_ratio: float | None
    speed_up: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One of our schedules compared with one baseline; `baseline` is None if there is none.

    `ratio` is the baseline's time over ours, the median over the rounds; `spread` is 10–90 %. Above 1 we are faster.
    `roofline_ratio` is the time at the machine's roofline over ours. `speed_up` is as in `Entry`.
    """

    workload: str
    size: int
    threads: int
    schedule: str
    derived: bool
    baseline: str | None
    best: bool
    ours_ms: float | None
    baseline_ms: float | None
    ratio: float | None
    spread: tuple[float, float] | None
    rounds: int
    roofline: str
    roofline_ratio: float | None
    speed_up: float | None
    baseline_speed_up: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """All results of one case."""

    case: Case
    description: str
    roofline: str
    roofline_ms: float | None
    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]
    interrupted: bool

    @property
    def faults(self) -> tuple[LeftOut, ...]:
        """Candidates with a wrong result, a crash or a failed build."""
        return tuple(one for one in self.left_out if one.why in ("wrong", "crashed", "failed"))

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Outcome:
        """Read a value of `as_json`."""
        rows = (Row(**{**row, "spread": row["spread"] and tuple(row["spread"])}) for row in read["rows"])
        return Outcome(
            Case(**read["case"]),
            read["description"],
            read["roofline"],
            read["roofline_ms"],
            tuple(Entry(**entry) for entry in read["entries"]),
            tuple(rows),
            tuple(LeftOut(**one) for one in read["left_out"]),
            read["interrupted"],
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that is timed. `derived` means that it has a schedule, `allocates` that it returns a new array."""

    name: str
    ours: bool
    derived: bool = False
    allocates: bool = False


ROOFLINE = "the roofline"
"""Name of the roofline among the candidates."""
ALONE = " (one thread)"
"""Suffix of a candidate's name for its samples with one thread, when there are several."""


def concluded(
    case: Case,
    description: str,
    roofline: tuple[str, float],
    candidates: tuple[Candidate, ...],
    samples: Samples,
    left_out: tuple[LeftOut, ...],
) -> Outcome:
    """Compute the outcome from the samples. `roofline` is its kind, and the factor of its samples."""
    kind, scale = roofline
    at_roofline = spread(samples.clean(ROOFLINE))
    entries = tuple(_entry(one, samples, scale) for one in candidates)
    baselines = [entry for entry in entries if not entry.ours]
    best = min(
        (baseline for baseline in baselines if baseline.ms is not None),
        key=lambda baseline: baseline.ms or 0.0,
        default=None,
    )

    def row(ours: Entry, baseline: Entry | None) -> Row:
        compared = ratio(samples, baseline.name, ours.name) if baseline is not None else None
        return Row(
            workload=case.workload,
            size=case.size,
            threads=case.threads,
            schedule=ours.name,
            derived=ours.derived,
            baseline=baseline.name if baseline else None,
            best=baseline is not None and baseline is best,
            ours_ms=ours.ms,
            baseline_ms=baseline.ms if baseline else None,
            ratio=compared.middle if compared else None,
            spread=(compared.low, compared.high) if compared else None,
            rounds=compared.count if compared else 0,
            roofline=kind,
            roofline_ratio=ours.roofline_ratio,
            speed_up=ours.speed_up,
            baseline_speed_up=baseline.speed_up if baseline else None,
        )

    compared_with: list[Entry | None] = [*baselines] or [None]
    rows = tuple(row(ours, baseline) for ours in entries if ours.ours for baseline in compared_with)
    roofline_ms = at_roofline.middle * scale if at_roofline else None
    return Outcome(case, description, kind, roofline_ms, entries, rows, left_out, samples.interrupted)


def _entry(one: Candidate, samples: Samples, scale: float) -> Entry:
    taken = spread(samples.clean(one.name))
    to_roofline = ratio(samples, ROOFLINE, one.name, scale)
    alone = one.name + ALONE
    speed_up = ratio(samples, alone, one.name) if alone in samples.times else None
    return Entry(
        name=one.name,
        ours=one.ours,
        derived=one.derived,
        allocates=one.allocates,
        ms=taken.middle if taken else None,
        low=taken.low if taken else None,
        high=taken.high if taken else None,
        samples=taken.count if taken else 0,
        roofline_ratio=to_roofline.middle if to_roofline else None,
        speed_up=speed_up.middle if speed_up else None,
    )
