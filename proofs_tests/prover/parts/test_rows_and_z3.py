"""What single parts of the linear prover add to a system, and what z3 is told: no more than holds, and no less."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from atl.core.index import ZERO, Array, Index, Read, Var, constant, exclusive_or, imax, imin, index, read, size
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, disjunction, equal, less, negation, within
from atl.prove import Answer, Facts, Proved, Refuted, Unknown, forget, prove, prover, simplify, without_smt
from atl.prove.answer import Statistics
from atl.prove.cases import with_plain_limits
from atl.prove.ends import _Ends
from atl.prove.linear import solver
from atl.prove.linear.cases import decide_cases
from atl.prove.linear.elimination import Budget
from atl.prove.linear.factors import factor
from atl.prove.linear.intervals import Intervals, propagate
from atl.prove.linear.rows import Row, System, Table, read_predicate
from atl.prove.linear.solver import _Refutation, _State, refuted
from atl.prove.prover import _contains_multiple, _Query, _solve_equalities
from atl.prove.reduction import _divided, _shared_factors
from atl.prove.relevance import _constrains_only_quotients
from atl.prove.search import Elements, Sample, search
from atl.prove.smt import STEPS_AGAIN, Contradiction, solve

VX, VY, VZ = (Var(1 + at, name) for at, name in enumerate("xyz"))
x, y, z = map(index, (VX, VY, VZ))
n, m, k = map(size, "nmk")

STRICT = Array("strict", (n,), "int64", low=ZERO, high=m, monotonic="increasing")
RISING = Array("rising", (n,), "int64", low=ZERO, high=m, monotonic="nondecreasing")
POSITIONS = Array("pos", (n,), "int64", low=ZERO)
PARTED = Array("parted", (m,), "int64", monotonic="increasing", between=POSITIONS)
PLAIN = Array("plain", (n,), "int64")


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def asked(*facts: Predicate) -> tuple[Table, System]:
    table, whole = Table(), System()
    for fact in facts:
        read_predicate(table, fact, whole)
    return table, whole


def contradictory(*facts: Predicate) -> bool:
    """Whether z3 sees that the facts contradict each other; where not, it has numbers that meet them."""
    verdict = solve(*asked(*facts), defined=False)
    assert isinstance(verdict, Contradiction | Sample)
    return isinstance(verdict, Contradiction)


# -- rows -------------------------------------------------------------------------------------------------------------


def rows_of(of: Index, *facts: Predicate) -> tuple[int, list[Row]]:
    """The column of an atom, and the rows that its definition adds to the facts."""
    table, system = asked(*facts)
    ((column, _),) = table.row(of).items()
    state = _State(system.copy(), list(table.atoms))
    _Refutation(table, Budget(1_000), wide=False).define(state)
    return column, state.system.rows[len(system.rows) :]


def test_a_quotient_by_a_size_has_the_sign_of_its_numerator_and_is_no_smaller() -> None:
    positive = less(ZERO, k)
    column, rows = rows_of(x // k, positive, at_most(x, constant(-1)))
    assert rows[2:] == [{column: -1, 0: -1}]
    column, rows = rows_of(x // k, positive, at_most(ZERO, x))
    assert rows[2:] == [{column: 1}]
    assert len(rows_of(x // k, positive, at_most(x, ZERO))[1]) == 2
    assert len(rows_of(x // 4, at_most(x, constant(-1)))[1]) == 2


def test_an_exclusive_or_of_numbers_that_are_natural_has_their_bits() -> None:
    natural = at_most(ZERO, x), at_most(ZERO, y)
    for limits, more in (((), []), ((less(x, constant(8)),), []), ((less(x, constant(8)), less(y, constant(5))), [7])):
        column, rows = rows_of(exclusive_or(x, y), *natural, *limits)
        assert {column: 1} in rows
        assert [row[0] for row in rows if row.keys() == {0, column}] == more
    assert rows_of(exclusive_or(x, y), natural[0])[1] == []


def test_what_is_seen_to_be_natural_only_by_a_later_definition_is_defined_then() -> None:
    both = at_most(exclusive_or(x, y), n), at_most(ZERO, y), at_most(z // 4, x), at_most(ZERO, z)
    column, rows = rows_of(exclusive_or(x, y), *both)
    assert {column: 1} in rows


def test_bounds_of_columns_are_rows() -> None:
    refutation = _Refutation(Table(), Budget(1), wide=False)
    bounds = refutation._bounds(Intervals(Table(), {1: 2, 2: 0}, {1: 5, 3: 0}))
    assert bounds == [{1: 1, 0: -2}, {2: 1}, {1: -1, 0: 5}, {3: -1}]


def test_of_two_bounds_the_narrower_one_is_kept() -> None:
    bounds = Intervals(Table())
    for value in (5, 7, 4, 6):
        bounds.lower_high(1, value)
        bounds.raise_low(1, -value)
    assert (bounds.low, bounds.high) == ({1: -4}, {1: 4})


def test_a_product_has_the_bounds_of_its_factors_and_a_square_is_natural() -> None:
    table = Table()
    ((of_product, _),), ((of_square, _),) = table.row(x * y).items(), table.row(x * x).items()
    ((of_x, _),), ((of_y, _),) = table.row(x).items(), table.row(y).items()
    bounds = Intervals(table, {of_x: -2, of_y: 1}, {of_x: 3, of_y: 4})
    assert not propagate(bounds, [], [])
    assert (bounds.low[of_product], bounds.high[of_product]) == (-8, 12)
    assert (bounds.low[of_square], bounds.high[of_square]) == (0, 9)


def test_rows_of_a_number_alone_have_no_factor() -> None:
    table = Table()
    table.row(x * y)
    system = System([{0: 3}, {}], [{}])
    factor(system, Intervals(table, {}, {}))
    assert (system.rows, system.equalities) == ([{0: 3}, {}], [{}])


def test_an_alternative_of_two_rows_is_fulfilled_by_no_single_one() -> None:
    case = System([{1: 1}, {3: 1}]), System([{2: 1}])
    known = System([{1: 1}], [], [case])
    assert not decide_cases(known)
    assert known.cases == [case]
    nothing = System([{1: 1}], [], [(System(), System([{2: 1}]))])
    assert not decide_cases(nothing)


def test_a_minimum_is_no_limit_that_is_made_plain() -> None:
    least = given(at_most(ZERO, x), less(x, imin(y, ZERO)))
    assert with_plain_limits(least) is least
    most = given(at_most(ZERO, x), less(x, imax(y, ZERO)))
    assert with_plain_limits(most).predicates == (at_most(ZERO, x), less(x, y))


def test_a_quotient_is_at_most_what_its_numerator_is_at_most() -> None:
    positive = less(ZERO, k)

    def ends_of(quotient: Index) -> list[Index]:
        facts = given(positive, within(ZERO, x, n))
        assert quotient.atom is not None
        return list(_Ends(facts, lambda predicate: predicate == positive)._ends(quotient.atom, up=True))

    assert ends_of(x // k) == [(n - 1 + k) // k - 1]
    assert ends_of((x + m) // k) == [(n + m - 1 + k) // k - 1]
    assert ends_of((2 * x) // k) == []
    stated = given(positive, within(ZERO, x, n), at_most(x // k, m))
    atom = (x // k).atom
    assert atom is not None
    assert list(_Ends(stated, lambda _: False)._ends(atom, up=True)) == [m]


def test_the_only_case_of_a_goal_is_split_before_all_others_are() -> None:
    """Which alternatives of a goal contradict the facts is no split that counts."""
    known = System([{1: 1, 2: -1}, {2: 1, 3: -1}])  # x >= y >= z
    either = (System([{3: 1, 1: -1, 0: -1}]), System([{3: 1, 1: -1, 0: -2}]))
    table = asked(equal(x + y + z, ZERO))[0]
    assert refuted(table, known, System([], [], [either]), splits=0)
    apart = (System([{1: 1, 2: -1, 0: -1}]), System([{2: 1, 1: -1, 0: -1}]))
    assert not refuted(table, System(), System([], [], [apart]))
    assert refuted(table, System(), System([], [{1: 1, 2: -1}], [apart]))


def test_a_case_of_which_an_alternative_fails_is_split_first() -> None:
    """Of three cases that need elimination one says nothing: with two splits there is none to lose on it."""
    table = asked(*(equal(index(Var(at, f"v{at}")), ZERO) for at in range(1, 10)))[0]
    known = System([{1: 1, 2: -1}, {2: 1, 3: -1}])
    idle = (System([{9: 1, 0: -1}]), System([{9: -1, 0: -1}]))
    first = (System([{3: 1, 1: -1, 0: -1}]), System([{4: 1, 5: -1, 0: -1}]))
    second = tuple(System([{at: 1, 4: -1}, {5: 1, at: -1}]) for at in (6, 7))
    facts = System(known.rows, [], [idle, first, second])
    assert [refuted(table, facts, System(), splits=splits) for splits in range(4)] == [False, False, True, True]


def test_elements_at_one_position_are_one() -> None:
    square = Array("square", (n, n), "int64")

    def seen(facts: tuple[Predicate, ...], left: Index, right: Index) -> bool:
        table, known = asked(*facts)
        denied = System()
        read_predicate(table, negation(at_most(left, right)), denied)
        return refuted(table, known, denied)

    same, beside = (at_most(x, y), at_most(y, x)), (at_most(x, y + 1), at_most(y + 1, x))
    assert seen(same, read(PLAIN, (x,)), read(PLAIN, (y,)))
    assert seen(beside, read(PLAIN, (x,)), read(PLAIN, (y + 1,)))
    assert seen(beside, read(square, (z, x)), read(square, (z, y + 1)))
    assert not seen(beside, read(PLAIN, (x,)), read(PLAIN, (y,)))
    assert not seen(same, read(square, (z, x)), read(square, (y, z)))


def test_so_many_reads_are_paired_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = asked(equal(read(PLAIN, (x,)) + read(PLAIN, (y,)) + read(PLAIN, (z,)), ZERO))

    def pairs(most: int) -> int:
        monkeypatch.setattr(solver, "MAX_READ_PAIRS", most)
        state = _State(System(), list(table.atoms))
        _Refutation(table, Budget(1_000), wide=False).define(state)
        return sum(len(case) == 3 for case in state.system.cases)

    assert [pairs(most) for most in range(5)] == [0, 1, 2, 3, 3]


def test_a_factor_of_zero_leaves_what_is_left_of_a_row() -> None:
    table, system = asked(at_most(ZERO, x), at_most(x, ZERO), at_most(ZERO, x * y))
    assert search(table, system, undefined=True).sample(1) is not None
    table, system = asked(at_most(ZERO, x), at_most(x, ZERO), equal(x * y, ZERO))
    assert search(table, system, undefined=True).sample(1) is not None


def test_what_an_equality_leaves_one_value_is_chosen_at_once() -> None:
    around = within(constant(-100), y, constant(100))
    for factor_, value in ((2, 3), (-2, -3), (3, 2)):
        table, system = asked(within(constant(6), x, constant(7)), around, equal(factor_ * y, x))
        for seed in range(1, 9):
            sample = search(table, system, undefined=True, seed=seed).sample(1)
            assert sample is not None
            assert sorted(sample.leaves.values()) == sorted((6, value))


def test_rows_without_unknowns_are_met_or_not() -> None:
    assert search(Table(), System([{0: 1}]), undefined=True).sample(1) == Sample({}, {})
    assert search(Table(), System([{0: -1}]), undefined=True).sample(1) is None


def test_an_element_lies_between_all_that_are_known() -> None:
    table, system = asked(at_most(ZERO, read(RISING, (x,))))
    found = search(table, system, undefined=True)
    (column,) = (column for column, atom in table.atoms.items() if isinstance(atom, Read))
    values = {of: 2 if atom == VX else 20 for of, atom in table.atoms.items() if of != column}
    known: Elements = {("rising", (at,)): value for at, value in ((3, 5), (4, 9), (0, 1), (1, 3), (25, 2))}
    atom = table.atoms[column]
    assert isinstance(atom, Read)
    for order in (known, dict(reversed(known.items()))):
        assert found._between_neighbours(column, atom, values, order, None, None, 0) == (3, 5)
        assert found._between_neighbours(column, atom, values, order, None, None, 1) == (4, 4)


def test_the_element_of_a_scalar_is_in_no_order() -> None:
    one = read(Array("one", (), "int64", low=constant(3), monotonic="increasing"), ())
    table, system = asked(at_most(one, constant(3)))
    sample = search(table, system, undefined=True).sample(1)
    assert sample is not None
    assert sample.elements == {("one", ()): 3}


def test_what_an_equality_gives_is_put_in_wherever_it_stands() -> None:
    """Of these the first is an equality, and the last one once the first has been put in."""
    solution = _solve_equalities((equal(x, y + 1), at_most(ZERO, z), equal(z, x)), at_most(x, z))
    assert [leaf for leaf, _ in solution.solved] in ([VX, VY], [VX, VZ], [VY, VX], [VY, VZ])


def test_of_a_number_as_much_is_divided_as_there_is() -> None:
    assert _divided(4 * x + 5, constant(4)) == (x + 1, constant(1))
    assert _divided(4 * x + 3 * y, constant(4)) == (x, 3 * y)


# -- the layers -------------------------------------------------------------------------------------------------------


def test_a_conjunction_holds_vacuously_where_a_part_does() -> None:
    facts = given(less(x, ZERO), less(ZERO, x))
    parts = less(y, z), less(x, ZERO)
    for goal in (conjunction(parts), conjunction(parts[::-1])):
        assert prove(facts, goal) == Proved("linear", vacuous=True)


def test_what_proves_the_false_is_vacuous_however_it_was_seen() -> None:
    facts = given(
        negation(equal(x, ZERO)), at_most(ZERO, x + y), at_most(x + y, ZERO), at_most(ZERO, y), at_most(y, ZERO)
    )
    assert prove(facts, FALSE) == Proved("linear", vacuous=True)


def test_a_product_is_tried_at_the_ends_of_its_ranges() -> None:
    facts = given(within(ZERO, x, n), within(ZERO, y, m))
    for goal, seen in ((at_most(x * m + y, n * m - 1), True), (at_most(x + y, n + m), False)):
        assert _Query(facts, goal, thorough=False)._at_ends() is seen


def test_a_multiple_in_a_numerator_is_seen() -> None:
    quotients = ((n * k + x) // k, (x * k + y) // (k * n), constant(7) // k, (n + 1) // k, (k + n) // (k + 1))
    assert [_contains_multiple(q) for e in quotients if (q := e.atom)] == [True, False, True, False, False]


def test_multiples_are_taken_out_of_quotients_before_anything_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, goal = given(less(ZERO, k)), equal((x + y * k) // k, x // k + y)
    assert _Query(facts, goal, thorough=False)._divided_out() != (facts.predicates, negation(goal))
    asked_how: list[bool] = []

    def noted(*_: object, thorough: bool) -> bool:
        asked_how.append(thorough)
        return True

    with monkeypatch.context() as patch:
        patch.setattr(prover, "proves", noted)
        _Query(facts, goal, thorough=True)._divided_out()
    assert asked_how == [False]  # or the question would come back
    query = _Query(facts, less(x, y), thorough=False)
    assert query._divided_out() == (facts.predicates, negation(less(x, y)))
    monkeypatch.setattr(_Query, "_divided_out", lambda _: (facts.predicates, FALSE))
    assert query.answer() == Proved("linear")
    assert replace(query, as_written=True).answer() != Proved("linear")


def test_what_is_not_seen_with_multiples_taken_out_is_asked_as_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    query = _Query(given(less(x, y), less(y, z)), less(x, z), thorough=False)
    monkeypatch.setattr(_Query, "_divided_out", lambda _: ((), less(x, z)))
    assert query.answer() == Proved("linear")
    assert replace(query, simplified=True).answer() == Unknown(
        "the quick layers of the prover found neither a proof nor a counterexample"
    )


def test_a_simpler_goal_is_refuted_only_by_arrays_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the goal read may be gone from it: no array has elements from 5 up to 3."""
    none = Array("none", (n,), "int64", low=constant(5), high=constant(3))
    facts = given(less(ZERO, n), less(z, y), less(y, x))

    def answer(array: Array, simpler: Predicate) -> Answer:
        monkeypatch.setattr(_Query, "_simpler", lambda _: simpler)
        with without_smt():
            return _Query(facts, less(read(array, (x,)), read(array, (z,)) * y), thorough=True).answer()

    assert answer(none, less(z, x)) == Proved("linear")
    assert answer(none, equal(x, z + 7)) == Unknown(
        "no array has the declared properties and the elements that were found"
    )


def test_what_z3_shows_for_positive_divisors_alone_is_said_to_be_so() -> None:
    """It is counted as open, too."""
    goal = at_most((x // n) * n, x)
    before = prover.statistics.snapshot()
    answer = prove(Facts(), goal)
    assert answer == Unknown("the goal holds if every divisor is positive, which was not proved")
    assert prover.statistics.since(before).unknown == 1


def test_a_quotient_is_one_below_twice_its_divisor() -> None:
    positive = less(ZERO, k)
    assert simplify(given(positive, at_most(k, x), less(x, 2 * k)), x // k) == constant(1)
    assert simplify(given(positive, at_most(k, x), less(x, k + 2)), x // k) == x // k  # 2 for k = 1 and x = 2


def test_what_holds_no_multiple_has_no_shared_factor() -> None:
    assert list(_shared_factors(x, n * m)) == []
    assert [(factor, whole, rest) for factor, whole, rest in _shared_factors(n * y + x, n * m)] == [(n, y, x)]


def test_facts_about_products_say_something_of_their_factors() -> None:
    assert _constrains_only_quotients((less(x % 4, constant(3)),))
    assert not _constrains_only_quotients((at_most(x * y, 4 * (z // 4)),))
    inside = disjunction((less(constant(4), x), less(y, ZERO)))
    either = (conjunction((less(x % 4, constant(3)), inside)), conjunction((less(ZERO, x % 4), inside)))
    assert not _constrains_only_quotients((disjunction(either),))
    assert _constrains_only_quotients((disjunction((less(x % 4, constant(3)), less(ZERO, x % 4))),))


def test_what_equalities_give_is_put_into_an_exclusive_or() -> None:
    facts, goal = given(equal(x, 2 * z + y)), equal(exclusive_or(x, y), exclusive_or(2 * z + y, y))
    solution = _solve_equalities(facts.predicates, negation(goal))
    assert solution.solved
    assert _Query(facts, goal, thorough=True)._with_solved(solution)
    assert not _Query(facts, equal(exclusive_or(x, y), 2 * z), thorough=True)._with_solved(solution)


def test_bits_that_are_divided_away_leave_an_exclusive_or() -> None:
    facts = given(within(ZERO, x, constant(8)))
    assert simplify(facts, exclusive_or(8 * y, x) // 8) == y
    assert simplify(facts, exclusive_or(8 * y, x) // 4) != 2 * y


# -- z3 ---------------------------------------------------------------------------------------------------------------


def test_of_what_z3_says_nothing_there_is_a_value() -> None:
    table = Table()
    table.row(x + read(PLAIN, (y,)))
    found = solve(table, System(), defined=False)
    assert isinstance(found, Sample)
    assert len(found.leaves) == 3


def test_z3_is_told_what_a_minimum_and_a_maximum_are() -> None:
    for value in range(1, 7):
        known = equal(x, constant(2)), equal(y, constant(5))
        assert contradictory(*known, equal(imin(x, y), constant(value))) == (value != 2)
        assert contradictory(*known, equal(imax(x, y), constant(value))) == (value != 5)


def test_z3_is_told_that_equal_numbers_have_no_exclusive_or() -> None:
    for value in (-1, 0, 1):
        both = equal(x, constant(2)), equal(y, constant(2))
        assert contradictory(*both, equal(exclusive_or(x, y), constant(value))) == (value != 0)
    apart = equal(x, constant(8)), equal(y, constant(1))
    assert not contradictory(*apart, equal(exclusive_or(x, y), constant(9)))


@pytest.mark.parametrize(("array", "least"), [(STRICT, 2), (RISING, 0), (PLAIN, -9)])
def test_z3_is_told_in_which_order_elements_are(array: Array, least: int) -> None:
    """Of one array alone: what stands in another one is as it is."""
    other = Array("other", (n,), "int64", low=ZERO, high=m, monotonic="increasing")
    inside = within(ZERO, x, n), within(ZERO, y, n), equal(y, x + 2)
    for step in range(-1, 4):
        risen = equal(read(array, (x,)), constant(3)), equal(read(array, (y,)), constant(3 + step))
        assert contradictory(*inside, *risen) == (step < least)
        turned = equal(read(array, (y,)), constant(3)), equal(read(array, (x,)), constant(3 + step))
        assert contradictory(*inside, *turned) == (-step < least)
        apart = equal(read(array, (x,)), constant(3)), equal(read(other, (y,)), constant(3 + step))
        assert not contradictory(*inside, *apart)


def test_z3_is_told_that_a_row_rises_between_two_neighbouring_positions_alone() -> None:
    begin, end = read(POSITIONS, (z,)), read(POSITIONS, (z + 1,))
    inside = within(ZERO, z, n - 1), within(ZERO, x, m), within(ZERO, y, m), equal(y, x + 2)
    for (first, last), step in product(((True, True), (True, False), (False, True)), (-1, 1, 2)):
        where = at_most(begin, x) if first else less(x, begin), less(y, end) if last else at_most(end, y)
        held = equal(read(PARTED, (x,)), constant(3)), equal(read(PARTED, (y,)), constant(3 + step))
        assert contradictory(*inside, *where, *held) == (first and last and step < 2)


def test_z3_is_asked_again_only_where_there_are_products_and_facts_that_may_be_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own, other = (at_most(ZERO, x), less(ZERO, y)), less(z, x)
    seen: list[int] = []

    def noted(*_: object, steps: int, **__: object) -> Contradiction:
        seen.append(steps)
        return Contradiction()

    monkeypatch.setattr(prover, "solve", noted)

    def by_its_own(facts: tuple[Predicate, ...], goal: Predicate) -> bool:
        return _Query(given(*facts), goal, thorough=True)._by_related_facts(asked(*facts, goal)[0])

    assert by_its_own((*own, other), at_most(ZERO, x * y))
    assert seen == [STEPS_AGAIN]
    assert not by_its_own(own, at_most(ZERO, x * y))
    assert not by_its_own((*own, other), at_most(ZERO, x + y))
    assert not by_its_own(own, at_most(ZERO, x + y))
    assert seen == [STEPS_AGAIN]


def test_what_z3_proves_refutes_and_leaves_open_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    square = at_most(2 * n * m, n * n + m * m)
    before = prover.statistics.snapshot()
    forget()
    with without_smt():
        assert prove(Facts(), square) == Unknown("z3 was not used")
    assert prover.statistics.since(before) == Statistics(unknown=1)
    assert prove(Facts(), square) == Proved("z3")
    assert prover.statistics.since(before) == Statistics(unknown=1, z3=1)
    monkeypatch.setattr(_Query, "_sampled", lambda *_: None)
    assert isinstance(prove(Facts(), less(2 * n * m, n * n + m * m)), Refuted)
    assert prover.statistics.since(before) == Statistics(unknown=1, z3=1, z3_refuted=1)
