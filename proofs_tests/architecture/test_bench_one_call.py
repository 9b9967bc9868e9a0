"""One call of `s.optimize()` in the benchmark: its program, its results, the table, and limited instruction sets."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace

import pytest

from atl.cli import main as command_line
from atl.meaning.arguments import bind
from bench import command, one_calls, report
from bench.command import described
from bench.comparison import Baseline, OneCall, Ours
from bench.environment import environment
from bench.isa import ISAS, settings
from bench.measure import measured
from bench.outcome import ROOFLINE, Candidate, Case, Outcome, concluded
from bench.workloads import WORKLOADS
from lowering import Samples
from proofs_tests.architecture.faulty_workloads import by_numpy, doubled, doubled_in_tiles, doubling

# Python warns of a fork with threads, such as those of pytest-xdist. No candidate uses them.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")


@pytest.mark.long
@pytest.mark.thinned(13)
@pytest.mark.parametrize("name", WORKLOADS)
def test_each_workload_has_a_program_for_one_call(name: str) -> None:
    each = WORKLOADS[name]
    problem = each.pose(max(16, min(each.sizes) // 16))
    program, keywords = each.ours[0].start(problem)
    assert set(bind(program, problem.inputs, keywords).sizes) == set(program.sizes)
    assert bool(program.packed) == problem.is_sparse
    assert " | " not in str(program)  # no loop or let has a mark


@pytest.mark.parametrize("name", ["transpose", "spmm"])
def test_one_call_matches_the_reference(name: str) -> None:
    each = WORKLOADS[name]
    assert each.quick is not None
    problem = each.pose(each.quick)
    run, derived, took = OneCall(*each.ours[0].start(problem)).candidate(problem, 1, lambda _: None)
    assert derived
    assert took > 0
    assert problem.fault_of(run) is None


@pytest.mark.long
def test_measured_call_matches_the_reference_and_shows_candidates() -> None:
    each, progress = WORKLOADS["transpose"], list[str]()
    problem = each.pose(64)
    run, _, _ = OneCall(*each.ours[0].start(problem), seconds=60).candidate(problem, 1, progress.append)
    assert problem.fault_of(run) is None
    assert progress
    assert all(line.startswith("tuning one call, 60 s, ") for line in progress)


def test_one_call_is_measured_with_the_others() -> None:
    each = doubling(Baseline("NumPy", by_numpy), ours=(Ours(doubled_in_tiles, tiles={"by": 4}),))
    found = measured(each, Case("doubling", 100, rounds=3, seconds=0.2, one_call=0.0), watch=lambda _: None)
    assert [entry.name for entry in found.entries] == ["NumPy", "doubled_in_tiles (by = 4)", "one call"]
    (row,) = found.one_calls
    assert (row.call, row.dense, row.baseline, row.hand) == ("one call", True, "NumPy", "doubled_in_tiles (by = 4)")
    assert row.deriving_s is not None
    assert "; derived in " in report.table(found)
    assert "one call" not in report.table(measured(each, Case("doubling", 100, rounds=0), watch=lambda _: None))


def test_one_call_is_left_out_if_its_program_cannot_be_derived() -> None:
    each = doubling(Baseline("NumPy", by_numpy), ours=(Ours(doubled_in_tiles, tiles={"by": 0}), Ours(doubled)))
    found = measured(each, Case("doubling", 100, rounds=0, one_call=2.0), watch=lambda _: None)
    lost = [one for one in found.left_out if one.name.startswith("one call")]
    assert [(one.name, one.why) for one in lost] == [("one call", "failed"), ("one call, 2 s", "failed")]
    assert "a tile of 0 iterations" in lost[0].detail
    assert [row.ms for row in found.one_calls] == [None, None]


def outcome(workload: str, call: float, baseline: float, hand: float, *, dense: bool = True) -> Outcome:
    """Return the outcome of a case with these times, and with a slower baseline and a slower hand schedule."""
    times = {"one call": call, "baseline": baseline, "slow baseline": 2 * baseline, "hand": hand, "slow hand": 2 * hand}
    who = [Candidate(name, ours="baseline" not in name, derived=True) for name in times]
    who[0] = replace(who[0], deriving_s=0.5)
    taken: dict[str, list[float | None]] = {name: [ms, 2 * ms, ms] for name, ms in times.items()}
    samples = Samples({**taken, ROOFLINE: [1.0, 1.0, 1.0]})
    return concluded(Case(workload, 8, one_call=0.0), "says", ("copy", 1.0), tuple(who), samples, (), dense=dense)


def test_table_has_the_ratios_and_their_geometric_means() -> None:
    outcomes = [
        outcome("product", 2.0, 4.0, 1.0), outcome("blur", 2.0, 1.0, 8.0), outcome("spmm", 1.0, 9.0, 9.0, dense=False)
    ]  # fmt: skip
    rows = [row for each in outcomes for row in each.one_calls]
    assert [(row.baseline, row.baseline_ratio, row.hand, row.hand_ratio) for row in rows] == [
        ("baseline", 2.0, "hand", 0.5),
        ("baseline", 0.5, "hand", 4.0),
        ("baseline", 9.0, "hand", 9.0),
    ]
    (mean,) = one_calls.means(rows)
    assert (mean.baseline_ratio, mean.hand_ratio) == pytest.approx((1.0, 2**0.5))
    assert (mean.of, mean.baseline_cases, mean.hand_cases) == (2, 2, 2)
    lines = one_calls.table(outcomes).splitlines()
    assert lines[2].split() == ["product@8", "one", "call", "2.000", "0.5", "2.00", "0.50", "baseline;", "hand"]
    assert lines[-1].split()[:7] == ["geometric", "mean,", "one", "call", "1.00", "1.41", "2"]
    written = json.loads(json.dumps(report.written(outcomes, {}, complete=True)))
    assert [row["hand_ratio"] for row in written["one_call"]["rows"]] == [0.5, 4.0, 9.0]
    assert written["one_call"]["means"][0]["of"] == 2
    assert Outcome.from_json(json.loads(json.dumps(outcomes[0].as_json()))) == outcomes[0]


def test_mean_counts_the_cases_that_have_a_ratio() -> None:
    good, lost = outcome("product", 2.0, 4.0, 1.0), outcome("blur", 2.0, 1.0, 8.0)
    lost = replace(lost, one_calls=tuple(replace(row, ms=None, baseline_ratio=None) for row in lost.one_calls))
    (mean,) = one_calls.means([*good.one_calls, *lost.one_calls])
    assert (mean.baseline_ratio, mean.baseline_cases, mean.hand_cases, mean.of) == (2.0, 1, 2, 2)
    assert "1 and 2 of 2 dense cases" in one_calls.table([good, lost])
    (nothing,) = one_calls.means(lost.one_calls)
    assert nothing.baseline_ratio is None


def test_budget_out_of_range_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert command_line(["bench", "addition", "--one-call", "-1"]) == 2
    assert "--one-call is out of range: -1.0 [ATL802]" in capsys.readouterr().err


def test_limited_run_limits_the_compiler_and_the_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, str] = {}

    def run(*_: object, env: dict[str, str], **__: object) -> None:
        given.update(env)
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", run)
    monkeypatch.setenv("CC", "some-cc -O2")
    monkeypatch.setenv("OPENBLAS_CORETYPE", "SkylakeX")
    with pytest.raises(KeyboardInterrupt):
        command.in_own_process(Case("addition", 40, isa="x86-64-v3"), lambda _: None)
    assert given["CC"] == "some-cc -O2 -march=x86-64-v3"
    assert ISAS["x86-64-v3"].items() <= given.items()
    assert settings(None) == {}


def test_report_has_the_limits() -> None:
    around = environment()
    assert around["isa"] is None
    assert set(around["machine"]) >= {"vector_bytes", "vector_registers", "l1"}
    limited = described({**around, "isa": "x86-64-v3", "limits": {"OPENBLAS_CORETYPE": "Haswell"}})
    assert "limited to x86-64-v3: OPENBLAS_CORETYPE=Haswell" in limited
    assert "limited" not in described(around)
