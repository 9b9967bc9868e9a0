"""Fuzzer of the prover: random queries, with every answer compared with brute force.

Queries are about sizes and indices, products, quotients and remainders, elements of declared arrays, numbers near the
limits of machine integers, contradictory facts, and bounds of expressions over ranges. A proved goal must have no
counterexample among small and some large numbers. The numbers of a refutation must satisfy all facts and declarations,
and break the goal. Any untyped error is a finding.

Each query runs a second time without the search for counterexamples. This search refutes most false goals before the
later layers run, and so hides their faults.

`atl fuzz prover --n 20000 --seed 1` prints the counts of answers.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final
from unittest.mock import patch

from atl.core.index import Index
from atl.core.predicate import Predicate, at_most, expressions
from atl.core.traversal import divisors
from atl.errors import ATLError, TooLarge
from atl.prove import Answer, Facts, Proved, Refuted, Unknown, forget, lower_bound, prove, prover, simplify, upper_bound
from atl.prove.search import Search
from atl.text.printing import show_predicate
from proofs_tests.attacks.questions import Question, breaks, breaks_it, can_be, question, samples
from proofs_tests.fuzzing import Progress, Tally, command, counted, try_all

WHOLE: Final = 10
"""Period of the queries that are checked at all points of the box."""


@contextmanager
def without_search() -> Iterator[None]:
    """Disable the search for counterexamples, and use an empty memo."""
    with patch.object(Search, "sample", lambda search, tries: None), patch.object(prover, "_memo", {}):
        yield


@dataclass(slots=True)
class Report(Tally[str]):
    answers: Counter[str] = field(default_factory=Counter)
    without_search: Counter[str] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)
    points: int = 0

    def __str__(self) -> str:
        lines = [
            self.opening("questions"),
            f"  {counted(dict(sorted(self.answers.items())))}",
            f"  without search: {counted(dict(sorted(self.without_search.items())))}",
            f"  {self.points} points checked for proved goals and bounds",
            f"  {sum(self.discarded.values())} discarded: {counted(dict(self.discarded.most_common()))}",
        ]
        return self.report(lines)


class Run:
    def __init__(self, seed: int) -> None:
        self.report = Report(seed)
        self.number = 0
        self.answers = self.report.answers

    def one(self, number: int) -> None:
        """Answer one query with and without the search for counterexamples, and check the answers."""
        self.number = number
        rng = random.Random(f"prover {self.report.seed} {number}")
        try:
            asked = question(rng)
        except ATLError as error:
            self.report.discarded[type(error).__name__] += 1
            return
        self.answers = self.report.answers
        self._ask(asked, rng)
        self.answers = self.report.without_search
        with without_search():
            self._ask(asked, rng)

    def _ask(self, asked: Question, rng: random.Random) -> None:
        """Query an answer, or both bounds."""
        facts = Facts().assume(*asked.facts)
        try:
            if asked.bounded is None:
                self._answered(asked, prove(facts, asked.goal), rng)
            else:
                self._bounded(asked, asked.bounded, rng)
        except TooLarge:
            self.report.discarded["TooLarge"] += 1
        except Exception as error:  # noqa: BLE001 (an untyped error is a finding)
            self._found(asked, f"{type(error).__name__}: {error}")

    def _answered(self, asked: Question, answer: Answer, rng: random.Random) -> None:
        match answer:
            case Proved(layer):
                self.answers[f"proved by {layer}"] += 1
                self._held_against(asked, asked.goal, rng)
            case Refuted(model):
                self.answers["refuted"] += 1
                if not breaks(model, asked.facts, asked.goal):
                    self._found(asked, f"it is refuted by {model.numbers}, which breaks nothing")
                elif wrong := [array.name for array in asked.arrays if not can_be(model, array)]:
                    self._found(asked, f"it is refuted by {model.numbers}, but {wrong[0]} cannot be so")
            case Unknown():
                self.answers["unknown"] += 1

    def _held_against(self, asked: Question, goal: Predicate, rng: random.Random) -> None:
        for model in samples(asked, rng, whole=self.number % WHOLE == 0):
            self.report.points += 1
            if breaks_it(model, asked, goal):
                self._found(asked, f"{show_predicate(goal)} is proved, but it is false for {model.numbers}")
                return

    def _bounded(self, asked: Question, of: Index, rng: random.Random) -> None:
        """Check the bounds and the simplified expression, each as an inequality that follows from the facts."""
        outside = Facts().assume(*asked.facts[len(asked.ranges) :])
        inside = Facts().assume(*asked.facts)
        claims: list[Predicate] = []
        for bound, up in ((upper_bound, True), (lower_bound, False)):
            found = bound(outside, of, asked.ranges)
            self.answers["bounded" if found is not None else "without a bound"] += 1
            if found is not None:
                claims.append(at_most(of, found) if up else at_most(found, of))
        simpler = simplify(inside, of)
        claims += [at_most(of, simpler), at_most(simpler, of)]
        for claim in claims:
            if not any(divisor.constant == 0 for part in expressions(claim) for divisor in divisors(part)):
                self._held_against(asked, claim, rng)

    def _found(self, asked: Question, wrong: str) -> None:
        known = ", ".join(map(show_predicate, asked.facts)) or "nothing"
        about = show_predicate(asked.goal) if asked.bounded is None else f"bounds of {asked.bounded}"
        declared = "".join(
            f"\n  {array.name}: {array.shape} from {array.low} to {array.high} {array.monotonic}".rstrip()
            for array in asked.arrays
        )
        asking = "" if self.answers is self.report.answers else ", without search"
        where = f"question {self.number} of seed {self.report.seed}{asking}"
        self.report.findings.append(f"in {where}: {wrong}\n  asked: {about}\n  known: {known}{declared}")


def run_prover(
    numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, first: bool = False
) -> Report:
    """Run these queries of a seed, or until an interrupt. With `first`, stop at the first finding."""
    run = Run(seed)
    run.report.wanted = len(numbers)
    forget()
    try_all(run.report, numbers, run.one, progress, first=first)
    return run.report


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    said = "Attacks the prover and checks its answers."
    return command(arguments, run_prover, name="prover", what="questions", description=said)


if __name__ == "__main__":
    raise SystemExit(main())
