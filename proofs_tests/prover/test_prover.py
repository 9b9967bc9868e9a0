"""The prover is right: what it proves has no counterexample, what it refutes has the one it shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from atl.core.index import (
    ONE,
    ZERO,
    Array,
    Index,
    Quotient,
    Var,
    ceildiv,
    imax,
    imin,
    index,
    read,
    size,
    value_of,
)
from atl.core.predicate import (
    FALSE,
    TRUE,
    Predicate,
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
    Facts,
    Proved,
    Refuted,
    Unknown,
    contradictory,
    forget,
    lower_bound,
    prove,
    prover,
    proves,
    simplify,
    simplify_predicate,
    statistics,
    upper_bound,
)
from atl.prove.linear.rows import System, Table, read_predicate
from atl.prove.search import Sample
from atl.prove.smt import Contradiction, solve
from bench.tool.prover import Query, queries
from proofs_tests.attacks.questions import VI, VJ, breaks, given, i, j, k, m, n

HERE = Path(__file__).resolve().parents[2]

VP = Var(103, "p")
p = index(VP)


# -- facts about different things --------------------------------------------------------------------------------------


def test_a_contradiction_among_facts_that_the_goal_does_not_speak_of_is_found() -> None:
    apart = given(within(ZERO, i, n), within(ZERO, p, k), less(k, j), less(j, p))
    answer = prove(apart, less(i, ZERO))
    assert isinstance(answer, Proved)
    assert answer.vacuous
    assert contradictory(apart) is True


def test_numbers_are_found_for_facts_about_different_things_at_once() -> None:
    apart = given(within(index(3), i, n), within(index(5), p, k), equal(j, index(2)))
    answer = prove(apart, FALSE)
    assert isinstance(answer, Refuted)
    assert all(map(answer.model.satisfies, apart.predicates))
    assert {"n", "i", "k", "p", "j"} <= set(answer.model.numbers)


def test_variables_of_an_answer_that_is_remembered_have_the_names_of_the_question() -> None:
    forget()
    known, other = (index(Var(31, name)) for name in ("row", "line"))
    assert isinstance(first := prove(given(at_most(ZERO, known)), less(known, index(4))), Refuted)
    assert isinstance(again := prove(given(at_most(ZERO, other)), less(other, index(4))), Refuted)
    assert (set(first.model.numbers), set(again.model.numbers)) == ({"row"}, {"line"})


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


def test_what_follows_of_multiples_is_divided_again() -> None:
    between = given(less(ZERO, k), at_most(i * k, p), less(p, j * k))
    assert prove(between, less(i, j)) == Proved("linear")
    assert prove(between.assume(less(p, i * k + k)), at_most(i, j - 1)) == Proved("linear")
    assert isinstance(prove(between, less(i + 1, j)), Refuted)
    cut = at_most(ceildiv(n, k) * k, i + (k - n % k) % k)
    assert prove(given(less(ZERO, k), less(i, ceildiv(n, k) * k), cut), at_most(n, i)) == Proved("linear")


def test_what_is_true_of_rationals_only_is_not_proved_and_what_is_true_of_integers_is() -> None:
    assert isinstance(prove(given(less(i * 2, j * 2 + 1)), at_most(i, j)), Proved)
    assert isinstance(prove(given(at_most(i * 2, j * 2 + 1)), at_most(i, j)), Proved)
    assert isinstance(prove(given(at_most(i * 2, j * 2 + 2)), at_most(i, j)), Refuted)


# -- facts ------------------------------------------------------------------------------------------------------------


def test_bounds_of_all_columns_are_rounded_before_z3_is_asked() -> None:
    # 128 * ((n + 126) // 128) >= 129: that quotient is at least 2, and i at least 1. That i >= 1 / 128 is not enough.
    last = given(at_most(ONE * 130, n), at_most((n + 126) // 128, i + 1), at_most(ZERO, j))
    goal = at_most(ONE * 2, i * 128 + j)
    answer = prove(last, goal)
    assert isinstance(answer, Proved)
    assert answer.layer == "linear"
    assert isinstance(prove(last, at_most(ONE * 129, i * 128 + j)), Refuted)


def test_facts_are_equal_and_hash_alike_however_they_were_put_together() -> None:
    parts = (at_most(ZERO, i), less(i, n), at_most(j, i))
    at_once, one_by_one = given(*parts), given(parts[0]).assume(parts[1]).assume(parts[2])
    assert at_once == one_by_one
    assert hash(at_once) == hash(one_by_one)
    assert at_once.topics == one_by_one.topics
    assert at_once.known == one_by_one.known
    assert given(*reversed(parts)) != at_once


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


@pytest.mark.long
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
RISING = Array("rising", (m, n), "int64", monotonic="increasing")


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
    assert lower_bound(given(at_most(ONE, i)), i * i, [(VI, index(-2), n)]) == ZERO
    assert lower_bound(Facts(), i * m + j, [(VI, ZERO, n), (VJ, ZERO, m)]) == ZERO


# -- the memo, and what has no meaning --------------------------------------------------------------------------------


def test_the_memo_changes_no_answer_and_is_counted() -> None:
    query = queries()[0]
    forget()
    before = statistics.snapshot()
    first = prove(given(*query.facts), query.goal)
    assert prove(given(*query.facts), query.goal) == first
    counted = statistics.since(before)
    assert (counted.linear, counted.memo) == (1, 1)


class _EvictedTogether(dict[prover.Key, Answer]):
    """A memo that two threads evict from at once: at first each waits until both have chosen what to drop."""

    chosen: Barrier | None = None

    def __iter__(self) -> Iterator[prover.Key]:
        keys = list(super().__iter__())
        if self.chosen is not None:
            self.chosen.wait()
            self.chosen = None
        return iter(keys)


def test_two_threads_may_evict_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    memo = _EvictedTogether()
    monkeypatch.setattr(prover, "_memo", memo)
    for least in range(10):
        prove(given(at_most(index(least), n)), less(n, m))
    monkeypatch.setattr(prover, "MEMO_SIZE", len(memo))
    memo.chosen = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(proves, given(less(n, m)), at_most(index(least), m)) for least in (1, 2)]
        assert [each.result() for each in asked] == [True, False]
    assert memo.chosen is None


def of_loops(outer: Var, inner: Var, least: Index) -> tuple[Facts, Predicate]:
    """Whether 8 a + b is at least that, of a below n / 8 and b below 8."""
    a, b = index(outer), index(inner)
    facts = given(within(ZERO, a, n // 8), within(ZERO, b, index(8)), at_most(index(16), n))
    return facts, at_most(least, a * 8 + b)


@pytest.mark.parametrize("least", [ZERO, ONE], ids=["proved", "refuted"])
def test_loops_beside_each_other_ask_one_question(least: Index) -> None:
    forget()
    first = prove(*of_loops(Var(0, "yo"), Var(1, "yi"), least))
    before = statistics.snapshot()
    for outer, inner in ((3, 4), (7, 90), (1 << 50, (1 << 50) + 1)):
        facts, goal = of_loops(Var(outer, "xo"), Var(inner, "xi"), least)
        answer = prove(facts, goal)
        assert isinstance(answer, type(first))
        if isinstance(answer, Refuted):
            assert set(answer.model.numbers) == {"n", "xo", "xi"}
            assert all(map(answer.model.satisfies, facts.predicates))
            assert not answer.model.satisfies(goal)
    asked = statistics.since(before)
    assert (asked.linear, asked.search, asked.memo) == (0, 0, 3)


def test_a_counterexample_is_of_the_very_variables_in_whatever_order() -> None:
    for outer, inner in ((5, 4), (4, 5)):
        facts, goal = of_loops(Var(outer, "a"), Var(inner, "b"), ONE)
        answer = prove(facts, goal)
        assert isinstance(answer, Refuted)
        assert all(map(answer.model.satisfies, facts.predicates))
        assert not answer.model.satisfies(goal)


def test_a_quotient_by_zero_is_asked_about_as_it_is_written() -> None:
    far = index(Var(900, "far"))
    facts = given(within(ZERO, far, n))
    assert isinstance(prove(facts, at_most(ZERO, index(Quotient(far, ZERO)))), Unknown)


def test_the_reference_evaluation_refuses_a_quotient_without_meaning() -> None:
    quotient = Quotient(n, k)
    with pytest.raises(ZeroDivisionError):
        value_of(index(quotient), lambda leaf: 0, lambda array, indices: 0)
    assert value_of(ceildiv(index(quotient), index(2)), lambda leaf: 3, lambda array, indices: 0) == 1


def test_a_remembered_counterexample_has_the_names_of_whoever_asks() -> None:
    n = size("n")
    for name in ("row", "column"):
        variable = Var(71, name)
        inside = Facts().assume(within(ZERO, index(variable), n))
        answer = prove(inside, less(index(variable) + 1, n))
        assert isinstance(answer, Refuted)
        assert set(answer.model.numbers) == {"n", name}


def test_a_quotient_by_zero_within_another_quotient_has_no_bounds_and_raises_nothing() -> None:
    i = index(Var(72, "i"))
    undefined = index(Quotient(i, ZERO))
    assert upper_bound(Facts(), (undefined + 1) // 3, [(Var(72, "i"), ZERO, size("n"))]) is None
    assert str(undefined // 3) == "(i // 0) // 3"
