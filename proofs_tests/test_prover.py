"""The prover is right: what it proves has no counterexample, what it refutes has the one it shows."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from pathlib import Path

import pytest

from atl.index import (
    ONE,
    ZERO,
    Array,
    Index,
    Leaf,
    Quotient,
    Size,
    Var,
    ceildiv,
    imax,
    imin,
    index,
    read,
    size,
    value_of,
)
from atl.predicate import (
    FALSE,
    TRUE,
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
    Facts,
    Model,
    Proved,
    Refuted,
    Unknown,
    contradictory,
    forget,
    lower_bound,
    prove,
    simplify,
    simplify_predicate,
    statistics,
    upper_bound,
)
from atl.prove.answer import model_of
from atl.prove.linear import refuted
from atl.prove.rows import System, Table, read_predicate
from atl.prove.search import Sample
from atl.prove.smt import Contradiction, solve
from bench.prover import Query, queries

HERE = Path(__file__).resolve().parent.parent

n, m, k = size("n"), size("m"), size("k")
VI, VJ, VP = Var(101, "i"), Var(102, "j"), Var(103, "p")
i, j, p = index(VI), index(VJ), index(VP)


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


# -- the questions that programs ask ----------------------------------------------------------------------------------


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.name)
def test_a_question_with_a_known_answer_is_answered(query: Query) -> None:
    answer = prove(given(*query.facts), query.goal)
    match query.answer:
        case "true":
            assert isinstance(answer, Proved)
            assert answer.layer != "z3", "the own prover is meant to see this"
        case "false":
            assert isinstance(answer, Refuted)
            assert breaks(answer.model, query.facts, query.goal)
        case "open":
            assert isinstance(answer, Unknown)


def breaks(model: Model, facts: Sequence[Predicate], goal: Predicate) -> bool:
    """Whether the facts hold in the model, as far as they mean something there, and the goal does not."""
    if any(isinstance(leaf, Size) and value < 0 for leaf, value in model.leaves):
        return False
    return all(meant(model, fact) is not False for fact in facts) and not model.satisfies(goal)


def meant(model: Model, fact: Predicate) -> bool | None:
    try:
        return model.satisfies(fact)
    except ZeroDivisionError:
        return None


@pytest.mark.parametrize(
    "goal",
    [less(i % k, k), at_most(ZERO, i % k), less(n - n // k * k, k), equal((i * k + j) // k, i + j // k)],
)
def test_a_fact_about_a_quotient_needs_a_positive_divisor(goal: Predicate) -> None:
    assert not isinstance(prove(Facts(), goal), Proved)
    assert isinstance(prove(given(less(ZERO, k)), goal), Proved)


def test_a_divisor_that_turns_out_negative_is_no_accident() -> None:
    negative = index(-1) // k
    for facts in (Facts(), given(less(ZERO, k))):
        assert not isinstance(prove(facts, less(n // negative, n)), Proved)
        assert simplify_predicate(facts, less(n, n // negative)) not in (TRUE, FALSE)


def test_a_divisor_that_only_the_goal_shows_positive_will_do() -> None:
    assert isinstance(prove(Facts(), disjunction((at_most(k, ZERO), less(i % k, k)))), Proved)


def test_a_product_of_negative_numbers_is_not_taken_for_a_negative_one() -> None:
    answer = prove(given(less(i, ZERO), less(j, ZERO)), at_most(i * j, ZERO))
    assert isinstance(answer, Refuted)
    assert isinstance(prove(given(less(i, ZERO), less(j, ZERO)), less(ZERO, i * j)), Proved)


def test_a_product_of_two_negative_lower_bounds_bounds_nothing() -> None:
    facts = given(at_most(index(-2), i), at_most(index(-3), j))
    assert isinstance(prove(facts, at_most(n * 6, i * j * n)), Refuted)
    assert isinstance(prove(given(at_most(index(2), i), at_most(index(3), j)), at_most(n * 6, i * j * n)), Proved)


def test_what_is_true_of_rationals_only_is_not_proved_and_what_is_true_of_integers_is() -> None:
    assert isinstance(prove(given(less(i * 2, j * 2 + 1)), at_most(i, j)), Proved)
    assert isinstance(prove(given(at_most(i * 2, j * 2 + 1)), at_most(i, j)), Proved)
    assert isinstance(prove(given(at_most(i * 2, j * 2 + 2)), at_most(i, j)), Refuted)


# -- facts ------------------------------------------------------------------------------------------------------------


def test_facts_flatten_conjunctions_and_compare_by_content() -> None:
    whole = given(within(ZERO, i, n), less(i, n))
    assert whole.predicates == (at_most(ZERO, i), less(i, n))
    assert whole == given(at_most(ZERO, i)).assume(less(i, n), TRUE)
    assert hash(whole) == hash(given(at_most(ZERO, i), less(i, n)))
    assert whole.assume(less(i, n)) is whole


def test_contradictory_facts_prove_anything_and_the_answer_says_so() -> None:
    impossible = given(less(i, j), less(j, i))
    assert prove(impossible, equal(i, j + 7)) == Proved("linear", vacuous=True)
    assert isinstance(prove(impossible, less(n, ZERO)), Proved)
    assert prove(given(FALSE), less(n, m)) == Proved("linear", vacuous=True)
    assert prove(given(within(ZERO, i, n)), less(ZERO, n)) == Proved("linear", vacuous=False)


def test_contradictory_has_three_answers() -> None:
    assert contradictory(given(less(n, ZERO))) is True
    assert contradictory(given(less(i, j), within(ZERO, i, n))) is False
    assert contradictory(Facts()) is False
    cube = equal(i * i * i + j * j * j, p * p * p)
    assert contradictory(given(less(ZERO, i), less(ZERO, j), less(ZERO, p), cube)) is None


def test_facts_about_other_things_do_not_hide_a_contradiction_or_a_counterexample() -> None:
    answer = prove(given(within(ZERO, i, n), within(ZERO, j, m), at_most(index(3), m)), less(i + 1, n))
    assert isinstance(answer, Refuted)
    assert answer.model.numbers["m"] >= 3
    assert prove(given(less(m, j), less(j, m)), less(i + 1, n)) == Proved("linear", vacuous=True)


def test_an_equality_with_a_quotient_that_may_mean_nothing_is_no_accident() -> None:
    facts = given(equal(i, n // k), less(ZERO, i))
    for goal in (less(ZERO, k), less(i, n + j), equal(i, j)):
        answer = prove(facts, goal)
        assert isinstance(answer, Refuted | Unknown)
        assert isinstance(answer, Unknown) or breaks(answer.model, facts.predicates, goal)


def test_an_equality_replaces_its_leaf_inside_of_quotients_too() -> None:
    tiles = given(less(ZERO, k), equal(n, m * k))
    assert isinstance(prove(tiles, equal(n // k, m)), Proved)
    assert isinstance(prove(given(equal(i, k), less(ZERO, i)), less(n % k, i)), Proved)
    assert isinstance(prove(given(equal(n, i + 2)), at_most(index(-2), i)), Proved)
    difference = given(equal(n, m - k))
    assert isinstance(prove(difference, conjunction((at_most(k, m), at_most(n, m)))), Proved)
    declared = prove(given(equal(m, n + 1), within(ZERO, i, n)), less(read(LOOSE, (i,)), n))
    assert isinstance(declared, Refuted)
    answer = prove(given(equal(n, m + m)), less(n, m + 3))
    assert isinstance(answer, Refuted)
    assert answer.model.numbers["n"] == 2 * answer.model.numbers["m"]


# -- models -----------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_model_are_named_for_messages() -> None:
    pos = Array("pos", (n,), "int64")
    other = index(Var(104, "i"))
    facts = given(within(ZERO, i, n), equal(i, index(3)), equal(other, index(5)))
    answer = prove(facts, disjunction((less(read(pos, (i,)), ZERO), equal(other, i))))
    assert isinstance(answer, Refuted)
    numbers = answer.model.numbers
    assert list(numbers) == ["n", "i", "i_2", "pos[3]"]
    assert (numbers["i"], numbers["i_2"]) == (3, 5)
    assert numbers["pos[3]"] >= 0


# -- elements of arrays -----------------------------------------------------------------------------------------------

POS = Array("pos", (n + 1,), "int64", low=ZERO, high=size("nnz") + 1)
LOOSE = Array("loose", (n,), "int64", low=ONE, high=m)
RISING = Array("rising", (m, n), "int64", increasing=True)


def test_an_element_has_its_declared_bounds_within_its_array_and_is_zero_outside() -> None:
    inside = given(within(ZERO, i, n))
    assert isinstance(prove(inside, within(ONE, read(LOOSE, (i,)), m)), Proved)
    assert isinstance(prove(Facts(), at_most(ZERO, read(LOOSE, (i,)))), Proved)
    for goal in (at_most(ONE, read(LOOSE, (i,))), less(read(LOOSE, (i,)), m)):
        answer = prove(Facts(), goal)
        assert isinstance(answer, Refuted)
        assert not answer.model.satisfies(goal)


def test_z3_reads_an_element_outside_of_its_array_as_zero() -> None:
    for goal, fact in (
        (at_most(ONE, read(LOOSE, (i,))), at_most(n, i)),
        (less(read(LOOSE, (i,)), m), equal(m, ZERO)),
    ):
        assert isinstance(solve(*system((fact,), goal), defined=False), Sample)
    assert isinstance(solve(*system((), at_most(ZERO, read(LOOSE, (i,)))), defined=False), Contradiction)


def system(facts: Sequence[Predicate], goal: Predicate) -> tuple[Table, System]:
    """The facts and the negated goal, as the layers of the prover see them."""
    table, whole = Table(), System()
    for predicate in (*facts, negation(goal)):
        read_predicate(table, predicate, whole)
    return table, whole


def test_equal_positions_hold_equal_elements() -> None:
    same = given(at_most(i, j), at_most(j, i))
    assert isinstance(prove(same, equal(read(LOOSE, (i,)), read(LOOSE, (j,)))), Proved)
    assert isinstance(prove(Facts(), equal(read(LOOSE, (i,)), read(LOOSE, (j,)))), Refuted)


def test_an_increasing_array_increases_along_its_last_dimension_only() -> None:
    inside = given(within(ZERO, i, n - 3), within(ZERO, j, m), within(ZERO, p, n))
    assert isinstance(prove(inside, at_most(read(RISING, (j, i)) + 3, read(RISING, (j, i + 3)))), Proved)
    assert isinstance(prove(inside.assume(less(i, p)), less(read(RISING, (j, i)), read(RISING, (j, p)))), Proved)
    down = prove(inside.assume(less(j, m - 1)), less(read(RISING, (j, i)), read(RISING, (j + 1, i))))
    assert isinstance(down, Refuted)
    assert isinstance(prove(given(less(i, p)), less(read(RISING, (j, i)), read(RISING, (j, p)))), Refuted)


# -- simplifying ------------------------------------------------------------------------------------------------------

TILE = (less(ZERO, k), within(ZERO, j, k))
ROWS = (within(ZERO, i, n), within(ZERO, j, m))


@pytest.mark.parametrize(
    ("facts", "expression", "simple"),
    [
        (ROWS, (i * m + j) // m, i),
        (ROWS, (i * m + j) % m, j),
        (TILE, (i * k + j) // k, i),
        (TILE, (j - k) // k, index(-1)),
        (TILE, (j + k * 2) // k, index(2)),
        ((), (i * k + j) // k, (i * k + j) // k),
        ((less(ZERO, k),), (i * k + j) // k, i + j // k),
        ((less(ZERO, k), less(ZERO, m)), n // k // m, n // (k * m)),
        ((within(ZERO, j, index(4)),), (i * 4 + j) // 8, i // 2),
        ((less(ZERO, m), *TILE), (i * k + j) // (m * k), i // m),
        ((), (i * 4 + j) // 8, (i * 4 + j) // 8),
        ((less(ZERO, k), less(ZERO, m)), (i * k + j) // (m * k), (i * k + j) // (m * k)),
        ((less(ZERO, m),), n // k // m, n // k // m),
        ((less(ZERO, m + 1),), (i * (m + 1) + j) // (m + 1), i + j // (m + 1)),
        ((at_most(n, m),), imin(n, m), n),
        ((at_most(n, m),), imax(n, m, k), imax(m, k)),
        ((within(ZERO, i, n),), imax(ZERO, i), i),
        (ROWS, read(RISING, ((i * m + j) // m, j)), read(RISING, (i, j))),
    ],
)
def test_an_expression_becomes_as_simple_as_the_facts_allow(
    facts: tuple[Predicate, ...], expression: Index, simple: Index
) -> None:
    assert simplify(given(*facts), expression) == simple


def test_a_predicate_loses_what_the_facts_decide() -> None:
    facts = given(within(ZERO, i, n))
    assert simplify_predicate(facts, conjunction((at_most(ZERO, i), less(i, m), less(i, n)))) == less(i, m)
    assert simplify_predicate(facts, conjunction((less(i, m), at_most(n, i)))) == FALSE
    assert simplify_predicate(facts, disjunction((less(i, m), less(i, n)))) == TRUE
    assert simplify_predicate(facts, disjunction((at_most(n, i), less(i, m)))) == less(i, m)
    assert simplify_predicate(facts, conjunction((less(i, m), less(i, m + 1)))) == less(i, m)
    assert simplify_predicate(facts, disjunction((less(i, m), at_most(m, i)))) == TRUE


# -- bounds over loops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "expression", "bound"),
    [
        ([(VI, ZERO, n)], i * 2 + 1, n * 2 - 1),
        ([(VI, ZERO, n)], m - i, m),
        ([(VI, ZERO, n), (VJ, ZERO, m)], i * m + j, n * m - 1),
        ([(VI, ZERO, n), (VJ, ZERO, i + 1)], i + j, n * 2 - 2),
        ([(VI, ZERO, n)], i * (m - k), imax(ZERO, (n - 1) * (m - k))),
        ([(VI, ZERO, n), (VJ, i, m)], i * j, (n - 1) * (m - 1)),
        ([(VI, index(-2), n)], i * i, None),
        ([(VI, ZERO, n)], i % 8, index(7)),
        ([(VI, ZERO, n)], i // 4, (n - 1) // 4),
        ([(VI, ZERO, n)], imin(i, m), imin(n - 1, m)),
        ([(VI, ZERO, n)], read(LOOSE, (i,)), m - 1),
    ],
)
def test_an_upper_bound_replaces_each_variable_by_an_end_of_its_range(
    ranges: list[tuple[Var, Index, Index]], expression: Index, bound: Index | None
) -> None:
    assert upper_bound(Facts(), expression, ranges) == bound


def test_a_bound_that_cannot_be_told_is_none() -> None:
    assert upper_bound(Facts(), read(POS, (i,)) + read(RISING, (j, i)), [(VI, ZERO, n)]) is None
    assert upper_bound(Facts(), n // i, [(VI, ZERO, n)]) is None
    assert lower_bound(Facts(), i * m + j, [(VI, ZERO, n), (VJ, ZERO, m)]) == ZERO


# -- the same in every run --------------------------------------------------------------------------------------------


def test_answers_and_layers_do_not_depend_on_the_hash_seed() -> None:
    assert all_answers("1") == all_answers("77")


def all_answers(seed: str) -> str:
    program = "from proofs_tests.test_prover import written_answers; print(written_answers())"
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


def test_the_memo_changes_no_answer_and_is_counted() -> None:
    query = queries()[0]
    forget()
    before = statistics.snapshot()
    first = prove(given(*query.facts), query.goal)
    assert prove(given(*query.facts), query.goal) == first
    counted = statistics.since(before)
    assert (counted.linear, counted.memo) == (1, 1)


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


def test_the_reference_evaluation_refuses_a_quotient_without_meaning() -> None:
    quotient = Quotient(n, k)
    with pytest.raises(ZeroDivisionError):
        value_of(index(quotient), lambda leaf: 0, lambda array, indices: 0)
    assert value_of(ceildiv(index(quotient), index(2)), lambda leaf: 3, lambda array, indices: 0) == 1
