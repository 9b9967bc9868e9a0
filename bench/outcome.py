"""Outcome of one workload at one size: the times of all candidates, and their ratios with a spread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lowering import Samples, ratio, spread

Why = Literal["absent", "crashed", "failed", "wrong", "size"]


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at a size, with the number of threads and the bounds of the measurement.

    Measuring ends after `rounds` rounds or `seconds` seconds. Each schedule with parameters is tuned for `tune` seconds
    first; with 0, known results are used. A candidate that does not respond for `timeout` seconds is stopped.

    `one_call` is the time budget of a measured `s.optimize()` in seconds. With 0, only the call without measuring takes
    part; with None, neither does. `isa` is an instruction set to which all candidates are limited.
    """

    workload: str
    size: int
    threads: int = 1
    rounds: int = 31
    seconds: float = 10.0
    tune: float = 0.0
    timeout: float = 600.0
    one_call: float | None = None
    isa: str | None = None

    @property
    def budgets(self) -> tuple[float, ...]:
        """The time budgets of the calls of `s.optimize()` that take part. 0 is for a call that measures nothing."""
        return () if self.one_call is None else (0.0, self.one_call) if self.one_call else (0.0,)

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
    thread over this time, in the same rounds. `deriving_s` is the time of `s.optimize()` in seconds, for one call.
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
    deriving_s: float | None = None


@dataclass(frozen=True, slots=True)
class OneCallRow:
    """One call of `s.optimize()` compared with the fastest baseline and with our fastest hand schedule.

    The ratios are the other's time over that of the one call, the median over the rounds. Above 1 the one call is
    faster. `deriving_s` is the time of the call in seconds. None is for what was not measured.
    """

    workload: str
    size: int
    threads: int
    dense: bool
    call: str
    deriving_s: float | None
    ms: float | None
    baseline: str | None
    baseline_ratio: float | None
    hand: str | None
    hand_ratio: float | None


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
    one_calls: tuple[OneCallRow, ...] = ()

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
            tuple(OneCallRow(**row) for row in read["one_calls"]),
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate that is timed. `derived` means that it has a schedule, `allocates` that it returns a new array.

    `deriving_s` is the time of `s.optimize()` in seconds, for one call.
    """

    name: str
    ours: bool
    derived: bool = False
    allocates: bool = False
    deriving_s: float | None = None


ROOFLINE = "the roofline"
"""Name of the roofline among the candidates."""
ALONE = " (one thread)"
"""Suffix of a candidate's name for its samples with one thread, when there are several."""


def one_call_name(seconds: float) -> str:
    """Return the name of a call of `s.optimize()` with a time budget, or without one (0)."""
    return f"one call, {seconds:g} s" if seconds else "one call"


def concluded(
    case: Case,
    description: str,
    roofline: tuple[str, float],
    candidates: tuple[Candidate, ...],
    samples: Samples,
    left_out: tuple[LeftOut, ...],
    *,
    dense: bool = True,
) -> Outcome:
    """Compute the outcome from the samples. `roofline` is its kind, and the factor of its samples.

    `dense` is False if an operand is sparse.
    """
    kind, scale = roofline
    at_roofline = spread(samples.clean(ROOFLINE))
    entries = tuple(_entry(one, samples, scale) for one in candidates)
    baselines = [entry for entry in entries if not entry.ours]
    best = _fastest(baselines)
    called = [one_call_name(seconds) for seconds in case.budgets]
    by_hand = _fastest(entry for entry in entries if entry.ours and entry.name not in called)

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

    def compared_to(call: str, other: Entry | None) -> float | None:
        found = ratio(samples, other.name, call) if other is not None and call in samples.times else None
        return found.middle if found else None

    def one_call(call: str) -> OneCallRow:
        entry = next((entry for entry in entries if entry.name == call), None)
        return OneCallRow(
            workload=case.workload,
            size=case.size,
            threads=case.threads,
            dense=dense,
            call=call,
            deriving_s=entry.deriving_s if entry else None,
            ms=entry.ms if entry else None,
            baseline=best.name if best else None,
            baseline_ratio=compared_to(call, best),
            hand=by_hand.name if by_hand else None,
            hand_ratio=compared_to(call, by_hand),
        )

    compared_with: list[Entry | None] = [*baselines] or [None]
    rows = tuple(row(ours, baseline) for ours in entries if ours.ours for baseline in compared_with)
    roofline_ms = at_roofline.middle * scale if at_roofline else None
    calls = tuple(map(one_call, called))
    return Outcome(case, description, kind, roofline_ms, entries, rows, left_out, samples.interrupted, calls)


def _fastest(entries: Iterable[Entry]) -> Entry | None:
    return min((entry for entry in entries if entry.ms is not None), key=lambda entry: entry.ms or 0.0, default=None)


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
        deriving_s=one.deriving_s,
    )
