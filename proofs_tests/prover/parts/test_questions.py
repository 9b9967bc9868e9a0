"""The layers that a question goes through: what each may conclude, in which order they are asked, what is counted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from atl.core.index import (
    ZERO,
    Array,
    Index,
    Quotient,
    Size,
    Var,
    constant,
    exclusive_or,
    imax,
    imin,
    index,
    read,
    size,
)
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, disjunction, equal, less, negation, within
from atl.prove import Answer, Facts, Proved, Refuted, Unknown, forget, prove, prover, simplify, without_smt
from atl.prove.answer import Statistics
from atl.prove.linear.rows import System, Table, read_predicate
from atl.prove.prover import _by_cases, _Query, _Solution, _solvable, _solve_equalities
from atl.prove.reduction import _divided, _shared_factors
from atl.prove.relevance import MIN_FACTS, _constrains_only_quotients, relevant
from atl.prove.search import Sample
from atl.prove.smt import GaveUp

VX, VY, VZ, VW = (Var(1 + at, name) for at, name in enumerate("xyzw"))
x, y, z, w = map(index, (VX, VY, VZ, VW))
n, m, k = map(size, "nmk")

SQUARE: Final = at_most(2 * n * m, n * n + m * m)
"""What z3 proves, and nothing else."""
FAR: Final = negation(equal(x // 2, constant(1_000_003)))
"""What is false farther off than numbers are tried."""
FAR_ROOT: Final = equal(w * w, constant(1_000_003**2))
"""What some number meets, farther off than numbers are tried."""
PLAIN: Final = Array("plain", (n,), "int64")

OPEN: Final = Unknown("z3 was not used")
QUICKLY_OPEN: Final = Unknown("the quick layers of the prover found neither a proof nor a counterexample")


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def counted(ask: Callable[[], object]) -> Statistics:
    before = prover.statistics.snapshot()
    ask()
    return prover.statistics.since(before)


def noted(monkeypatch: pytest.MonkeyPatch, name: str, what: str, of: object = prover) -> list[object]:
    """How a function is asked from now on: the keyword of this name in each call."""
    plain: Callable[..., Any] = vars(of)[name]
    found: list[object] = []

    def asked(*arguments: Any, **how: Any) -> Any:
        found.append(how.get(what))
        return plain(*arguments, **how)

    monkeypatch.setattr(of, name, asked)
    return found


# -- what may not be concluded ----------------------------------------------------------------------------------------


def test_what_is_false_for_one_remainder_is_not_proved_by_the_others() -> None:
    """One case is proved, and none is as good as a proof."""
    even = disjunction((equal(x, 2 * (x // 2)), FAR))
    forget()
    for goal in (FAR, even):
        assert not _by_cases(Facts(), goal)
        with without_smt():
            assert prove(Facts(), goal) == OPEN
        assert isinstance(prove(Facts(), goal), Refuted)
    assert not _by_cases(Facts(), less(x, y))
    assert _by_cases(Facts(), disjunction((equal(x, 2 * (x // 2)), equal(x, 2 * (x // 2) + 1))))


def test_the_case_where_an_alternative_fails_is_proved_or_not() -> None:
    facts = given(within(ZERO, y, constant(8)))
    other = equal(exclusive_or(y, 8 * x), y + 8 * x)

    def either(part: Predicate) -> Predicate:
        return disjunction((less(x, ZERO), conjunction((other, part))))

    with without_smt():
        assert prove(facts, either(less(y, constant(9)))) == Proved("linear")
        assert isinstance(prove(facts, either(less(y, constant(7)))), Refuted)
        assert not _by_cases(facts, either(equal(exclusive_or(y, 4 * x), y + 4 * x)))


@pytest.mark.long
def test_nothing_is_refuted_whose_other_facts_may_contradict_each_other() -> None:
    with without_smt():
        assert prove(given(FAR_ROOT), less(x, ZERO)) == OPEN
        assert prove(given(FAR_ROOT), SQUARE) == OPEN
        assert prove(given(FAR_ROOT), less(x, ZERO), thorough=False) == QUICKLY_OPEN
        assert prove(given(FAR_ROOT), at_most(x, x + n)) == Proved("trivial")
    assert isinstance(prove(given(less(y, z)), less(x, ZERO)), Refuted)
    cubes = given(equal(y * y * y + z * z * z + w * w * w, constant(33)))
    assert prove(cubes, FALSE) == prove(cubes, less(x, ZERO)) == Unknown("z3 gave up within its limit of steps")
    undefined = Unknown("the goal holds if every divisor is positive, which was not proved")
    assert prove(cubes, at_most(x // n * n, x)) == undefined
    apart = given(less(y, z), less(z, y), less(x, w))
    assert prove(apart, less(x, ZERO)) == Proved("linear", vacuous=True)
    assert prove(apart, less(x, w + 1)) == Proved("linear", vacuous=False)  # for which the others are not asked


def test_multiples_are_taken_out_only_of_quotients_by_what_is_positive() -> None:
    both = equal((x + k) // k + (y + m) // m, x // k + y // m + 2)
    assert isinstance(prove(given(less(ZERO, m), less(ZERO, k)), both), Proved)
    for facts in (given(less(ZERO, m)), given(less(ZERO, k)), Facts()):
        assert isinstance(prove(facts, both), Unknown)


def test_bits_are_divided_away_by_powers_of_two_alone() -> None:
    for by, left in ((2, y), (4, y), (8, y), (3, None), (6, None), (12, None)):
        facts = given(within(ZERO, x, constant(by)), at_most(ZERO, y))
        quotient = exclusive_or(x, by * y) // by
        assert simplify(facts, quotient) == (quotient if left is None else left)
        assert isinstance(prove(facts, equal(quotient, y)), Refuted if left is None else Proved)


def test_a_conjunction_is_open_where_a_part_is() -> None:
    facts = given(less(x, y), less(y, z))
    with without_smt():
        for parts in ((FAR, less(x, z)), (less(x, z), FAR)):
            assert prove(facts, conjunction(parts)) == OPEN
            assert prove(facts, conjunction(parts), thorough=False) == QUICKLY_OPEN


def test_only_numbers_that_meet_the_facts_and_break_the_goal_refute() -> None:
    table = Table()
    for leaf in (x, y, n):
        table.row(leaf)

    def checked(fact: Predicate, goal: Predicate, **values: int) -> bool:
        query = _Query(given(fact), goal, thorough=True)
        leaves = {at: values[atom.name] for at, atom in table.atoms.items() if isinstance(atom, Var | Size)}
        return query._checked(table, Sample(leaves, {}), _Solution((), goal, ())) is not None

    assert checked(less(x, y), less(y, x), x=0, y=1, n=0)
    assert not checked(less(x, y), less(y, x), x=1, y=1, n=0)
    assert not checked(less(x, y), less(x, 2 * y), x=0, y=1, n=0)
    assert not checked(less(x, y), less(y, x), x=0, y=1, n=-1)
    # A fact about a quotient by zero may be anything, for a goal that speaks of none.
    assert checked(less(x // n, y), less(y, x), x=0, y=1, n=0)
    assert not checked(less(x // n, y), less(y // 2, x), x=0, y=1, n=0)
    assert not checked(less(x, y), less(y // n, x), x=0, y=1, n=0)
    assert checked(less(x, y), less(y // n, x), x=0, y=1, n=1)


def test_arrays_are_those_of_the_question_and_of_what_they_declare() -> None:
    scalar = Array("scalar", (), "int64")
    bounded = Array("bounded", (n,), "int64", high=read(scalar, ()))
    query = _Query(given(at_most(read(PLAIN, (x,)), y)), less(read(bounded, (y,)), z), thorough=True)
    assert list(query._arrays(Table())) == [PLAIN, bounded]  # where equalities have taken the reads away
    table = Table()
    table.row(read(bounded, (y,)))
    assert set(query._arrays(table)) == {PLAIN, bounded, scalar}


# -- what is proved, and by what --------------------------------------------------------------------------------------


def test_rounding_is_for_questions_that_are_not_asked_in_passing() -> None:
    """y is -1, so 1 <= 2 x <= 1."""
    facts = given(at_most(constant(2), 2 * x - y), at_most(constant(2), -2 * x - 3 * y), at_most(constant(-1), y))
    with without_smt():
        assert prove(facts, FALSE) == Proved("linear", vacuous=True)
        assert prove(facts, FALSE, thorough=False) == QUICKLY_OPEN


def test_an_exclusive_or_that_an_equality_gives_is_put_in_before_bits_are_looked_at() -> None:
    facts = given(equal(x, exclusive_or(y, z)), within(ZERO, y, constant(8)), at_most(ZERO, w), at_most(ZERO, z))
    with without_smt():
        assert prove(facts, equal(exclusive_or(x, z, 8 * w), y + 8 * w)) == Proved("linear")
        assert prove(facts, equal(exclusive_or(x, z, 4 * w), y + 4 * w)) != Proved("linear")


def test_equalities_are_put_in_again_only_for_an_exclusive_or() -> None:
    facts, goal = given(equal(x, y)), at_most(x, y)
    solution = _solve_equalities(facts.predicates, negation(goal))
    assert solution.solved
    assert not _Query(facts, goal, thorough=True)._with_solved(solution)


def test_an_address_below_a_limit_that_may_be_no_size_is_inside() -> None:
    """k < max(0, n - 2) is k < n - 2: then the ends of six loops are seen."""
    address, extent, facts = x, n - 2, [at_most(ZERO, x), less(x, imax(ZERO, n - 2))]
    for number, side in enumerate(map(size, "mkabc")):
        at = index(Var(10 + number, "i"))
        address, extent = address * side + at, extent * side
        facts.append(within(ZERO, at, side))
    with without_smt():
        assert prove(given(*facts), less(address, extent)) == Proved("linear")
        assert not isinstance(prove(given(*facts), less(address + 1, extent)), Proved)


def test_a_divisor_that_turns_out_to_be_one_is_gone() -> None:
    assert simplify(given(less(ZERO, n)), x // imin(n, constant(1))) == x
    positive = given(less(ZERO, k))
    query = _Query(positive, less(x // (k // k), y), thorough=True)
    assert query._divided_out() == (positive.predicates, negation(less(x, y)))


def test_a_number_is_divided_once_a_multiple_is_taken_out_of_its_numerator() -> None:
    positive = given(less(ZERO, k))
    query = _Query(positive, less((2 * k * y + x) // k // 2, z), thorough=True)
    assert query._divided_out() == (positive.predicates, negation(less(y + x // k // 2, z)))


def test_a_quotient_by_what_is_not_positive_is_left_as_it_is() -> None:
    positive, dead = given(less(ZERO, k)), index(Quotient((2 * k * y + x) // k, ZERO))
    query = _Query(positive, less(dead, z), thorough=True)
    assert query._divided_out()[1] == negation(less(index(Quotient(2 * y + x // k, ZERO)), z))


def test_an_equality_that_could_not_be_solved_is_tried_again_after_another_one() -> None:
    solution = _solve_equalities((equal(2 * x, -3 * y), equal(x, 5 * w - 2 * y)), less(z, y))
    assert [leaf for leaf, _ in solution.solved] == [VX, VY]
    assert _solve_equalities((less(x, y), less(y, z)), less(z, x)) == _Solution(
        (less(x, y), less(y, z)), less(z, x), []
    )


def test_an_equality_gives_a_variable_rather_than_a_size() -> None:
    for expression in (x - n, n - x, n + x - m):
        found = _solvable(expression, set())
        assert found is not None
        assert found[0] == VX
    assert _solvable(n - 2 * x, set()) == (n.atom, 2 * x)
    assert _solvable(x - n, {VX}) == (n.atom, x)
    assert _solvable(k - m + n, set()) == (k.atom, m - n)
    assert _solvable(x - x // 2, set()) is None


def test_what_is_vacuous_is_seen_without_cases() -> None:
    around = at_most(ZERO, x + y), at_most(x + y, ZERO), at_most(ZERO, y), at_most(y, ZERO)
    facts = given(negation(equal(x, ZERO)), *around)
    assert prove(facts, less(x, y)) == Proved("linear", vacuous=False)
    assert prove(facts, FALSE) == Proved("linear", vacuous=True)
    assert prove(given(less(constant(0), x), *around), less(x, y)) == Proved("linear", vacuous=True)


# -- quotients made smaller -------------------------------------------------------------------------------------------

POSITIVE: Final = less(ZERO, k)

SMALLER: Final[dict[str, tuple[tuple[Predicate, ...], Index, Index]]] = {
    "the rest is decided": ((POSITIVE, within(constant(5), x, k + 5)), (2 * k + x - 5) // k, constant(2)),
    "a ceiling stays one": ((POSITIVE,), (2 * k + x - 5) // k, (x + k - 5) // k + 1),
    "without a number before it, it is none": ((POSITIVE,), (k * y + x - 1) // k, y + (x - 1) // k),
    "a factor of two": ((within(ZERO, y, constant(2)),), (2 * x + y) // 4, x // 2),
    "a factor of eight": ((within(ZERO, y, constant(8)),), (8 * x + y) // 16, x // 2),
    "the larger factor": ((within(ZERO, y, constant(2)),), (8 * x + 4 * z + y) // 16, (2 * x + z) // 4),
    "a symbolic factor": ((POSITIVE, less(ZERO, m), within(ZERO, y, k)), (k * x + y) // (k * m), x // m),
    "what may be as large as the factor": (
        (within(ZERO, y, constant(3)),), (2 * x + y) // 4, (2 * x + y) // 4
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALLER)
def test_a_quotient_is_made_smaller(name: str) -> None:
    facts, before, after = SMALLER[name]
    assert simplify(given(*facts), before) == after


def test_a_term_that_is_divided_with_a_rest_stays() -> None:
    assert _divided(3 * m + n, 2 * m + n) == (ZERO, 3 * m + n)
    assert _divided(4 * m + 2 * n, 2 * m + n) == (constant(2), ZERO)


def test_factors_are_those_of_terms_with_variables_the_largest_first() -> None:
    def found(numerator: Index, denominator: Index) -> list[Index]:
        return [factor for factor, _, _ in _shared_factors(numerator, denominator)]

    assert found(8 * x + y + 4, constant(16)) == [constant(8)]
    assert found(2 * x + 8 * y + 4 * z, constant(16)) == [constant(8), constant(4), constant(2)]
    assert found(n * m * x + n * y, n * m * k) == [n * m, m, n]
    assert found(2 * n * x + y, 2 * n) == [n]


# -- what is asked, and how often -------------------------------------------------------------------------------------


def test_every_answer_is_counted_once() -> None:
    facts = given(less(x, y), less(y, z))
    forget()
    with without_smt():
        assert counted(lambda: prove(Facts(), at_most(ZERO, n))) == Statistics(trivial=1)
        assert counted(lambda: prove(facts, less(x, y))) == Statistics(trivial=1)
        assert counted(lambda: prove(facts, less(x, z))) == Statistics(linear=1)
        assert counted(lambda: prove(facts, less(x, z))) == Statistics(memo=1)
        assert counted(lambda: prove(Facts(), less(x, y))) == Statistics(search=1)
        assert counted(lambda: prove(Facts(), FAR, thorough=False)) == Statistics(unknown=1)
    forget()
    assert counted(lambda: prove(facts, less(x, z))) == Statistics(linear=1)


def test_a_question_is_answered_once_whatever_its_variables_are_called() -> None:
    forget()
    facts, others = given(less(x, y), less(y, z)), given(less(y, z), less(z, w))
    assert counted(lambda: prove(facts, less(x, z))) == Statistics(linear=1)
    assert counted(lambda: prove(others, less(y, w))) == Statistics(memo=1)
    both = conjunction((less(x, z), less(x + 1, z)))
    assert counted(lambda: prove(facts, both)) == Statistics(memo=1, linear=1)
    assert counted(lambda: prove(facts, both)) == Statistics(memo=1)


def test_nothing_is_left_of_what_is_forgotten() -> None:
    prove(given(less(x, y), less(y, x)), less(x, z))
    assert prover._memo
    assert prover._inconsistencies
    forget()
    assert not prover._memo
    assert not prover._inconsistencies


def test_bits_are_looked_at_first_where_there_are_any_and_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch, "_by_bits", "thorough", _Query)
    forget()
    with without_smt():
        prove(Facts(), FAR, thorough=False)
        assert asked == []
        prove(Facts(), equal(exclusive_or(x, y), z), thorough=False)
        assert asked == [False]
        asked.clear()
        prove(Facts(), FAR)
        assert asked[-1] is True


def test_cases_and_what_makes_a_goal_smaller_are_asked_in_passing(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch, "prove", "thorough")
    _by_cases(Facts(), FAR)
    assert asked == [False]
    asked = noted(monkeypatch, "proves", "thorough")
    _Query(Facts(), less(x // n, y), thorough=True)._simpler()
    assert set(asked) == {False}


def test_rows_without_cases_and_products_are_put_to_elimination_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = noted(monkeypatch, "refuted", "effort")
    forget()
    assert prove(Facts(), FAR, thorough=False) == QUICKLY_OPEN
    assert asked == [prover.FIRST_EFFORT]
    asked.clear()
    assert prove(given(FAR_ROOT), FALSE, thorough=False) == QUICKLY_OPEN
    assert asked == [prover.FIRST_EFFORT, prover.QUICK_EFFORT]


def test_a_simpler_goal_is_asked_as_thoroughly(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(simpler: Predicate) -> Answer:
        monkeypatch.setattr(_Query, "_simpler", lambda _: simpler)
        return _Query(Facts(), negation(equal(n * n, constant(1_000_003**2))), thorough=True).answer()

    assert answer(SQUARE) == Proved("z3")
    assert isinstance(answer(less(n, m)), Refuted)


def test_what_is_known_of_facts_is_kept_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "MEMO_SIZE", 2)
    forget()
    for number, kept in enumerate((1, 2, 1, 2, 1)):
        assert not prover._inconsistent(given(less(x, constant(number))))
        assert len(prover._inconsistencies) == kept
    forget()


# -- z3 ---------------------------------------------------------------------------------------------------------------


def test_z3_proves_by_the_facts_about_what_is_asked() -> None:
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
    assert not by_its_own((less(w, z),), at_most(x // n * n, x))  # which it is only where n is positive


def test_z3_is_asked_first_with_the_facts_about_what_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "solve", lambda *_, **__: GaveUp("for a reason"))
    forget()
    assert prove(Facts(), SQUARE) == Unknown("for a reason")
    monkeypatch.setattr(_Query, "_by_related_facts", lambda *_: True)
    forget()
    assert prove(Facts(), SQUARE) == Proved("z3")
    forget()


def test_numbers_of_z3_that_do_not_meet_the_question_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong: list[bool] = []

    def solved(*_: object, defined: bool, **__: object) -> Sample:
        wrong.append(defined)
        return Sample(dict.fromkeys(range(1, 9), 0), {})

    monkeypatch.setattr(prover, "solve", solved)
    forget()
    assert prove(Facts(), SQUARE) == Unknown("z3's counterexample needs a quotient by zero or less")
    assert wrong == [False, True]
    forget()


# -- facts that say nothing of a goal ---------------------------------------------------------------------------------

SAYING: Final[dict[str, tuple[Predicate, bool]]] = {
    "a remainder": (less(x % 4, constant(3)), True),
    "a remainder that there is not": (at_most(constant(5), x % 4), False),
    "a quotient and another variable": (less(y, x // 4), False),
    "a quotient and an element": (at_most(read(PLAIN, (x,)), x // 4), False),
    "an element at a quotient": (at_most(ZERO, read(PLAIN, (x // 4,))), False),
    "a quotient and a maximum": (at_most(imax(x, y), x // 4 * 4), False),
    "a quotient and bits": (at_most(exclusive_or(x, y), x // 4 * 4), False),
    "a quotient by a size": (less(x - n * (x // n), n), False),
    "an equality": (equal(y, x // 4), False),
    "one of two remainders": (disjunction((less(x % 4, constant(3)), less(constant(1), x % 4))), True),
    "a remainder, or something else": (disjunction((less(x % 4, constant(3)), less(x, y))), True),
    "either of two things": (disjunction((less(x // 4, y), less(y + 5, x // 4))), False),
    "either of two equalities": (disjunction((equal(x // 4, y), equal(x // 4, z))), False),
}


@pytest.mark.parametrize("name", SAYING)
def test_a_fact_says_nothing_but_of_its_quotients(name: str) -> None:
    fact, nothing_else = SAYING[name]
    assert _constrains_only_quotients((fact,)) is nothing_else


def test_so_many_facts_are_left_out_and_no_fewer() -> None:
    remainders = [less(x % (3 + at), constant(2 + at)) for at in range(MIN_FACTS)]
    few, many = given(*remainders[1:]), given(*remainders)
    assert relevant(few, less(x, y)) is few
    assert relevant(many, less(x, y)) == Facts()
    assert relevant(many, less(x // 3, y)) is many
    assert relevant(many.assume(less(x % 20, constant(9))), less(x // 3, y)) == given(remainders[0])
