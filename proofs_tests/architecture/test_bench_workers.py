"""Worker processes of the benchmark: candidates take turns, and a crash or a hang affects one candidate only."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from atl.cli import main as command_line
from atl.cli.command import FAILED
from bench import command, report, worker
from bench.baselines import c, halide
from bench.comparison import Baseline, Problem
from bench.measure import measured
from bench.outcome import ROOFLINE, Case, Outcome
from bench.roofline import roofline_of
from bench.worker import Gone, Worker
from lowering import TimedFunction
from lowering.c_compiler import find_compiler
from proofs_tests.architecture import faulty_workloads

# Python warns of a fork with threads, such as those of pytest-xdist. No candidate uses them.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
MS = 1_000_000
WORKLOAD_MODULE = "proofs_tests.architecture.faulty_workloads"


def logging_baseline(name: str, file: Path, clock: faulty_workloads.FakeClock) -> Baseline:
    """Return a baseline that takes 150 ms by the clock and logs its name."""

    def make(problem: Problem, _: int) -> TimedFunction:
        right = faulty_workloads.by_numpy(problem, 1)

        def run() -> None:
            with file.open("a", encoding="utf-8") as notes:
                notes.write(name)
            clock.time += 150 * MS
            right()

        return run

    return Baseline(name, make)


def reasons(found: Outcome) -> dict[str, tuple[str, str]]:
    return {one.name: (one.why, one.detail) for one in found.left_out}


def started(
    prepare: Callable[[Any], tuple[Any, TimedFunction | None]], *, timeout: float = 600
) -> tuple[Worker, Problem]:
    problem = faulty_workloads.CRASHING.pose(100)
    return Worker(prepare, problem, faulty_workloads.FakeClock(), 1, timeout, ()), problem


@pytest.mark.long
def test_workers_take_turns_and_only_runs_are_timed(tmp_path: Path) -> None:
    clock, file = faulty_workloads.FakeClock(), tmp_path / "ran"
    baselines = [logging_baseline(name, file, clock) for name in "abc"]
    case = Case("doubling", 100, rounds=3, seconds=100)
    found = measured(faulty_workloads.doubling(*baselines, ours=()), case, watch=lambda _: None, clock=clock)
    # The checks, then three rounds of the roofline (not logged), a, b and c, each in rotated order.
    assert file.read_text(encoding="utf-8") == "abc" + "abc" + "abc" + "bca"
    assert [(entry.ms, entry.samples) for entry in found.entries] == [(150.0, 3)] * 3


@pytest.mark.long
def test_crash_is_reported_and_others_are_measured() -> None:
    found, _ = command.in_own_process(Case("crashing", 100, rounds=6, seconds=0.1), lambda _: None, WORKLOAD_MODULE)
    assert reasons(found) == {
        "bad at once": ("crashed", "SIGILL while it was built and checked"),
        "bad when timed": ("crashed", "SIGILL while it was timed"),
        "failing when timed": ("failed", "OSError: 'its licence has run out' while it was timed"),
    }
    assert [entry.name for entry in found.entries] == ["good", "doubled"]
    assert all(entry.samples >= 3 for entry in found.entries)
    assert [row.baseline for row in found.rows] == ["good"]
    assert found.faults == found.left_out
    assert "bad when timed crashed: SIGILL while it was timed" in report.table(found)
    assert Outcome.from_json(found.as_json()) == found


@pytest.mark.long
def test_command_continues_after_a_crash(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(command, "in_own_process", partial(command.in_own_process, workloads=WORKLOAD_MODULE))
    asked = ("addition@40", "matrix-vector@40", "--quick", "--seconds", "0.05", "--rounds", "3")
    assert command_line(["bench", *asked]) == FAILED
    first, _, second = capsys.readouterr().out.partition("matrix-vector@40: ")
    assert "crashing crashed: SIGILL while it was built and checked" in first
    assert "* addition, as written" in first
    assert "* matrix_vector_by_rows" in second


@pytest.mark.long
def test_hanging_candidate_is_stopped_and_others_are_measured() -> None:
    hanging = faulty_workloads.WORKLOADS["hanging"]
    roofline_of(hanging.roofline, hanging.pose(100), 1)  # compile in advance
    case = Case("hanging", 100, rounds=4, seconds=0.1, timeout=5)
    found, _ = command.in_own_process(case, lambda _: None, WORKLOAD_MODULE)
    assert reasons(found) == {"hanging": ("crashed", "no response for 5 s while it was timed")}
    assert [entry.name for entry in found.entries] == ["good"]


@pytest.mark.parametrize(("end", "why"), [(faulty_workloads.illegal, "SIGILL"), (lambda: sys.exit(7), "exit status 7")])
def test_end_of_a_worker_is_reported(end: Callable[[], Any], why: str) -> None:
    ending, _ = started(lambda _: end())
    with pytest.raises(Gone, match=f"^{why}$"):
        ending.ready(lambda _: None)
    ending.end()


def test_failed_worker_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would print a traceback."""
    failing, _ = started(lambda _: faulty_workloads.fail())  # type: ignore[arg-type,return-value]
    with pytest.raises(Gone, match="its licence has run out"):
        failing.ready(lambda _: None)
    monkeypatch.setattr("bench.worker.os.kill", lambda *_: pytest.fail("a signal was sent"))
    failing.end()
    assert failing.process.exitcode == 0


def test_hanging_worker_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "GRACE", 0.1)
    before = multiprocessing.active_children()
    hanging, _ = started(lambda _: faulty_workloads.hang(), timeout=0.05)  # type: ignore[arg-type,return-value]
    with pytest.raises(Gone, match=r"^no response for 0\.05 s$"):
        hanging.ready(lambda _: None)
    assert multiprocessing.active_children() == before


def test_worker_ends_when_its_connection_closes() -> None:
    first, problem = started(lambda _: ("ready", lambda: None))
    first.ready(lambda _: None)
    # The second worker inherits the first one's connection and must close it.
    second = Worker(lambda _: ("ready", lambda: None), problem, faulty_workloads.FakeClock(), 1, 600, (first,))
    second.ready(lambda _: None)
    first.connection.close()
    first.process.join(60)
    assert first.process.exitcode == 0
    second.end()


def test_worker_settles_and_releases_memory_between_turns(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    notes = tmp_path / "notes"

    def noted(name: str, *, also: Callable[[], object] = lambda: None) -> Callable[..., None]:
        def run(*_: object) -> None:
            with notes.open("a", encoding="utf-8") as file:
                file.write(name)
            also()

        return run

    clock = faulty_workloads.FakeClock()
    monkeypatch.setattr(worker, "wait_until_idle", noted("s"))
    monkeypatch.setattr(Problem, "take_memory", noted("t"))
    monkeypatch.setattr(Problem, "give_memory_back", noted("g"))
    run = noted("r", also=lambda: setattr(clock, "time", clock.time + 150 * MS))
    one = Worker(lambda _: (None, run), faulty_workloads.CRASHING.pose(100), clock, 1, 600, ())
    one.ready(lambda _: None)
    assert one.sample() == (150.0, 150 * MS)
    assert one.sample() == (150.0, 150 * MS)
    one.end()
    assert notes.read_text(encoding="utf-8") == "sg" + "trsg" * 2


@pytest.mark.skipif(sys.platform != "linux", reason="zeroed pages are specific to Linux")
def test_released_memory_is_zero() -> None:
    problem = faulty_workloads.CRASHING.pose(100_000)
    problem.out.fill(1)
    problem.take_memory()
    assert np.count_nonzero(problem.out) > 99_000
    problem.give_memory_back()
    assert not problem.out.any()


def test_interrupt_in_a_worker_is_raised() -> None:
    def interrupted(_: object) -> tuple[None, None]:
        raise KeyboardInterrupt

    one, _ = started(interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.ready(lambda _: None)
    one.end()


def test_roofline_may_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.measure.roofline_of", lambda *_: faulty_workloads.illegal())
    case = Case("doubling", 100, rounds=3, seconds=0.1)
    found = measured(faulty_workloads.doubling(faulty_workloads.GOOD, ours=()), case, watch=lambda _: None)
    assert reasons(found) == {ROOFLINE: ("crashed", "SIGILL while it was built and checked")}
    assert (found.roofline_ms, [entry.roofline_ratio for entry in found.entries]) == (None, [None])
    assert "good" in report.table(found)


V2 = {"__SSE4_1__", "__POPCNT__"}
V3 = {*V2, "__AVX__", "__F16C__", "__FMA__", "__AVX2__", "__BMI__", "__BMI2__", "__LZCNT__", "__MOVBE__"}


@pytest.mark.parametrize(
    ("macros", "expected"),
    [
        (set(), []),
        (V2, ["SSE41"]),
        (V3, ["SSE41", "AVX", "F16C", "FMA", "AVX2"]),
        ({*V3, "__AVX512F__"}, ["SSE41", "AVX", "F16C", "FMA", "AVX2"]),
        (V3 - {"__BMI2__"}, ["SSE41", "AVX", "F16C", "FMA"]),
        ({*V3, *halide.SKYLAKE}, ["SSE41", "AVX", "F16C", "FMA", "AVX2", "AVX512", "AVX512_Skylake"]),
    ],
)
def test_halide_features_follow_compiler_macros(macros: set[str], expected: list[str]) -> None:
    assert halide.features(macros) == expected


def test_macros_of_the_compiler_are_found() -> None:
    assert c.stated(("__no_such_macro__", "__STDC__")) == {"__STDC__"}


def test_tiles_in_c_by_hand_fill_the_registers_of_the_target(each_target: str) -> None:
    """A tile that spills, or is far too small, would make the baseline slow."""
    target = find_compiler()
    for width in (1, 2, 3):
        rows = c.rows_of.__wrapped__(width)

        def used(rows: int, width: int = width) -> int:
            return (rows + 1) * width + 1 + (not target.fma)

        assert used(rows) <= target.vector_registers
        assert rows == 8 or used(rows + 1) > target.vector_registers
