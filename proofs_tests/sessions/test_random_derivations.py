"""Random derivations keep programs well-formed and their values; planted faults are found."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from atl.core.terms import Binary
from atl.errors import ATLError
from proofs_tests.inputs.fixtures import shown
from proofs_tests.rules.declarations import function_of, restated
from proofs_tests.sampling import few_and_rest
from proofs_tests.sessions import random_derivations
from proofs_tests.sessions.random_derivations import run, start_of
from proofs_tests.sessions.random_tactics import TACTICS
from rewrites import Session, kernel, rules
from rewrites.rule import Equation


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(8))
def test_random_derivations_keep_values(numbers: range) -> None:
    # Planted faults are found by the second derivation of a seed; this makes four times as many.
    report = run(numbers, 11)
    print(report)
    assert not report.findings, report.findings[0]
    assert report.compared >= 10 * len(numbers)


@pytest.mark.parametrize(
    "count", [pytest.param(60, marks=pytest.mark.long), pytest.param(len(rules), marks=pytest.mark.slow)]
)
def test_every_rule_is_used(count: int) -> None:
    starts = (start_of(number, Random(number)) for number in range(3 * count // 2 + 3))
    turns = {start.rule.name for start in starts if start.rule is not None}
    assert turns >= set(list(rules)[:count])


@pytest.mark.parametrize("name", TACTICS)
def test_every_tactic_succeeds_with_random_arguments(name: str) -> None:
    s, random = shown(name), Random(name)
    assert any(changes(s, name, random) for _ in range(60))


def changes(s: Session, name: str, random: Random) -> bool:
    try:
        made = TACTICS[name](s.branch(), random)
    except ATLError:
        return False
    return made is not None and str(made.goal) != str(s.goal)


def test_false_rule_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a false rule: the operands of an addition are equal."""
    add = rules["add_comm"]

    def wrong(**arguments: object) -> Equation:
        stated = function_of(add)(**arguments)
        assert isinstance(stated.rhs, Binary)
        return replace(stated, rhs=Binary("add", stated.rhs.left, stated.rhs.left))

    planted = {"wrong": restated(add, wrong, "wrong")}
    monkeypatch.setattr(random_derivations, "rules", planted)
    monkeypatch.setattr(kernel, "RULES", planted)  # the kernel uses only these rules
    assert any(run([number], 7).findings for number in range(6))


@pytest.mark.long
def test_incomplete_undo_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant an undo of one call too few."""
    undo = Session.undo
    monkeypatch.setattr(Session, "undo", lambda self, count=1: undo(self, max(0, count - 1)))
    assert any(run([number], 7).findings for number in range(6))


@pytest.mark.long
def test_derivations_in_steps_of_recurrences_keep_the_values() -> None:
    report = run([8, 99, *range(200, 204)], 31, inside=True)
    assert report.findings == []
    assert report.steps > 20
