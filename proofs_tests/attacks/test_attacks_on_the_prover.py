"""The attacks on the prover find nothing, and find faults that are put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import pytest

from atl.cli import main as command
from atl.core.predicate import Predicate
from atl.prove import Answer, Facts, forget, prove
from atl.prove.bounds import _Elimination
from proofs_tests.attacks import prover_fuzz
from proofs_tests.attacks.planting import plant
from proofs_tests.attacks.prover_fuzz import main, run_prover

ENOUGH: Final = 1_500
"""Within so many questions each planted fault is found."""

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What is answered with a fault is believed by no other test."""
    yield
    forget()


def _forgetful() -> Callable[[Facts, Predicate], Answer]:
    """Answers that are remembered by the goal alone."""
    known: dict[Predicate, Answer] = {}
    return lambda facts, goal: known.setdefault(goal, prove(facts, goal))


PLANTED: dict[str, Callable[[Patch], None]] = {
    "a bound over a quotient by zero": lambda patch: plant(
        patch, _Elimination, "_positive", "divisor.constant > 0 if divisor.constant is not None else ", ""
    ),
    "numbers that no array can hold": lambda patch: patch.setattr(
        "atl.prove.prover.lawful", lambda arrays, model: True
    ),
    "a memo that forgets what was known": lambda patch: patch.setattr(prover_fuzz, "prove", _forgetful()),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_fault_of_the_prover_is_found(what: str, monkeypatch: Patch) -> None:
    PLANTED[what](monkeypatch)
    report = run_prover(range(ENOUGH), 1, first=True)
    print(report.asked, report.findings[:1])
    assert report.findings


def test_a_short_run_finds_nothing() -> None:
    report = run_prover(range(300), 5)
    assert report.findings == []
    assert report.stopped == "all 300 are asked"
    assert sum(count for name, count in report.answers.items() if name.startswith("proved")) > 50
    assert report.answers["refuted"] > 50
    assert report.answers["bounded"] > 25


def test_the_command_prints_how_questions_were_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--n", "40", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 3: 40 questions in ")
    assert "all 40 are asked" in said
    assert said.endswith("0 findings\n")


def test_a_run_that_is_interrupted_says_so(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopping(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(prover_fuzz, "prove", stopping)
    assert main(["--n", "50"]) == 130
    assert "interrupted by Ctrl-C after" in capsys.readouterr().out


@pytest.mark.parametrize("what", ["kernel", "prover"])
def test_the_attacks_are_commands(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["fuzz", what, "--n", "4", "--seed", "2"]) == 0
    assert capsys.readouterr().out.startswith("seed 2: 4 ")
