"""Schedules as data: saved, listed and applied to other programs, or refused with the first call that does not fit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from examples import everyday
from proofs_tests.sessions.session_programs import assert_agrees, matmul
from rewrites import DoesNotApply, Schedule, reschedule

SCORES = atl.parse(
    "scores (Q : float32[n, k], K : float32[m, k]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k] Q[i, p] * K[j, p]"
)
TOTALS = atl.parse("totals (x : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] x[i, j]")


def tiled() -> Any:
    s = reschedule(matmul()).tile(["i", "j"], [4, 8]).accumulate("p", name="acc")
    return s.tails().mark("acc", "registers").rw("mul_comm", all=True)


def test_schedule_lists_its_calls() -> None:
    assert str(tiled().schedule()).splitlines() == [
        "  0  tile(['i', 'j'], [4, 8])",
        "  1  accumulate('p', name='acc')",
        "  2  tails()",
        "  3  mark('acc', 'registers')",
        "  4  rw('mul_comm', all=True)",
    ]


@pytest.mark.long
def test_schedule_from_a_file_fits_a_program_it_was_not_derived_for(tmp_path: Path) -> None:
    tiled().schedule().save(tmp_path / "tiled.json")
    loaded = Schedule.load(tmp_path / "tiled.json")
    assert loaded == tiled().schedule()
    s = loaded.apply(reschedule(SCORES))
    assert [call.text for call in s.steps] == [call.text for call in tiled().steps]
    q, k = (np.random.default_rng(at).integers(-4, 5, (9, 7)).astype(np.float32) for at in (0, 1))
    np.testing.assert_array_equal(s.compile()(q, k), q @ k.T)
    assert s.done().lhs == SCORES


@pytest.mark.long
def test_schedules_of_examples_derive_the_same_goal(tmp_path: Path) -> None:
    for make in (everyday.softmax_by_rows, everyday.product_packed):
        s = make()
        s.schedule().save(tmp_path / "schedule.json")
        again = Schedule.load(tmp_path / "schedule.json").apply(reschedule(s.theorem.lhs))
        assert str(again.goal) == str(s.goal)


def test_first_call_that_does_not_fit_is_named_and_the_session_unchanged() -> None:
    s = reschedule(TOTALS)
    with pytest.raises(
        DoesNotApply, match=r"call 1 of the schedule, accumulate\('p', name='acc'\), does not fit totals"
    ):
        tiled().schedule().apply(s)
    later = reschedule(matmul()).tile("i", 4).interchange("ii").interchange("ii").schedule()
    with pytest.raises(
        DoesNotApply, match=r"call 2 of the schedule, interchange\('ii'\), does not fit totals: "
    ) as refused:
        later.apply(s)
    assert refused.value.__cause__ is not None
    assert not s.steps
    assert s.goal == TOTALS


def test_schedule_continues_a_session() -> None:
    s = reschedule(TOTALS).tile("i", 8)
    Schedule(reschedule(TOTALS).interchange("i").schedule().calls[:0]).apply(s)
    assert len(s.steps) == 1
    reschedule(TOTALS).tile("j", 4).schedule().apply(s)
    assert [call.text for call in s.steps] == ["tile('i', 8)", "tile('j', 4)"]
    assert_agrees(s)


def test_paths_and_handles_become_names() -> None:
    s = reschedule(matmul())
    by_handle = s.tile(s.find("j"), 4).tile((0, 0, 0), 8)
    schedule = by_handle.schedule()
    assert [each.arguments for each in schedule.calls] == [("j", 4), ("i", 8)] or all(
        isinstance(each.arguments[0], str) for each in schedule.calls
    )
    assert schedule.apply(reschedule(matmul())).goal == by_handle.goal


def test_symbolic_arguments_are_stored_as_text() -> None:
    by = atl.sizes("C")
    s = reschedule(TOTALS, given=[by >= 1]).tile("i", 2 * by)
    assert s.schedule().calls[0].arguments == ("i", "2 * C")
    assert s.schedule().apply(reschedule(TOTALS, given=[by >= 1])).goal == s.goal


def test_calls_that_are_no_data_are_refused() -> None:
    def twice(s: Any) -> None:
        s.tile("i", 2)

    cases = [
        (reschedule(TOTALS).apply(twice), r"call 0, twice\(\), cannot be stored in a schedule: it is not a method"),
        (reschedule(matmul()).sparsify("A", atl.CSR), "call 0, sparsify"),
        (reschedule(matmul()).store("A", atl.column_major), "is not a literal|not a method"),
    ]
    for s, message in cases:
        with pytest.raises(InvalidArgument, match=message):
            s.schedule()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"schedule": "atl", "version": 2, "calls": []}',
        '{"schedule": "atl", "version": 1, "calls": {}}',
        '{"schedule": "atl", "version": 1, "calls": [["exec", {"tuple": []}, {"options": {}}]]}',
        '{"schedule": "atl", "version": 1, "calls": [["do", {"tuple": []}, {"options": {}}]]}',
        '{"schedule": "atl", "version": 1, "calls": [["tile", ["i", 8], {"options": {}}]]}',
        '{"schedule": "atl", "version": 1, "calls": [["tile", {"tuple": [{"other": 1}]}, {"options": {}}]]}',
        '{"schedule": "atl", "version": 1, "calls": [[["tile"], {"tuple": []}, {"options": {}}]]}',
        "[" * 5000,
    ],
)
def test_other_files_are_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidArgument):
        Schedule.load(file)


def test_file_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="cannot be written: No such file or directory"):
        reschedule(TOTALS).schedule().save(tmp_path / "missing" / "tiles.json")
    with pytest.raises(InvalidArgument, match="cannot be written"):
        reschedule(TOTALS).schedule().save(3)  # type: ignore[arg-type]


def test_wrong_arguments_in_a_file_are_refused_by_the_method(tmp_path: Path) -> None:
    file = tmp_path / "schedule.json"
    calls = [["tile", {"tuple": ["i", -3]}, {"options": {"inside": 1}}]]
    file.write_text(json.dumps({"schedule": "atl", "version": 1, "calls": calls}), encoding="utf-8")
    with pytest.raises(DoesNotApply, match="call 0 of the schedule"):
        Schedule.load(file).apply(reschedule(TOTALS))
    with pytest.raises(InvalidArgument, match="a session"):
        Schedule.load(file).apply(TOTALS)  # type: ignore[type-var]


def test_schedule_of_other_values_is_refused() -> None:
    others: tuple[Any, ...] = (None, [], ("tile",))
    for calls in others:
        with pytest.raises(InvalidArgument, match="Schedule"):
            Schedule(calls)
