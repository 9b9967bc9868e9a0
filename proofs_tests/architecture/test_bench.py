"""The benchmark: order of runs, valid samples, comparison, checks of results, and the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from threading import get_native_id
from typing import Any

import numpy as np
import pytest

import atl
from atl.cli import main as command_line
from atl.cli.command import FAILED, REFUSED
from bench import command, cooldown, report
from bench.comparison import Array, Baseline, Ours, Problem, Roofline, Workload, moved, posed
from bench.cooldown import TASKS, wait_until_idle
from bench.measure import measured
from bench.outcome import ROOFLINE, Candidate, Case, Outcome, concluded
from bench.overview import FIGURE_8_3, fastest, figure_8_3, table
from bench.roofline import roofline_of
from bench.tool import growth
from bench.workloads import WORKLOADS
from lowering import lower, print_nest
from lowering.timing.harness import LONG_SAMPLE, MIN_SAMPLES, Samples, Spread, alternate, ratio, spread
from proofs_tests.architecture.faulty_workloads import FakeClock, by_numpy, doubled
from proofs_tests.compilers import lacking
from rewrites import Session, reschedule

# Python warns of a fork with threads, such as those of pytest-xdist. No candidate uses them.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
HERE = Path(__file__).resolve().parents[2]
MS = 1_000_000


def test_candidates_alternate_in_rotating_order() -> None:
    clock = FakeClock()
    who = {name: clock.running(name, 150 * MS) for name in "abc"}
    samples = alternate(who, rounds=3, seconds=100, clock=clock)
    # A run of this length is a sample: no warm-up.
    assert "".join(clock.ran) == "abcbcacab"
    assert samples.times == {name: [150.0] * 3 for name in "abc"}


def test_short_candidate_repeats_per_sample_after_warm_up() -> None:
    clock = FakeClock()
    samples = alternate({"short": clock.running("short", 50_000)}, rounds=2, seconds=1, clock=clock)
    # One first run, four for the sample; then one warm-up, four for the sample.
    assert len(clock.ran) == 1 + 4 + 1 + 4
    assert samples.times == {"short": [0.05, 0.05]}


def test_only_short_samples_are_dropped_on_preemption() -> None:
    clock = FakeClock()
    who = {
        # The first round is runs 0 and 1. All four tries of the second round are disturbed, the first of the third.
        "short": clock.running("short", MS, preempted=lambda run: run in (3, 4, 5, 6, 8)),
        "long": clock.running("long", LONG_SAMPLE + 1, preempted=lambda _: True),
    }
    samples = alternate(who, rounds=4, seconds=1, clock=clock)
    assert samples.times["short"] == [1.0, None, 1.0, 1.0]
    assert clock.ran.count("short") == 2 + 5 + 3 + 2
    assert samples.clean("short") == [1.0, 1.0, 1.0]
    assert len(samples.clean("long")) == 4


def test_candidate_stops_at_its_share_after_three_samples() -> None:
    clock = FakeClock()
    who = {"slow": clock.running("slow", 1000 * MS), "fast": clock.running("fast", 10 * MS)}
    samples = alternate(who, rounds=20, seconds=1, clock=clock)
    assert len(samples.clean("slow")) == MIN_SAMPLES
    assert len(samples.clean("fast")) == 20
    assert samples.times["slow"][MIN_SAMPLES:] == [None] * 17
    samples = alternate({"only": clock.running("only", 300 * MS)}, rounds=100, seconds=2, clock=clock)
    assert samples.times["only"] == [300.0] * 7  # all shares are used


def test_shares_count_wall_time_and_samples_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a loaded machine a run takes more wall time than CPU time."""
    clock = FakeClock()
    monkeypatch.setattr(clock, "wall", lambda: 5 * clock.time)
    samples = alternate({"only": clock.running("only", 300 * MS)}, rounds=100, seconds=12, clock=clock)
    assert samples.times["only"] == [300.0] * 8


def test_settling_waits_for_running_threads_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def write_state(thread: int, state: str) -> None:
        (tmp_path / f"{thread}").mkdir(exist_ok=True)
        (tmp_path / f"{thread}" / "stat").write_text(f"{thread} (a) R b) {state} 1 2", encoding="ascii")

    monkeypatch.setattr(cooldown, "TASKS", tmp_path)
    own = get_native_id()
    write_state(own, "R")
    write_state(own + 1, "S")
    (tmp_path / "ended").mkdir()
    (tmp_path / "ending").mkdir()
    (tmp_path / "ending" / "stat").touch()
    assert wait_until_idle(0)
    write_state(own + 1, "R")
    assert not wait_until_idle(0.002)
    monkeypatch.setattr(time, "sleep", lambda _: write_state(own + 1, "S"))
    assert wait_until_idle(60)


@pytest.mark.skipif(not TASKS.is_dir(), reason="thread states are read from /proc")
def test_running_thread_is_seen() -> None:
    assert (cooldown.running_threads("nobody") or 0) >= 1


def test_settling_without_thread_information_does_not_wait(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cooldown, "TASKS", tmp_path / "absent")
    assert not wait_until_idle(5)


def test_ratios_are_within_rounds() -> None:
    drifting = Samples({"ours": [1.0, 2.0, 4.0, None], "baseline": [2.0, 4.0, 8.0, 100.0]})
    assert ratio(drifting, "baseline", "ours") == Spread(2.0, 2.0, 2.0, 3)
    assert ratio(drifting, "baseline", "ours", scale=0.5) == Spread(1.0, 1.0, 1.0, 3)
    assert ratio(Samples({"a": [None, 1.0], "b": [1.0, None]}), "a", "b") is None
    coarse = Samples({"a": [2.0, 3.0], "b": [0.0, 1.0]})  # a run shorter than the clock's resolution
    assert ratio(coarse, "a", "b") == Spread(3.0, 3.0, 3.0, 1)


def test_spread_is_from_ten_to_ninety_percent() -> None:
    assert spread([float(k) for k in range(11)]) == Spread(5.0, 1.0, 9.0, 11)
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0, 1)
    assert spread([]) is None


def test_interrupt_keeps_complete_rounds() -> None:
    clock = FakeClock()

    def interrupted() -> None:
        clock.time += 150 * MS
        if clock.time > 700 * MS:
            raise KeyboardInterrupt

    samples = alternate({"a": clock.running("a", 150 * MS), "b": interrupted}, rounds=9, seconds=9, clock=clock)
    assert samples.interrupted
    assert samples.times == {"a": [150.0, 150.0], "b": [150.0, 150.0]}


n = atl.sizes("n")
x = atl.tensor("x", n)


def doubled_after_a_step() -> Session:
    return reschedule(doubled()).rw("mul_comm")


def tripled() -> atl.Program:
    return atl.program("tripled", [x], atl.gen(n, lambda i: 3 * x[i]))


def beyond() -> atl.Program:
    """Return a program that cannot be compiled."""
    return atl.program("beyond", [x], atl.gen(n, lambda i: x[i + 1]))


def _anew(problem: Problem, _: int) -> Callable[[], object]:
    return lambda: problem.inputs[0] + problem.inputs[0]


def _almost(problem: Problem, _: int) -> Callable[[], object]:
    def run() -> None:
        np.multiply(problem.inputs[0], 2, out=problem.out)
        problem.out[3] *= np.float32(1.0001)

    return run


def _nothing(_: Problem, __: int) -> Callable[[], object]:
    return lambda: None


def _broken(_: Problem, __: int) -> Callable[[], object]:
    raise OSError("its licence has run out")


def _never(_: Problem, __: int) -> Callable[[], object]:
    raise AssertionError("somebody who is absent was asked")


def _twice(values: Array) -> Array:
    result: Array = 2 * values
    return result


TWICE = posed(_twice, lambda size: ((size,), (size,)))


def workload(ours: tuple[Ours, ...], baselines: tuple[Baseline, ...]) -> Workload:
    return Workload(
        "doubling", "twice n numbers", (100,), TWICE, ours, baselines, Roofline("copy", moved), max_size=1000
    )


def outcome(*tables: tuple[Any, ...]) -> Outcome:
    return measured(workload(*tables), Case("doubling", 100, rounds=5, seconds=0.2), watch=lambda _: None)


@pytest.mark.long
def test_each_schedule_is_compared_with_each_baseline() -> None:
    baselines = (Baseline("NumPy", by_numpy), Baseline("NumPy, allocating", _anew, allocates=True))
    found = outcome((Ours(doubled_after_a_step), Ours(doubled)), baselines)
    assert [(row.schedule, row.derived, row.baseline) for row in found.rows] == [
        ("doubled_after_a_step", True, "NumPy"),
        ("doubled_after_a_step", True, "NumPy, allocating"),
        ("doubled", False, "NumPy"),
        ("doubled", False, "NumPy, allocating"),
    ]
    assert found.left_out == ()
    assert not found.interrupted


def test_rows_summarise_samples() -> None:
    who = (Candidate("mine", ours=True, derived=True), Candidate("quick", ours=False), Candidate("slow", ours=False))
    samples = Samples({"mine": [2.0] * 4, "quick": [1.0, 3.0, 3.0, 1.0], "slow": [8.0] * 4, ROOFLINE: [0.5] * 4})
    found = concluded(Case("w", 7), "says", ("fma", 2.0), who, samples, ())
    quick, slow = found.rows
    assert (quick.ours_ms, quick.baseline_ms, quick.ratio, quick.spread) == (2.0, 2.0, 1.0, (0.5, 1.5))
    assert (quick.best, slow.best, slow.ratio) == (True, False, 4.0)
    assert (found.roofline_ms, quick.roofline_ratio) == (1.0, 0.5)
    assert Outcome.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_row_without_a_baseline() -> None:
    found = outcome((Ours(doubled),), (Baseline("absent", _never, ("no_such_module",)),))
    (row,) = found.rows
    assert (row.baseline, row.ratio, row.baseline_ms) == (None, None, None)
    assert row.ours_ms is not None
    (absent,) = found.left_out
    assert (absent.name, absent.why, absent.detail) == ("absent", "absent", "no_such_module is not installed")
    assert "absent: absent: no_such_module is not installed" in report.table(found)


@pytest.mark.long
@pytest.mark.parametrize(
    "baseline", [Baseline("almost", _almost), Baseline("nothing", _nothing)], ids=lambda baseline: baseline.name
)
def test_wrong_baseline_is_not_timed(baseline: Baseline) -> None:
    found = outcome((Ours(doubled),), (baseline, Baseline("NumPy", by_numpy)))
    assert [entry.name for entry in found.entries] == ["NumPy", "doubled"]
    (wrong,) = found.faults
    assert (wrong.name, wrong.ours, wrong.why) == (baseline.name, False, "wrong")
    assert wrong.detail.startswith("the element at (3,) is " if baseline.name == "almost" else "the element at ")
    assert "WRONG, not timed" in report.table(found)


@pytest.mark.long
def test_wrong_schedule_is_not_timed() -> None:
    found = outcome((Ours(tripled), Ours(doubled)), (Baseline("NumPy", by_numpy),))
    (wrong,) = found.faults
    assert (wrong.name, wrong.ours, wrong.why) == ("tripled", True, "wrong")
    assert {row.schedule for row in found.rows} == {"doubled"}
    assert "WRONG, not timed: our tripled: the element at (0,)" in report.table(found)


def test_failed_build_is_reported_and_others_are_measured() -> None:
    found = outcome((Ours(beyond), Ours(doubled)), (Baseline("broken", _broken), Baseline("NumPy", by_numpy)))
    assert [(fault.name, fault.why) for fault in found.faults] == [("broken", "failed"), ("beyond", "failed")]
    assert "its licence has run out" in found.faults[0].detail
    assert "UnsafeAccess" in found.faults[1].detail
    assert [entry.name for entry in found.entries] == ["NumPy", "doubled"]


def test_too_slow_candidate_is_left_out_without_a_fault() -> None:
    found = outcome((Ours(doubled), Ours(tripled, max_size=99)), ())
    assert [(one.name, one.why) for one in found.left_out] == [("tripled", "size")]
    assert found.faults == ()


def test_interrupt_during_a_build_keeps_the_others() -> None:
    def stopped(_: Problem, __: int) -> Callable[[], object]:
        raise KeyboardInterrupt

    found = outcome((Ours(doubled),), (Baseline("NumPy", by_numpy), Baseline("stopped", stopped)))
    assert found.interrupted
    assert "INTERRUPTED" in report.table(found)


@pytest.mark.parametrize("kind", ["copy", "read"])
def test_roofline_moves_the_bytes_of_the_problem(kind: Any) -> None:
    run, scale = roofline_of(Roofline(kind, moved), TWICE(1000), 1)
    run()
    assert scale == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_peak_counts_all_operations(dtype: str) -> None:
    problem = posed(_twice, lambda size: ((size,), (size,)), dtype=dtype)(8)
    run, scale = roofline_of(Roofline("fma", lambda _: 1.0), problem, 1)
    done = run()
    assert isinstance(done, int)
    assert scale == 1 / done
    # Twelve chains of 200,000 steps, two operations per element of a vector.
    assert done in {2 * 12 * 200_000 * size // np.dtype(dtype).itemsize for size in (16, 32, 64)}


def test_candidate_names_are_unique() -> None:
    for each in WORKLOADS.values():
        names = [ROOFLINE, *(ours.name for ours in each.ours), *(baseline.name for baseline in each.baselines)]
        assert len(set(names)) == len(names)
        assert each.ours
        assert each.baselines


# Only installed baselines: the others are checked when they are measured.
@pytest.mark.long
@pytest.mark.thinned(29)
@pytest.mark.parametrize("size", [3, 37])
@pytest.mark.parametrize("name", WORKLOADS)  # the slower parameter: both sizes of a workload run in one process
def test_all_candidates_match_the_reference(name: str, size: int) -> None:
    each = WORKLOADS[name]
    problem = each.pose(size)
    for ours in each.ours:
        ours.candidate(problem)  # built once for both sizes: candidates are forked from this process
    found = measured(each, Case(name, size, rounds=0), watch=lambda _: None)
    assert found.faults == ()
    if any("OpenMP" in one.detail for one in found.left_out) and (reason := lacking("OpenMP")):
        pytest.skip(reason)
    assert {one.why for one in found.left_out} <= {"absent", "size"}
    assert any(entry.ours for entry in found.entries)


@pytest.mark.long
@pytest.mark.thinned(17)
@pytest.mark.parametrize("name", WORKLOADS)
def test_scheduled_workload_has_a_parallel_schedule(name: str) -> None:
    made = [(ours, *ours.made(2)) for ours in WORKLOADS[name].ours]
    for ours, together, derived in made:
        if ours.parallel:
            assert derived
            assert "parallel" not in str(ours.made(1)[0])
            # Lowering refuses loops with data races.
            assert "# parallel" in print_nest(lower(together)), ours.name
    scheduled = [program for _, program, derived in made if derived]
    assert not scheduled or any("parallel" in str(program) for program in scheduled)


def test_several_workloads_have_parallel_schedules() -> None:
    assert sum(bool(ours.parallel) for each in WORKLOADS.values() for ours in each.ours) > 10


@pytest.mark.long
def test_schedule_for_other_sizes_is_left_out_without_a_fault() -> None:
    found = measured(WORKLOADS["stencils"], Case("stencils", 37, rounds=0), watch=lambda _: None)
    (tiled,) = (one for one in found.left_out if one.ours)
    assert (tiled.name, tiled.why, tiled.detail) == ("stencils_tiled", "size", "requires 130 <= m")
    assert found.faults == ()


TINY = ("--quick", "addition@40", "--seconds", "0.05", "--rounds", "3")


@pytest.mark.long
def test_bench_command_prints_and_writes_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "rows.json"
    assert command_line(["bench", *TINY, "--json", str(file)]) == 0
    said = capsys.readouterr()
    assert "addition@40: the sum of two n x n matrices; one thread" in said.out
    assert "* addition, as written" in said.out
    assert "addition@40 (1 of 1)" in said.err
    content = json.loads(file.read_text(encoding="utf-8"))
    assert content["complete"]
    asked = {"workload", "schedule", "baseline", "ours_ms", "baseline_ms", "ratio", "spread", "roofline_ratio"}
    assert content["rows"]
    assert all(asked <= set(row) for row in content["rows"])
    assert {"addition"} == {row["workload"] for row in content["rows"]}
    assert {"NumPy", "C"} <= {row["baseline"] for row in content["rows"]}
    around = content["environment"]
    assert around["compiler"]
    assert "-O3" in around["flags"]
    assert {"cpu", "load", "load_after", "python", "packages", "atl"} <= set(around)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (("blurr",), "unknown workload 'blurr' [ATL801]"),
        (("blurr",), "did you mean blur"),
        (("blur@0",), "'0' is not a size of blur [ATL802]"),
        (("blur@",), "'' is not a size of blur [ATL802]"),
        (("blur@x",), "required: a number from 1 to"),
        (("blur@99999999",), "blur@2000 is 3 x 3 sums"),
        (("--threads", "0"), "--threads is out of range: 0 [ATL802]"),
        (("--rounds", "-1"), "--rounds is out of range: -1 [ATL802]"),
        (("--seconds", "nan"), "--seconds is out of range: nan [ATL802]"),
        (("--json", "no/such/folder/rows.json"), "cannot be written [ATL805]"),
        (("--json", "/proc/rows.json"), "cannot be written [ATL805]"),
        (("--plot", "plot"), "unknown picture format: plot [ATL805]"),
    ],
)
def test_invalid_bench_arguments_are_refused(
    asked: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["bench", *asked]) == REFUSED
    assert said in capsys.readouterr().err


def test_plot_without_matplotlib_is_refused_before_measuring(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    assert command_line(["bench", *TINY, "--plot", "plot.svg"]) == REFUSED
    assert "--plot needs matplotlib, which is not installed [ATL803]" in capsys.readouterr().err


def test_list_names_all_candidates(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["bench", "--list"]) == 0
    said = capsys.readouterr().out
    for each in WORKLOADS.values():
        assert all(name in said for name in (*(one.name for one in each.ours), *(one.name for one in each.baselines)))


@pytest.mark.long
def test_fault_sets_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = outcome((Ours(tripled),), ())
    monkeypatch.setattr(command, "in_own_process", lambda case, watch: (replace(found, case=case), {}))
    assert command_line(["bench", *TINY]) == FAILED
    assert "WRONG" in capsys.readouterr().out


def test_environment_does_not_name_another_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS took twice the time with OPENBLAS_CORETYPE set to an older processor."""
    given: dict[str, str] = {}

    def run(*_: object, env: dict[str, str], **__: object) -> None:
        given.update(env)
        raise KeyboardInterrupt

    for name in command.CPU_OVERRIDES:
        monkeypatch.setenv(name, "Haswell")
    monkeypatch.setattr(subprocess, "Popen", run)
    with pytest.raises(KeyboardInterrupt):
        command.in_own_process(Case("addition", 40, 1, 1, 0.1), lambda _: None)
    assert given["OPENBLAS_NUM_THREADS"] == "1"
    assert not given.keys() & set(command.CPU_OVERRIDES)


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[str]]]:
    """Return a list of processes that are killed after the test."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_interrupted_bench_command_keeps_results(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
    file = tmp_path / "rows.json"
    asked = ["addition@40", "matrix-vector@40", "--seconds", "3000", "--rounds", "10000", "--json", str(file)]
    process = subprocess.Popen(
        [sys.executable, "-u", "-m", "bench", *asked],
        cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8",
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )  # fmt: skip
    started.append(process)
    assert process.stderr is not None
    while "measuring" not in process.stderr.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=600)
    assert process.returncode == command.INTERRUPTED
    assert "INTERRUPTED: results so far" in out
    assert "interrupted after 1 of 2 cases" in err
    content = json.loads(file.read_text(encoding="utf-8"))
    assert not content["complete"]
    assert [case["interrupted"] for case in content["cases"]] == [True]


def test_growth_exponent() -> None:
    assert growth.exponent([10, 20, 40], [3.0, 12.0, 48.0]) == 2.0
    clock = FakeClock()
    found = growth.grown(lambda count: clock.running(str(count), count * 10 * MS), clock, (2, 4, 8))
    assert found == [20.0, 40.0, 80.0]


@pytest.mark.parametrize(("name", "make"), growth.WORK, ids=[name for name, _ in growth.WORK])
def test_each_measured_operation_runs(name: str, make: Callable[[int], Callable[[], object]]) -> None:
    make(3)()


def test_pipeline_size_is_linear_in_stages() -> None:
    sizes = [growth.nodes(growth.stages(count).body) for count in (1, 2, 3, 4)]
    assert len({b - a for a, b in pairwise(sizes)}) == 1


@pytest.mark.long
def test_overview_pairs_fastest_schedule_with_strongest_baseline() -> None:
    def row(schedule: str, ours: float, baseline: str, theirs: float, threads: int = 1) -> dict[str, Any]:
        return {
            "workload": "blur", "size": 8, "threads": threads, "schedule": schedule, "ours_ms": ours,
            "baseline": baseline, "baseline_ms": theirs, "ratio": theirs / ours,
            "spread": [0.9, 1.1], "roofline_ratio": 0.5,
        }  # fmt: skip

    rows = [row("slow", 4.0, "C", 2.0), row("fast", 2.0, "numba", 3.0), row("fast", 2.0, "C", 2.5)]
    assert [(line["schedule"], line["baseline"]) for line in fastest(rows)] == [("fast", "C")]
    assert len(fastest([*rows, row("fast", 2.0, "C", 1.0, threads=2)])) == 2
    assert "| blur 8 | `fast` | 2.000 | 50 % | C | 1.25 [0.90–1.10] |  |" in table(fastest(rows))
    (stages, theirs), (tiles, in_tiles) = FIGURE_8_3
    pairs = [row(tiles, 2.0, in_tiles, 3.0), row(stages, 3.0, in_tiles, 3.0), row(stages, 3.0, theirs, 3.0, threads=2)]
    assert figure_8_3([*rows, *pairs]) == [pairs[2], pairs[0]]


def test_pairs_of_figure_8_3_are_in_the_benchmark() -> None:
    blur = WORKLOADS["blur"]
    assert {ours for ours, _ in FIGURE_8_3} <= {each.name for each in blur.ours if each.parallel}
    assert {theirs for _, theirs in FIGURE_8_3} <= {each.name for each in blur.baselines}
