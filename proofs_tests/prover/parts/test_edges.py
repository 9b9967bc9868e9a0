"""Boundary cases of the prover: true claims found by hand, and false claims with a counterexample."""

from __future__ import annotations

from typing import Final

import pytest

from atl.core.index import ZERO, Array, Index, Var, atoms, constant, exclusive_or, read
from atl.core.predicate import TRUE, Predicate, at_most, disjunction, equal, holds, less, negation, within
from atl.prove import Facts, Proved, Refuted, bits, lower_bound, prove, proves, upper_bound, without_smt
from atl.prove.bits import _extents, by_bits
from atl.prove.facts import model_of
from atl.prove.linear import consequences, decide_cases, factor, refuted
from atl.prove.rows import Budget, Intervals, System, Table, combined, read_predicate, segments
from atl.prove.search import Sample
from atl.prove.smt import Contradiction, solve
from atl.prove.steps import _varies, is_least_at_ends, realisable, with_plain_limits
from proofs_tests.prover.common import RISING, STRICT, VX, VY, VZ, below, given, k, m, n, system_of, x, y, z

FALSE_CLAIMS: Final[dict[str, tuple[tuple[Predicate, ...], Predicate, dict[Var, int]]]] = {
    "xor with a smaller number is the identity":
        ((*below(8, x, y), at_most(x, y)), equal(exclusive_or(x, y), y), {VX: 1, VY: 1}),
    "a natural sum has natural terms": ((at_most(ZERO, x + y), less(x, constant(8)), *below(8, y)),
        equal(exclusive_or(x, y) // 8, ZERO), {VX: -1, VY: 1}),
    "a negative number has no high bits": (below(2, x, y), equal(exclusive_or(4 * x - 1, y), -1 - y), {VX: 1, VY: 0}),
    "of two forms of one bit the last counts":
        ((*below(2, x, y, z), equal(x + y, z)), equal(exclusive_or(y, x), exclusive_or(z, x)), {VX: 1, VY: 0, VZ: 1}),
    "of two forms of one bit the first counts":
        ((*below(2, x, y, z), equal(x + y, z)), equal(exclusive_or(x, y), exclusive_or(z, y)), {VX: 0, VY: 1, VZ: 1}),
}  # fmt: skip


@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_false_claims_are_refuted(name: str) -> None:
    facts, goal, numbers = FALSE_CLAIMS[name]

    def leaf(of: object) -> int:
        assert isinstance(of, Var)
        return numbers[of]

    assert all(holds(fact, leaf, lambda *_: 0) for fact in facts)
    assert not holds(goal, leaf, lambda *_: 0)
    assert isinstance(prove(given(*facts), goal), Refuted)
    left = by_bits(given(*facts), goal)
    assert left is None or not proves(given(*facts), left)


def test_positions_with_symbolic_difference_are_unordered() -> None:
    inside = given(within(ZERO, x, n), within(ZERO, y + 1, n))
    for array in (STRICT, RISING):
        # x = 1, y + 1 = 0, and 0, 1, … in the array
        assert isinstance(prove(inside, at_most(read(array, (x,)), read(array, (y + 1,)))), Refuted)


def test_zero_product_has_a_zero_factor() -> None:
    table = Table()
    product, one, other = (table.row(each) for each in (x * y, x, y))
    ((of_product, _),), ((of_x, _),), ((of_y, _),) = product.items(), one.items(), other.items()

    def divided(equality: dict[int, int], low: dict[int, int], high: dict[int, int]) -> list[dict[int, int]]:
        system = System([], [equality])
        factor(system, Intervals(table, low, high))
        return system.equalities[1:]

    assert divided(product, {}, {}) == []
    assert divided(product, {}, {of_x: 0, of_y: 0}) == []
    assert divided(product, {of_x: 0, of_y: 0}, {}) == []
    assert divided(product, {of_x: 1}, {}) == [other]
    assert divided(product, {}, {of_x: -1}) == [other]
    assert divided({of_product: 1, 0: -6}, {of_x: 1}, {}) == []  # 2 * 3 is 6, and 3 not 0
    # x = 0 and y = 1; x = 1 and y = 6
    for facts, goal in (((equal(x * y, ZERO),), equal(y, ZERO)), ((equal(x * y, constant(6)),), at_most(y, ZERO))):
        whole, known, denied = Table(), System(), System()
        for fact in (*facts, at_most(ZERO, x)):
            read_predicate(whole, fact, known)
        read_predicate(whole, negation(goal), denied)
        assert not refuted(whole, known, denied, wide=True)


def test_multiple_of_a_variable_is_not_its_digit() -> None:
    facts = given(less(ZERO, k), at_most(ZERO, x))

    def seen(predicate: Predicate) -> bool:
        return proves(facts, predicate, thorough=False)

    # x - k * (2 * x // k) is -x for k = 1, and x - k * (x // k) a remainder.
    assert not is_least_at_ends(facts, (x - k * (2 * x // k)) * m, seen)
    assert is_least_at_ends(facts, (x - k * (x // k)) * m, seen)
    assert isinstance(prove(facts, at_most(ZERO, (x - k * (2 * x // k)) * m)), Refuted)


def test_increasing_elements_keep_position_distance() -> None:
    inside = given(within(ZERO, x, n), within(ZERO, y, n), less(x, y))
    with without_smt():
        assert prove(inside, at_most(read(STRICT, (x,)) + y - x, read(STRICT, (y,)))) == Proved("linear")
        assert isinstance(prove(inside, at_most(read(RISING, (x,)) + y - x, read(RISING, (y,)))), Refuted)
        shifted = given(within(ZERO, x, n - 3))
        assert prove(shifted, at_most(read(STRICT, (x,)) + 3, read(STRICT, (x + 3,)))) == Proved("linear")
        assert isinstance(prove(shifted, less(read(STRICT, (x,)) + 3, read(STRICT, (x + 3,)))), Refuted)


def test_product_of_remainders_is_not_negative() -> None:
    facts = given(less(ZERO, k))
    product = (x - k * (x // k)) * (y - k * (y // k))

    def seen(predicate: Predicate) -> bool:
        return proves(facts, predicate, thorough=False)

    assert is_least_at_ends(facts, product, seen)
    assert not is_least_at_ends(facts, product - 1, seen)


@pytest.mark.parametrize(("low", "high"), [(None, m), (ZERO, None)], ids=["no low", "no high"])
def test_half_bounded_element_times_signed_factor_is_unbounded(low: Index | None, high: Index | None) -> None:
    loose = Array("loose", (n,), "int64", low, high)
    assert upper_bound(Facts(), read(loose, (x,)) * (m - k), [(VX, ZERO, n)]) is None


def test_sum_with_unbounded_term_is_unbounded() -> None:
    loose = Array("loose", (n,), "int64")
    facts, ranges = given(less(ZERO, k)), [(VX, ZERO, n)]
    assert upper_bound(facts, x - k * (x // k), ranges) == k - 1
    assert upper_bound(facts, x - k * (x // k) + read(loose, (x,)), ranges) is None


def test_element_has_its_declared_bounds() -> None:
    row = Array("row", (n,), "int64", low=constant(2), high=m)
    assert lower_bound(Facts(), read(row, (x,)), [(VX, ZERO, n)]) == constant(2)
    assert upper_bound(Facts(), read(row, (x,)), [(VX, ZERO, n)]) == m - 1


def test_facts_equality() -> None:
    assert given(less(x, n)) == given(less(x, n)) != given(less(x, m))
    assert given() != "facts"


def test_smaller_limit_determines_the_bits() -> None:
    for first, second in ((8, 16), (16, 8)):
        assert dict(_extents(given(*below(first, x), *below(second, x)))) == {VX: 3}


def test_bit_equalities_are_transitive() -> None:
    facts = given(*below(8, x, y, z), equal(y, z), equal(x, y))
    assert by_bits(facts, equal(exclusive_or(x, z), ZERO)) == TRUE
    assert by_bits(facts, equal(exclusive_or(x, z), constant(1))) != TRUE


def test_quotient_varies_with_variables_of_its_numerator() -> None:
    assert [_varies(atom) for e in ((x + n) // k, n // k, n // x, x) for atom in atoms(e) if e.atom == atom] == [
        True, False, False, True
    ]  # fmt: skip


def test_factors_of_a_positive_product_are_positive() -> None:
    table = Table()
    product, p, q = table.row(x * y), table.row(x), table.row(y)
    (of_x,), (of_y,) = p, q
    for low, found in ((0, [{of_y: 1, 0: -1}]), (1, [{of_y: 1, 0: -1}])):
        system = System([{**product, 0: -1}])
        factor(system, Intervals(table, {of_x: low}, {}))
        assert system.rows[1:] == found
    system = System([{**product, 0: 1}])  # -1 < x*y says nothing of y where x is 0
    factor(system, Intervals(table, {of_x: 0}, {}))
    assert system.rows[1:] == []


def test_value_between_two_multiples_orders_them() -> None:
    """k*x <= z < k*y gives x < y if k is not negative."""
    table = Table()
    row = [table.row(z - k * x), table.row(k * y - z - 1)]
    (of_k,), (of_x,), (of_y,) = table.row(k), table.row(x), table.row(y)
    assert consequences(System(row), Intervals(table, {of_k: 0}, {}), Budget(100)) == [{of_x: -1, of_y: 1, 0: -1}]
    assert consequences(System(row), Intervals(table, {of_k: -1}, {}), Budget(100)) == []


def test_disjunctive_facts_have_no_plain_limits() -> None:
    facts = given(disjunction((less(x, n), less(y, n))), less(x, m))
    assert with_plain_limits(facts) is facts


def test_adjacent_segments_are_ordered_separately() -> None:
    positions = Array("pos", (constant(3),), "int64")
    row = Array("row", (constant(6),), "int64", monotonic="increasing", between=positions)

    def fits(*ends: int) -> bool:
        held = [("row", (2,), 5), ("row", (3,), 0), *(("pos", (at,), end) for at, end in enumerate(ends))]
        return realisable((row,), model_of([], held))

    assert fits(0, 3, 6)  # no segment contains both 2 and 3
    assert not fits(0, 4, 6)
    assert not fits(0, 6, 6)


def test_out_of_range_positions_delimit_no_segment() -> None:
    """They read as zero. Two of three positions are known, so the whole row must increase."""
    positions = Array("pos", (constant(3),), "int64", monotonic="increasing")
    row = Array("row", (constant(6),), "int64", monotonic="increasing", between=positions)
    falls = [("row", (4,), 5), ("row", (5,), 0)]
    known = [("pos", (0,), 0), ("pos", (1,), 3)]
    assert not realisable((row,), model_of([], [*falls, *known]))
    assert not realisable((row,), model_of([], [*falls, *known, ("pos", (3,), 0)]))
    assert realisable((row,), model_of([], [*falls, *known, ("pos", (2,), 5)]))


def test_overlapping_segments_increase_together() -> None:
    positions = Array("pos", (constant(4),), "int64")
    row = Array("row", (constant(6),), "int64", monotonic="increasing", between=positions)

    def fits(*ends: int) -> bool:
        held = [("row", (1,), 5), ("row", (5,), 0), *(("pos", (at,), end) for at, end in enumerate(ends))]
        return realisable((row,), model_of([], held))

    assert not fits(0, 4, 2, 6)  # from 0 to 4, and from 2 to 6
    assert fits(0, 4, 4, 6)
    assert fits(0, 3, 2, 5)


def test_stronger_row_satisfies_an_alternative() -> None:
    def left(known: int, row: dict[int, int]) -> int:
        system = System([{1: 1, 0: known}], [], [(System([row]), System([{2: 1}]))])
        assert not decide_cases(system)
        return len(system.cases)

    assert left(1, {1: 1}) == 1  # x >= -1 is not x >= 0
    assert left(-1, {1: 1}) == 0
    assert left(1, {1: 1, 0: 1}) == 0


def test_rows_next_to_the_goal_case_count() -> None:
    known = System([{1: 1, 0: -1}])
    table = Table()
    table.row(x)
    table.row(y)
    both = (System([{2: 1}]), System([{2: -1, 0: -1}]))
    assert refuted(table, known, System([{1: -1}], [], [both]))
    assert not refuted(table, known, System([], [], [both]))


def test_rows_combine_linearly() -> None:
    assert combined({1: 2, 0: 1}, 3, {2: 1, 0: -3}, 1) == {1: 6, 2: 1}
    assert combined({1: 2}, 1, {1: 1, 2: 1}, -2) == {2: -2}
    assert combined({1: 2}, 1, {0: 0}, 5) == {1: 2}


def test_only_elements_have_segments() -> None:
    table = Table()
    table.row(read(RISING, (x,)))
    assert [segments(table, column) for column in table.atoms] == [[]] * len(table.atoms)


def test_quick_queries_use_bits() -> None:
    facts = given(*below(16, x, y))
    swizzled = equal(exclusive_or(exclusive_or(x, y), y % 4), exclusive_or(x, y // 4 * 4))
    assert isinstance(prove(facts, swizzled, thorough=False), Proved)
    assert bits.by_bits(facts, swizzled) is not None


def test_z3_encodes_quotients() -> None:
    def of(a: int, b: int, q: int) -> tuple[Table, System]:
        return system_of(equal(x, constant(a)), equal(n, constant(b)), equal(x // n, constant(q)))

    assert isinstance(solve(*of(6, 3, 2), defined=False), Sample)
    assert isinstance(solve(*of(5, 1, 5), defined=True), Sample)
    assert isinstance(solve(*of(6, 3, 1), defined=False), Contradiction)
    assert isinstance(solve(*of(8, 3, 1), defined=False), Contradiction)
    assert isinstance(solve(*of(-1, 0, 5), defined=False), Sample)
    assert isinstance(solve(*of(-1, 0, 5), defined=True), Contradiction)


def test_z3_encodes_sound_bounds_of_xor() -> None:
    for a, b in ((0, 1), (2, 3)):
        known = equal(x, constant(a)), equal(y, constant(b))
        assert isinstance(solve(*system_of(*known, equal(exclusive_or(x, y), constant(1))), defined=False), Sample)
        assert isinstance(solve(*system_of(*known, equal(exclusive_or(x, y), ZERO)), defined=False), Contradiction)


def test_z3_encodes_declared_element_bounds() -> None:
    row = Array("row", (n,), "int64", low=constant(2), high=constant(5))
    for value in (1, 2, 4, 5):
        question = system_of(within(ZERO, x, n), equal(read(row, (x,)), constant(value)))
        assert isinstance(solve(*question, defined=False), Sample if 2 <= value < 5 else Contradiction), value
