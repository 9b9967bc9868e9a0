"""Linear arithmetic: cases, elimination, factors, intervals, products, definitions of atoms, ordered elements."""

from __future__ import annotations

from itertools import product
from typing import Final

import pytest

from atl.core.index import ZERO, Array, Index, Read, constant, exclusive_or, imax, imin, read
from atl.core.predicate import Predicate, at_most, disjunction, equal, less, within
from atl.prove import Facts, Proved, linear, prove
from atl.prove.rows import (
    LARGEST,
    Budget,
    Intervals,
    Row,
    System,
    Table,
    _interval_product,
    combined,
    declared_rows,
    leaves_no_rows,
    projected,
    propagate,
)
from proofs_tests.prover.common import PLAIN, given, k, m, n, system_of, x, y, z
from proofs_tests.prover.common import refutes_denial as seen

BOUNDED = Array("bounded", (n,), "int64", low=ZERO)
STRICT = Array("strict", (n,), "int64", monotonic="increasing")
RISING = Array("rising", (n,), "int64", monotonic="nondecreasing")
SQUARE = Array("square", (n, n), "int64", monotonic="increasing")
POSITIONS = Array("pos", (n,), "int64")
OTHER = Array("other", (n,), "int64")
PARTED = Array("parted", (m,), "int64", monotonic="increasing", between=POSITIONS)


def defined(table: Table, system: System) -> linear._State:
    """Return the system with the definitions of its atoms."""
    state = linear._State(system.copy(), list(table.atoms))
    linear._Refutation(table, Budget(1_000), wide=False).define(state)
    return state


# -- cases ------------------------------------------------------------------------------------------------------------


def test_last_alternative_decides_other_cases() -> None:
    """x >= 1 excludes x <= 0; then y >= 3 contradicts the other case, in either order."""
    one = System([{1: -1}]), System([{2: 1, 0: -3}])
    other = System([{2: -1, 0: 1}]), System([{2: -1, 0: 2}])
    for cases in ((one, other), (other, one)):
        assert linear.decide_cases(System([{1: 1, 0: -1}], [], list(cases)))
    left = System([{1: 1, 0: -1}], [], [one])
    assert not linear.decide_cases(left)
    assert left.rows == [{1: 1, 0: -1}, {2: 1, 0: -3}]


def test_alternative_with_nested_cases_is_kept() -> None:
    inner = System([{2: 1}]), System([{3: 1}])
    case = System([{1: 1}], [], [inner]), System([{2: -1}])
    known = System([{1: 1}], [], [case])
    assert not linear.decide_cases(known)
    assert known.cases == [case]


def test_nonzero_element_is_in_range_without_a_split() -> None:
    element = read(PLAIN, (x,))
    for value in (less(ZERO, element), less(element, ZERO)):
        assert seen((value, at_most(x, y)), at_most(ZERO, y), splits=0)
        assert seen((value, at_most(y, x)), less(y, n), splits=0)
        assert not seen((value,), less(ZERO, x))


def test_negative_size_is_not_an_alternative() -> None:
    assert seen((disjunction((less(n, ZERO), less(z, x))), at_most(y, z)), less(y, x), splits=0)
    assert not seen((disjunction((less(n - 1, ZERO), less(z, x))), at_most(y, z)), less(y, x))


# -- elimination ------------------------------------------------------------------------------------------------------

MANY: Final[list[Row]] = [
    {2: 2, 3: 1, 1: -1, 0: 5}, {3: 2, 4: 1, 0: 3}, {3: 1, 2: 1, 4: 1, 0: 1}, {2: 2, 3: -1, 1: -1},
    {1: 2, 4: -1, 2: -1, 0: 3}, {4: 1, 1: 2, 3: -2, 0: 5}, {1: -1, 4: -1, 2: -2},
]  # fmt: skip
"""Rows of which Chernikov's rule discards combinations."""


def test_projection_respects_its_budget() -> None:
    spent = Budget(1_000)
    rows = projected(MANY, frozenset([1]), spent)
    assert rows == [{1: 1, 0: 2}, {1: -1, 0: 1}]
    assert 1_000 - spent.left == 39
    between: list[Row] = [{1: 1, 2: -1}, {2: 1, 3: -1, 0: -2}, {3: 1, 4: -1}]  # x >= y >= z + 2 >= w + 2
    assert projected(between, frozenset([1, 4]), Budget(3)) == [{1: 1, 4: -1, 0: -2}]
    assert projected(between, frozenset([1, 4]), Budget(2)) == []
    assert projected(between, frozenset([1, 2, 3, 4]), Budget(0)) == between
    assert projected([], frozenset([1]), Budget(3)) == []


def test_projection_gives_up_on_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [*({at: 1, 9: 1} for at in (1, 2)), *({at: 1, 9: -1} for at in (3, 4))]
    assert len(projected(rows, frozenset(range(1, 5)), Budget(100))) == 4
    monkeypatch.setattr("atl.prove.rows.MAX_ROWS", 4)
    assert len(projected(rows, frozenset(range(1, 5)), Budget(100))) == 4
    monkeypatch.setattr("atl.prove.rows.MAX_ROWS", 3)
    assert projected(rows, frozenset(range(1, 5)), Budget(100)) == []


def test_satisfiability_needs_few_combinations() -> None:
    spent = Budget(1_000)
    assert leaves_no_rows(MANY, frozenset(), spent)
    assert 1_000 - spent.left == 23
    assert leaves_no_rows(MANY, frozenset(), Budget(24))
    assert not leaves_no_rows(MANY, frozenset(), Budget(23))


def test_contradictory_constants_are_found() -> None:
    assert not leaves_no_rows([{1: 1}, {0: -1}], frozenset(), Budget(100))
    assert leaves_no_rows([{1: 1}, {0: 1}, {}], frozenset(), Budget(100))


# -- factors ----------------------------------------------------------------------------------------------------------


def test_row_is_divided_by_the_least_factor_value() -> None:
    """2 <= x and -3 <= x*y give -1 <= y."""
    table = Table()
    whole, rest = table.row(x * y), table.row(y)
    (of_x,) = table.row(x)
    for low, constant_, found in ((2, 3, 1), (2, 1, 0), (1, 3, 3), (4, 8, 2), (2, -3, -1)):
        system = System([{**whole, 0: constant_}])
        linear.factor(system, Intervals(table, {of_x: low}, {}))
        assert system.rows[1:] == [{**rest, 0: found} if found else rest]


def test_possibly_negative_multiples_cost_nothing() -> None:
    table = Table()
    rows = [table.row(z - k * x), table.row(k * y - z - 1)]
    (of_k,) = table.row(k)
    spent = Budget(100)
    assert linear.consequences(System(rows), Intervals(table, {of_k: -1}, {}), spent) == []
    assert spent.left == 100


def test_factoring_precedes_products() -> None:
    """1 <= x*y - x*n and 0 <= x give n < y; no product of rows bounds m and z."""
    between = at_most(ZERO, x), at_most(y, z), at_most(m, n)
    assert seen((*between, less(ZERO, x * y - x * n)), less(m, z))
    assert not seen((*between, at_most(ZERO, x * y - x * n)), less(m, z))


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_known_and_huge_bounds_change_nothing() -> None:
    bounds = Intervals(Table(), {1: 3}, {1: 5})
    bounds.raise_low(1, 3)
    bounds.lower_high(1, 5)
    for at, sign in product((1, 2), (1, -1)):
        bounds.raise_low(at, sign * LARGEST)
        bounds.lower_high(at, sign * LARGEST)
    assert (bounds.low, bounds.high, bounds.changed) == ({1: 3}, {1: 5}, False)
    bounds.raise_low(2, 1 - LARGEST)
    bounds.lower_high(2, LARGEST - 1)
    assert (bounds.low[2], bounds.high[2], bounds.changed) == (1 - LARGEST, LARGEST - 1, True)


def test_empty_intervals_are_found_in_the_same_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[Row] = [{1: 2, 0: -1}, {1: -2, 0: 1}]  # 2 x = 1
    assert propagate(Intervals(Table()), rows, [])
    assert propagate(Intervals(Table()), [{0: -1}], [])
    assert not propagate(Intervals(Table()), [{0: 0}, {}], [{}])
    table = Table()
    small = [table.row(each) for each in (x - 2, y - 2, 3 - x * y)]
    assert propagate(Intervals(table), small, [])
    monkeypatch.setattr("atl.prove.rows.PASSES", 1)
    assert propagate(Intervals(table), small, [])


def ranges() -> list[tuple[int | None, int | None]]:
    """Return ranges of all kinds; None is an open end."""
    lows, highs = (None, -3, -1, 0, 2), (None, -2, 0, 1, 4)
    return [(low, high) for low, high in product(lows, highs) if low is None or high is None or low <= high]


def has_sign(low: int | None, high: int | None) -> bool:
    return (low is not None and low >= 0) or (high is not None and high <= 0)


def test_interval_product_is_tight() -> None:
    """Exact if both ranges are closed or have a sign, else never too narrow. 30 replaces an open end."""
    for (a, b), (c, d) in product(ranges(), repeat=2):
        first = range(-30 if a is None else a, 31 if b is None else b + 1)
        second = range(-30 if c is None else c, 31 if d is None else d + 1)
        values = [p * q for p in first for q in second]
        least, most = (min(values) if min(values) > -30 else None), (max(values) if max(values) < 30 else None)
        low, high = _interval_product(a, b, c, d)
        if None not in (a, b, c, d) or (has_sign(a, b) and has_sign(c, d)):
            assert (low, high) == (least, most), (a, b, c, d)
        assert low is None or low == least, (a, b, c, d)
        assert high is None or high == most, (a, b, c, d)


# -- rows and products ------------------------------------------------------------------------------------------------


def test_rows_multiply() -> None:
    table = Table()
    ((a, _),), ((b, _),) = table.row(x).items(), table.row(y).items()
    assert table.product(table.row(x + y), table.row(x - y)) == table.row(x * x - y * y)
    assert table.product(table.row(x + 2), table.row(y + 3)) == table.row(x * y + 3 * x + 2 * y + 6)
    assert (table.times(a, 0), table.times(0, b), table.times(0, 0)) == (a, b, 0)
    assert combined({1: 1, 0: 3}, 2, {}, 1) == {1: 2, 0: 6}


def test_array_order_does_not_apply_to_scalars() -> None:
    one = read(Array("one", (), "int64", low=constant(3), high=constant(10), monotonic="increasing"), ())
    table, _ = system_of(at_most(one, n))
    (column,) = table.row(one)
    assert isinstance(one.atom, Read)
    assert declared_rows(table, column, one.atom) == [{column: 1, 0: -3}, {column: -1, 0: 9}]
    assert not isinstance(prove(given(equal(one, constant(4))), less(x, y)), Proved)


def test_products_need_product_terms() -> None:
    table, system = system_of(less(x, y), less(y, z), equal(x, n))
    for wide in (False, True):
        assert linear.products(table, system, Intervals(table), wide=wide) == System()


# -- definitions of atoms ---------------------------------------------------------------------------------------------


def test_quotient_by_a_sum_has_sign_of_numerator() -> None:
    table, system = system_of(at_most(ZERO, x), at_most(ZERO, k), at_most(ZERO, x // (k + 1)))
    rows = defined(table, system).system.rows[len(system.rows) :]
    (column,) = table.row(x // (k + 1))
    assert rows[2:] == [{column: 1}]


def test_xor_is_at_most_the_sum() -> None:
    table, system = system_of(at_most(ZERO, x), at_most(ZERO, y), at_most(exclusive_or(x, y), n))
    (column,) = table.row(exclusive_or(x, y))
    assert {**table.row(x + y), column: -1} in defined(table, system).system.rows


@pytest.mark.parametrize(
    "atom",
    [x // 4, x // k, x * y // k, (-x * y - 1) // k, imin(x, y), imax(x, y), exclusive_or(x, y), read(BOUNDED, (x,))],
    ids=str,
)
def test_defining_an_atom_makes_bounds_stale(atom: Index) -> None:
    table, system = system_of(within(ZERO, x, n), within(ZERO, y, n), less(ZERO, k), at_most(atom, m))
    search, state = linear._Refutation(table, Budget(1_000), wide=False), linear._State(system, list(table.atoms))
    search._intervals(state, fresh=True)
    assert not state.stale
    search.define(state)
    assert state.stale


def test_product_queries_recompute_bounds() -> None:
    table, system = system_of(less(x, y), less(ZERO, x * y))
    search, state = linear._Refutation(table, Budget(1_000), wide=False), linear._State(system, [])
    first = search._intervals(state, fresh=True)
    for row, again in ((x - y, False), (x * y - 1, True), (x * y - x - 1, True)):
        state.stale = True
        before = state.intervals
        search.entails(state, table.row(row))
        assert (state.intervals is not before) is again, row
    assert first is not None


def test_empty_bounds_entail_everything() -> None:
    table, system = system_of(at_most(constant(1), 2 * x), at_most(ZERO, y))
    (column,) = table.row(y)
    search = linear._Refutation(table, Budget(1_000), wide=False)
    assert not search.entails(linear._State(system, []), {column: -1})
    assert search.entails(linear._State(System([*system.rows, {1: -2, 0: 1}]), []), {column: -1})  # 2 x = 1


def test_bounds_are_recomputed_after_definition_and_rounding() -> None:
    """1 <= 2 z - (x ^ y) and 2 z + 3 (x ^ y) <= 1 for 3-bit numbers: z is 1/2, not an integer."""
    facts = (
        within(ZERO, z, n),
        *(within(ZERO, each, constant(8)) for each in (x, y)),
        at_most(exclusive_or(x, y) + 1, 2 * z),
        at_most(2 * z + 3 * exclusive_or(x, y), constant(1)),
    )
    table, known = system_of(*facts)
    assert not linear.refuted(table, known, System())
    assert linear.refuted_by_rounding(table, known, System())
    table, known = system_of(*facts, at_most(n * m, k * k))
    assert linear.refuted(table, known, System())


def test_multiplied_rows_count_as_effort() -> None:
    inside = within(ZERO, x, n), within(ZERO, y, m)
    assert not seen(inside, less(x * m + y, n * m), effort=36)
    assert seen(inside, less(x * m + y, n * m), effort=37)


def test_atoms_are_defined_once_for_all_alternatives() -> None:
    facts, goal = (less(ZERO, k - z), at_most(ZERO, x), less(x, k - z)), equal(x // (k - z), ZERO)
    assert not seen(facts, goal, effort=49)
    assert seen(facts, goal, effort=50)


def test_last_effort_unit_is_used_for_a_split() -> None:
    either = System([{1: 1, 0: -1}]), System([{1: -1, 0: -1}])
    for_one = System([{1: -1}]), System([{1: -1, 0: -5}])
    for_other = System([{1: 1}]), System([{1: 1, 0: -5}])
    table = system_of(less(x, y))[0]
    assert linear.refuted(table, System([], [], [either, for_one, for_other]), System(), effort=1)


# -- elements ---------------------------------------------------------------------------------------------------------


def both_within(array: Array, *facts: Predicate) -> Facts:
    extent = array.shape[-1]
    return given(within(ZERO, x, extent), within(ZERO, y, extent), *facts)


ROW = read(POSITIONS, (z,)), read(POSITIONS, (z + 1,))
"""Start and end of segment z."""
FAR = read(POSITIONS, (k,))
UNKNOWN_ORDERS: Final[dict[str, tuple[Facts, Predicate]]] = {
    "positions that differ by one are equal": (
        both_within(STRICT, at_most(x, y + 1), at_most(y + 1, x)),
        less(read(STRICT, (x,)), read(STRICT, (y,))),
    ),
    "the same with x and y exchanged": (
        both_within(STRICT, at_most(y, x + 1), at_most(x + 1, y)),
        less(read(STRICT, (y,)), read(STRICT, (x,))),
    ),
    "the same for a nondecreasing array": (
        both_within(RISING, at_most(x, y + 1), at_most(y + 1, x)),
        less(read(RISING, (x,)), read(RISING, (y,))),
    ),
    "an element outside is below one inside": (
        given(less(x, y), within(ZERO, y, n)),
        less(read(STRICT, (x,)), read(STRICT, (y,))),
    ),
    "an element inside is below one outside": (
        given(less(x, y), within(ZERO, x, n)),
        less(read(STRICT, (x,)), read(STRICT, (y,))),
    ),
    "an element of one row is below one of another": (
        both_within(SQUARE, less(x, y), within(ZERO, z, n), within(ZERO, k, n)),
        less(read(SQUARE, (z, x)), read(SQUARE, (k, y))),
    ),
    "positions of another array delimit segments": (
        both_within(
            PARTED, less(x, y), within(ZERO, z, n - 1), *(at_most(read(OTHER, (z,)), each) for each in (x, y)),
            *(less(each, read(OTHER, (z + 1,))) for each in (x, y)),
        ),
        less(read(PARTED, (x,)), read(PARTED, (y,))),
    ),
    "positions that are not neighbours delimit a segment": (
        both_within(
            PARTED, less(x, y), within(ZERO, z, n), within(ZERO, k, n), at_most(ROW[0], x), less(y, FAR)
        ),
        less(read(PARTED, (x,)), read(PARTED, (y,))),
    ),
    "a segment begins before the first position": (
        both_within(PARTED, less(x, y), within(ZERO, z + 1, n), at_most(ROW[0], x), less(y, ROW[1])),
        less(read(PARTED, (x,)), read(PARTED, (y,))),
    ),
    "a segment begins at half its start": (
        both_within(PARTED, less(x, y), within(ZERO, z, n - 1), at_most(ROW[0], 2 * x), less(y, ROW[1])),
        less(read(PARTED, (x,)), read(PARTED, (y,))),
    ),
    "a segment ends at twice its end": (
        both_within(PARTED, less(x, y), within(ZERO, z, n - 1), at_most(ROW[0], x), less(y, 2 * ROW[1])),
        less(read(PARTED, (x,)), read(PARTED, (y,))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNKNOWN_ORDERS)
def test_false_element_orders_are_not_proved(name: str) -> None:
    facts, goal = UNKNOWN_ORDERS[name]
    assert not isinstance(prove(facts, goal), Proved)
    assert not seen(facts.predicates, goal)


def test_elements_of_a_segment_increase() -> None:
    """Other positions do not matter. The end of the segment is in range, else the segment would be empty."""
    goal = less(read(PARTED, (x,)), read(PARTED, (y,)))
    facts = both_within(PARTED, less(x, y), within(ZERO, z, n), at_most(ROW[0], x), less(y, ROW[1]))
    assert seen(facts.predicates, goal)
    for other in (z - 1, z + 2):
        assert seen((*facts.predicates, at_most(read(POSITIONS, (other,)), k)), goal)


def test_element_pair_is_one_case_over_positions() -> None:
    def cases_of(*reads: Index) -> list[list[tuple[list[Row], list[Row]]]]:
        table, system = system_of(*(at_most(each, n) for each in reads))
        of_pairs = defined(table, system).system.cases[len(reads) :]
        return [[(part.rows, part.equalities) for part in case] for case in of_pairs]

    assert cases_of(read(PLAIN, (x,)), read(PLAIN, (x + 1,))) == []
    assert cases_of(read(SQUARE, (z, x)), read(SQUARE, (z + 1, y))) == []
    ((same, before, after),) = cases_of(read(SQUARE, (z, x)), read(SQUARE, (z, y)))
    table = system_of(at_most(read(SQUARE, (z, x)), n), at_most(read(SQUARE, (z, y)), n))[0]
    rise = table.row(read(SQUARE, (z, x)) - read(SQUARE, (z, y)))
    assert same == ([], [table.row(x - y), rise])
    assert (before, after) == (([table.row(x - y - 1)], []), ([table.row(y - x - 1)], []))


@pytest.mark.parametrize(("array", "least"), [(STRICT, 3), (RISING, 0)], ids=["strict", "rising"])
def test_constant_position_difference_needs_no_split(array: Array, least: int) -> None:
    inside = within(ZERO, x, n - 3)
    rises = read(array, (x + 3,)) - read(array, (x,))
    assert seen((inside,), at_most(constant(least), rises), splits=0)
    assert not seen((inside,), at_most(constant(least + 1), rises))
