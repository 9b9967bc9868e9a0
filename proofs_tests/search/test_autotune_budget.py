"""Autotuning: the start, slow candidates and the time budget."""

from __future__ import annotations

import dataclasses
import mmap
import os
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path

import numpy as np
import pytest

import atl
from atl import Program
from atl.errors import KernelCrashed, OutOfMemory
from lowering import measure
from lowering.c_compiler import limited_runs, run
from lowering.timing.child import run_in_child
from proofs_tests.search.by_hand import SIZES, TWICE, Built, ByHand, Clock, tiled, tuned
from rewrites import autotune


def test_start_predicted_to_use_up_the_budget_is_not_run(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8000.0, 2: 4.0, 4: 2.0}, predicted_ms=16_000.0)
    found = tuned(contest, (2, 4))
    assert "run start" not in contest.events
    # Results are judged by the first candidate, and speeds are relative to it.
    assert contest.events[:2] == ["run 2", "judge 2"]
    assert (found.baseline, found.start_ms) == ("by=2", None)
    assert [one.speed and one.speed.middle for one in found.tried] == [1.0, 2.0]
    assert found.best is not None
    assert found.best.parameters == {"by": 4}
    assert "start: not run: the model of its operations predicts 16.0 s or more" in str(found)
    found.picture(tmp_path / "tuned.svg")
    assert "start: not run" in (tmp_path / "tuned.svg").read_text(encoding="utf-8")


def test_start_predicted_to_be_slow_is_run_and_may_be_faster(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 3.0, 2: 4.0, 4: 2.0, 8: 1.0}, predicted_ms=14_000.0)
    found = tuned(contest)
    assert contest.events.count("run start") == 1
    assert (found.baseline, found.start_ms) == ("start", 3.0)
    assert "judge 2" not in contest.events


@pytest.mark.parametrize(
    ("first", "note"),
    [
        (4.0, "stopped after 0.5 s; by=2 takes 4 ms"),
        (100.0, "stopped after 2 s; by=2 takes 100 ms"),
        (600.0, "stopped after 4.7 s; by=2 takes 600 ms"),
    ],
)
def test_start_that_takes_20_times_as_long_as_the_first_candidate_is_stopped(
    first: float, note: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contest = ByHand(tmp_path, {1: 60_000.0, 2: first, 4: first / 2}, clock=Clock(monkeypatch))
    found = tuned(contest, (2, 4), budget=10)
    assert contest.events[:3] == ["run 2", "run start", "judge 2"]
    assert contest.events.count("run start") == 1
    assert (found.baseline, found.start_ms, found.start_note) == ("by=2", None, note)


def test_run_of_the_start_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    slow = "f (x : float32[n]) : float32[n] := ⊞[i < n] Σ[j < n] Σ[k < n] tanh(x[i] * x[j] + x[k])"
    assert measure(atl.parse(slow), {"n": 4000}).run_start(0.01) is None
    monkeypatch.setattr("lowering.timing.comparison.UNDERESTIMATED", 1e12)  # so that it runs in a child process
    contest = measure(atl.parse(slow), {"n": 8})
    assert contest.run_start(60) is not None
    assert contest.judgement_of(contest.candidate(atl.parse(slow))).outcome == "right"


def test_candidate_that_cannot_judge_is_refused_and_the_slow_start_is_not_run(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8000.0, 2: 4.0, 4: 2.0}, predicted_ms=80_000.0)
    contest.unjudged = atl.CompilerFailed
    found = tuned(contest, (2, 4))
    assert "run start" not in contest.events
    assert [(one.outcome, one.note) for one in found.tried] == [("refused", "no such type [ATL502]")] * 2
    # Nor is it run if the best of the table cannot judge.
    contest.unjudged = None
    tuned(contest, (2,), folder=tmp_path / "table")
    contest.unjudged = atl.CompilerFailed
    again = autotune(tiled, {"by": (2, 4)}, SIZES, 60, measure=contest, folder=tmp_path / "table")
    assert "run start" not in contest.events
    assert [(one.parameters["by"], one.outcome) for one in again.tried] == [(2, "remembered"), (4, "refused")]


def test_unjudged_candidate_is_neither_right_nor_wrong(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 1.0})
    contest.slow_to_judge = {4}
    found = tuned(contest, (2, 4))
    assert [one.outcome for one in found.tried] == ["measured", "unjudged"]
    assert "unjudged by=4: 0 of 16 elements" in str(found)
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_judging_is_part_of_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    contest = ByHand(tmp_path, {1: 8.0, **dict.fromkeys(range(2, 100), 4.0)}, clock=clock)
    contest.slow_to_judge = set(range(2, 100))
    found = tuned(contest, range(2, 100), budget=20)
    assert found.stopped == "budget"
    assert 20 <= clock.now <= 22
    assert len(found.tried) == 10


def test_wrong_first_candidate_is_not_the_reference(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8000.0, 2: 4.0, 4: 2.0}, predicted_ms=8000.0)
    contest.wrong = {2}
    found = tuned(contest, (2, 4))
    assert [one.outcome for one in found.tried] == ["wrong", "measured"]
    assert found.baseline == "by=4"


def test_slow_candidate_is_run_once(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8000.0, 2: 40.0, 4: 400.0, 8: 20.0}, predicted_ms=8000.0)
    found = tuned(contest)
    assert [one.outcome for one in found.tried] == ["measured", "slow", "measured"]
    assert contest.events.count("run 4") == 1
    assert not any(each.startswith("4 against") for each in contest.events)
    long = dataclasses.replace(found.tried[1], note="its first run took long " * 9 + "indeed")
    assert "slow     by=4: its first run took 10.0 times as long as one of the best" in str(found)
    assert long.note in str(dataclasses.replace(found, tried=(long,)))  # not cut


def test_run_that_takes_much_longer_than_the_best_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    contest = ByHand(tmp_path, {1: 1e6, 2: 100.0, 4: 1e6, 8: 50.0}, clock=clock, predicted_ms=1e6)
    found = tuned(contest)
    assert [one.outcome for one in found.tried] == ["measured", "slow", "measured"]
    assert "stopped after 1 s" in found.tried[1].note
    assert found.tried[1].ms is None
    assert clock.now < 10


def test_slightly_slower_candidate_loses_after_three_rounds(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 1e6, 2: 40.0, 4: 50.0}, predicted_ms=1e6)
    found = tuned(contest, (2, 4))
    assert contest.events.count("4 against 2") == 1
    assert found.tried[1].speed is not None
    assert found.tried[1].speed.rounds == 3


def test_cold_first_run_of_a_short_candidate_is_repeated(tmp_path: Path) -> None:
    class Cold(ByHand):
        def run_once(self, candidate: Built, seconds: float) -> float | None:
            is_first = f"run {candidate.by}" not in self.events
            taken = super().run_once(candidate, seconds)
            return 3 * self.times[candidate.by] if is_first else taken

    found = tuned(Cold(tmp_path, {1: 8.0, 2: 2.0, 4: 1.0}), (2, 4))
    assert [one.outcome for one in found.tried] == ["measured", "measured"]


def test_budget_includes_building(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    times = {1: 1e6, **{by: 10.0 + by for by in range(2, 100)}}
    contest = ByHand(tmp_path, times, clock=clock, building=0.5, predicted_ms=1e6)
    found = tuned(contest, range(2, 100), budget=10)
    assert found.stopped == "budget"
    assert 9 <= clock.now <= 10.5
    # What would not end in time is not begun.
    assert 12 <= len(found.tried) <= 19


def test_comparison_ends_with_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    contest = ByHand(tmp_path, {1: 1e6, 2: 900.0, 4: 890.0}, (1.0, 1.1, 0.9), clock=clock, predicted_ms=1e6)
    found = tuned(contest, (2, 4), budget=10)
    assert found.stopped in ("exhausted", "budget")
    assert clock.now <= 12


def test_budget_that_ends_during_a_build_leaves_the_candidate_untried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)

    class Killed(ByHand):
        def begin(self, program: Program) -> Built:
            built = super().begin(program)
            if built.by == 4:
                monkeypatch.setattr(built, "finish", self._killed)
            return built

        def _killed(self) -> Built:
            self.spend(1e6)
            raise atl.CompilerFailed("was stopped")

    found = tuned(Killed(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0}, clock=clock), (2, 4), budget=10)
    assert (found.stopped, [one["by"] for one in found.untried]) == ("budget", [4])
    assert found.best is not None


def test_next_candidate_is_built_while_one_is_timed(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 1e6, 2: 40.0, 4: 30.0, 8: 20.0}, predicted_ms=1e6)
    contest.builds_ahead = True
    found = tuned(contest)
    assert [one.parameters["by"] for one in found.tried] == [2, 4, 8]
    assert contest.events.index("build 4") < contest.events.index("4 against 2")
    assert found.best is not None
    assert found.best.parameters == {"by": 8}


def test_nothing_is_built_while_wall_time_is_measured(tmp_path: Path) -> None:
    class Slow(ByHand):
        def begin(self, program: Program) -> Built:
            built = super().begin(program)

            def build() -> None:
                time.sleep(0.1)
                self.events.append(f"built {built.by}")

            built.build = build  # type: ignore[method-assign]
            return built

    contest = Slow(tmp_path, {1: 1e6, 2: 40.0, 4: 30.0}, predicted_ms=1e6)
    contest.builds_ahead = contest.threaded = True
    tuned(contest, (2, 4))
    assert contest.events.index("built 4") < contest.events.index("run 2")


def test_compiler_is_killed_when_the_time_is_up(tmp_path: Path) -> None:
    compiler, pids = tmp_path / "compiler", tmp_path / "pids"
    compiler.write_text(f"#!/bin/sh\necho $$ >> {pids}\nexec sleep 600\n", encoding="utf-8")
    compiler.chmod(0o755)
    with limited_runs(0.3), pytest.raises(subprocess.TimeoutExpired):
        run([str(compiler)])
    with limited_runs(0), pytest.raises(subprocess.TimeoutExpired):
        run([str(compiler)])  # is not started
    # At the end of the context, runs of other threads are killed too.
    with ThreadPoolExecutor(1) as worker, limited_runs(600):
        running = worker.submit(copy_context().run, run, [str(compiler)])
        while pids.read_text(encoding="utf-8").count("\n") < 2:
            time.sleep(0.01)
    assert running.result().returncode < 0
    for pid in map(int, pids.read_text(encoding="utf-8").split()):
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_run_in_a_child_is_stopped_or_returns_its_time() -> None:
    begun = time.monotonic()
    assert run_in_child(lambda: time.sleep(600), 0.05) is None
    assert time.monotonic() - begun < 300
    memory = np.frombuffer(mmap.mmap(-1, 8), np.int64)
    private = np.zeros(1)

    def store() -> None:
        memory[0] = 7
        private[0] = 7

    taken = run_in_child(store, 600)
    assert taken is not None
    assert taken > 0
    assert (memory[0], private[0]) == (7, 0)
    with pytest.raises(ZeroDivisionError):
        run_in_child(lambda: 1 // 0, 600)
    with pytest.raises(OutOfMemory, match="was killed"):
        run_in_child(lambda: os.kill(os.getpid(), signal.SIGKILL), 600)
    with pytest.raises(KernelCrashed, match="ended by SIGSEGV"):
        run_in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV), 600)


def test_candidate_with_more_work_than_the_start_is_stopped() -> None:
    contest = measure(TWICE, {"n": 1000})
    endless = "f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i] + 0 * (Σ[k < 1000000000] exp(x[i] * value(k)))"
    assert contest.run_once(contest.candidate(atl.parse(endless)), 0.05) is None
