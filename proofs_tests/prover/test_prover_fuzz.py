"""Random queries to the prover, compared with brute force and with z3."""

from __future__ import annotations

import random

import pytest

from atl.core.index import ZERO, Array, index
from atl.core.predicate import at_most, conjunction, disjunction, equal, less, negation, within
from atl.prove import Answer, Proved, Refuted, lower_bound, prove, simplify, simplify_predicate, upper_bound
from atl.prove.linear import refuted
from atl.prove.rows import System, Table, read_predicate
from atl.prove.smt import Contradiction, solve
from bench.tool.prover import queries
from proofs_tests.attacks import questions

pytestmark = pytest.mark.sampled


def written_answers() -> str:
    lines = [f"{query.name}: {written(prove(questions.given(*query.facts), query.goal))}" for query in queries()]
    rng = random.Random(5)
    for _ in range(60):
        facts, goal = questions.random_query(rng)
        lines.append(written(prove(questions.given(*facts), goal)))
    return "\n".join(lines)


def written(answer: Answer) -> str:
    return str(answer.model.numbers) if isinstance(answer, Refuted) else str(answer)


@pytest.mark.parametrize("seed", range(6))
def test_random_queries_agree_with_brute_force(seed: int) -> None:
    rng = random.Random(seed)
    counts = {"Proved": 0, "Refuted": 0, "Unknown": 0}
    for _ in range(60):
        facts, goal = questions.random_query(rng)
        answer = prove(questions.given(*facts), goal)
        counts[type(answer).__name__] += 1
        if isinstance(answer, Proved):
            assert questions.counterexample(facts, goal) is None, (facts, goal)
        elif isinstance(answer, Refuted):
            assert questions.breaks(answer.model, facts, goal), (facts, goal)
    print(counts)
    assert counts["Proved"] > 5
    assert counts["Refuted"] > 5


@pytest.mark.parametrize("seed", range(4))
def test_linear_proofs_agree_with_z3(seed: int) -> None:
    rng = random.Random(1000 + seed)
    agreed = 0
    for _ in range(60):
        facts, goal = questions.random_query(rng)
        table, known, denied = Table(), System(), System()
        for fact in facts:
            read_predicate(table, fact, known)
        read_predicate(table, negation(goal), denied)
        if not refuted(table, known, denied, wide=bool(rng.randrange(2))):
            continue
        known.add(denied)
        verdict = solve(table, known, defined=False)
        assert isinstance(verdict, Contradiction), (facts, goal, verdict)
        agreed += 1
    print(f"{agreed} proofs confirmed")
    assert agreed > 5


@pytest.mark.parametrize("seed", range(3))
def test_simplify_keeps_the_value(seed: int) -> None:
    rng = random.Random(2000 + seed)
    changed = 0
    for _ in range(40):
        facts, _ = questions.random_query(rng)
        expression = questions.random_index(rng, [questions.n, questions.k, questions.i, questions.j], 3)
        simple = simplify(questions.given(*facts), expression)
        if simple == expression:
            continue
        changed += 1
        assert questions.counterexample(facts, equal(expression, simple)) is None, (facts, expression, simple)
    print(f"{changed} changed")


@pytest.mark.parametrize("seed", range(3))
def test_simplify_predicate_keeps_the_truth(seed: int) -> None:
    rng = random.Random(3000 + seed)
    for _ in range(40):
        facts, _ = questions.random_query(rng)
        parts = tuple(
            questions.random_predicate(rng, [questions.n, questions.k, questions.i, questions.j], 1) for _ in range(3)
        )
        predicate = conjunction(parts) if rng.randrange(2) else disjunction((parts[0], conjunction(parts[1:])))
        simple = simplify_predicate(questions.given(*facts), predicate)
        same = disjunction((conjunction((predicate, simple)), conjunction((negation(predicate), negation(simple)))))
        assert questions.counterexample(facts, same) is None, (facts, predicate, simple)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_for_all_values(seed: int) -> None:
    rng = random.Random(4000 + seed)
    found = 0
    for _ in range(60):
        expression = questions.random_index(rng, [questions.n, questions.k, questions.i, questions.j], 2)
        ranges = [
            (questions.VI, index(rng.choice((0, 0, -2))), questions.n),
            (
                questions.VJ,
                rng.choice((ZERO, questions.i, index(-1))),
                rng.choice((questions.k, questions.i + 1, questions.n)),
            ),
        ]
        facts = [less(ZERO, questions.k)] if rng.random() < 0.7 else []
        scope = [*facts, *(within(low, index(v), high) for v, low, high in ranges)]
        for bound, side in ((upper_bound, 1), (lower_bound, -1)):
            value = bound(questions.given(*facts), expression, ranges)
            if value is None:
                continue
            found += 1
            assert not value.free
            assert questions.counterexample(scope, at_most(ZERO, (value - expression) * side)) is None, (
                expression,
                value,
            )
    print(f"{found} bounds")
    assert found > 30


@pytest.mark.parametrize("seed", range(4))
def test_random_queries_about_elements_agree_with_brute_force(seed: int) -> None:
    array = Array("rows", (questions.n,), "int64", low=ZERO, high=questions.m, monotonic="increasing")
    rng = random.Random(5000 + seed)
    counts = {"Proved": 0, "Refuted": 0, "Unknown": 0}
    for _ in range(40):
        facts, goal = questions.random_read_query(rng, array)
        answer = prove(questions.given(*facts), goal)
        counts[type(answer).__name__] += 1
        if isinstance(answer, Refuted):
            assert questions.breaks(answer.model, facts, goal), (facts, goal)
            assert questions.rising(answer.model), (facts, goal, answer.model)
        elif isinstance(answer, Proved):
            assert not questions.broken_by_some_array(facts, goal), (facts, goal)
    print(counts)
    assert counts["Proved"] > 5
