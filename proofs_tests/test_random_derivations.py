"""Random derivations keep every program well-formed and its values; the long run is `random_derivations`."""

from __future__ import annotations

from dataclasses import replace

import pytest

from atl.terms import Binary
from proofs_tests import random_derivations
from proofs_tests.random_derivations import Report, derive
from rewrites import rules
from rewrites.rule import Equation


def test_every_program_of_a_random_derivation_computes_what_the_start_does() -> None:
    report = Report()
    for number in range(12):
        derive(number, 7, report)
    print(report)
    assert not report.failures
    assert report.compared >= 80


def test_a_false_rule_is_found_by_a_random_derivation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: an addition whose operands are said to be equal."""
    add = rules["add_comm"]

    def wrong(**arguments: object) -> Equation:
        stated = add.states(**arguments)
        assert isinstance(stated.rhs, Binary)
        return replace(stated, rhs=Binary("add", stated.rhs.left, stated.rhs.left))

    monkeypatch.setattr(random_derivations, "rules", {"wrong": replace(add, name="wrong", states=wrong)})
    report = Report()
    for number in range(12):
        derive(number, 7, report)
    assert report.failures
