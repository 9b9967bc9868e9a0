"""No answer to a random question is wrong, beside brute force and beside z3; and none depends on the run."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

import pytest

from atl.core.index import (
    ZERO,
    Array,
    Index,
    Leaf,
    Size,
    imax,
    imin,
    index,
    read,
)
from atl.core.predicate import (
    Predicate,
    at_most,
    conjunction,
    disjunction,
    equal,
    holds,
    less,
    negation,
    within,
)
from atl.prove import (
    Answer,
    Model,
    Proved,
    Refuted,
    lower_bound,
    prove,
    simplify,
    simplify_predicate,
    upper_bound,
)
from atl.prove.answer import model_of
from atl.prove.linear.rows import System, Table, read_predicate
from atl.prove.linear.solver import refuted
from atl.prove.smt import Contradiction, solve
from bench.prover import queries
from proofs_tests.test_prover import VI, VJ, breaks, given, i, j, k, m, n

HERE = Path(__file__).resolve().parent.parent

# -- the same in every run --------------------------------------------------------------------------------------------


def test_answers_and_layers_do_not_depend_on_the_hash_seed() -> None:
    assert all_answers("1") == all_answers("77")


def all_answers(seed: str) -> str:
    program = "from proofs_tests.test_prover_fuzz import written_answers; print(written_answers())"
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment, cwd=HERE).stdout


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


def random_index(rng: random.Random, leaves: Sequence[Index], depth: int) -> Index:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(leaves) if rng.random() < 0.8 else index(rng.randint(-2, 3))
    a, b = (random_index(rng, leaves, depth - 1) for _ in range(2))
    match rng.randrange(9):
        case 0 | 1:
            return a + b
        case 2:
            return a - b
        case 3:
            return a * b
        case 4:
            return a * rng.choice((-1, 2, 3))
        case 5:
            return a // rng.choice((index(2), index(3), k))
        case 6:
            return a % rng.choice((index(2), index(4), k))
        case 7:
            return imin(a, b)
        case _:
            return imax(a, b)


def random_predicate(rng: random.Random, leaves: Sequence[Index], depth: int) -> Predicate:
    a, b = random_index(rng, leaves, depth), random_index(rng, leaves, rng.randrange(depth + 1))
    match rng.randrange(9):
        case 0 | 1 | 2:
            return less(a, b)
        case 3 | 4 | 5:
            return at_most(a, b)
        case 6:
            return equal(a, b)
        case 7:
            return negation(equal(a, b))
        case _:
            return disjunction((less(a, b), random_predicate(rng, leaves, 1)))


def random_query(rng: random.Random) -> tuple[list[Predicate], Predicate]:
    """Facts that a program could have in scope, or just any, and a goal."""
    leaves = [n, k, i, j]
    facts = [within(ZERO, i, n)] if rng.random() < 0.7 else []
    if rng.random() < 0.6:
        facts.append(within(ZERO, j, rng.choice((k, m, n, i + 1, n // 2 + 1))))
    if rng.random() < 0.7:
        facts.append(less(ZERO, k))
    facts.extend(random_predicate(rng, leaves, 1) for _ in range(rng.randrange(3)))
    return facts, random_predicate(rng, leaves, 2)


def compiled(predicate: Predicate) -> Callable[[dict[Leaf, int]], bool]:
    """The predicate as a function of its leaves."""

    def no_element(array: Array, indices: tuple[int, ...]) -> int:
        raise AssertionError((array, indices))

    return lambda values: holds(predicate, values.__getitem__, no_element)


def box() -> Iterator[dict[Leaf, int]]:
    for vn, vm, vk, vi, vj in product(range(4), range(3), range(4), range(-2, 4), range(-2, 4)):
        yield {Size("n"): vn, Size("m"): vm, Size("k"): vk, VI: vi, VJ: vj}


BOX = list(box())


def counterexample(facts: Sequence[Predicate], goal: Predicate) -> dict[Leaf, int] | None:
    """Small numbers for which the facts hold and the goal does not, all quotients having a meaning."""
    tests = [compiled(fact) for fact in facts]
    wanted = compiled(goal)
    for values in BOX:
        try:
            if all(test(values) for test in tests) and not wanted(values):
                return values
        except ZeroDivisionError:
            continue
    return None


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


def tables(vn: int, vm: int) -> Iterator[tuple[int, ...]]:
    """The increasing arrays of vn elements from 0 to vm - 1."""
    return (row for row in product(range(vm), repeat=vn) if all(a < b for a, b in pairwise(row)))


def random_read_query(rng: random.Random, array: Array) -> tuple[list[Predicate], Predicate]:
    places = [i, j, i + 1, j - 1, ZERO, n - 1]
    elements = [read(array, (place,)) for place in places]
    leaves = [n, m, i, j, *elements, *elements]
    facts = [within(ZERO, i, n)] if rng.random() < 0.7 else []
    facts += [within(ZERO, j, n)] if rng.random() < 0.7 else []
    for _ in range(rng.randrange(3)):
        a, b = rng.choice(leaves), rng.choice(leaves)
        facts.append(rng.choice((less, at_most, equal))(a, b))
    a, b = rng.choice(leaves), rng.choice(elements)
    return facts, rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)


@pytest.mark.parametrize("seed", range(4))
def test_no_answer_about_array_elements_is_wrong(seed: int) -> None:
    array = Array("rows", (n,), "int64", low=ZERO, high=m, increasing=True)
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


def rising(model: Model) -> bool:
    """Whether the model's elements are increasing and in range, and zero outside."""
    sizes = {leaf.name: value for leaf, value in model.leaves if isinstance(leaf, Size)}
    extent = sizes.get("n", 0)
    inside = sorted((at[0], value) for _, at, value in model.elements if 0 <= at[0] < extent)
    outside = [value for _, at, value in model.elements if not 0 <= at[0] < extent]
    steps = all(d - b >= c - a for (a, b), (c, d) in pairwise(inside))
    return steps and not any(outside) and all(0 <= value < sizes.get("m", 0) for _, value in inside)


def broken_by_some_array(facts: Sequence[Predicate], goal: Predicate) -> bool:
    for vn, vm, vi, vj in product(range(4), range(5), range(-1, 4), range(-1, 4)):
        values: dict[Leaf, int] = {Size("n"): vn, Size("m"): vm, VI: vi, VJ: vj}
        for row in tables(vn, vm):
            elements = [("rows", (at,), value) for at, value in enumerate(row)]
            model = model_of(values.items(), elements)
            if all(model.satisfies(fact) for fact in facts) and not model.satisfies(goal):
                return True
    return False
