"""Autotuning: choice of the candidate, report, refusals."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import atl
from atl import load
from atl.errors import InvalidArgument, OutOfMemory
from lowering import measure
from proofs_tests.search.by_hand import SIZES, TWICE, ByHand, tiled, tuned
from rewrites import Session, autotune, reschedule
from rewrites.session.tuning.measuring import interval

__all__ = ["TWICE", "ByHand"]


def test_fastest_candidate_is_chosen_with_its_theorem(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 2.5})
    found = tuned(contest)
    assert found.stopped == "exhausted"
    assert found.best is not None
    assert found.best.parameters == {"by": 4}
    assert [(one.parameters["by"], one.speed and one.speed.middle) for one in found.tried] == [
        (2, 2.0),
        (4, 4.0),
        (8, 3.2),
    ]
    assert found.theorem is not None
    assert found.theorem.lhs == TWICE
    assert found.theorem.rhs == tiled(4).goal
    # Each candidate alternates with the best so far, not with the start, which is run once.
    assert contest.raced == ["2 against 2", "4 against 2", "8 against 4"]
    assert contest.events.count("run start") == 1
    assert (found.baseline, found.start_ms, found.start_note) == ("start", 8.0, "")


def test_best_theorem_is_saved_and_replayed(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 16.0}))
    assert found.theorem is not None
    found.theorem.save(tmp_path / "best.atl.json")
    assert load(tmp_path / "best.atl.json").rhs == found.theorem.rhs


def test_start_stays_if_nothing_is_faster(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 1.0, 2: 4.0, 4: 1.0, 8: 0.995}))
    assert found.best is None
    assert found.session is None
    assert found.theorem is None
    assert "*   1.00" in str(found)


def test_candidate_equal_to_the_start_ranks_below_it(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (1, 2))
    assert found.tried[0].ms == found.start_ms
    assert [line.split("  ")[-2:] for line in str(found).split("\n")[2:]] == [
        [" 4.000", "by=2"],
        [" 8.000", "by=1 (same code as the start)"],
        [" 8.000", "start"],
    ]


def test_gain_within_noise_is_not_chosen(tmp_path: Path) -> None:
    noise = (0.8, 1.3, 0.9, 1.2, 0.7, 1.25, 0.85)
    contest = ByHand(tmp_path, {1: 3.0, 2: 1.0, 4: 0.97}, noise)
    found = tuned(contest, (2, 4))
    assert found.best is not None
    assert found.best.parameters == {"by": 2}
    assert found.tried[1].speed is not None
    assert found.tried[1].speed.low < 3 < found.tried[1].speed.middle
    # If seven rounds are not enough, more follow.
    assert contest.events.count("4 against 2") == 6


def test_first_of_equally_fast_candidates_stays(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 2.0, 2: 1.0, 4: 1.0, 8: 0.999}))
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

    def in_tiles(s: Session, by: int) -> None:
        s.tile("i", by)

    found = s.autotune(SIZES, measure=contest, schedule=in_tiles, choices={"by": [2, 4, 8]})
    assert found.session is not None
    assert s.goal == found.session.goal == tiled(4).goal
    assert [call.text for call in s.steps] == ["tile('i', 4)"]
    assert s.undo().goal == TWICE


# -- report -----------------------------------------------------------------------------------------------------------


def test_refused_candidates_are_listed_with_reasons(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (0, 2))
    refused = found.tried[0]
    assert (refused.outcome, refused.note) == ("refused", "a tile of 0 iterations [ATL102]")
    assert refused.error is not None
    assert "refused  by=0: a tile of 0 iterations [ATL102]" in str(found)
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_wrong_result_is_reported_and_not_timed(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 0.1})
    contest.wrong = {4}
    found = tuned(contest, (2, 4))
    assert [one.outcome for one in found.tried] == ["measured", "wrong"]
    assert "wrong    by=4: the element at (0) is 7" in str(found)
    assert "4 against 2" not in contest.raced


def test_equal_machine_code_is_measured_once(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    found = autotune(lambda by, _again: tiled(by), {"by": [1, 2], "_again": [0, 1]}, SIZES, measure=contest)
    assert sorted(one.outcome for one in found.tried) == ["measured", "same", "same", "same"]
    assert contest.raced == ["1 against 1", "2 against 1"]
    assert found.best is not None
    assert found.best.outcome == "measured"


def test_progress_callback_receives_every_candidate(tmp_path: Path) -> None:
    progress: list[str] = []
    tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (0, 2), watch=lambda one: progress.append(str(one)))
    assert progress == [
        "by=0: refused: a tile of 0 iterations [ATL102]",
        "by=2: 2.00 [2.00-2.00] times as fast, 4.000 ms",
    ]


def test_picture_has_a_bar_for_each_time(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 8.0, 2: 7.0, 4: 10.0}), (2, 4, 0))
    found.picture(tmp_path / "tuned.svg")
    text = (tmp_path / "tuned.svg").read_text(encoding="utf-8")
    assert text.count("<rect") == 3
    assert text.index("by=2<") < text.index("start<") < text.index("by=4<") < text.index("by=0: refused<")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        found.picture(tmp_path / "no folder" / "tuned.svg")


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
        ({"budget": float("inf")}, "budget=inf"),
        ({"schedule": 8}, "schedule=8"),
        ({"watch": 8}, "watch=8"),
        ({"start": 8}, "start=8"),
        ({"folder": 8}, "folder=8"),
        ({"schedule": lambda by: by}, "the schedule returns 2 for by=2"),
        ({"measure": lambda *_: 8}, "measure returned 8"),
    ],
)
def test_arguments_are_checked_first(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"schedule": tiled, "choices": {"by": [2]}, "budget": 1, **change}
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    with pytest.raises(InvalidArgument) as refused:
        autotune(options.pop("schedule"), options.pop("choices"), SIZES, **{"measure": contest, **options})
    assert message in str(refused.value)


def test_choices_must_be_schedule_parameters(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    with pytest.raises(InvalidArgument, match="does not take rows"):
        autotune(tiled, {"rows": [2]}, SIZES, 1, measure=contest)
    with pytest.raises(InvalidArgument, match="does not take by"):
        tiled(2).autotune(SIZES, 1, measure=lambda *_: contest, schedule=lambda s: s, choices={"by": [2]})


def test_schedule_of_another_program_is_refused_and_listed(tmp_path: Path) -> None:
    other = atl.parse("other (x : float32[n]) : float32[n] := ⊞[i < n] x[i]")
    nothing: Any = None
    made: Mapping[int, Any] = {2: tiled(2), 3: reschedule(other), 0: nothing}
    found = autotune(lambda by: made[by], {"by": [2, 3, 0]}, SIZES, measure=ByHand(tmp_path, {1: 8.0, 2: 4.0}))
    assert [one.outcome for one in found.tried] == ["measured", "refused", "refused"]
    assert "a session that starts from twice" in str(found.tried[1].error)
    assert "the schedule returns None for by=0" in str(found.tried[2].error)


@pytest.mark.parametrize("size", [2**46, 2**61, 2**63 - 1])
def test_huge_sizes_are_refused(size: int) -> None:
    twice = atl.parse("twice (x : float32[n, n]) : float32[n, n] := ⊞[i < n] ⊞[j < n] 2 * x[i, j]")
    with pytest.raises(OutOfMemory, match="out of memory for random elements of x"):
        reschedule(twice).autotune({"n": size}, 1, schedule=lambda s: s, choices={})


def test_sizes_must_be_those_of_the_program() -> None:
    with pytest.raises(InvalidArgument, match="twice has no size m") as refused:
        measure(TWICE, {"n": 10, "m": 3})
    assert "values for the sizes n" in str(refused.value)


def test_error_in_the_schedule_is_not_a_refusal(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError):
        autotune(lambda by: tiled(8 // by), {"by": [2, 0]}, SIZES, measure=ByHand(tmp_path, {1: 8.0, 4: 4.0}))


def test_session_without_a_schedule_refers_to_the_recipes() -> None:
    for given in ({}, {"choices": {"by": [8]}}, {"schedule": lambda s: s}):
        with pytest.raises(InvalidArgument, match="choices for the parameters") as refused:
            reschedule(TWICE).autotune(SIZES, **given)
        assert f"s.optimize({dict(SIZES)}, seconds=30)" in str(refused.value)


def test_choice_that_loses_is_not_tried_again(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 50.0, 2: 10.0, 4: 9.0, 16: 30.0, 32: 30.0})
    found = autotune(
        lambda by, fast: tiled(by if fast else 8 * by), {"by": (2, 4), "fast": (True, False)}, SIZES, measure=contest
    )
    assert found.best is not None
    assert found.best.parameters == {"by": 4, "fast": True}
    assert [one.parameters["fast"] for one in found.tried].count(False) == 1
    assert (found.stopped, found.untried) == ("exhausted", ())
