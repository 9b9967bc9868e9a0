"""What came out of one workload at one size: who took part, how long each took, and every ratio with its spread."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lowering import Samples, ratio, spread

Why = Literal["absent", "crashed", "failed", "wrong", "size"]


@dataclass(frozen=True, slots=True)
class Case:
    """A workload at a size, with so many threads, and how long it may be measured: rounds, and seconds of all.

    Each schedule that is to be tuned is tried for `tune` seconds beforehand; for none, what is known of it takes part.
    A contestant that does not answer for `timeout` seconds is stopped.
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
    """A contestant that was not measured: not installed, crashed, not built, wrong results, or not at this size."""

    name: str
    ours: bool
    why: Why
    said: str


@dataclass(frozen=True, slots=True)
class Entry:
    """Somebody who was measured: milliseconds, median and 10–90 %, over so many clean samples; limit ÷ that time.

    With several threads, `speed_up` is the time that it took in the same rounds with one of them, over this one.
    """

    name: str
    ours: bool
    derived: bool
    allocates: bool
    ms: float | None
    low: float | None
    high: float | None
    samples: int
    limit_ratio: float | None
    speed_up: float | None


@dataclass(frozen=True, slots=True)
class Row:
    """One of our schedules beside one rival, or beside none where there is none.

    `ratio` is the rival's time over ours, the median over rounds, with 10–90 % of them as its spread; above 1 we are
    faster. `limit_ratio` is the time at the machine's limit over ours, 1 at the limit. `speed_up` is that of `Entry`.
    """

    workload: str
    size: int
    threads: int
    schedule: str
    derived: bool
    rival: str | None
    best: bool
    ours_ms: float | None
    rival_ms: float | None
    ratio: float | None
    spread: tuple[float, float] | None
    rounds: int
    limit: str
    limit_ratio: float | None
    speed_up: float | None
    rival_speed_up: float | None


@dataclass(frozen=True, slots=True)
class Outcome:
    """All of it."""

    case: Case
    says: str
    limit: str
    limit_ms: float | None
    entries: tuple[Entry, ...]
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]
    interrupted: bool

    @property
    def faults(self) -> tuple[LeftOut, ...]:
        """Return who computed something wrong, crashed, or could not be built although all is there."""
        return tuple(one for one in self.left_out if one.why in ("wrong", "crashed", "failed"))

    def as_json(self) -> dict[str, Any]:
        """Numbers, texts and lists of them."""
        return asdict(self)

    @staticmethod
    def from_json(read: Mapping[str, Any]) -> Outcome:
        """What `as_json` gave."""
        rows = (Row(**{**row, "spread": row["spread"] and tuple(row["spread"])}) for row in read["rows"])
        return Outcome(
            Case(**read["case"]),
            read["says"],
            read["limit"],
            read["limit_ms"],
            tuple(Entry(**entry) for entry in read["entries"]),
            tuple(rows),
            tuple(LeftOut(**one) for one in read["left_out"]),
            read["interrupted"],
        )


@dataclass(frozen=True, slots=True)
class Contestant:
    """Somebody who takes part: whose it is, whether it was derived, whether its result is made anew."""

    name: str
    ours: bool
    derived: bool = False
    allocates: bool = False


LIMIT = "the limit"
"""The name under which the limit takes its turns."""
ALONE = " (one thread)"
"""What follows the name of somebody who takes a turn with one thread, where there are several."""


def concluded(
    case: Case,
    says: str,
    limit: tuple[str, float],
    contestants: tuple[Contestant, ...],
    samples: Samples,
    left_out: tuple[LeftOut, ...],
) -> Outcome:
    """What the samples say. `limit` is its kind, and by what its samples are to be multiplied."""
    kind, scale = limit
    at_limit = spread(samples.clean(LIMIT))
    entries = tuple(_entry(one, samples, scale) for one in contestants)
    rivals = [entry for entry in entries if not entry.ours]
    best = min((rival for rival in rivals if rival.ms is not None), key=lambda rival: rival.ms or 0.0, default=None)

    def row(ours: Entry, rival: Entry | None) -> Row:
        compared = ratio(samples, rival.name, ours.name) if rival is not None else None
        return Row(
            workload=case.workload,
            size=case.size,
            threads=case.threads,
            schedule=ours.name,
            derived=ours.derived,
            rival=rival.name if rival else None,
            best=rival is not None and rival is best,
            ours_ms=ours.ms,
            rival_ms=rival.ms if rival else None,
            ratio=compared.middle if compared else None,
            spread=(compared.low, compared.high) if compared else None,
            rounds=compared.count if compared else 0,
            limit=kind,
            limit_ratio=ours.limit_ratio,
            speed_up=ours.speed_up,
            rival_speed_up=rival.speed_up if rival else None,
        )

    beside: list[Entry | None] = [*rivals] or [None]
    rows = tuple(row(ours, rival) for ours in entries if ours.ours for rival in beside)
    limit_ms = at_limit.middle * scale if at_limit else None
    return Outcome(case, says, kind, limit_ms, entries, rows, left_out, samples.interrupted)


def _entry(one: Contestant, samples: Samples, scale: float) -> Entry:
    taken = spread(samples.clean(one.name))
    to_limit = ratio(samples, LIMIT, one.name, scale)
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
        limit_ratio=to_limit.middle if to_limit else None,
        speed_up=speed_up.middle if speed_up else None,
    )
