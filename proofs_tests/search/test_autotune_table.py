"""Autotuning: why it ends, stored times, and the order of candidates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import atl
from atl.errors import InvalidArgument
from proofs_tests.search.by_hand import SIZES, TWICE, ByHand, tiled, tuned
from rewrites import autotune
from rewrites.session.tuning.space import candidates, next_of
from rewrites.session.tuning.table import best_known


def test_untried_candidates_are_listed_at_timeout(tmp_path: Path) -> None:
    found = tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), budget=0)
    assert (found.stopped, found.tried, len(found.untried)) == ("budget", (), 3)
    assert "3 not tried" in str(found)


def test_terminal_shows_progress_and_why_the_search_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0}), (2, 4))
    shown = capsys.readouterr().err
    assert "1 of 2, 0 of 60 s: measuring by=4; best: by=2, 2.00 x" in shown
    assert shown.endswith("2 of 2 candidates in 0 s: all candidates were tried; best: by=4, 4.00 x\n")
    tuned(ByHand(tmp_path / "other", {1: 8.0, 2: 4.0}), (2, 8), budget=0)
    assert capsys.readouterr().err.endswith("0 of 2 candidates in 0 s: the time is up\n")


def test_interrupt_keeps_the_best_so_far(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0})
    contest.interrupt_at = 4
    found = tuned(contest)
    assert (found.stopped, [one["by"] for one in found.untried]) == ("interrupted", [4, 8])
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_second_run_reuses_results_of_the_first(tmp_path: Path) -> None:
    times = {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}
    tuned(ByHand(tmp_path, times), (2, 4))
    again = ByHand(tmp_path, times, predicted_ms=1e6)
    found = tuned(again)
    assert [(one.parameters["by"], one.outcome) for one in found.tried] == [
        (4, "remembered"),
        (2, "remembered"),
        (8, "measured"),
    ]
    # Results are judged by the best of the table.
    assert [each for each in again.events if "8" in each or "start" in each or "judge" in each] == [
        "judge 4",
        "run 8",
        "8 against 4",
        "8 against 4",
    ]
    assert found.best is not None
    assert found.best.speed is not None
    assert found.best.speed.middle == 8.0
    # With no time left, the stored result is derived and proved again.
    short = tuned(ByHand(tmp_path, times), budget=0)
    assert short.best is not None
    assert short.best.parameters == {"by": 8}
    assert short.theorem is not None


def test_stored_times_apply_to_one_machine_and_size(tmp_path: Path) -> None:
    times = {1: 8.0, 2: 4.0}
    first = tuned(ByHand(tmp_path, times), (2,))
    other = ByHand(tmp_path, times)
    other.conditions = {"machine": "another"}
    assert tuned(other, (2,)).tried[0].outcome == "measured"
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
        assert tuned(ByHand(tmp_path, times), (2,)).tried[0].outcome == "measured"


def test_unwritable_table_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.warns(RuntimeWarning, match="cannot be written"):
        found = tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0}), (2,), folder=tmp_path / "file")
    assert found.best is not None


def test_unknown_code_of_a_stored_best_begins_a_new_table(tmp_path: Path) -> None:
    tuned(ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0}), (2, 4))
    found = autotune(lambda by: tiled({4: 8, 2: 16}[by]), {"by": [2, 4]}, SIZES,
                     measure=ByHand(tmp_path, {1: 8.0, 8: 7.0, 16: 1.0}))  # fmt: skip
    assert [(one.parameters["by"], one.outcome) for one in found.tried] == [(4, "measured"), (2, "measured")]
    assert found.best is not None
    assert found.best.parameters == {"by": 2}


def test_fastest_parameters_are_found_by_program_and_size_class(tmp_path: Path) -> None:
    measured_here = atl.measure(TWICE, SIZES).conditions
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0})
    contest.conditions = measured_here
    tuned(contest, (2, 4))
    assert best_known(TWICE, SIZES, folder=tmp_path) == {"by": 4}
    assert best_known(TWICE, folder=tmp_path) == {"by": 4}
    assert best_known(TWICE, {"n": 900}, folder=tmp_path) == {"by": 4}
    assert best_known(TWICE, {"n": 2000}, folder=tmp_path) is None
    assert best_known(TWICE, fast_math=True, folder=tmp_path) is None
    assert best_known(TWICE, folder=tmp_path / "none") is None
    # Names of loops make no difference, but the program does.
    renamed = atl.parse("twice (x : float32[n]) : float32[n] := ⊞[k < n] 2 * x[k]")
    assert best_known(renamed, folder=tmp_path) == {"by": 4}
    assert best_known(atl.parse("twice (x : float32[n]) : float32[n] := ⊞[k < n] 3 * x[k]"), folder=tmp_path) is None
    # The parameters of another schedule are not returned for these choices.
    assert best_known(TWICE, choices={"by": [2, 4]}, folder=tmp_path) == {"by": 4}
    assert best_known(TWICE, choices={"by": [2]}, folder=tmp_path) == {"by": 2}
    assert best_known(TWICE, choices={"rows": [2, 4]}, folder=tmp_path) is None
    # Measured parameters that are not among the choices, such as streamed stores, do not hide the others.
    assert best_known(TWICE, choices={}, folder=tmp_path) == {"by": 4}
    with pytest.raises(InvalidArgument, match="sizes="):
        best_known(TWICE, {"n": 1.5}, folder=tmp_path)  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument):
        best_known(8, folder=tmp_path)  # type: ignore[arg-type]


def test_candidates_near_the_best_come_first() -> None:
    choices: Mapping[str, Sequence[Any]] = {"rows": [1, 2, 4], "columns": [8, 16]}
    untried = candidates(choices)
    assert untried[:2] == [{"rows": 1, "columns": 8}, {"rows": 1, "columns": 16}]
    assert next_of(choices, untried, None) == untried[0]
    assert next_of(choices, [{"rows": 1, "columns": 16}, {"rows": 4, "columns": 8}], {"rows": 2, "columns": 8}) == {
        "rows": 4,
        "columns": 8,
    }


def test_search_moves_in_two_parameters_at_once(tmp_path: Path) -> None:
    """Neither fewer rows nor fewer columns alone is faster than 8 x 32, but both together are."""
    choices: Mapping[str, Sequence[Any]] = {
        "rows": [8, 2, 4, 6, 12, 14],
        "columns": [32, 16, 48, 64],
        "order": ["ij", "ji"],
    }
    tried: list[dict[str, Any]] = []
    best = {"rows": 8, "columns": 32, "order": "ij"}
    untried = [each for each in candidates(choices) if each != best]
    while untried:
        tried.append(next_of(choices, untried, best))
        untried.remove(tried[-1])
    assert {"rows": 6, "columns": 16, "order": "ij"} in tried[:18]
    assert tried[:4] == [
        {"rows": 8, "columns": 32, "order": "ji"},
        {"rows": 8, "columns": 16, "order": "ij"},
        {"rows": 8, "columns": 48, "order": "ij"},
        {"rows": 6, "columns": 32, "order": "ij"},
    ]
    assert tried[-1]["rows"] == 2
