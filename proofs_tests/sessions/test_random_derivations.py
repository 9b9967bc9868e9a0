"""Random derivations keep every program well-formed and its values; the long run is `random_derivations`."""

from __future__ import annotations

import doctest
from dataclasses import replace
from random import Random
from typing import Any

import pytest

import atl
from atl.core.terms import Binary
from atl.errors import ATLError
from proofs_tests.rules.declarations import function_of, restated
from proofs_tests.sampling import few_and_rest
from proofs_tests.sessions import random_derivations
from proofs_tests.sessions.random_derivations import run, start_of
from proofs_tests.sessions.random_tactics import TACTICS
from rewrites import Session, kernel, reschedule, rules
from rewrites.rule import Equation
from rewrites.tactics import TACTICS as TACTICS_BY_NAME


@pytest.mark.parametrize("numbers", few_and_rest(8))
def test_every_program_of_a_random_derivation_computes_what_the_start_does(numbers: range) -> None:
    """Each planted fault below is found by the second derivation of a seed: four times as many are made."""
    report = run(numbers, 7)
    print(report)
    assert not report.failures, report.failures[0]
    assert report.compared >= 12 * len(numbers)


@pytest.mark.parametrize(
    "count", [pytest.param(60, marks=pytest.mark.long), pytest.param(len(rules), marks=pytest.mark.slow)]
)
def test_every_rule_has_its_turn(count: int) -> None:
    """Two of three derivations start from an instance of the next rule."""
    starts = (start_of(number, Random(number)) for number in range(3 * count // 2 + 3))
    turns = {start.rule.name for start in starts if start.rule is not None}
    assert turns >= set(list(rules)[:count])


@pytest.mark.parametrize("name", TACTICS)
def test_every_tactic_succeeds_with_some_random_arguments(name: str) -> None:
    s, random = before_the_example(name), Random(name)
    assert any(changes(s, name, random) for _ in range(60))


def before_the_example(name: str) -> Session:
    """The session of the docstring's example, before its last call of the tactic."""
    examples = doctest.DocTestParser().get_examples(TACTICS_BY_NAME[name].__doc__ or "")
    last = max(at for at, example in enumerate(examples) if f".{name}(" in example.source)
    values: dict[str, Any] = {"atl": atl, "reschedule": reschedule}
    for example in examples[:last]:
        exec(example.source, values)
    made: Session = values["s"]
    return made


def changes(s: Session, name: str, random: Random) -> bool:
    try:
        made = TACTICS[name](s.branch(), random)
    except ATLError:
        return False
    return made is not None and str(made.goal) != str(s.goal)


def test_a_false_rule_is_found_by_a_random_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: an addition whose operands are said to be equal."""
    add = rules["add_comm"]

    def wrong(**arguments: object) -> Equation:
        stated = function_of(add)(**arguments)
        assert isinstance(stated.rhs, Binary)
        return replace(stated, rhs=Binary("add", stated.rhs.left, stated.rhs.left))

    planted = {"wrong": restated(add, wrong, "wrong")}
    monkeypatch.setattr(random_derivations, "rules", planted)
    monkeypatch.setattr(kernel, "RULES", planted)  # which takes no rule from elsewhere
    assert any(run([number], 7).failures for number in range(6))


@pytest.mark.long
def test_an_undo_that_forgets_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: undo takes back one call less than it is asked to."""
    undo = Session.undo
    monkeypatch.setattr(Session, "undo", lambda self, count=1: undo(self, max(0, count - 1)))
    assert any(run([number], 7).failures for number in range(6))
