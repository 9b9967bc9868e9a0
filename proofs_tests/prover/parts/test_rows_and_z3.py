"""Rows that parts of the linear prover add, and assertions that z3 receives."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest

from atl.core.index import ZERO, Array, Index, Read, Var, constant, exclusive_or, imax, imin, index, read
from atl.core.predicate import FALSE, Predicate, at_most, conjunction, disjunction, equal, less, negation, within
from atl.prove import Answer, Facts, Proved, Refuted, Unknown, forget, linear, prove, prover, simplify, without_smt
from atl.prove.facts import Statistics
from atl.prove.linear import _Refutation, _State, decide_cases, factor, refuted
from atl.prove.prover import _contains_multiple, _Query, _solve_equalities
from atl.prove.reduction import _divided, _shared_factors
from atl.prove.rows import Budget, Intervals, Row, System, Table, propagate
from atl.prove.search import Elements, Sample, search
from atl.prove.smt import STEPS_AGAIN, Contradiction, solve
from atl.prove.steps import _constrains_only_quotients, _Ends, with_plain_limits
from proofs_tests.prover import common
from proofs_tests.prover.common import VX, VY, VZ, given, k, m, n, refutes_denial, system_of, x, y, z, z3_contradicts


def rows_of(of: Index, *facts: Predicate) -> tuple[int, list[Row]]:
    """Return the column of an atom, and the rows that its definition adds to the facts."""
    table, system = system_of(*facts)
    ((column, _),) = table.row(of).items()
    state = _State(system.copy(), list(table.atoms))
    _Refutation(table, Budget(1_000), wide=False).define(state)
    return column, state.system.rows[len(system.rows) :]


def test_quotient_by_size_has_sign_of_numerator() -> None:
    positive = less(ZERO, k)
    column, rows = rows_of(x // k, positive, at_most(x, constant(-1)))
    assert rows[2:] == [{column: -1, 0: -1}]
    column, rows = rows_of(x // k, positive, at_most(ZERO, x))
    assert rows[2:] == [{column: 1}]
    assert len(rows_of(x // k, positive, at_most(x, ZERO))[1]) == 2
    assert len(rows_of(x // 4, at_most(x, constant(-1)))[1]) == 2


def test_xor_of_natural_numbers_is_bounded_by_their_bits() -> None:
    natural = at_most(ZERO, x), at_most(ZERO, y)
    for limits, more in (((), []), ((less(x, constant(8)),), []), ((less(x, constant(8)), less(y, constant(5))), [7])):
        column, rows = rows_of(exclusive_or(x, y), *natural, *limits)
        assert {column: 1} in rows
        assert [row[0] for row in rows if row.keys() == {0, column}] == more
    assert rows_of(exclusive_or(x, y), natural[0])[1] == []


def test_xor_is_defined_after_its_operands_become_natural() -> None:
    both = at_most(exclusive_or(x, y), n), at_most(ZERO, y), at_most(z // 4, x), at_most(ZERO, z)
    column, rows = rows_of(exclusive_or(x, y), *both)
    assert {column: 1} in rows


def test_column_bounds_become_rows() -> None:
    refutation = _Refutation(Table(), Budget(1), wide=False)
    bounds = refutation._bounds(Intervals(Table(), {1: 2, 2: 0}, {1: 5, 3: 0}))
    assert bounds == [{1: 1, 0: -2}, {2: 1}, {1: -1, 0: 5}, {3: -1}]


def test_narrower_bound_is_kept() -> None:
    bounds = Intervals(Table())
    for value in (5, 7, 4, 6):
        bounds.lower_high(1, value)
        bounds.raise_low(1, -value)
    assert (bounds.low, bounds.high) == ({1: -4}, {1: 4})


def test_products_and_squares_get_interval_bounds() -> None:
    table = Table()
    ((of_product, _),), ((of_square, _),) = table.row(x * y).items(), table.row(x * x).items()
    ((of_x, _),), ((of_y, _),) = table.row(x).items(), table.row(y).items()
    bounds = Intervals(table, {of_x: -2, of_y: 1}, {of_x: 3, of_y: 4})
    assert not propagate(bounds, [], [])
    assert (bounds.low[of_product], bounds.high[of_product]) == (-8, 12)
    assert (bounds.low[of_square], bounds.high[of_square]) == (0, 9)


def test_constant_rows_are_not_factored() -> None:
    table = Table()
    table.row(x * y)
    system = System([{0: 3}, {}], [{}])
    factor(system, Intervals(table, {}, {}))
    assert (system.rows, system.equalities) == ([{0: 3}, {}], [{}])


def test_alternative_needs_all_its_rows() -> None:
    case = System([{1: 1}, {3: 1}]), System([{2: 1}])
    known = System([{1: 1}], [], [case])
    assert not decide_cases(known)
    assert known.cases == [case]
    nothing = System([{1: 1}], [], [(System(), System([{2: 1}]))])
    assert not decide_cases(nothing)


def test_limits_with_minimum_are_kept() -> None:
    least = given(at_most(ZERO, x), less(x, imin(y, ZERO)))
    assert with_plain_limits(least) is least
    most = given(at_most(ZERO, x), less(x, imax(y, ZERO)))
    assert with_plain_limits(most).predicates == (at_most(ZERO, x), less(x, y))


def test_quotient_is_bounded_by_its_numerator() -> None:
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


def test_goal_case_is_split_first() -> None:
    """Discarding alternatives that contradict the facts costs no split."""
    known = System([{1: 1, 2: -1}, {2: 1, 3: -1}])  # x >= y >= z
    either = (System([{3: 1, 1: -1, 0: -1}]), System([{3: 1, 1: -1, 0: -2}]))
    table = system_of(equal(x + y + z, ZERO))[0]
    assert refuted(table, known, System([], [], [either]), splits=0)
    unequal = (System([{1: 1, 2: -1, 0: -1}]), System([{2: 1, 1: -1, 0: -1}]))
    assert not refuted(table, System(), System([], [], [unequal]))
    assert refuted(table, System(), System([], [{1: 1, 2: -1}], [unequal]))


def test_case_with_failing_alternative_is_split_first() -> None:
    """One of three cases is useless; two splits are enough if it is not chosen."""
    table = system_of(*(equal(index(Var(at, f"v{at}")), ZERO) for at in range(1, 10)))[0]
    known = System([{1: 1, 2: -1}, {2: 1, 3: -1}])
    idle = (System([{9: 1, 0: -1}]), System([{9: -1, 0: -1}]))
    first = (System([{3: 1, 1: -1, 0: -1}]), System([{4: 1, 5: -1, 0: -1}]))
    second = tuple(System([{at: 1, 4: -1}, {5: 1, at: -1}]) for at in (6, 7))
    facts = System(known.rows, [], [idle, first, second])
    assert [refuted(table, facts, System(), splits=splits) for splits in range(4)] == [False, False, True, True]


def test_reads_at_equal_positions_are_equal() -> None:
    square = Array("square", (n, n), "int64")

    def seen(facts: tuple[Predicate, ...], left: Index, right: Index) -> bool:
        return refutes_denial(facts, at_most(left, right))

    same, shifted = (at_most(x, y), at_most(y, x)), (at_most(x, y + 1), at_most(y + 1, x))
    assert seen(same, read(common.PLAIN, (x,)), read(common.PLAIN, (y,)))
    assert seen(shifted, read(common.PLAIN, (x,)), read(common.PLAIN, (y + 1,)))
    assert seen(shifted, read(square, (z, x)), read(square, (z, y + 1)))
    assert not seen(shifted, read(common.PLAIN, (x,)), read(common.PLAIN, (y,)))
    assert not seen(same, read(square, (z, x)), read(square, (y, z)))


def test_number_of_paired_reads_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    table, _ = system_of(equal(read(common.PLAIN, (x,)) + read(common.PLAIN, (y,)) + read(common.PLAIN, (z,)), ZERO))

    def pairs(most: int) -> int:
        monkeypatch.setattr(linear, "MAX_READ_PAIRS", most)
        state = _State(System(), list(table.atoms))
        _Refutation(table, Budget(1_000), wide=False).define(state)
        return sum(len(case) == 3 for case in state.system.cases)

    assert [pairs(most) for most in range(5)] == [0, 1, 2, 3, 3]


def test_zero_factor_keeps_the_rest_of_a_row() -> None:
    table, system = system_of(at_most(ZERO, x), at_most(x, ZERO), at_most(ZERO, x * y))
    assert search(table, system, undefined=True).sample(1) is not None
    table, system = system_of(at_most(ZERO, x), at_most(x, ZERO), equal(x * y, ZERO))
    assert search(table, system, undefined=True).sample(1) is not None


def test_value_fixed_by_an_equality_is_chosen_directly() -> None:
    around = within(constant(-100), y, constant(100))
    for factor_, value in ((2, 3), (-2, -3), (3, 2)):
        table, system = system_of(within(constant(6), x, constant(7)), around, equal(factor_ * y, x))
        for seed in range(1, 9):
            sample = search(table, system, undefined=True, seed=seed).sample(1)
            assert sample is not None
            assert sorted(sample.leaves.values()) == sorted((6, value))


def test_constant_rows_are_checked() -> None:
    assert search(Table(), System([{0: 1}]), undefined=True).sample(1) == Sample({}, {})
    assert search(Table(), System([{0: -1}]), undefined=True).sample(1) is None


def test_element_is_chosen_between_its_neighbours() -> None:
    table, system = system_of(at_most(ZERO, read(common.RISING, (x,))))
    found = search(table, system, undefined=True)
    (column,) = (column for column, atom in table.atoms.items() if isinstance(atom, Read))
    values = {of: 2 if atom == VX else 20 for of, atom in table.atoms.items() if of != column}
    known: Elements = {("rising", (at,)): value for at, value in ((3, 5), (4, 9), (0, 1), (1, 3), (25, 2))}
    atom = table.atoms[column]
    assert isinstance(atom, Read)
    for order in (known, dict(reversed(known.items()))):
        assert found._between_neighbours(column, atom, values, order, None, None, 0) == (3, 5)
        assert found._between_neighbours(column, atom, values, order, None, None, 1) == (4, 4)


def test_scalar_ignores_array_order() -> None:
    one = read(Array("one", (), "int64", low=constant(3), monotonic="increasing"), ())
    table, system = system_of(at_most(one, constant(3)))
    sample = search(table, system, undefined=True).sample(1)
    assert sample is not None
    assert sample.elements == {("one", ()): 3}


def test_equalities_are_substituted_everywhere() -> None:
    """The last fact becomes an equality once the first has been substituted."""
    solution = _solve_equalities((equal(x, y + 1), at_most(ZERO, z), equal(z, x)), at_most(x, z))
    assert [leaf for leaf, _ in solution.solved] in ([VX, VY], [VX, VZ], [VY, VX], [VY, VZ])


def test_constants_are_divided_with_remainder() -> None:
    assert _divided(4 * x + 5, constant(4)) == (x + 1, constant(1))
    assert _divided(4 * x + 3 * y, constant(4)) == (x, 3 * y)


def test_conjunction_with_a_vacuous_part_is_vacuous() -> None:
    facts = given(less(x, ZERO), less(ZERO, x))
    parts = less(y, z), less(x, ZERO)
    for goal in (conjunction(parts), conjunction(parts[::-1])):
        assert prove(facts, goal) == Proved("linear", vacuous=True)


def test_proof_of_false_is_vacuous() -> None:
    facts = given(
        negation(equal(x, ZERO)), at_most(ZERO, x + y), at_most(x + y, ZERO), at_most(ZERO, y), at_most(y, ZERO)
    )
    assert prove(facts, FALSE) == Proved("linear", vacuous=True)


def test_products_are_bounded_at_range_ends() -> None:
    facts = given(within(ZERO, x, n), within(ZERO, y, m))
    for goal, seen in ((at_most(x * m + y, n * m - 1), True), (at_most(x + y, n + m), False)):
        assert _Query(facts, goal, thorough=False)._at_ends() is seen


def test_multiples_in_numerators_are_recognised() -> None:
    quotients = ((n * k + x) // k, (x * k + y) // (k * n), constant(7) // k, (n + 1) // k, (k + n) // (k + 1))
    assert [_contains_multiple(q) for e in quotients if (q := e.atom)] == [True, False, True, False, False]


def test_multiples_leave_quotients_before_other_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    facts, goal = given(less(ZERO, k)), equal((x + y * k) // k, x // k + y)
    assert _Query(facts, goal, thorough=False)._divided_out() != (facts.predicates, negation(goal))
    asked_how: list[bool] = []

    def recorded(*_: object, thorough: bool) -> bool:
        asked_how.append(thorough)
        return True

    with monkeypatch.context() as patch:
        patch.setattr(prover, "proves", recorded)
        _Query(facts, goal, thorough=True)._divided_out()
    assert asked_how == [False]  # a thorough query would recurse
    query = _Query(facts, less(x, y), thorough=False)
    assert query._divided_out() == (facts.predicates, negation(less(x, y)))
    monkeypatch.setattr(_Query, "_divided_out", lambda _: (facts.predicates, FALSE))
    assert query.answer() == Proved("linear")
    assert replace(query, as_written=True).answer() != Proved("linear")


def test_original_goal_is_tried_if_the_rewritten_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    query = _Query(given(less(x, y), less(y, z)), less(x, z), thorough=False)
    monkeypatch.setattr(_Query, "_divided_out", lambda _: ((), less(x, z)))
    assert query.answer() == Proved("linear")
    assert replace(query, simplified=True).answer() == Unknown(
        "the quick layers of the prover found neither a proof nor a counterexample"
    )


def test_refutation_of_simpler_goal_needs_valid_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simpler goal may read fewer arrays; none can have elements in [5, 3)."""
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


def test_z3_proof_for_positive_divisors_is_reported_unknown() -> None:
    goal = at_most((x // n) * n, x)
    before = prover.statistics.snapshot()
    answer = prove(Facts(), goal)
    assert answer == Unknown("the goal holds if every divisor is positive, which was not proved")
    assert prover.statistics.since(before).unknown == 1


def test_quotient_below_twice_its_divisor_is_one() -> None:
    positive = less(ZERO, k)
    assert simplify(given(positive, at_most(k, x), less(x, 2 * k)), x // k) == constant(1)
    assert simplify(given(positive, at_most(k, x), less(x, k + 2)), x // k) == x // k  # 2 for k = 1 and x = 2


def test_shared_factor_needs_a_multiple() -> None:
    assert list(_shared_factors(x, n * m)) == []
    assert [(factor, whole, rest) for factor, whole, rest in _shared_factors(n * y + x, n * m)] == [(n, y, x)]


def test_product_facts_are_relevant_to_their_factors() -> None:
    assert _constrains_only_quotients((less(x % 4, constant(3)),))
    assert not _constrains_only_quotients((at_most(x * y, 4 * (z // 4)),))
    inside = disjunction((less(constant(4), x), less(y, ZERO)))
    either = (conjunction((less(x % 4, constant(3)), inside)), conjunction((less(ZERO, x % 4), inside)))
    assert not _constrains_only_quotients((disjunction(either),))
    assert _constrains_only_quotients((disjunction((less(x % 4, constant(3)), less(ZERO, x % 4))),))


def test_equalities_are_substituted_into_xor() -> None:
    facts, goal = given(equal(x, 2 * z + y)), equal(exclusive_or(x, y), exclusive_or(2 * z + y, y))
    solution = _solve_equalities(facts.predicates, negation(goal))
    assert solution.solved
    assert _Query(facts, goal, thorough=True)._with_solved(solution)
    assert not _Query(facts, equal(exclusive_or(x, y), 2 * z), thorough=True)._with_solved(solution)


def test_low_bits_are_divided_out_of_xor() -> None:
    facts = given(within(ZERO, x, constant(8)))
    assert simplify(facts, exclusive_or(8 * y, x) // 8) == y
    assert simplify(facts, exclusive_or(8 * y, x) // 4) != 2 * y


def test_z3_model_has_a_value_for_every_leaf() -> None:
    table = Table()
    table.row(x + read(common.PLAIN, (y,)))
    found = solve(table, System(), defined=False)
    assert isinstance(found, Sample)
    assert len(found.leaves) == 3


def test_z3_encodes_minimum_and_maximum() -> None:
    for value in range(1, 7):
        known = equal(x, constant(2)), equal(y, constant(5))
        assert z3_contradicts(*known, equal(imin(x, y), constant(value))) == (value != 2)
        assert z3_contradicts(*known, equal(imax(x, y), constant(value))) == (value != 5)


def test_z3_encodes_xor_of_equal_numbers() -> None:
    for value in (-1, 0, 1):
        both = equal(x, constant(2)), equal(y, constant(2))
        assert z3_contradicts(*both, equal(exclusive_or(x, y), constant(value))) == (value != 0)
    distinct = equal(x, constant(8)), equal(y, constant(1))
    assert not z3_contradicts(*distinct, equal(exclusive_or(x, y), constant(9)))


@pytest.mark.parametrize(("array", "least"), [(common.STRICT, 2), (common.RISING, 0), (common.PLAIN, -9)])
def test_z3_encodes_array_order(array: Array, least: int) -> None:
    """The order relates no elements of two arrays."""
    other = Array("other", (n,), "int64", low=ZERO, high=m, monotonic="increasing")
    inside = within(ZERO, x, n), within(ZERO, y, n), equal(y, x + 2)
    for step in range(-1, 4):
        risen = equal(read(array, (x,)), constant(3)), equal(read(array, (y,)), constant(3 + step))
        assert z3_contradicts(*inside, *risen) == (step < least)
        turned = equal(read(array, (y,)), constant(3)), equal(read(array, (x,)), constant(3 + step))
        assert z3_contradicts(*inside, *turned) == (-step < least)
        across = equal(read(array, (x,)), constant(3)), equal(read(other, (y,)), constant(3 + step))
        assert not z3_contradicts(*inside, *across)


def test_z3_encodes_order_within_segments_only() -> None:
    begin, end = read(common.POSITIONS, (z,)), read(common.POSITIONS, (z + 1,))
    inside = within(ZERO, z, n - 1), within(ZERO, x, m), within(ZERO, y, m), equal(y, x + 2)
    for (first, last), step in product(((True, True), (True, False), (False, True)), (-1, 1, 2)):
        where = at_most(begin, x) if first else less(x, begin), less(y, end) if last else at_most(end, y)
        held = equal(read(common.PARTED, (x,)), constant(3)), equal(read(common.PARTED, (y,)), constant(3 + step))
        assert z3_contradicts(*inside, *where, *held) == (first and last and step < 2)


def test_z3_is_retried_only_with_products_and_spare_facts(monkeypatch: pytest.MonkeyPatch) -> None:
    own, other = (at_most(ZERO, x), less(ZERO, y)), less(z, x)
    seen: list[int] = []

    def recorded(*_: object, steps: int, **__: object) -> Contradiction:
        seen.append(steps)
        return Contradiction()

    monkeypatch.setattr(prover, "solve", recorded)

    def by_its_own(facts: tuple[Predicate, ...], goal: Predicate) -> bool:
        return _Query(given(*facts), goal, thorough=True)._by_related_facts(system_of(*facts, goal)[0])

    assert by_its_own((*own, other), at_most(ZERO, x * y))
    assert seen == [STEPS_AGAIN]
    assert not by_its_own(own, at_most(ZERO, x * y))
    assert not by_its_own((*own, other), at_most(ZERO, x + y))
    assert not by_its_own(own, at_most(ZERO, x + y))
    assert seen == [STEPS_AGAIN]


def test_z3_answers_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
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
