"""No answer to a random question is wrong, beside brute force and beside z3; and none depends on the run."""

from __future__ import annotations

import random

import pytest

from atl.core.index import (
    ZERO,
    Array,
    index,
)
from atl.core.predicate import (
    at_most,
    conjunction,
    disjunction,
    equal,
    less,
    negation,
    within,
)
from atl.prove import (
    Answer,
    Proved,
    Refuted,
    lower_bound,
    prove,
    simplify,
    simplify_predicate,
    upper_bound,
)
from atl.prove.linear.rows import System, Table, read_predicate
from atl.prove.linear.solver import refuted
from atl.prove.smt import Contradiction, solve
from bench.tool.prover import queries
from proofs_tests.attacks.questions import (
    VI,
    VJ,
    breaks,
    broken_by_some_array,
    counterexample,
    given,
    i,
    j,
    k,
    m,
    n,
    random_index,
    random_predicate,
    random_query,
    random_read_query,
    rising,
)

pytestmark = pytest.mark.sampled

# -- the same in every run: `proofs_tests.architecture.reproducible` compares -----


def written_answers() -> str:
    lines = [f"{query.name}: {written(prove(given(*query.facts), query.goal))}" for query in queries()]
    rng = random.Random(5)
    for _ in range(60):
        facts, goal = random_query(rng)
        lines.append(written(prove(given(*facts), goal)))
    return "\n".join(lines)


def written(answer: Answer) -> str:
    return str(answer.model.numbers) if isinstance(answer, Refuted) else str(answer)


# -- fuzzing ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(6))
def test_no_answer_to_a_random_question_is_wrong(seed: int) -> None:
    rng = random.Random(seed)
    counts = {"Proved": 0, "Refuted": 0, "Unknown": 0}
    for _ in range(60):
        facts, goal = random_query(rng)
        answer = prove(given(*facts), goal)
        counts[type(answer).__name__] += 1
        if isinstance(answer, Proved):
            assert counterexample(facts, goal) is None, (facts, goal)
        elif isinstance(answer, Refuted):
            assert breaks(answer.model, facts, goal), (facts, goal)
    print(counts)
    assert counts["Proved"] > 5
    assert counts["Refuted"] > 5


@pytest.mark.parametrize("seed", range(4))
def test_what_the_own_prover_proves_z3_does_not_refute(seed: int) -> None:
    rng = random.Random(1000 + seed)
    agreed = 0
    for _ in range(60):
        facts, goal = random_query(rng)
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
def test_simplifying_keeps_the_value_wherever_the_facts_hold(seed: int) -> None:
    rng = random.Random(2000 + seed)
    changed = 0
    for _ in range(40):
        facts, _ = random_query(rng)
        expression = random_index(rng, [n, k, i, j], 3)
        simple = simplify(given(*facts), expression)
        if simple == expression:
            continue
        changed += 1
        assert counterexample(facts, equal(expression, simple)) is None, (facts, expression, simple)
    print(f"{changed} changed")


@pytest.mark.parametrize("seed", range(3))
def test_simplifying_a_predicate_keeps_its_truth_wherever_the_facts_hold(seed: int) -> None:
    rng = random.Random(3000 + seed)
    for _ in range(40):
        facts, _ = random_query(rng)
        parts = tuple(random_predicate(rng, [n, k, i, j], 1) for _ in range(3))
        predicate = conjunction(parts) if rng.randrange(2) else disjunction((parts[0], conjunction(parts[1:])))
        simple = simplify_predicate(given(*facts), predicate)
        same = disjunction((conjunction((predicate, simple)), conjunction((negation(predicate), negation(simple)))))
        assert counterexample(facts, same) is None, (facts, predicate, simple)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3))
def test_bounds_hold_for_all_values_in_the_ranges(seed: int) -> None:
    rng = random.Random(4000 + seed)
    found = 0
    for _ in range(60):
        expression = random_index(rng, [n, k, i, j], 2)
        ranges = [
            (VI, index(rng.choice((0, 0, -2))), n),
            (VJ, rng.choice((ZERO, i, index(-1))), rng.choice((k, i + 1, n))),
        ]
        facts = [less(ZERO, k)] if rng.random() < 0.7 else []
        scope = [*facts, *(within(low, index(v), high) for v, low, high in ranges)]
        for bound, side in ((upper_bound, 1), (lower_bound, -1)):
            value = bound(given(*facts), expression, ranges)
            if value is None:
                continue
            found += 1
            assert not value.free
            assert counterexample(scope, at_most(ZERO, (value - expression) * side)) is None, (expression, value)
    print(f"{found} bounds")
    assert found > 30


@pytest.mark.parametrize("seed", range(4))
def test_no_answer_about_array_elements_is_wrong(seed: int) -> None:
    array = Array("rows", (n,), "int64", low=ZERO, high=m, monotonic="increasing")
    rng = random.Random(5000 + seed)
    counts = {"Proved": 0, "Refuted": 0, "Unknown": 0}
    for _ in range(40):
        facts, goal = random_read_query(rng, array)
        answer = prove(given(*facts), goal)
        counts[type(answer).__name__] += 1
        if isinstance(answer, Refuted):
            assert breaks(answer.model, facts, goal), (facts, goal)
            assert rising(answer.model), (facts, goal, answer.model)
        elif isinstance(answer, Proved):
            assert not broken_by_some_array(facts, goal), (facts, goal)
    print(counts)
    assert counts["Proved"] > 5
