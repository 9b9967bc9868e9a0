"""Known answers of the prover: proofs, refutations, simplification, bounds and the memo."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from atl.core import index as ix
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, conjunction, disjunction, equal, less, negation, within
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
from atl.prove.search import Sample
from atl.prove.smt import Contradiction, solve
from bench.tool.prover import Query, queries
from proofs_tests.attacks.questions import VI, VJ, breaks, given, i, j, k, m, n
from proofs_tests.prover.common import refutation, system_of

HERE = Path(__file__).resolve().parents[2]

VP = ix.Var(103, "p")
p = ix.index(VP)


# -- unrelated facts --------------------------------------------------------------------------------------------------


def test_contradiction_among_unrelated_facts_is_found() -> None:
    facts = given(within(ix.ZERO, i, n), within(ix.ZERO, p, k), less(k, j), less(j, p))
    answer = prove(facts, less(i, ix.ZERO))
    assert isinstance(answer, Proved)
    assert answer.vacuous
    assert contradictory(facts) is True


def test_model_covers_unrelated_facts() -> None:
    facts = given(within(ix.index(3), i, n), within(ix.index(5), p, k), equal(j, ix.index(2)))
    answer = refutation(facts, FALSE)
    assert all(map(answer.model.satisfies, facts.predicates))
    assert {"n", "i", "k", "p", "j"} <= set(answer.model.numbers)


def test_memoized_answer_uses_names_of_the_query() -> None:
    forget()
    known, other = (ix.index(ix.Var(31, name)) for name in ("row", "line"))
    assert isinstance(first := prove(given(at_most(ix.ZERO, known)), less(known, ix.index(4))), Refuted)
    assert isinstance(again := prove(given(at_most(ix.ZERO, other)), less(other, ix.index(4))), Refuted)
    assert (set(first.model.numbers), set(again.model.numbers)) == ({"row"}, {"line"})


# -- queries from programs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("query", queries(), ids=lambda query: query.name)
def test_queries_with_known_answers(query: Query) -> None:
    answer = prove(given(*query.facts), query.goal)
    match query.answer:
        case "true":
            assert isinstance(answer, Proved)
            assert answer.layer != "z3", "a layer before z3 should prove this"
        case "false":
            assert isinstance(answer, Refuted)
            assert breaks(answer.model, query.facts, query.goal)
        case "open":
            assert isinstance(answer, Unknown)


@pytest.mark.parametrize(
    "goal", [less(i % k, k), at_most(ix.ZERO, i % k), less(n - n // k * k, k), equal((i * k + j) // k, i + j // k)]
)
def test_quotient_facts_need_a_positive_divisor(goal: Predicate) -> None:
    assert not isinstance(prove(Facts(), goal), Proved)
    assert isinstance(prove(given(less(ix.ZERO, k)), goal), Proved)


def test_possibly_negative_divisor_raises_nothing() -> None:
    negative = ix.index(-1) // k
    for facts in (Facts(), given(less(ix.ZERO, k))):
        assert not isinstance(prove(facts, less(n // negative, n)), Proved)
        assert simplify_predicate(facts, less(n, n // negative)) not in (TRUE, FALSE)


def test_goal_may_show_a_divisor_positive() -> None:
    assert isinstance(prove(Facts(), disjunction((at_most(k, ix.ZERO), less(i % k, k)))), Proved)


def test_product_of_negative_numbers_is_positive() -> None:
    refutation(given(less(i, ix.ZERO), less(j, ix.ZERO)), at_most(i * j, ix.ZERO))
    assert isinstance(prove(given(less(i, ix.ZERO), less(j, ix.ZERO)), less(ix.ZERO, i * j)), Proved)


def test_negative_lower_bounds_do_not_bound_a_product() -> None:
    facts = given(at_most(ix.index(-2), i), at_most(ix.index(-3), j))
    assert isinstance(prove(facts, at_most(n * 6, i * j * n)), Refuted)
    assert isinstance(prove(given(at_most(ix.index(2), i), at_most(ix.index(3), j)), at_most(n * 6, i * j * n)), Proved)


def test_consequences_of_multiples_are_divided() -> None:
    between = given(less(ix.ZERO, k), at_most(i * k, p), less(p, j * k))
    assert prove(between, less(i, j)) == Proved("linear")
    assert prove(between.assume(less(p, i * k + k)), at_most(i, j - 1)) == Proved("linear")
    assert isinstance(prove(between, less(i + 1, j)), Refuted)
    cut = at_most(ix.ceildiv(n, k) * k, i + (k - n % k) % k)
    assert prove(given(less(ix.ZERO, k), less(i, ix.ceildiv(n, k) * k), cut), at_most(n, i)) == Proved("linear")


def test_proofs_hold_for_integers() -> None:
    assert isinstance(prove(given(less(i * 2, j * 2 + 1)), at_most(i, j)), Proved)
    assert isinstance(prove(given(at_most(i * 2, j * 2 + 1)), at_most(i, j)), Proved)
    assert isinstance(prove(given(at_most(i * 2, j * 2 + 2)), at_most(i, j)), Refuted)


# -- facts ------------------------------------------------------------------------------------------------------------


def test_rounding_precedes_z3() -> None:
    # 128 * ((n + 126) // 128) >= 129: that quotient is at least 2, and i at least 1. That i >= 1 / 128 is not enough.
    last = given(at_most(ix.ONE * 130, n), at_most((n + 126) // 128, i + 1), at_most(ix.ZERO, j))
    goal = at_most(ix.ONE * 2, i * 128 + j)
    answer = prove(last, goal)
    assert isinstance(answer, Proved)
    assert answer.layer == "linear"
    assert isinstance(prove(last, at_most(ix.ONE * 129, i * 128 + j)), Refuted)


def test_equal_facts_have_equal_hashes() -> None:
    parts = (at_most(ix.ZERO, i), less(i, n), at_most(j, i))
    at_once, one_by_one = given(*parts), given(parts[0]).assume(parts[1]).assume(parts[2])
    assert at_once == one_by_one
    assert hash(at_once) == hash(one_by_one)
    assert at_once.topics == one_by_one.topics
    assert at_once.known == one_by_one.known
    assert given(*reversed(parts)) != at_once


def test_facts_flatten_conjunctions_and_compare_by_content() -> None:
    whole = given(within(ix.ZERO, i, n), less(i, n))
    assert whole.predicates == (at_most(ix.ZERO, i), less(i, n))
    assert whole == given(at_most(ix.ZERO, i)).assume(less(i, n), TRUE)
    assert hash(whole) == hash(given(at_most(ix.ZERO, i), less(i, n)))
    assert whole.assume(less(i, n)) is whole


def test_contradictory_facts_give_vacuous_proofs() -> None:
    impossible = given(less(i, j), less(j, i))
    assert prove(impossible, equal(i, j + 7)) == Proved("linear", vacuous=True)
    assert isinstance(prove(impossible, less(n, ix.ZERO)), Proved)
    assert prove(given(FALSE), less(n, m)) == Proved("linear", vacuous=True)
    assert prove(given(within(ix.ZERO, i, n)), less(ix.ZERO, n)) == Proved("linear", vacuous=False)


@pytest.mark.long
def test_contradictory_has_three_answers() -> None:
    assert contradictory(given(less(n, ix.ZERO))) is True
    assert contradictory(given(less(i, j), within(ix.ZERO, i, n))) is False
    assert contradictory(Facts()) is False
    cube = equal(i * i * i + j * j * j, p * p * p)
    assert contradictory(given(less(ix.ZERO, i), less(ix.ZERO, j), less(ix.ZERO, p), cube)) is None


def test_unrelated_facts_do_not_hide_answers() -> None:
    answer = refutation(given(within(ix.ZERO, i, n), within(ix.ZERO, j, m), at_most(ix.index(3), m)), less(i + 1, n))
    assert answer.model.numbers["m"] >= 3
    assert prove(given(less(m, j), less(j, m)), less(i + 1, n)) == Proved("linear", vacuous=True)


def test_equality_with_undefined_quotient_raises_nothing() -> None:
    facts = given(equal(i, n // k), less(ix.ZERO, i))
    for goal in (less(ix.ZERO, k), less(i, n + j), equal(i, j)):
        answer = prove(facts, goal)
        assert isinstance(answer, Refuted | Unknown)
        assert isinstance(answer, Unknown) or breaks(answer.model, facts.predicates, goal)


def test_equalities_are_substituted_inside_quotients() -> None:
    tiles = given(less(ix.ZERO, k), equal(n, m * k))
    assert isinstance(prove(tiles, equal(n // k, m)), Proved)
    assert isinstance(prove(given(equal(i, k), less(ix.ZERO, i)), less(n % k, i)), Proved)
    assert isinstance(prove(given(equal(n, i + 2)), at_most(ix.index(-2), i)), Proved)
    difference = given(equal(n, m - k))
    assert isinstance(prove(difference, conjunction((at_most(k, m), at_most(n, m)))), Proved)
    refutation(given(equal(m, n + 1), within(ix.ZERO, i, n)), less(ix.read(LOOSE, (i,)), n))
    answer = refutation(given(equal(n, m + m)), less(n, m + 3))
    assert answer.model.numbers["n"] == 2 * answer.model.numbers["m"]


# -- models -----------------------------------------------------------------------------------------------------------


def test_model_names_its_numbers() -> None:
    pos = ix.Array("pos", (n,), "int64")
    other = ix.index(ix.Var(104, "i"))
    facts = given(within(ix.ZERO, i, n), equal(i, ix.index(3)), equal(other, ix.index(5)))
    answer = refutation(facts, disjunction((less(ix.read(pos, (i,)), ix.ZERO), equal(other, i))))
    numbers = answer.model.numbers
    assert list(numbers) == ["n", "i", "i_2", "pos[3]"]
    assert (numbers["i"], numbers["i_2"]) == (3, 5)
    assert numbers["pos[3]"] >= 0


# -- array elements ---------------------------------------------------------------------------------------------------

POS = ix.Array("pos", (n + 1,), "int64", low=ix.ZERO, high=ix.size("nnz") + 1)
LOOSE = ix.Array("loose", (n,), "int64", low=ix.ONE, high=m)
RISING = ix.Array("rising", (m, n), "int64", monotonic="increasing")


def test_element_is_in_bounds_or_zero() -> None:
    inside = given(within(ix.ZERO, i, n))
    assert isinstance(prove(inside, within(ix.ONE, ix.read(LOOSE, (i,)), m)), Proved)
    assert isinstance(prove(Facts(), at_most(ix.ZERO, ix.read(LOOSE, (i,)))), Proved)
    for goal in (at_most(ix.ONE, ix.read(LOOSE, (i,))), less(ix.read(LOOSE, (i,)), m)):
        answer = refutation(Facts(), goal)
        assert not answer.model.satisfies(goal)


def test_z3_reads_out_of_range_elements_as_zero() -> None:
    for goal, fact in (
        (at_most(ix.ONE, ix.read(LOOSE, (i,))), at_most(n, i)),
        (less(ix.read(LOOSE, (i,)), m), equal(m, ix.ZERO)),
    ):
        assert isinstance(solve(*system_of(fact, negation(goal)), defined=False), Sample)
    assert isinstance(solve(*system_of(negation(at_most(ix.ZERO, ix.read(LOOSE, (i,))))), defined=False), Contradiction)


def test_elements_at_equal_positions_are_equal() -> None:
    same = given(at_most(i, j), at_most(j, i))
    assert isinstance(prove(same, equal(ix.read(LOOSE, (i,)), ix.read(LOOSE, (j,)))), Proved)
    assert isinstance(prove(Facts(), equal(ix.read(LOOSE, (i,)), ix.read(LOOSE, (j,)))), Refuted)


def test_arrays_increase_along_their_last_dimension_only() -> None:
    inside = given(within(ix.ZERO, i, n - 3), within(ix.ZERO, j, m), within(ix.ZERO, p, n))
    assert isinstance(prove(inside, at_most(ix.read(RISING, (j, i)) + 3, ix.read(RISING, (j, i + 3)))), Proved)
    assert isinstance(prove(inside.assume(less(i, p)), less(ix.read(RISING, (j, i)), ix.read(RISING, (j, p)))), Proved)
    refutation(inside.assume(less(j, m - 1)), less(ix.read(RISING, (j, i)), ix.read(RISING, (j + 1, i))))
    assert isinstance(prove(given(less(i, p)), less(ix.read(RISING, (j, i)), ix.read(RISING, (j, p)))), Refuted)


# -- simplification ---------------------------------------------------------------------------------------------------

TILE = (less(ix.ZERO, k), within(ix.ZERO, j, k))
ROWS = (within(ix.ZERO, i, n), within(ix.ZERO, j, m))


@pytest.mark.parametrize(
    ("facts", "expression", "simple"),
    [
        (ROWS, (i * m + j) // m, i),
        (ROWS, (i * m + j) % m, j),
        (TILE, (i * k + j) // k, i),
        (TILE, (j - k) // k, ix.index(-1)),
        (TILE, (j + k * 2) // k, ix.index(2)),
        ((), (i * k + j) // k, (i * k + j) // k),
        ((less(ix.ZERO, k),), (i * k + j) // k, i + j // k),
        ((less(ix.ZERO, k), less(ix.ZERO, m)), n // k // m, n // (k * m)),
        ((within(ix.ZERO, j, ix.index(4)),), (i * 4 + j) // 8, i // 2),
        ((less(ix.ZERO, m), *TILE), (i * k + j) // (m * k), i // m),
        ((), (i * 4 + j) // 8, (i * 4 + j) // 8),
        ((less(ix.ZERO, k), less(ix.ZERO, m)), (i * k + j) // (m * k), (i * k + j) // (m * k)),
        ((less(ix.ZERO, m),), n // k // m, n // k // m),
        ((less(ix.ZERO, m + 1),), (i * (m + 1) + j) // (m + 1), i + j // (m + 1)),
        ((at_most(n, m),), ix.imin(n, m), n),
        ((at_most(n, m),), ix.imax(n, m, k), ix.imax(m, k)),
        ((within(ix.ZERO, i, n),), ix.imax(ix.ZERO, i), i),
        (ROWS, ix.read(RISING, ((i * m + j) // m, j)), ix.read(RISING, (i, j))),
    ],
)
def test_simplify_uses_the_facts(facts: tuple[Predicate, ...], expression: ix.Index, simple: ix.Index) -> None:
    assert simplify(given(*facts), expression) == simple


def test_simplify_predicate_removes_decided_parts() -> None:
    facts = given(within(ix.ZERO, i, n))
    assert simplify_predicate(facts, conjunction((at_most(ix.ZERO, i), less(i, m), less(i, n)))) == less(i, m)
    assert simplify_predicate(facts, conjunction((less(i, m), at_most(n, i)))) == FALSE
    assert simplify_predicate(facts, disjunction((less(i, m), less(i, n)))) == TRUE
    assert simplify_predicate(facts, disjunction((at_most(n, i), less(i, m)))) == less(i, m)
    assert simplify_predicate(facts, conjunction((less(i, m), less(i, m + 1)))) == less(i, m)
    assert simplify_predicate(facts, disjunction((less(i, m), at_most(m, i)))) == TRUE


# -- bounds over loops ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranges", "expression", "bound"),
    [
        ([(VI, ix.ZERO, n)], i * 2 + 1, n * 2 - 1),
        ([(VI, ix.ZERO, n)], m - i, m),
        ([(VI, ix.ZERO, n), (VJ, ix.ZERO, m)], i * m + j, n * m - 1),
        ([(VI, ix.ZERO, n), (VJ, ix.ZERO, i + 1)], i + j, n * 2 - 2),
        ([(VI, ix.ZERO, n)], i * (m - k), ix.imax(ix.ZERO, (n - 1) * (m - k))),
        ([(VI, ix.ZERO, n), (VJ, i, m)], i * j, (n - 1) * (m - 1)),
        ([(VI, ix.index(-2), n)], i * i, None),
        ([(VI, ix.ZERO, n)], i % 8, ix.index(7)),
        ([(VI, ix.ZERO, n)], i // 4, (n - 1) // 4),
        ([(VI, ix.ZERO, n)], ix.imin(i, m), ix.imin(n - 1, m)),
        ([(VI, ix.ZERO, n)], ix.read(LOOSE, (i,)), m - 1),
    ],
)
def test_upper_bound_uses_range_ends(
    ranges: list[tuple[ix.Var, ix.Index, ix.Index]], expression: ix.Index, bound: ix.Index | None
) -> None:
    assert upper_bound(Facts(), expression, ranges) == bound


def test_unknown_bound_is_none() -> None:
    assert upper_bound(Facts(), ix.read(POS, (i,)) + ix.read(RISING, (j, i)), [(VI, ix.ZERO, n)]) is None
    assert upper_bound(Facts(), n // i, [(VI, ix.ZERO, n)]) is None
    assert lower_bound(given(at_most(ix.ONE, i)), i * i, [(VI, ix.index(-2), n)]) == ix.ZERO
    assert lower_bound(Facts(), i * m + j, [(VI, ix.ZERO, n), (VJ, ix.ZERO, m)]) == ix.ZERO


# -- memo and undefined quotients -------------------------------------------------------------------------------------


def test_memo_keeps_answers_and_is_counted() -> None:
    query = queries()[0]
    forget()
    before = statistics.snapshot()
    first = prove(given(*query.facts), query.goal)
    assert prove(given(*query.facts), query.goal) == first
    counted = statistics.since(before)
    assert (counted.linear, counted.memo) == (1, 1)


class _EvictedTogether(dict[prover.Key, Answer]):
    """A memo from which two threads evict at once: the first iteration waits for the other thread."""

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
        prove(given(at_most(ix.index(least), n)), less(n, m))
    monkeypatch.setattr(prover, "MEMO_SIZE", len(memo))
    memo.chosen = Barrier(2)
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(proves, given(less(n, m)), at_most(ix.index(least), m)) for least in (1, 2)]
        assert [each.result() for each in answers] == [True, False]
    assert memo.chosen is None


def of_loops(outer: ix.Var, inner: ix.Var, least: ix.Index) -> tuple[Facts, Predicate]:
    """Return the query 8 a + b >= least for a < n / 8 and b < 8."""
    a, b = ix.index(outer), ix.index(inner)
    facts = given(within(ix.ZERO, a, n // 8), within(ix.ZERO, b, ix.index(8)), at_most(ix.index(16), n))
    return facts, at_most(least, a * 8 + b)


@pytest.mark.parametrize("least", [ix.ZERO, ix.ONE], ids=["proved", "refuted"])
def test_queries_of_similar_loops_share_a_memo_entry(least: ix.Index) -> None:
    forget()
    first = prove(*of_loops(ix.Var(0, "yo"), ix.Var(1, "yi"), least))
    before = statistics.snapshot()
    for outer, inner in ((3, 4), (7, 90), (1 << 50, (1 << 50) + 1)):
        facts, goal = of_loops(ix.Var(outer, "xo"), ix.Var(inner, "xi"), least)
        answer = prove(facts, goal)
        assert isinstance(answer, type(first))
        if isinstance(answer, Refuted):
            assert set(answer.model.numbers) == {"n", "xo", "xi"}
            assert all(map(answer.model.satisfies, facts.predicates))
            assert not answer.model.satisfies(goal)
    counts = statistics.since(before)
    assert (counts.linear, counts.search, counts.memo) == (0, 0, 3)


def test_counterexample_maps_variables_correctly() -> None:
    for outer, inner in ((5, 4), (4, 5)):
        facts, goal = of_loops(ix.Var(outer, "a"), ix.Var(inner, "b"), ix.ONE)
        answer = refutation(facts, goal)
        assert all(map(answer.model.satisfies, facts.predicates))
        assert not answer.model.satisfies(goal)


def test_quotient_by_zero_is_not_simplified() -> None:
    far = ix.index(ix.Var(900, "far"))
    facts = given(within(ix.ZERO, far, n))
    assert isinstance(prove(facts, at_most(ix.ZERO, ix.index(ix.Quotient(far, ix.ZERO)))), Unknown)


def test_reference_evaluation_rejects_division_by_zero() -> None:
    quotient = ix.Quotient(n, k)
    with pytest.raises(ZeroDivisionError):
        ix.value_of(ix.index(quotient), lambda leaf: 0, lambda array, indices: 0)
    assert ix.value_of(ix.ceildiv(ix.index(quotient), ix.index(2)), lambda leaf: 3, lambda array, indices: 0) == 1


def test_nested_quotient_by_zero_has_no_bounds() -> None:
    i = ix.index(ix.Var(72, "i"))
    undefined = ix.index(ix.Quotient(i, ix.ZERO))
    assert upper_bound(Facts(), (undefined + 1) // 3, [(ix.Var(72, "i"), ix.ZERO, ix.size("n"))]) is None
    assert str(undefined // 3) == "(i // 0) // 3"
