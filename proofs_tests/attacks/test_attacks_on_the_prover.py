"""Tests of the prover fuzzer, with injected faults."""

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
from atl.prove.steps import _Ends, split_remainders
from proofs_tests.attacks import kernel_fuzz, prover_fuzz
from proofs_tests.attacks.injection import inject
from proofs_tests.attacks.prover_fuzz import main, run_prover, without_search
from proofs_tests.attacks.questions import filled_in, given, m, n
from proofs_tests.sampling import few_and_rest

ENOUGH: Final = 1_500
ORDERS: Final[tuple[Monotonicity, ...]] = ("", "nondecreasing", "increasing")

Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def _clear_memos() -> Iterator[None]:
    """Clear memos that were filled with a fault."""
    yield
    forget()


class _ByTheGoal(dict[prover.Key, Answer]):
    """Memo that looks up the goal without the facts."""

    def get(self, key: prover.Key, default: Any = None) -> Any:
        return next((answer for other, answer in self.items() if other[1] == key[1]), default)


FAULTS: dict[str, Callable[[Patch], None]] = {
    "a bound over a quotient by zero": lambda patch: inject(
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
    "bits that count only upwards": (5, lambda patch: inject(patch, Value, "least", "min(weight, 0)", "0")),
    "a variable at its ends that counts as a size": (
        9, lambda patch: inject(patch, _Ends, "_is_non_negative", "isinstance(atom, ix.Size)", "True")
    ),
}  # fmt: skip
"""Faults of layers behind the search for counterexamples, each with a seed that finds it soon."""


@pytest.mark.long
@pytest.mark.parametrize("what", HIDDEN)
def test_fault_behind_the_search_is_found_without_it(what: str, monkeypatch: Patch) -> None:
    seed, put = HIDDEN[what]
    put(monkeypatch)
    report = run_prover(range(ENOUGH), seed, first=True)
    assert ", without search: " in report.findings[0], "with the search nothing was found until then"


@pytest.mark.long
@pytest.mark.parametrize("what", FAULTS)
def test_injected_prover_fault_is_found(what: str, monkeypatch: Patch) -> None:
    FAULTS[what](monkeypatch)
    report = run_prover(range(ENOUGH), 1, first=True)
    print(report.tried, report.findings[:1])
    assert report.findings


def test_filled_in_finds_a_row_iff_one_exists() -> None:
    """Compare with all rows of up to three elements from -1 to 3."""
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
def test_filled_in_without_a_bound(low: int | None, high: int | None) -> None:
    for known in ({}, {2: -9 if low is None else 9}):
        assert filled_in(known, 4, low, high, monotonic="increasing") is not None


@pytest.mark.parametrize("numbers", few_and_rest(150))
def test_short_run_finds_nothing(numbers: range) -> None:
    report = run_prover(numbers, 5)
    assert report.findings == []
    assert report.ended == f"all {len(numbers)} are done"
    assert report.without_search.total() == report.answers.total()
    if not numbers.start:
        return  # too few queries for the counts below
    assert sum(count for name, count in report.answers.items() if name.startswith("proved")) > len(numbers) / 6
    assert report.answers["refuted"] > len(numbers) / 6
    assert report.answers["bounded"] > len(numbers) / 30
    assert report.without_search["proved by z3"] >= report.answers["proved by z3"]


def test_search_is_disabled_in_the_second_query() -> None:
    before = statistics.snapshot()
    with without_search():
        prove(given(), less(n, m))
    assert statistics.since(before).search == 0
    assert isinstance(prove(given(), less(n, m)), Refuted)
    assert statistics.since(before).search == 1


@pytest.mark.long
@pytest.mark.parametrize(
    ("run", "first", "more"),
    [(kernel_fuzz.main, "30 runs", "never applied in reverse: "), (main, "40 questions", "without search: ")],
)
def test_commands_print_counts(
    run: Callable[[list[str]], int], first: str, more: str, capsys: pytest.CaptureFixture[str]
) -> None:
    count = first.partition(" ")[0]
    assert run(["--n", count, "--seed", "3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith(f"seed 3: {first} in ")
    assert f"all {count} are done" in said
    assert more in said
    assert said.endswith("0 findings\n")


def test_interrupted_run_is_reported(monkeypatch: Patch, capsys: pytest.CaptureFixture[str]) -> None:
    def stopping(*given: Any, **named: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(prover_fuzz, "prove", stopping)
    assert main(["--n", "50"]) == 130
    assert "interrupted by Ctrl-C after" in capsys.readouterr().out


@pytest.mark.parametrize(("what", "count"), [("kernel", 4), ("prover", 4), ("rules", 1)])
def test_fuzzers_are_commands(what: str, count: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert command(["fuzz", what, "--n", str(count), "--seed", "2"]) == 0
    assert capsys.readouterr().out.startswith(f"seed 2: {count} ")
