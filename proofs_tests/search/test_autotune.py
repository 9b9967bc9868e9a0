"""Autotuning: choice of the candidate, report, stored results; with fixed times and on this machine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import permutations
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl import Program, load
from atl.errors import ArgumentError, InvalidArgument, OutOfMemory
from bench.comparison import Roofline, Tuning, Workload, moved, posed
from bench.measure import measured
from bench.outcome import Case
from examples.schedules import anchors, blur
from lowering import compile as compiled
from lowering import measure
from lowering.timing.comparison import KernelComparison
from lowering.timing.inputs import random_inputs
from rewrites import Session, Tuned, autotune, reschedule
from rewrites.session.tuning.default_schedules import default_schedule
from rewrites.session.tuning.measuring import interval
from rewrites.session.tuning.space import candidates, next_of

TWICE = atl.parse("twice (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]")
SIZES = {"n": 1000}


class ByHand:
    """A measurement with fixed milliseconds by tile size, read from the program."""

    def __init__(self, folder: Path, times: Mapping[int, float], noise: Sequence[float] = (1.0,)) -> None:
        self.folder = folder
        self.conditions: Mapping[str, str] = {"machine": "by hand"}
        self.times = times
        self.noise = noise
        self.raced: list[tuple[str, str]] = []
        self.wrong: set[int] = set()
        self.interrupt_at: int | None = None

    def __call__(self, program: Program, sizes: Mapping[str, int]) -> ByHand:
        assert program == TWICE
        assert sizes == SIZES
        return self

    def candidate(self, program: Program) -> Any:
        text = str(program)
        return _Built(next((by for by in self.times if f"ii < {by}]" in text or f"ii < {by} |" in text), 1))

    def fault_of(self, candidate: Any) -> str | None:
        return "the element at (0) is 7" if candidate.by in self.wrong else None

    def time_pair(self, new: Any, best: Any, *, rounds: int, seconds: float) -> list[tuple[float, float]]:
        assert seconds > 0
        if new.by == self.interrupt_at:
            raise KeyboardInterrupt
        self.raced.append((new.identity, best.identity))
        noisy = [self.noise[k % len(self.noise)] for k in range(rounds)]
        return [(self.times[new.by] * by, self.times[best.by]) for by in noisy]


class _Built:
    def __init__(self, by: int) -> None:
        self.by = by

    @property
    def identity(self) -> str:
        return f"code of {self.by}"


def _tiled(by: int) -> Session:
    s = reschedule(TWICE)
    return s if by == 1 else s.tile("i", by)


def _tuned(contest: ByHand, choices: Sequence[int] = (2, 4, 8), budget: float = 60, **options: Any) -> Tuned[Session]:
    return autotune(_tiled, {"by": choices}, SIZES, budget, measure=contest, **options)


# -- choice -----------------------------------------------------------------------------------------------------------


def test_fastest_candidate_is_chosen_with_its_theorem(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 16.0})
    found = _tuned(contest)
    assert found.stopped == "exhausted"
    assert found.best is not None
    assert found.best.parameters == {"by": 4}
    assert [(one.parameters["by"], one.speed and one.speed.middle) for one in found.tried] == [
        (2, 2.0),
        (4, 4.0),
        (8, 0.5),
    ]
    assert found.theorem is not None
    assert found.theorem.lhs == TWICE
    assert found.theorem.rhs == _tiled(4).goal
    # Each candidate alternates with the best so far, not with the start.
    assert contest.raced == [("code of 2", "code of 1"), ("code of 4", "code of 2"), ("code of 8", "code of 4")]


def test_best_theorem_is_saved_and_replayed(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 16.0}))
    assert found.theorem is not None
    found.theorem.save(tmp_path / "best.atl.json")
    assert load(tmp_path / "best.atl.json").rhs == found.theorem.rhs


def test_start_stays_if_nothing_is_faster(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 1.0, 2: 4.0, 4: 1.0, 8: 0.995}))
    assert found.best is None
    assert found.session is None
    assert found.theorem is None
    assert "*   1.00" in str(found)


def test_candidate_equal_to_the_start_ranks_below_it(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (1, 2))
    assert found.tried[0].ms == found.start_ms
    assert [line.split("  ")[-2:] for line in str(found).split("\n")[3:]] == [
        [" 8.000", "start"],
        [" 8.000", "by=1 (same code as the start)"],
    ]


def test_gain_within_noise_is_not_chosen(tmp_path: Path) -> None:
    noise = (0.8, 1.3, 0.9, 1.2, 0.7, 1.25, 0.85)
    contest = ByHand(tmp_path, {1: 1.0, 2: 0.97, 4: 1.0, 8: 1.0}, noise)
    found = _tuned(contest)
    assert found.best is None
    assert found.tried[0].speed is not None
    assert found.tried[0].speed.low < 1 < found.tried[0].speed.middle
    # If seven rounds are not enough, more follow.
    assert contest.raced.count(("code of 2", "code of 1")) == 2


def test_first_of_equally_fast_candidates_stays(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 2.0, 2: 1.0, 4: 1.0, 8: 0.999}))
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_confidence_interval_narrows_with_rounds() -> None:
    assert (interval([1.0, 3.0, 2.0]).low, interval([1.0, 3.0, 2.0]).high) == (1.0, 3.0)
    many = interval([float(k) for k in range(1, 32)])
    # The 10th and 22nd of 31, as in tables of the sign test.
    assert (many.middle, many.low, many.high, many.rounds) == (16.0, 10.0, 22.0, 31)


def test_session_ends_at_the_best_and_can_be_undone(tmp_path: Path) -> None:
    s = reschedule(TWICE)
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 16.0})

    def tiled(s: Session, by: int) -> None:
        s.tile("i", by)

    found = s.autotune(SIZES, measure=contest, schedule=tiled, choices={"by": [2, 4, 8]})
    assert found.session is not None
    assert s.goal == found.session.goal == _tiled(4).goal
    assert [call.text for call in s.steps] == ["tile('i', 4)"]
    assert s.undo().goal == TWICE


# -- report -----------------------------------------------------------------------------------------------------------


def test_refused_candidates_are_listed_with_reasons(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (0, 2))
    refused = found.tried[0]
    assert (refused.outcome, refused.note) == ("refused", "a tile of 0 iterations [ATL102]")
    assert refused.error is not None
    assert "refused by=0: a tile of 0 iterations [ATL102]" in str(found)
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_wrong_result_is_reported_and_not_timed(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 0.1})
    contest.wrong = {4}
    found = _tuned(contest, (2, 4))
    assert [one.outcome for one in found.tried] == ["measured", "wrong"]
    assert "wrong   by=4: the element at (0) is 7" in str(found)
    assert ("code of 4", "code of 2") not in contest.raced


def test_equal_machine_code_is_measured_once(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    found = autotune(lambda by, _again: _tiled(by), {"by": [1, 2], "_again": [0, 1]}, SIZES, measure=contest)
    assert sorted(one.outcome for one in found.tried) == ["measured", "same", "same", "same"]
    assert len(contest.raced) == 1
    assert found.best is not None
    assert found.best.outcome == "measured"


def test_progress_callback_receives_every_candidate(tmp_path: Path) -> None:
    progress: list[str] = []
    _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (0, 2), watch=lambda one: progress.append(str(one)))
    assert progress == [
        "by=0: refused: a tile of 0 iterations [ATL102]",
        "by=2: 2.00 [2.00-2.00] times as fast, 4.000 ms",
    ]


def test_picture_has_a_bar_for_each_time(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 16.0}), (2, 4, 0))
    found.picture(tmp_path / "tuned.svg")
    text = (tmp_path / "tuned.svg").read_text(encoding="utf-8")
    assert text.count("<rect") == 3
    assert text.index("by=2<") < text.index("start<") < text.index("by=4<") < text.index("by=0: refused<")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        found.picture(tmp_path / "no folder" / "tuned.svg")


# -- why it ends, and how it goes on ----------------------------------------------------------------------------------


def test_untried_candidates_are_listed_at_timeout(tmp_path: Path) -> None:
    found = _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), budget=0)
    assert (found.stopped, found.tried, len(found.untried)) == ("budget", (), 3)
    assert "3 not tried" in str(found)


def test_interrupt_keeps_the_best_so_far(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0})
    contest.interrupt_at = 4
    found = _tuned(contest)
    assert (found.stopped, [one["by"] for one in found.untried]) == ("interrupted", [4, 8])
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_second_run_reuses_results_of_the_first(tmp_path: Path) -> None:
    times = {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}
    _tuned(ByHand(tmp_path, times), (2, 4))
    again = ByHand(tmp_path, times)
    found = _tuned(again)
    assert [(one.parameters["by"], one.outcome) for one in found.tried] == [
        (4, "remembered"),
        (2, "remembered"),
        (8, "measured"),
    ]
    assert again.raced == [("code of 8", "code of 4")]
    assert found.best is not None
    assert found.best.speed is not None
    assert found.best.speed.middle == 8.0
    # With no time left, the stored result is derived and proved again.
    short = _tuned(ByHand(tmp_path, times), budget=0)
    assert short.best is not None
    assert short.best.parameters == {"by": 8}
    assert short.theorem is not None


def test_stored_times_apply_to_one_machine_and_size(tmp_path: Path) -> None:
    times = {1: 8.0, 2: 4.0}
    first = _tuned(ByHand(tmp_path, times), (2,))
    other = ByHand(tmp_path, times)
    other.conditions = {"machine": "another"}
    assert _tuned(other, (2,)).tried[0].outcome == "measured"
    assert len(list(tmp_path.iterdir())) == 2
    # A file for another program or in another format is ignored.
    for spoilt in (
        "{",
        "[]",
        "null",
        json.dumps({"format": 1}),
        first.table.read_text().replace('"speed": 2.0', '"speed": null'),
    ):
        first.table.write_text(spoilt, encoding="utf-8")
        assert _tuned(ByHand(tmp_path, times), (2,)).tried[0].outcome == "measured"


def test_unwritable_table_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        found = _tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (2,), folder=tmp_path / "file")
    assert found.best is not None


def test_candidates_near_the_best_come_first() -> None:
    untried = candidates({"rows": [1, 2, 4], "columns": [8, 16]})
    assert untried[:2] == [{"rows": 1, "columns": 8}, {"rows": 1, "columns": 16}]
    assert next_of(untried, None) == untried[0]
    assert next_of([{"rows": 1, "columns": 16}, {"rows": 4, "columns": 8}], {"rows": 2, "columns": 8})["rows"] == 4


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"choices": {"by": []}}, "the choices by=[]"),
        ({"choices": {"by": 8}}, "the choices by=8"),
        ({"choices": {"by": [8, 8]}}, "contain a value twice"),
        ({"choices": [8]}, "choices=[8]"),
        ({"choices": dict.fromkeys("abcdef", range(10))}, "1000000 candidates"),
        ({"budget": -1}, "budget=-1"),
        ({"budget": float("nan")}, "budget=nan"),
        ({"schedule": 8}, "schedule=8"),
        ({"watch": 8}, "watch=8"),
        ({"start": 8}, "start=8"),
        ({"folder": 8}, "folder=8"),
        ({"schedule": lambda by: by}, "the schedule returns 2 for by=2"),
        ({"measure": lambda *_: 8}, "measure returned 8"),
    ],
)
def test_arguments_are_checked_first(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"schedule": _tiled, "choices": {"by": [2]}, "budget": 1, **change}
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    with pytest.raises(InvalidArgument) as refused:
        autotune(options.pop("schedule"), options.pop("choices"), SIZES, **{"measure": contest, **options})
    assert message in str(refused.value)


def test_choices_must_be_schedule_parameters(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    with pytest.raises(InvalidArgument, match="does not take rows"):
        autotune(_tiled, {"rows": [2]}, SIZES, 1, measure=contest)
    with pytest.raises(InvalidArgument, match="does not take by"):
        _tiled(2).autotune(SIZES, 1, measure=lambda *_: contest, schedule=lambda s: s, choices={"by": [2]})


def test_schedule_of_another_program_is_refused_and_listed(tmp_path: Path) -> None:
    other = atl.parse("other (x : float32[n]) : float32[n] := ⊞[i < n] x[i]")
    nothing: Any = None
    made: Mapping[int, Any] = {2: _tiled(2), 3: reschedule(other), 0: nothing}
    found = autotune(lambda by: made[by], {"by": [2, 3, 0]}, SIZES, measure=ByHand(tmp_path, {1: 8.0, 2: 4.0}))
    assert [one.outcome for one in found.tried] == ["measured", "refused", "refused"]
    assert "a session that starts from twice" in str(found.tried[1].error)
    assert "the schedule returns None for by=0" in str(found.tried[2].error)


@pytest.mark.parametrize("size", [2**46, 2**61, 2**63 - 1])
def test_huge_sizes_are_refused(size: int) -> None:
    twice = atl.parse("twice (x : float32[n, n]) : float32[n, n] := ⊞[i < n] ⊞[j < n] 2 * x[i, j]")
    with pytest.raises(OutOfMemory, match="out of memory for random elements of x"):
        reschedule(twice).autotune({"n": size}, 1)


def test_sizes_must_be_those_of_the_program() -> None:
    with pytest.raises(InvalidArgument, match="twice has no size m") as refused:
        measure(TWICE, {"n": 10, "m": 3})
    assert "values for the sizes n" in str(refused.value)


def test_error_in_the_schedule_is_not_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        autotune(lambda by: _tiled(8 // by), {"by": [2, 0]}, SIZES, measure=ByHand(tmp_path, {1: 8.0, 4: 4.0}))


# -- on this machine --------------------------------------------------------------------------------------------------


def test_tiles_of_a_product_are_derived_built_checked_and_timed(tmp_path: Path) -> None:
    def tiled(s: Session, by: int, order: str) -> None:
        if order == "ipj":
            s.interchange("j")
        s.tile("j", by).tails()

    s = reschedule(anchors.product())
    sizes = {"n": 96, "m": 96, "k": 96}
    choices: Mapping[str, Sequence[Any]] = {"by": [0, 32], "order": ["ijp", "ipj"]}
    found = s.autotune(sizes, 30, schedule=tiled, choices=choices, folder=tmp_path)
    assert sorted(one.outcome for one in found.tried) == ["measured", "measured", "refused", "refused"]
    # With the sum outside the columns the loop vectorises: at least twice as fast, typically ten times.
    assert found.best is not None
    assert found.best.parameters["order"] == "ipj"
    a, b = np.random.default_rng(1).random((2, 96, 96), np.float32)
    np.testing.assert_allclose(compiled(s.goal)(a, b), a @ b, rtol=1e-4)


@pytest.mark.long
def test_result_wrong_anywhere_is_found() -> None:
    contest = measure(TWICE, SIZES)
    right = contest.candidate(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] + x[i]"))
    assert contest.fault_of(right) is None
    last = "f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i] + ([i = n - 1] · 0.001)"
    fault = contest.fault_of(contest.candidate(atl.parse(last)))
    assert fault is not None
    assert "the element at (999)" in fault
    none = contest.candidate(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] / 0.0 - x[i] / 0.0"))
    assert "nan" in str(contest.fault_of(none))


CENTRED: Final = "(x : float32[m, n], c : float32) : float32[m] := ⊞[j < m] "
SQUARES: Final = {
    "differences": "(Σ[i < n] (x[j, i] - c) * (x[j, i] - c))",
    "cancelling": "(Σ[i < n] x[j, i] * x[j, i] - 2 * c * x[j, i] + c * c)",
}


def _centred(body: str) -> Program:
    return atl.parse(f"f {CENTRED} {body}")


def _far_from_zero(body: str) -> KernelComparison:
    """Return a program whose results are small differences of large elements."""
    x = 1000 + np.random.default_rng(1).random((200, 8), np.float32)
    return partial(measure, inputs={"x": x, "c": np.array(1000, np.float32)})(_centred(body), {"m": 200, "n": 8})


@pytest.mark.long
@pytest.mark.parametrize(("left", "right"), list(permutations(SQUARES.values())), ids=list(SQUARES))
@pytest.mark.parametrize("around", ["{}", "{0} * {0}", "1 / {}", "sqrt({})", "exp({})", "log({})", "tanh({})"])
def test_cancellation_is_not_an_error(left: str, right: str, around: str) -> None:
    contest = _far_from_zero(around.format(left))
    assert contest.fault_of(contest.candidate(_centred(around.format(right)))) is None


def test_small_error_among_cancelling_elements_is_found() -> None:
    contest = _far_from_zero(SQUARES["differences"])
    fault = contest.fault_of(contest.candidate(_centred(f"{SQUARES['cancelling']} + [j = 7] · 0.01")))
    assert "the element at (7)" in str(fault)


def test_difference_beyond_rounding_is_found() -> None:
    contest = _far_from_zero(SQUARES["differences"])
    right, wrong = (_centred(f"{SQUARES['cancelling']} + [j = 7] · {more}") for more in (0, 1000))
    candidate = contest.candidate(right)
    assert contest.fault_of(candidate) is None
    assert "the element at (7)" in str(contest.fault_of(replace(candidate, run=contest.candidate(wrong).run)))


def test_integers_are_compared_exactly() -> None:
    start = atl.parse("f (x : int64[n]) : int64[n] := ⊞[i < n] 1000000007 * x[i]")
    contest = measure(start, SIZES)
    assert contest.fault_of(contest.candidate(start)) is None
    off = atl.parse("f (x : int64[n]) : int64[n] := ⊞[i < n] 1000000007 * x[i] + ([i = 5] · 1)")
    assert "the element at (5)" in str(contest.fault_of(contest.candidate(off)))


def test_result_extent_may_be_a_quotient() -> None:
    halves = atl.parse("f (x : float32[n]) : float32[n // 2] := ⊞[i < n // 2] Σ[p < 2] x[2*i + p]")
    contest = measure(halves, {"n": 1001})
    assert contest.fault_of(contest.candidate(halves)) is None


def test_inputs_satisfy_their_declarations() -> None:
    n, m = atl.sizes("n m")
    keys = atl.tensor("keys", 3, n, dtype="int64", range=(0, m), monotonic="increasing")
    at = atl.tensor("at", n, dtype="int32", range=(0, m))
    body = atl.gen(n, lambda i: atl.value(keys[0, i]) + atl.value(at[i]))
    program = atl.program("f", [keys, at], body)
    made = random_inputs(program, {"n": 5, "m": 9})
    assert (np.diff(made["keys"]) > 0).all()
    assert made["keys"].min() >= 0
    assert made["keys"].max() < 9
    assert made["at"].dtype == np.int32
    with pytest.raises(ArgumentError, match="no random elements for keys"):
        random_inputs(program, {"n": 5, "m": 4})
    with pytest.raises(ArgumentError, match="no value for the size m"):
        random_inputs(program, {"n": 5})


def test_custom_inputs_are_accepted_and_checked() -> None:
    x = np.zeros(1000, np.float32)
    contest = partial(measure, inputs={"x": x})(TWICE, SIZES)
    assert contest.fault_of(contest.candidate(TWICE)) is None
    with pytest.raises(atl.ATLError):
        measure(TWICE, {"n": 999}, inputs={"x": x})
    with pytest.raises(InvalidArgument, match="sizes="):
        measure(TWICE, {"n": 1.5})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="sizes="):
        measure(TWICE, {"n": -1})


# -- default candidates -----------------------------------------------------------------------------------------------

USUAL: Mapping[str, tuple[Program, dict[str, Any], str]] = {
    "tiles of a sum in registers": (anchors.product(), {"rows": 4, "columns": 16, "swapped": False},
        "let acc | registers := Σ[p < k] ⊞[ii < 4] ⊞[ji < 16] A[4*io + ii, p] * B[p, 16*jo + ji] in"),
    "the same by columns": (
        anchors.product(),
        {"rows": 4, "columns": 16, "swapped": True},
        (
            "⊞[jo < m // 16] transpose truncr (4*⌈n / 4⌉ - n) flatten ((⊞[io < n // 4] let acc | registers := "
            "Σ[p < k] ⊞[ii < 4] ⊞[ji < 16]"
        ),
    ),
    "rows together, with the let that they share":
        (blur.two_stage(), {"rows": 4, "vector": False}, "let buf := ⊞[y < 6] ⊞[i < 1]"),
    "lanes of a single loop": (TWICE, {"lanes": 8}, "⊞[io < n // 8] ⊞[ii < 8 | vector] 2 * x[8*io + ii]"),
    "a loop as it is, in lanes": (TWICE, {"lanes": 0}, "⊞[i < n | vector] 2 * x[i]"),
    "what has no tests": (anchors.transpose(), {"rows": 1, "vector": True}, "⊞[j < m] ⊞[i < n | vector] A[i, j]"),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", USUAL)
def test_default_candidates_fit_the_goal(name: str) -> None:
    program, numbers, expected = USUAL[name]
    schedule, choices = default_schedule(program)
    assert set(choices) == set(numbers)
    s = reschedule(program)
    schedule(s, **numbers)
    assert expected in " ".join(str(s.goal).split())
    assert not s.check().diagnostics


def test_session_is_tuned_by_default_candidates(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 8: 4.0, 16: 2.0, 64: 3.0})
    s = reschedule(TWICE)
    found = s.autotune(SIZES, 60, measure=contest)
    assert [one.parameters for one in found.tried] == [{"lanes": each} for each in (0, 8, 16, 64)]
    assert [call.text for call in s.steps] == ["vectorize((), 16, tails='split')"]


def test_program_without_loops_is_refused_with_a_suggestion() -> None:
    with pytest.raises(InvalidArgument, match="no loop with a default schedule"):
        reschedule(atl.parse("f (x : float32[n]) : float32 := Σ[i < n] x[i]")).autotune(SIZES)
    cut = reschedule(anchors.transpose()).tile(["j", "i"], [64, 8]).tails(strategy="split")
    with pytest.raises(InvalidArgument, match="several loop nests") as refused:
        cut.autotune({"n": 4, "m": 4})
    assert "tune before s.tails()" in str(refused.value)
    with pytest.raises(InvalidArgument, match="or neither"):
        reschedule(TWICE).autotune(SIZES, choices={"by": [8]})


# -- in the benchmark -------------------------------------------------------------------------------------------------


def _by_tiles(by: int) -> Session:
    return reschedule(anchors.transpose()).tile(["j", "i"], [by, by]).tails(strategy="split")


def _doing(*tuned: Tuning) -> Workload:
    pose = posed(np.transpose, lambda size: ((size, size),) * 2)
    return Workload("turning", "a transpose", (64,), pose, (), (), Roofline("copy", moved), max_size=4000, tuned=tuned)


@pytest.mark.long
def test_tuned_schedule_is_benchmarked_and_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    # At this size the winner is random, so every candidate counts as faster.
    monkeypatch.setattr("rewrites.session.tuning.search.compared", lambda *_: (interval([2.0] * 7), 0.5))
    turning = _doing(Tuning(_by_tiles, {"by": (9, 0)}))
    progress: list[str] = []
    first = measured(turning, Case("turning", 64, rounds=1, tune=60), watch=progress.append)
    assert [entry.name for entry in first.entries] == ["_by_tiles(by=9), tuned"]
    assert first.entries[0].derived
    assert any("tuning _by_tiles, by=0: refused" in output for output in progress)
    monkeypatch.undo()
    again = measured(turning, Case("turning", 64, rounds=1), watch=progress.append)
    assert [entry.name for entry in again.entries] == ["_by_tiles(by=9), tuned"]


@pytest.mark.long
def test_benchmark_explains_tuning_if_none_exists() -> None:
    found = measured(_doing(Tuning(_by_tiles, {"by": (5,)})), Case("turning", 65, rounds=1), watch=lambda _: None)
    ((name, why, output),) = [(one.name, one.why, one.detail) for one in found.left_out]
    assert (name, why) == ("_by_tiles, tuned", "absent")
    assert "--tune 60" in output


def test_failed_tuning_fails_the_benchmark() -> None:
    found = measured(_doing(Tuning(_by_tiles, {"by": (0,)})), Case("turning", 64, rounds=1), watch=lambda _: None)
    ((why, output),) = [(one.why, one.detail) for one in found.left_out]
    assert why == "failed"
    assert "a tile of 0 iterations" in output


def test_sparse_goals_are_tuned_with_random_and_with_given_operands(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    n, m = atl.sizes("n m")
    a, x = atl.tensor("A", n, m), atl.tensor("x", m)
    product = atl.program("spmv", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))
    s = reschedule(product).sparsify("A", atl.CSR)
    matrix = sparse.random(40, 30, 0.2, format="csr", dtype=np.float32, random_state=0)
    given = partial(atl.measure, inputs={"A": matrix, "x": np.ones(30, np.float32)})
    for number, (sizes, way) in enumerate((({"n": 40, "m": 30, "A_nnz": 99}, None), ({"n": 40, "m": 30}, given))):
        found = s.branch().autotune(
            sizes, 5, schedule=lambda s, by: s.unroll("i", by), choices={"by": [2, 4]}, measure=way,
            folder=tmp_path / str(number),
        )  # fmt: skip
        assert {one.outcome for one in found.tried} <= {"measured", "same", "noisy", "disturbed"}, found
