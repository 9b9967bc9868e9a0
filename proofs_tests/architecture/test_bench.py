"""The benchmark: who runs when, which samples count, what is compared, and that nobody wrong is timed."""

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
from bench.overview import fastest, table
from bench.roofline import roofline_of
from bench.tool import growth
from bench.workloads import WORKLOADS
from lowering import lower, print_nest
from lowering.timing.harness import LONG_SAMPLE, MIN_SAMPLES, Samples, Spread, alternate, ratio, spread
from proofs_tests.compilers import lacking
from rewrites import Session, reschedule

# Python warns of a fork where there are threads, as those of pytest-xdist: no candidate waits for one of them.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
HERE = Path(__file__).resolve().parents[2]
MS = 1_000_000


class Fake:
    """A clock that stands still except where a candidate runs, and a core that is taken away where one says so."""

    def __init__(self) -> None:
        self.time = 0
        self.switched = 0
        self.ran: list[str] = []

    def now(self) -> int:
        return self.time

    def preemptions(self) -> int:
        return self.switched

    def running(self, name: str, *took: int, preempted: Callable[[int], bool] = lambda _: False) -> Callable[[], None]:
        """A candidate that takes so many nanoseconds, one number for each run and the last for all others."""
        count = 0

        def run() -> None:
            nonlocal count
            self.ran.append(name)
            self.time += took[min(count, len(took) - 1)]
            self.switched += preempted(count)
            count += 1

        return run


# -- the harness ------------------------------------------------------------------------------------------------------


def test_contestants_take_turns_and_nobody_always_follows_the_same() -> None:
    clock = Fake()
    who = {name: clock.running(name, 150 * MS) for name in "abc"}
    samples = alternate(who, rounds=3, seconds=100, clock=clock)
    # Who takes this long runs once a round: nothing is to be warmed.
    assert "".join(clock.ran) == "abcbcacab"
    assert samples.times == {name: [150.0] * 3 for name in "abc"}


def test_what_is_short_runs_often_for_one_sample_and_first_without_being_timed() -> None:
    clock = Fake()
    samples = alternate({"short": clock.running("short", 50_000)}, rounds=2, seconds=1, clock=clock)
    # A first run, four for the sample; then one to warm, four for the sample.
    assert len(clock.ran) == 1 + 4 + 1 + 4
    assert samples.times == {"short": [0.05, 0.05]}


def test_a_short_sample_does_not_count_where_the_core_was_taken_away_and_a_long_one_does() -> None:
    clock = Fake()
    who = {
        # Its first round is runs 0 and 1; in the second one all four tries are disturbed, in the third only the first.
        "short": clock.running("short", MS, preempted=lambda run: run in (3, 4, 5, 6, 8)),
        "long": clock.running("long", LONG_SAMPLE + 1, preempted=lambda _: True),
    }
    samples = alternate(who, rounds=4, seconds=1, clock=clock)
    assert samples.times["short"] == [1.0, None, 1.0, 1.0]
    assert clock.ran.count("short") == 2 + 5 + 3 + 2
    assert samples.clean("short") == [1.0, 1.0, 1.0]
    assert len(samples.clean("long")) == 4


def test_who_has_used_up_its_share_sits_out_but_not_before_three_samples() -> None:
    clock = Fake()
    who = {"slow": clock.running("slow", 1000 * MS), "fast": clock.running("fast", 10 * MS)}
    samples = alternate(who, rounds=20, seconds=1, clock=clock)
    assert len(samples.clean("slow")) == MIN_SAMPLES
    assert len(samples.clean("fast")) == 20
    assert samples.times["slow"][MIN_SAMPLES:] == [None] * 17


def test_the_measuring_ends_when_everybody_has_used_up_its_share() -> None:
    clock = Fake()
    samples = alternate({"only": clock.running("only", 300 * MS)}, rounds=100, seconds=2, clock=clock)
    assert samples.times["only"] == [300.0] * 7


def test_settling_waits_for_other_threads_that_want_a_core_and_for_none_that_sleeps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def tells(thread: int, state: str) -> None:
        (tmp_path / f"{thread}").mkdir(exist_ok=True)
        (tmp_path / f"{thread}" / "stat").write_text(f"{thread} (a) R b) {state} 1 2", encoding="ascii")

    monkeypatch.setattr(cooldown, "TASKS", tmp_path)
    own = get_native_id()
    tells(own, "R")
    tells(own + 1, "S")
    (tmp_path / "ended").mkdir()
    (tmp_path / "ending").mkdir()
    (tmp_path / "ending" / "stat").touch()
    assert wait_until_idle(0)
    tells(own + 1, "R")
    assert not wait_until_idle(0.002)
    monkeypatch.setattr(time, "sleep", lambda _: tells(own + 1, "S"))
    assert wait_until_idle(60)


@pytest.mark.skipif(not TASKS.is_dir(), reason="what threads do is told by Linux")
def test_a_thread_that_runs_is_seen() -> None:
    assert (cooldown.running_threads("nobody") or 0) >= 1


def test_settling_waits_for_nothing_where_nobody_tells_what_threads_do(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cooldown, "TASKS", tmp_path / "absent")
    assert not wait_until_idle(5)


def test_ratios_are_of_one_round_and_so_a_drift_of_the_machine_is_none_of_theirs() -> None:
    drifting = Samples({"ours": [1.0, 2.0, 4.0, None], "baseline": [2.0, 4.0, 8.0, 100.0]})
    assert ratio(drifting, "baseline", "ours") == Spread(2.0, 2.0, 2.0, 3)
    assert ratio(drifting, "baseline", "ours", scale=0.5) == Spread(1.0, 1.0, 1.0, 3)
    assert ratio(Samples({"a": [None, 1.0], "b": [1.0, None]}), "a", "b") is None
    coarse = Samples({"a": [2.0, 3.0], "b": [0.0, 1.0]})  # a clock that does not see so short a run
    assert ratio(coarse, "a", "b") == Spread(3.0, 3.0, 3.0, 1)


def test_the_spread_is_from_ten_to_ninety_percent() -> None:
    assert spread([float(k) for k in range(11)]) == Spread(5.0, 1.0, 9.0, 11)
    assert spread([3.0]) == Spread(3.0, 3.0, 3.0, 1)
    assert spread([]) is None


def test_an_interrupt_keeps_the_rounds_that_everybody_ended() -> None:
    clock = Fake()

    def interrupted() -> None:
        clock.time += 150 * MS
        if clock.time > 700 * MS:
            raise KeyboardInterrupt

    samples = alternate({"a": clock.running("a", 150 * MS), "b": interrupted}, rounds=9, seconds=9, clock=clock)
    assert samples.interrupted
    assert samples.times == {"a": [150.0, 150.0], "b": [150.0, 150.0]}


# -- a workload made for the test -------------------------------------------------------------------------------------

n = atl.sizes("n")
x = atl.tensor("x", n)


def doubled() -> atl.Program:
    """Twice each element."""
    return atl.program("doubled", [x], atl.gen(n, lambda i: 2 * x[i]))


def doubled_after_a_step() -> Session:
    """The same, by a step there."""
    return reschedule(doubled()).rw("mul_comm")


def tripled() -> atl.Program:
    """A schedule of something else."""
    return atl.program("tripled", [x], atl.gen(n, lambda i: 3 * x[i]))


def beyond() -> atl.Program:
    """Something that cannot be compiled."""
    return atl.program("beyond", [x], atl.gen(n, lambda i: x[i + 1]))


def _by_numpy(problem: Problem, _: int) -> Callable[[], object]:
    return lambda: np.multiply(problem.inputs[0], 2, out=problem.out)


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


def workload(ours: tuple[Ours, ...], baselines: tuple[Baseline, ...]) -> Workload:
    pose = posed(_twice, lambda size: ((size,), (size,)))
    return Workload(
        "doubling", "twice n numbers", (100,), pose, ours, baselines, Roofline("copy", moved), max_size=1000
    )


def outcome(*tables: tuple[Any, ...]) -> Outcome:
    return measured(workload(*tables), Case("doubling", 100, rounds=5, seconds=0.2), watch=lambda _: None)


@pytest.mark.long
def test_each_of_ours_is_compared_with_each_rival_and_the_best_is_marked() -> None:
    baselines = (Baseline("NumPy", _by_numpy), Baseline("NumPy anew", _anew, allocates=True))
    found = outcome((Ours(doubled_after_a_step), Ours(doubled)), baselines)
    assert [(row.schedule, row.derived, row.baseline) for row in found.rows] == [
        ("doubled_after_a_step", True, "NumPy"),
        ("doubled_after_a_step", True, "NumPy anew"),
        ("doubled", False, "NumPy"),
        ("doubled", False, "NumPy anew"),
    ]
    assert found.left_out == ()
    assert not found.interrupted


def test_the_rows_say_what_the_samples_do() -> None:
    who = (Candidate("mine", ours=True, derived=True), Candidate("quick", ours=False), Candidate("slow", ours=False))
    samples = Samples({"mine": [2.0] * 4, "quick": [1.0, 3.0, 3.0, 1.0], "slow": [8.0] * 4, ROOFLINE: [0.5] * 4})
    found = concluded(Case("w", 7), "says", ("fma", 2.0), who, samples, ())
    quick, slow = found.rows
    assert (quick.ours_ms, quick.baseline_ms, quick.ratio, quick.spread) == (2.0, 2.0, 1.0, (0.5, 1.5))
    assert (quick.best, slow.best, slow.ratio) == (True, False, 4.0)
    assert (found.roofline_ms, quick.roofline_ratio) == (1.0, 0.5)
    assert Outcome.from_json(json.loads(json.dumps(found.as_json()))) == found


def test_without_a_rival_there_is_a_row_all_the_same() -> None:
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
def test_a_rival_that_computes_something_wrong_is_not_timed(baseline: Baseline) -> None:
    found = outcome((Ours(doubled),), (baseline, Baseline("NumPy", _by_numpy)))
    assert [entry.name for entry in found.entries] == ["NumPy", "doubled"]
    (wrong,) = found.faults
    assert (wrong.name, wrong.ours, wrong.why) == (baseline.name, False, "wrong")
    assert "WRONG, not timed" in report.table(found)


def test_where_a_result_is_wrong_is_said() -> None:
    (wrong,) = outcome((), (Baseline("almost", _almost),)).faults
    assert wrong.detail.startswith("the element at (3,) is ")


@pytest.mark.long
def test_a_schedule_of_ours_that_computes_something_wrong_is_not_timed() -> None:
    found = outcome((Ours(tripled), Ours(doubled)), (Baseline("NumPy", _by_numpy),))
    (wrong,) = found.faults
    assert (wrong.name, wrong.ours, wrong.why) == ("tripled", True, "wrong")
    assert {row.schedule for row in found.rows} == {"doubled"}
    assert "WRONG, not timed: our tripled: the element at (0,)" in report.table(found)


def test_who_cannot_be_built_is_told_and_keeps_nobody_from_being_measured() -> None:
    found = outcome((Ours(beyond), Ours(doubled)), (Baseline("broken", _broken), Baseline("NumPy", _by_numpy)))
    assert [(fault.name, fault.why) for fault in found.faults] == [("broken", "failed"), ("beyond", "failed")]
    assert "its licence has run out" in found.faults[0].detail
    assert "UnsafeAccess" in found.faults[1].detail
    assert [entry.name for entry in found.entries] == ["NumPy", "doubled"]


def test_what_nobody_would_wait_for_is_left_out_and_that_is_no_fault() -> None:
    found = outcome((Ours(doubled), Ours(tripled, max_size=99)), ())
    assert [(one.name, one.why) for one in found.left_out] == [("tripled", "size")]
    assert found.faults == ()


def test_an_interrupt_while_somebody_is_built_keeps_the_others() -> None:
    def stopped(_: Problem, __: int) -> Callable[[], object]:
        raise KeyboardInterrupt

    found = outcome((Ours(doubled),), (Baseline("NumPy", _by_numpy), Baseline("stopped", stopped)))
    assert found.interrupted
    assert "INTERRUPTED" in report.table(found)


# -- the limits -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["copy", "read"])
def test_a_limit_moves_the_bytes_of_the_problem(kind: Any) -> None:
    problem = posed(_twice, lambda size: ((size,), (size,)))(1000)
    run, scale = roofline_of(Roofline(kind, moved), problem, 1)
    run()
    assert scale == 1.0


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_peak_counts_every_operation_of_chains_that_are_not_merged(dtype: str) -> None:
    problem = posed(_twice, lambda size: ((size,), (size,)), dtype=dtype)(8)
    run, scale = roofline_of(Roofline("fma", lambda _: 1.0), problem, 1)
    done = run()
    assert isinstance(done, int)
    assert scale == 1 / done
    # Twelve chains of 200,000 steps, two operations for each of the elements of a vector.
    assert done in {2 * 12 * 200_000 * size // np.dtype(dtype).itemsize for size in (16, 32, 64)}


# -- the tables -------------------------------------------------------------------------------------------------------


def test_everybody_in_the_tables_has_a_name_of_its_own() -> None:
    for each in WORKLOADS.values():
        names = [ROOFLINE, *(ours.name for ours in each.ours), *(baseline.name for baseline in each.baselines)]
        assert len(set(names)) == len(names)
        assert each.ours
        assert each.baselines


# Of the baselines those that are installed: the others are checked whenever they are measured.
@pytest.mark.long
@pytest.mark.parametrize("size", [3, 37])
@pytest.mark.parametrize("name", WORKLOADS)  # the slower one: so both sizes of a workload come to one process
def test_everybody_computes_what_the_reference_does(name: str, size: int) -> None:
    each = WORKLOADS[name]
    problem = each.pose(size)
    for ours in each.ours:
        ours.candidate(problem)  # built once for both sizes: each candidate's process is forked from this one
    found = measured(each, Case(name, size, rounds=0), watch=lambda _: None)
    assert found.faults == ()
    if any("OpenMP" in one.detail for one in found.left_out) and (reason := lacking("OpenMP")):
        pytest.skip(reason)
    assert {one.why for one in found.left_out} <= {"absent", "size"}
    assert any(entry.ours for entry in found.entries)


@pytest.mark.long
def test_the_loops_that_threads_share_are_marked_where_there_are_several_and_may_be() -> None:
    shared = [ours for each in WORKLOADS.values() for ours in each.ours if ours.parallel]
    assert len(shared) > 10
    for ours in shared:
        (alone, derived), (together, also) = ours.made(1), ours.made(2)
        assert derived
        assert also
        assert "parallel" not in str(alone)
        # Lowering refuses what may not run at once.
        assert "# parallel" in print_nest(lower(together)), ours.name


@pytest.mark.long
def test_each_work_that_has_a_schedule_has_one_for_several_threads() -> None:
    """Else a table of several threads sets one thread of ours beside all of everybody else."""
    for each in WORKLOADS.values():
        derived = [ours.made(2) for ours in each.ours if ours.made(1)[1]]
        if derived:
            assert any("parallel" in str(program) for program, _ in derived), each.name


@pytest.mark.long
def test_a_schedule_that_is_not_for_this_size_is_left_out_and_that_is_no_fault() -> None:
    found = measured(WORKLOADS["stencils"], Case("stencils", 37, rounds=0), watch=lambda _: None)
    (tiled,) = (one for one in found.left_out if one.ours)
    assert (tiled.name, tiled.why, tiled.detail) == ("stencils_tiled", "size", "requires 130 <= m")
    assert found.faults == ()


# -- the command ------------------------------------------------------------------------------------------------------

TINY = ("--quick", "addition@40", "--seconds", "0.05", "--rounds", "3")


@pytest.mark.long
def test_the_command_measures_prints_and_writes_rows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        (("blurr",), "there is no workload named 'blurr' [ATL801]"),
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
def test_what_cannot_be_measured_is_refused(
    asked: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line(["bench", *asked]) == REFUSED
    assert said in capsys.readouterr().err


def test_a_plot_without_what_draws_it_is_refused_before_anything_is_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(report, "find_spec", lambda _: None)
    assert command_line(["bench", *TINY, "--plot", "plot.svg"]) == REFUSED
    assert "--plot needs matplotlib, which is not installed [ATL803]" in capsys.readouterr().err


def test_the_list_names_everybody(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["bench", "--list"]) == 0
    said = capsys.readouterr().out
    for each in WORKLOADS.values():
        assert all(name in said for name in (*(one.name for one in each.ours), *(one.name for one in each.baselines)))


@pytest.mark.long
def test_a_fault_is_the_exit_code(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = outcome((Ours(tripled),), ())
    monkeypatch.setattr(command, "in_own_process", lambda case, watch: (replace(found, case=case), {}))
    assert command_line(["bench", *TINY]) == FAILED
    assert "WRONG" in capsys.readouterr().out


def test_nobody_is_told_of_another_processor_than_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenBLAS took twice its time where OPENBLAS_CORETYPE named an older one."""
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
    """Processes that are ended with the test, whatever becomes of it."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.long
def test_an_interrupt_keeps_what_was_measured_and_says_so(tmp_path: Path, started: list[subprocess.Popen[str]]) -> None:
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


# -- what the tool costs ----------------------------------------------------------------------------------------------


def test_the_exponent_is_that_of_the_work() -> None:
    assert growth.exponent([10, 20, 40], [3.0, 12.0, 48.0]) == 2.0
    clock = Fake()
    assert growth.grown(lambda count: clock.running(str(count), count * 10 * MS), clock, (2, 4, 8)) == [
        20.0,
        40.0,
        80.0,
    ]


@pytest.mark.parametrize(("name", "make"), growth.WORK, ids=[name for name, _ in growth.WORK])
def test_what_is_measured_of_the_tool_can_be_done(name: str, make: Callable[[int], Callable[[], object]]) -> None:
    make(3)()


def test_the_pipelines_grow_by_the_same_for_each_stage() -> None:
    sizes = [growth.nodes(growth.stages(count).body) for count in (1, 2, 3, 4)]
    assert len({b - a for a, b in pairwise(sizes)}) == 1


@pytest.mark.long
def test_the_overview_has_the_fastest_of_ours_beside_the_rival_that_it_leads_least() -> None:
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
