"""The layers of the prover: conclusions, order and statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from atl.core import index as ix
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, disjunction, equal, less, negation, within
from atl.prove import Answer, Facts, Proved, Refuted, Unknown, forget, prove, prover, simplify, without_smt
from atl.prove.facts import Statistics
from atl.prove.prover import _by_cases, _Query, _Solution, _solvable, _solve_equalities
from atl.prove.reduction import _divided, _shared_factors
from atl.prove.rows import System, Table, read_predicate
from atl.prove.search import Sample
from atl.prove.smt import GaveUp
from atl.prove.steps import MIN_FACTS, _constrains_only_quotients, relevant
from proofs_tests.prover.common import PLAIN, VX, VY, given, k, m, n, w, x, y, z

SQUARE: Final = at_most(2 * n * m, n * n + m * m)
"""A goal that only z3 proves."""
FAR: Final = negation(equal(x // 2, ix.constant(1_000_003)))
"""A goal whose counterexamples are larger than the numbers that the search tries."""
FAR_ROOT: Final = equal(w * w, ix.constant(1_000_003**2))
"""A fact whose models are larger than the numbers that the search tries."""

OPEN: Final = Unknown("z3 was not used")
QUICKLY_OPEN: Final = Unknown("the quick layers of the prover found neither a proof nor a counterexample")


def statistics_of(ask: Callable[[], object]) -> Statistics:
    before = prover.statistics.snapshot()
    ask()
    return prover.statistics.since(before)


def recorded(monkeypatch: pytest.MonkeyPatch, name: str, keyword: str, of: object = prover) -> list[object]:
    """Record a keyword argument of each later call of a function."""
    plain: Callable[..., Any] = vars(of)[name]
    found: list[object] = []

    def wrapper(*arguments: Any, **how: Any) -> Any:
        found.append(how.get(keyword))
        return plain(*arguments, **how)

    monkeypatch.setattr(of, name, wrapper)
    return found


# -- unsound conclusions ----------------------------------------------------------------------------------------------


def test_all_remainders_must_be_proved() -> None:
    even = disjunction((equal(x, 2 * (x // 2)), FAR))
    forget()
    for goal in (FAR, even):
        assert not _by_cases(Facts(), goal)
        with without_smt():
            assert prove(Facts(), goal) == OPEN
        assert isinstance(prove(Facts(), goal), Refuted)
    assert not _by_cases(Facts(), less(x, y))
    assert _by_cases(Facts(), disjunction((equal(x, 2 * (x // 2)), equal(x, 2 * (x // 2) + 1))))


def test_disjunction_is_proved_by_the_failing_case() -> None:
    facts = given(within(ix.ZERO, y, ix.constant(8)))
    other = equal(ix.exclusive_or(y, 8 * x), y + 8 * x)

    def either(part: Predicate) -> Predicate:
        return disjunction((less(x, ix.ZERO), conjunction((other, part))))

    with without_smt():
        assert prove(facts, either(less(y, ix.constant(9)))) == Proved("linear")
        assert isinstance(prove(facts, either(less(y, ix.constant(7)))), Refuted)
        assert not _by_cases(facts, either(equal(ix.exclusive_or(y, 4 * x), y + 4 * x)))


@pytest.mark.long
def test_no_refutation_if_unrelated_facts_may_contradict() -> None:
    with without_smt():
        assert prove(given(FAR_ROOT), less(x, ix.ZERO)) == OPEN
        assert prove(given(FAR_ROOT), SQUARE) == OPEN
        assert prove(given(FAR_ROOT), less(x, ix.ZERO), thorough=False) == QUICKLY_OPEN
        assert prove(given(FAR_ROOT), at_most(x, x + n)) == Proved("trivial")
    assert isinstance(prove(given(less(y, z)), less(x, ix.ZERO)), Refuted)
    cubes = given(equal(y * y * y + z * z * z + w * w * w, ix.constant(33)))
    assert prove(cubes, FALSE) == prove(cubes, less(x, ix.ZERO)) == Unknown("z3 gave up within its limit of steps")
    undefined = Unknown("the goal holds if every divisor is positive, which was not proved")
    assert prove(cubes, at_most(x // n * n, x)) == undefined
    contradictory = given(less(y, z), less(z, y), less(x, w))
    assert prove(contradictory, less(x, ix.ZERO)) == Proved("linear", vacuous=True)
    assert prove(contradictory, less(x, w + 1)) == Proved("linear", vacuous=False)  # the other facts are not used


@pytest.mark.long
def test_multiples_leave_quotients_with_positive_divisors_only() -> None:
    both = equal((x + k) // k + (y + m) // m, x // k + y // m + 2)
    assert isinstance(prove(given(less(ix.ZERO, m), less(ix.ZERO, k)), both), Proved)
    for facts in (given(less(ix.ZERO, m)), given(less(ix.ZERO, k)), Facts()):
        assert isinstance(prove(facts, both), Unknown)


def test_only_powers_of_two_divide_bits_away() -> None:
    for by, left in ((2, y), (4, y), (8, y), (3, None), (6, None), (12, None)):
        facts = given(within(ix.ZERO, x, ix.constant(by)), at_most(ix.ZERO, y))
        quotient = ix.exclusive_or(x, by * y) // by
        assert simplify(facts, quotient) == (quotient if left is None else left)
        assert isinstance(prove(facts, equal(quotient, y)), Refuted if left is None else Proved)


def test_conjunction_with_an_unknown_part_is_unknown() -> None:
    facts = given(less(x, y), less(y, z))
    with without_smt():
        for parts in ((FAR, less(x, z)), (less(x, z), FAR)):
            assert prove(facts, conjunction(parts)) == OPEN
            assert prove(facts, conjunction(parts), thorough=False) == QUICKLY_OPEN


def test_counterexamples_satisfy_facts_and_break_goal() -> None:
    table = Table()
    for leaf in (x, y, n):
        table.row(leaf)

    def checked(fact: Predicate, goal: Predicate, **values: int) -> bool:
        query = _Query(given(fact), goal, thorough=True)
        leaves = {at: values[atom.name] for at, atom in table.atoms.items() if isinstance(atom, ix.Var | ix.Size)}
        return query._checked(table, Sample(leaves, {}), _Solution((), goal, ())) is not None

    assert checked(less(x, y), less(y, x), x=0, y=1, n=0)
    assert not checked(less(x, y), less(y, x), x=1, y=1, n=0)
    assert not checked(less(x, y), less(x, 2 * y), x=0, y=1, n=0)
    assert not checked(less(x, y), less(y, x), x=0, y=1, n=-1)
    # A fact about a quotient by zero has no meaning; the goal reads none.
    assert checked(less(x // n, y), less(y, x), x=0, y=1, n=0)
    assert not checked(less(x // n, y), less(y // 2, x), x=0, y=1, n=0)
    assert not checked(less(x, y), less(y // n, x), x=0, y=1, n=0)
    assert checked(less(x, y), less(y // n, x), x=0, y=1, n=1)


def test_query_arrays_include_those_in_declared_bounds() -> None:
    scalar = ix.Array("scalar", (), "int64")
    bounded = ix.Array("bounded", (n,), "int64", high=ix.read(scalar, ()))
    query = _Query(given(at_most(ix.read(PLAIN, (x,)), y)), less(ix.read(bounded, (y,)), z), thorough=True)
    assert list(query._arrays(Table())) == [PLAIN, bounded]  # equalities have removed the reads
    table = Table()
    table.row(ix.read(bounded, (y,)))
    assert set(query._arrays(table)) == {PLAIN, bounded, scalar}


# -- which layer proves -----------------------------------------------------------------------------------------------


def test_only_thorough_queries_round() -> None:
    # y is -1, so 1 <= 2 x <= 1.
    facts = given(
        at_most(ix.constant(2), 2 * x - y), at_most(ix.constant(2), -2 * x - 3 * y), at_most(ix.constant(-1), y)
    )
    with without_smt():
        assert prove(facts, FALSE) == Proved("linear", vacuous=True)
        assert prove(facts, FALSE, thorough=False) == QUICKLY_OPEN


def test_equalities_are_substituted_before_bit_reasoning() -> None:
    facts = given(
        equal(x, ix.exclusive_or(y, z)), within(ix.ZERO, y, ix.constant(8)), at_most(ix.ZERO, w), at_most(ix.ZERO, z)
    )
    with without_smt():
        assert prove(facts, equal(ix.exclusive_or(x, z, 8 * w), y + 8 * w)) == Proved("linear")
        assert prove(facts, equal(ix.exclusive_or(x, z, 4 * w), y + 4 * w)) != Proved("linear")


def test_equalities_are_substituted_again_only_into_xor() -> None:
    facts, goal = given(equal(x, y)), at_most(x, y)
    solution = _solve_equalities(facts.predicates, negation(goal))
    assert solution.solved
    assert not _Query(facts, goal, thorough=True)._with_solved(solution)


def test_address_below_a_clamped_extent_is_in_range() -> None:
    """k < max(0, n - 2) becomes k < n - 2; then the ends of six loops decide."""
    address, extent, facts = x, n - 2, [at_most(ix.ZERO, x), less(x, ix.imax(ix.ZERO, n - 2))]
    for number, side in enumerate(map(ix.size, "mkabc")):
        at = ix.index(ix.Var(10 + number, "i"))
        address, extent = address * side + at, extent * side
        facts.append(within(ix.ZERO, at, side))
    with without_smt():
        assert prove(given(*facts), less(address, extent)) == Proved("linear")
        assert not isinstance(prove(given(*facts), less(address + 1, extent)), Proved)


def test_divisor_known_to_be_one_is_removed() -> None:
    assert simplify(given(less(ix.ZERO, n)), x // ix.imin(n, ix.constant(1))) == x
    positive = given(less(ix.ZERO, k))
    query = _Query(positive, less(x // (k // k), y), thorough=True)
    assert query._divided_out() == (positive.predicates, negation(less(x, y)))


def test_quotient_is_folded_after_removing_a_multiple() -> None:
    positive = given(less(ix.ZERO, k))
    query = _Query(positive, less((2 * k * y + x) // k // 2, z), thorough=True)
    assert query._divided_out() == (positive.predicates, negation(less(y + x // k // 2, z)))


def test_quotient_by_zero_is_unchanged() -> None:
    positive, dead = given(less(ix.ZERO, k)), ix.index(ix.Quotient((2 * k * y + x) // k, ix.ZERO))
    query = _Query(positive, less(dead, z), thorough=True)
    assert query._divided_out()[1] == negation(less(ix.index(ix.Quotient(2 * y + x // k, ix.ZERO)), z))


def test_unsolved_equalities_are_retried() -> None:
    solution = _solve_equalities((equal(2 * x, -3 * y), equal(x, 5 * w - 2 * y)), less(z, y))
    assert [leaf for leaf, _ in solution.solved] == [VX, VY]
    assert _solve_equalities((less(x, y), less(y, z)), less(z, x)) == _Solution(
        (less(x, y), less(y, z)), less(z, x), []
    )


def test_equalities_are_solved_for_variables_before_sizes() -> None:
    for expression in (x - n, n - x, n + x - m):
        found = _solvable(expression, set())
        assert found is not None
        assert found[0] == VX
    assert _solvable(n - 2 * x, set()) == (n.atom, 2 * x)
    assert _solvable(x - n, {VX}) == (n.atom, x)
    assert _solvable(k - m + n, set()) == (k.atom, m - n)
    assert _solvable(x - x // 2, set()) is None


def test_vacuity_is_found_without_case_splits() -> None:
    around = at_most(ix.ZERO, x + y), at_most(x + y, ix.ZERO), at_most(ix.ZERO, y), at_most(y, ix.ZERO)
    facts = given(negation(equal(x, ix.ZERO)), *around)
    assert prove(facts, less(x, y)) == Proved("linear", vacuous=False)
    assert prove(facts, FALSE) == Proved("linear", vacuous=True)
    assert prove(given(less(ix.constant(0), x), *around), less(x, y)) == Proved("linear", vacuous=True)


# -- simplified quotients ---------------------------------------------------------------------------------------------

POSITIVE: Final = less(ix.ZERO, k)

SMALLER: Final[dict[str, tuple[tuple[Predicate, ...], ix.Index, ix.Index]]] = {
    "known remainder": ((POSITIVE, within(ix.constant(5), x, k + 5)), (2 * k + x - 5) // k, ix.constant(2)),
    "ceiling kept": ((POSITIVE,), (2 * k + x - 5) // k, (x + k - 5) // k + 1),
    "no constant multiple: not a ceiling": ((POSITIVE,), (k * y + x - 1) // k, y + (x - 1) // k),
    "common factor two": ((within(ix.ZERO, y, ix.constant(2)),), (2 * x + y) // 4, x // 2),
    "common factor eight": ((within(ix.ZERO, y, ix.constant(8)),), (8 * x + y) // 16, x // 2),
    "larger common factor": ((within(ix.ZERO, y, ix.constant(2)),), (8 * x + 4 * z + y) // 16, (2 * x + z) // 4),
    "symbolic common factor": ((POSITIVE, less(ix.ZERO, m), within(ix.ZERO, y, k)), (k * x + y) // (k * m), x // m),
    "remainder as large as the factor": (
        (within(ix.ZERO, y, ix.constant(3)),), (2 * x + y) // 4, (2 * x + y) // 4
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALLER)
def test_quotient_is_simplified(name: str) -> None:
    facts, before, after = SMALLER[name]
    assert simplify(given(*facts), before) == after


def test_term_with_a_remainder_is_not_divided() -> None:
    assert _divided(3 * m + n, 2 * m + n) == (ix.ZERO, 3 * m + n)
    assert _divided(4 * m + 2 * n, 2 * m + n) == (ix.constant(2), ix.ZERO)


def test_shared_factors_are_ordered_largest_first() -> None:
    def found(numerator: ix.Index, denominator: ix.Index) -> list[ix.Index]:
        return [factor for factor, _, _ in _shared_factors(numerator, denominator)]

    assert found(8 * x + y + 4, ix.constant(16)) == [ix.constant(8)]
    assert found(2 * x + 8 * y + 4 * z, ix.constant(16)) == [ix.constant(8), ix.constant(4), ix.constant(2)]
    assert found(n * m * x + n * y, n * m * k) == [n * m, m, n]
    assert found(2 * n * x + y, 2 * n) == [n]


# -- memo and order of layers -----------------------------------------------------------------------------------------


def test_each_answer_is_counted_once() -> None:
    facts = given(less(x, y), less(y, z))
    forget()
    with without_smt():
        assert statistics_of(lambda: prove(Facts(), at_most(ix.ZERO, n))) == Statistics(trivial=1)
        assert statistics_of(lambda: prove(facts, less(x, y))) == Statistics(trivial=1)
        assert statistics_of(lambda: prove(facts, less(x, z))) == Statistics(linear=1)
        assert statistics_of(lambda: prove(facts, less(x, z))) == Statistics(memo=1)
        assert statistics_of(lambda: prove(Facts(), less(x, y))) == Statistics(search=1)
        assert statistics_of(lambda: prove(Facts(), FAR, thorough=False)) == Statistics(unknown=1)
    forget()
    assert statistics_of(lambda: prove(facts, less(x, z))) == Statistics(linear=1)


def test_memo_ignores_variable_names() -> None:
    forget()
    facts, others = given(less(x, y), less(y, z)), given(less(y, z), less(z, w))
    assert statistics_of(lambda: prove(facts, less(x, z))) == Statistics(linear=1)
    assert statistics_of(lambda: prove(others, less(y, w))) == Statistics(memo=1)
    both = conjunction((less(x, z), less(x + 1, z)))
    assert statistics_of(lambda: prove(facts, both)) == Statistics(memo=1, linear=1)
    assert statistics_of(lambda: prove(facts, both)) == Statistics(memo=1)


def test_forget_clears_the_memos() -> None:
    prove(given(less(x, y), less(y, x)), less(x, z))
    assert prover._memo
    assert prover._inconsistencies
    forget()
    assert not prover._memo
    assert not prover._inconsistencies


def test_bit_layer_runs_first_only_with_xor(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, "_by_bits", "thorough", _Query)
    forget()
    with without_smt():
        prove(Facts(), FAR, thorough=False)
        assert calls == []
        prove(Facts(), equal(ix.exclusive_or(x, y), z), thorough=False)
        assert calls == [False]
        calls.clear()
        prove(Facts(), FAR)
        assert calls[-1] is True


def test_subqueries_are_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, "prove", "thorough")
    _by_cases(Facts(), FAR)
    assert calls == [False]
    calls = recorded(monkeypatch, "proves", "thorough")
    _Query(Facts(), less(x // n, y), thorough=True)._simpler()
    assert set(calls) == {False}


def test_elimination_runs_once_without_cases_and_products(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = recorded(monkeypatch, "refuted", "effort")
    forget()
    assert prove(Facts(), FAR, thorough=False) == QUICKLY_OPEN
    assert calls == [prover.FIRST_BUDGET]
    calls.clear()
    assert prove(given(FAR_ROOT), FALSE, thorough=False) == QUICKLY_OPEN
    assert calls == [prover.FIRST_BUDGET, prover.QUICK_BUDGET]


def test_simpler_goal_is_queried_thoroughly(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(simpler: Predicate) -> Answer:
        monkeypatch.setattr(_Query, "_simpler", lambda _: simpler)
        return _Query(Facts(), negation(equal(n * n, ix.constant(1_000_003**2))), thorough=True).answer()

    assert answer(SQUARE) == Proved("z3")
    assert isinstance(answer(less(n, m)), Refuted)


def test_inconsistency_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "MEMO_SIZE", 2)
    forget()
    for number, kept in enumerate((1, 2, 1, 2, 1)):
        assert not prover._inconsistent(given(less(x, ix.constant(number))))
        assert len(prover._inconsistencies) == kept
    forget()


# -- z3 ---------------------------------------------------------------------------------------------------------------


def test_z3_proves_from_relevant_facts() -> None:
    def by_its_own(facts: tuple[Predicate, ...], goal: Predicate) -> bool:
        query = _Query(given(*facts), goal, thorough=True)
        table = Table()
        for fact in (*facts, goal):
            read_predicate(table, fact, System())
        return query._by_related_facts(table)

    own, other = at_most(z, x * y), less(w, x)
    assert by_its_own((own, other), at_most(z, x * y + 1))
    assert not by_its_own((own, other), at_most(z + 1, x * y))
    assert not by_its_own((less(w, x * y), other), at_most(w, x * y - 2))
    assert not by_its_own((less(w, z),), at_most(x // n * n, x))  # true for positive n only


def test_z3_first_receives_relevant_facts_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "solve", lambda *_, **__: GaveUp("some reason"))
    forget()
    assert prove(Facts(), SQUARE) == Unknown("some reason")
    monkeypatch.setattr(_Query, "_by_related_facts", lambda *_: True)
    forget()
    assert prove(Facts(), SQUARE) == Proved("z3")
    forget()


def test_invalid_z3_models_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[bool] = []

    def solved(*_: object, defined: bool, **__: object) -> Sample:
        wrong.append(defined)
        return Sample(dict.fromkeys(range(1, 9), 0), {})

    monkeypatch.setattr(prover, "solve", solved)
    forget()
    assert prove(Facts(), SQUARE) == Unknown("z3's counterexample needs a quotient by zero or less")
    assert wrong == [False, True]
    forget()


# -- irrelevant facts -------------------------------------------------------------------------------------------------

FACTS_ABOUT: Final[dict[str, tuple[Predicate, bool]]] = {
    "a remainder": (less(x % 4, ix.constant(3)), True),
    "an impossible remainder": (at_most(ix.constant(5), x % 4), False),
    "a quotient and another variable": (less(y, x // 4), False),
    "a quotient and an element": (at_most(ix.read(PLAIN, (x,)), x // 4), False),
    "an element at a quotient": (at_most(ix.ZERO, ix.read(PLAIN, (x // 4,))), False),
    "a quotient and a maximum": (at_most(ix.imax(x, y), x // 4 * 4), False),
    "a quotient and bits": (at_most(ix.exclusive_or(x, y), x // 4 * 4), False),
    "a quotient by a size": (less(x - n * (x // n), n), False),
    "an equality": (equal(y, x // 4), False),
    "one of two remainders": (disjunction((less(x % 4, ix.constant(3)), less(ix.constant(1), x % 4))), True),
    "a remainder or another fact": (disjunction((less(x % 4, ix.constant(3)), less(x, y))), True),
    "one of two quotients": (disjunction((less(x // 4, y), less(y + 5, x // 4))), False),
    "one of two equalities": (disjunction((equal(x // 4, y), equal(x // 4, z))), False),
}


@pytest.mark.parametrize("name", FACTS_ABOUT)
def test_facts_about_quotients_only_are_recognised(name: str) -> None:
    fact, nothing_else = FACTS_ABOUT[name]
    assert _constrains_only_quotients((fact,)) is nothing_else


def test_irrelevant_facts_are_dropped_only_when_many() -> None:
    remainders = [less(x % (3 + at), ix.constant(2 + at)) for at in range(MIN_FACTS)]
    few, many = given(*remainders[1:]), given(*remainders)
    assert relevant(few, less(x, y)) is few
    assert relevant(many, less(x, y)) == Facts()
    assert relevant(many, less(x // 3, y)) is many
    assert relevant(many.assume(less(x % 20, ix.constant(9))), less(x // 3, y)) == given(remainders[0])
