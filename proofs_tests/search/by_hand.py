"""Measurements with fixed times, for tests of autotuning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import atl
from atl import Program
from lowering.timing.comparison import RIGHT, Judgement
from rewrites import Session, Tuned, autotune, reschedule

TWICE = atl.parse("twice (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
SIZES = {"n": 1000}


class Clock:
    """A clock that fakes advance."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        monkeypatch.setattr("rewrites.session.tuning.search.monotonic", lambda: self.now)


class ByHand:
    """A measurement with fixed milliseconds by tile size, read from the program. The start has tile size 1.

    `events` records what was started: builds, runs, comparisons in turns. With a clock, each takes its time.
    """

    def __init__(
        self,
        folder: Path,
        times: Mapping[int, float],
        noise: Sequence[float] = (1.0,),
        *,
        clock: Clock | None = None,
        building: float = 0.0,
        predicted_ms: float = 0.0,
    ) -> None:
        self.folder = folder
        self.conditions: Mapping[str, str] = {"machine": "by hand"}
        self.times = times
        self.noise = noise
        self.clock = clock
        self.building = building
        self.predicted_ms = predicted_ms
        self.builds_ahead = False
        self.threaded = False
        self.events: list[str] = []
        self.wrong: set[int] = set()
        self.slow_to_judge: set[int] = set()
        self.unjudged: type[atl.ATLError] | None = None
        self.interrupt_at: int | None = None

    def __call__(self, program: Program, sizes: Mapping[str, int]) -> ByHand:
        assert program == TWICE
        assert sizes == SIZES
        return self

    @property
    def raced(self) -> list[str]:
        """The comparisons in turns, without repetitions."""
        found = [each for each in self.events if " against " in each]
        return [each for k, each in enumerate(found) if each not in found[:k]]

    def is_start(self, candidate: Built) -> bool:
        return candidate.by == 1

    def begin(self, program: Program) -> Built:
        text = str(program)
        return Built(next((by for by in self.times if f"ii < {by}]" in text or f"ii < {by} |" in text), 1), self)

    def spend(self, milliseconds: float) -> None:
        if self.clock is not None:
            self.clock.now += milliseconds / 1e3

    def judge_by(self, candidate: Built, seconds: float) -> Judgement:
        assert seconds <= 6
        self.events.append(f"judge {candidate.by}")
        if self.unjudged is not None:
            raise self.unjudged("no such type")
        return Judgement("wrong", "the element at (0) is 7, at n = 67") if candidate.by in self.wrong else RIGHT

    def run_start(self, seconds: float) -> float | None:
        self.events.append("run start")
        taken = self.times[1]
        self.spend(min(taken, 1e3 * seconds))
        return taken if taken <= 1e3 * seconds else None

    def run_once(self, candidate: Built, seconds: float) -> float | None:
        self.events.append(f"run {candidate.by}")
        taken = self.times[candidate.by]
        self.spend(min(taken, 1e3 * seconds))
        return taken if taken <= 1e3 * seconds else None

    def judgement_of(self, candidate: Built, seconds: float) -> Judgement:
        assert seconds <= 6
        if candidate.by in self.slow_to_judge:
            self.spend(1e3 * seconds)
            return Judgement("unjudged", "0 of 16 elements")
        return Judgement("wrong", "the element at (0) is 7") if candidate.by in self.wrong else RIGHT

    def time_pair(self, new: Built, best: Built, *, rounds: int, seconds: float) -> list[tuple[float, float]]:
        assert seconds > 0
        if new.by == self.interrupt_at:
            raise KeyboardInterrupt
        self.events.append(f"{new.by} against {best.by}")
        noisy = [self.noise[k % len(self.noise)] for k in range(rounds)]
        pairs = [(self.times[new.by] * by, self.times[best.by]) for by in noisy]
        self.spend(sum(a + b for a, b in pairs))
        return pairs


class Built:
    def __init__(self, by: int, contest: ByHand) -> None:
        self.by = by
        self.contest = contest

    @property
    def threaded(self) -> bool:
        return self.contest.threaded

    @property
    def identity(self) -> str:
        return f"code of {self.by}"

    def build(self) -> None:
        self.contest.events.append(f"build {self.by}")

    def finish(self) -> Built:
        self.contest.spend(1e3 * self.contest.building)
        return self


def tiled(by: int) -> Session:
    s = reschedule(TWICE)
    return s if by == 1 else s.tile("i", by)


def tuned(contest: ByHand, choices: Sequence[int] = (2, 4, 8), budget: float = 60, **options: Any) -> Tuned[Session]:
    return autotune(tiled, {"by": choices}, SIZES, budget, measure=contest, **options)
