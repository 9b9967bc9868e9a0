"""The attacks on the prover find nothing, and find faults that are put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, Final

import pytest

from atl.core.index import Rises
from atl.prove import Answer, forget, prover
from atl.prove.bounds import _Elimination
from commands import main as command
from proofs_tests.attacks import prover_fuzz
from proofs_tests.attacks.planting import plant
from proofs_tests.attacks.prover_fuzz import main, run_prover
from proofs_tests.attacks.questions import filled_in

ENOUGH: Final = 1_500
ORDERS: Final[tuple[Rises, ...]] = ("", "rising", "strict")
"""Within so many questions each planted fault is found."""

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _nothing_is_remembered() -> Iterator[None]:
    """What is answered with a fault is believed by no other test."""
    yield
    forget()


class _ByTheGoal(dict[prover.Key, Answer]):
    """A memo in which the goal alone is looked for."""

    def get(self, key: prover.Key, default: Any = None) -> Any:
        return next((answer for other, answer in self.items() if other[1] == key[1]), default)


PLANTED: dict[str, Callable[[Patch], None]] = {
    "a bound over a quotient by zero": lambda patch: plant(
        patch, _Elimination, "_positive", "divisor.constant > 0 if divisor.constant is not None else ", ""
    ),
    "numbers that no array can hold": lambda patch: patch.setattr(
        "atl.prove.prover.lawful", lambda arrays, model: True
    ),
    "a memo that forgets what was known": lambda patch: patch.setattr(prover, "_memo", _ByTheGoal()),
}


@pytest.mark.parametrize("what", PLANTED)
def test_a_fault_of_the_prover_is_found(what: str, monkeypatch: Patch) -> None:
    PLANTED[what](monkeypatch)
    report = run_prover(range(ENOUGH), 1, first=True)
    print(report.tried, report.findings[:1])
    assert report.findings


def test_a_row_is_filled_in_exactly_where_there_is_one() -> None:
    """The judge is judged: against all rows of up to three elements from -1 to 3."""
    numbers = range(-1, 4)
    for extent, rises in product(range(1, 4), ORDERS):
        every = [
            row
            for row in product(numbers, repeat=extent)
            if rises == "" or all(before < after + (rises == "rising") for before, after in pairwise(row))
        ]
        for known in ({}, *({at: value} for at in range(extent) for value in numbers), {0: 0, extent - 1: 2}):
            for low, high in product((-1, 0, 2), (1, 2, 4)):
                within = [row for row in every if all(low <= value < high for value in row)]
                there = any(all(row[at] == value for at, value in known.items()) for row in within)
                made = filled_in(known, extent, low, high, rises=rises)
                assert (made is not None) == there, (known, extent, low, high, rises)
                assert made is None or tuple(made) in within


@pytest.mark.parametrize(("low", "high"), [(None, 0), (3, None), (None, None)])
def test_a_row_without_a_bound_has_room_on_that_side(low: int | None, high: int | None) -> None:
    for known in ({}, {2: -9 if low is None else 9}):
        assert filled_in(known, 4, low, high, rises="strict") is not None


def test_a_short_run_finds_nothing() -> None:
    report = run_prover(range(300), 5)
    assert report.findings == []
    assert report.ended == "all 300 are done"
    assert sum(count for name, count in report.answers.items() if name.startswith("proved")) > 50
    assert report.answers["refuted"] > 50
    assert report.answers["bounded"] > 25


def test_the_command_prints_how_questions_were_answered(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--n", "40", "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("seed 3: 40 questions in ")
    assert "all 40 are done" in said
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
