"""The attacks on the prover find nothing, and find faults that are put into it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, product
from typing import Any, Final

import pytest

from atl.cli import main as command
from atl.core.index import Monotonicity
from atl.core.predicate import less
from atl.prove import Answer, Refuted, forget, prove, prover, statistics
from atl.prove.bits import Value
from atl.prove.bounds import _Elimination
from atl.prove.cases import split_remainders
from atl.prove.ends import _Ends
from proofs_tests.attacks import prover_fuzz
from proofs_tests.attacks.planting import plant
from proofs_tests.attacks.prover_fuzz import blind, main, run_prover
from proofs_tests.attacks.questions import filled_in, given, m, n
from proofs_tests.sampling import few_and_rest

ENOUGH: Final = 1_500
ORDERS: Final[tuple[Monotonicity, ...]] = ("", "nondecreasing", "increasing")
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
        "atl.prove.prover.realisable", lambda arrays, model: True
    ),
    "a memo that forgets what was known": lambda patch: patch.setattr(prover, "_memo", _ByTheGoal()),
}


HIDDEN: dict[str, tuple[int, Callable[[Patch], None]]] = {
    "a remainder that no case is asked about": (
        5, lambda patch: patch.setattr(prover, "split_remainders", lambda *asked: split_remainders(*asked)[:-1])
    ),
    "bits that count only upwards": (5, lambda patch: plant(patch, Value, "least", "min(weight, 0)", "0")),
    "a variable at its ends that counts as a size": (
        9, lambda patch: plant(patch, _Ends, "_is_non_negative", "isinstance(atom, Size)", "True")
    ),
}  # fmt: skip
"""Faults of layers that are asked after the search for counterexamples, and a seed that soon meets each."""


@pytest.mark.long
@pytest.mark.parametrize("what", HIDDEN)
def test_a_fault_behind_the_search_is_found_blind(what: str, monkeypatch: Patch) -> None:
    seed, put = HIDDEN[what]
    put(monkeypatch)
    report = run_prover(range(ENOUGH), seed, first=True)
    assert ", asked blind: " in report.findings[0], "with the search nothing was found until then"


@pytest.mark.long
@pytest.mark.parametrize("what", PLANTED)
def test_a_fault_of_the_prover_is_found(what: str, monkeypatch: Patch) -> None:
    PLANTED[what](monkeypatch)
    report = run_prover(range(ENOUGH), 1, first=True)
    print(report.tried, report.findings[:1])
    assert report.findings


def test_a_row_is_filled_in_exactly_where_there_is_one() -> None:
    """The judge is judged: against all rows of up to three elements from -1 to 3."""
    numbers = range(-1, 4)
    for extent, monotonic in product(range(1, 4), ORDERS):
        every = [
            row
            for row in product(numbers, repeat=extent)
            if monotonic == ""
            or all(before < after + (monotonic == "nondecreasing") for before, after in pairwise(row))
        ]
        for known in ({}, *({at: value} for at in range(extent) for value in numbers), {0: 0, extent - 1: 2}):
            for low, high in product((-1, 0, 2), (1, 2, 4)):
                within = [row for row in every if all(low <= value < high for value in row)]
                there = any(all(row[at] == value for at, value in known.items()) for row in within)
                made = filled_in(known, extent, low, high, monotonic=monotonic)
                assert (made is not None) == there, (known, extent, low, high, monotonic)
                assert made is None or tuple(made) in within


@pytest.mark.parametrize(("low", "high"), [(None, 0), (3, None), (None, None)])
def test_a_row_without_a_bound_has_room_on_that_side(low: int | None, high: int | None) -> None:
    for known in ({}, {2: -9 if low is None else 9}):
        assert filled_in(known, 4, low, high, monotonic="increasing") is not None


@pytest.mark.parametrize("numbers", few_and_rest(150))
def test_short_run_finds_nothing(numbers: range) -> None:
    report = run_prover(numbers, 5)
    assert report.findings == []
    assert report.ended == f"all {len(numbers)} are done"
    assert report.blind.total() == report.answers.total()
    if not numbers.start:
        return  # too few for what is counted below
    assert sum(count for name, count in report.answers.items() if name.startswith("proved")) > len(numbers) / 6
    assert report.answers["refuted"] > len(numbers) / 6
    assert report.answers["bounded"] > len(numbers) / 30
    assert report.blind["proved by z3"] >= report.answers["proved by z3"]


def test_a_blind_question_is_not_refuted_by_the_search() -> None:
    before = statistics.snapshot()
    with blind():
        prove(given(), less(n, m))
    assert statistics.since(before).search == 0
    assert isinstance(prove(given(), less(n, m)), Refuted)
    assert statistics.since(before).search == 1


@pytest.mark.long
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
