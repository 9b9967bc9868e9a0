"""The search for counterexamples, and the encoding of arrays, bits and limits for z3."""

from __future__ import annotations

import sys
from itertools import product
from typing import Any, Final

import pytest
import z3

from atl.core.index import ZERO, Array, Index, Quotient, Read, constant, exclusive_or, index, read
from atl.core.predicate import FALSE, at_most, conjunction, disjunction, equal, less, within
from atl.prove import Facts, Model, Refuted, Unknown, prove, simplify_predicate, without_smt
from atl.prove.rows import Table
from atl.prove.search import SPREAD, Search, _Choice, _Failed, _plan, _Random, _test, search
from atl.prove.smt import STEPS, STEPS_AGAIN, Contradiction, GaveUp, solve
from proofs_tests.prover.common import PARTED, POSITIONS, VX, VY, m, n, system_of, x, y, z, z3_contradicts

GRID: Final = Array("grid", (n, n), "int64", low=ZERO, high=m, monotonic="increasing")
ROW: Final = Array("row", (n,), "int64", low=constant(2), high=constant(9))


class Dice(_Random):
    """Fixed numbers, capped by the requested limits, which are recorded."""

    __slots__ = ("given", "limits")

    def __init__(self, *given: int) -> None:
        super().__init__(0)
        self.given = list(given)
        self.limits: list[int] = []

    def below(self, limit: int) -> int:
        self.limits.append(limit)
        return min(self.given.pop(0), limit - 1)


def test_random_numbers_are_reproducible() -> None:
    first, second = _Random(1), _Random(2)
    assert [first.below(100) for _ in range(8)] == [74, 53, 96, 70, 34, 95, 30, 2]
    assert [second.below(7) for _ in range(8)] == [6, 1, 4, 2, 2, 2, 0, 3]
    assert second.state == 14293629500175999210


def test_range_ends_are_preferred() -> None:
    def chosen(low: int, high: int, *given: int) -> tuple[int, list[int]]:
        dice = Dice(*given)
        return Search(_plan(Table()), _Choice({}, []), True, dice)._between(low, high), dice.limits

    assert chosen(-3, 8, 0) == (-3, [4])
    assert chosen(-3, 8, 1) == (8, [4])
    assert chosen(-3, 8, 2, 5) == (2, [4, 12])
    assert chosen(-3, 8, 3, 99) == (8, [4, 12])
    assert chosen(-3, 90, 3, 99) == (20, [4, 4 * SPREAD])
    assert chosen(7, 7, 2, 0) == (7, [4, 1])


def ends(rows: list[Index], equal_to_0: list[Index], low: int | None, high: int | None) -> tuple[int, int] | None:
    """Return the range from which y is chosen for x = 3 and z = 0; None if it is empty."""
    table = Table()
    for known in (x, z, y):
        table.row(known)
    tests = [(table.row(row), equality) for of, equality in ((rows, False), (equal_to_0, True)) for row in of]
    plan = _plan(table)
    order = [table.atoms[column] for column in plan.unknowns]
    plan.unknowns.sort(key=lambda column: table.atoms[column] == VY)
    plan.ready.update({column: at for at, column in enumerate(plan.unknowns)})
    values = {column: 3 if table.atoms[column] == VX else 0 for column in plan.unknowns}
    assert len(order) == 3
    found = []
    for end in (0, 1):
        one = Search(plan, _Choice({}, []), True, Dice(end, 0))
        try:
            found.append(one._choose([_test(plan, *test) for test in tests], values, low, high, 0))
        except _Failed:
            return None
    return found[0], found[1]


ENDS: Final[dict[str, tuple[list[Index], list[Index], int | None, int | None, tuple[int, int] | None]]] = {
    "one limit": ([y - 2], [], None, None, (2, 2 + SPREAD)),
    "one limit from above": ([2 - y], [], None, None, (2 - SPREAD, 2)),
    "two limits": ([y - 2, y - 4], [], None, None, (4, 4 + SPREAD)),
    "two limits, narrower first": ([y - 4, y - 2], [], None, None, (4, 4 + SPREAD)),
    "two limits from above": ([7 - y, 5 - y], [], None, None, (5 - SPREAD, 5)),
    "two limits from above, narrower first": ([5 - y, 7 - y], [], None, None, (5 - SPREAD, 5)),
    "a known range": ([], [], 1, 8, (1, 8)),
    "a known range, and limits inside": ([y - 2, 7 - y], [], 1, 8, (2, 7)),
    "a known range, and limits outside": ([y, 9 - y], [], 1, 8, (1, 8)),
    "a multiple": ([2 * y - 3, 9 - 2 * y], [], None, None, (2, 4)),
    "an exact multiple": ([2 * y - 4, 8 - 2 * y], [], None, None, (2, 4)),
    "a multiple of a known number": ([x * y - 4, 11 - x * y], [], None, None, (2, 3)),
    "a sum with a known number": ([y - x, x + 4 - y], [], None, None, (3, 7)),
    "no value": ([y - 5, 4 - y], [], None, None, None),
    "one value between limits": ([y - 5, 5 - y], [], None, None, (5, 5)),
    "one value": ([], [2 * y - 6], None, None, (3, 3)),
    "one value, from below": ([], [6 - 2 * y], None, None, (3, 3)),
    "one value, inside of a range": ([], [y - 4], 1, 8, (4, 4)),
    "one value, below a range": ([], [y], 1, 8, None),
    "one value, above a range": ([], [y - 9], 1, 8, None),
    "no integer value": ([], [2 * y - 5], None, None, None),
    "no integer value, from below": ([], [5 - 2 * y], None, None, None),
    "zero factor, limit met": ([z * y], [], 1, 8, (1, 8)),
    "zero factor, limit exceeded": ([z * y + 1], [], 1, 8, (1, 8)),
    "zero factor, limit violated": ([z * y - 1], [], 1, 8, None),
    "zero factor, equality met": ([], [z * y], 1, 8, (1, 8)),
    "zero factor, equality to one": ([], [z * y - 1], 1, 8, None),
    "zero factor, equality to minus one": ([], [z * y + 1], 1, 8, None),
    "a square": ([y * y - 49], [], 1, 8, (1, 8)),
    "a square and a limit": ([y * y + y - 40, y - 2], [], 1, 8, (2, 8)),
}


@pytest.mark.parametrize("name", ENDS)
def test_linear_rows_bound_the_choice(name: str) -> None:
    rows, equal_to_0, low, high, expected = ENDS[name]
    assert ends(rows, equal_to_0, low, high) == expected


def test_unbounded_choices_spread_with_attempts() -> None:
    def chosen(attempt: int, given: int, low: int | None = None, high: int | None = None) -> tuple[int, list[int]]:
        dice = Dice(given, given)
        return Search(_plan(Table()), _Choice({}, []), True, dice)._choose((), {}, low, high, attempt), dice.limits

    assert chosen(0, 0) == (-3, [13])
    assert chosen(15, 99) == (9, [13])
    assert chosen(16, 0) == (-3, [15])
    assert chosen(32, 99) == (12, [17])
    assert chosen(16, 1, low=5)[0] == 12
    assert chosen(32, 0, high=5)[0] == -3


def test_element_is_chosen_between_those_of_its_row() -> None:
    table, system = system_of(at_most(ZERO, read(GRID, (x, y))))
    found = search(table, system, undefined=True)
    ((column, atom),) = ((column, atom) for column, atom in table.atoms.items() if isinstance(atom, Read))
    numbers = {VX: 1, VY: 2, n.atom: 5, m.atom: 90}
    values = {of: numbers[other] for of, other in table.atoms.items() if of != column}
    neighbours = {("grid", (1, 1)): 20, ("grid", (1, 4)): 40}
    elsewhere = {("grid", (0, 2)): 30, ("grid", (2, 1)): 31, ("grid", ()): 32, ("other", (1, 2)): 33}
    outside = {("grid", (1, 5)): 25, ("grid", (1, -1)): 35}
    for order in ((neighbours, elsewhere, outside), (outside, elsewhere, neighbours)):
        known = {key: value for part in order for key, value in part.items()}
        assert found._between_neighbours(column, atom, values, known, None, None, 1) == (21, 38)
        assert found._between_neighbours(column, atom, values, known, None, None, 0) == (20, 40)
    assert found._between_neighbours(column, atom, values, {}, 0, 89, 1) == (2, 87)
    assert found._between_neighbours(column, atom, values, {}, 0, 89, 0) == (0, 89)


def test_elements_of_another_rank_are_not_neighbours() -> None:
    rising = Array("row", (n,), "int64", monotonic="nondecreasing")
    table, system = system_of(at_most(ZERO, read(rising, (x,))))
    found = search(table, system, undefined=True)
    ((column, atom),) = ((column, atom) for column, atom in table.atoms.items() if isinstance(atom, Read))
    values = {of: 3 for of in table.atoms if of != column}
    assert found._between_neighbours(column, atom, values, {("row", ()): 7}, None, None, 0) == (None, None)


def test_search_uses_quotients_by_zero_only_if_allowed() -> None:
    table, system = system_of(at_most(n, ZERO), equal(x // n, constant(3)))
    assert search(table, system, undefined=True).sample(60) is not None
    assert search(table, system, undefined=False).sample(60) is None
    table, system = system_of(equal(n, constant(2)), equal(x // n, constant(3)))
    assert search(table, system, undefined=False).sample(60) is not None


def test_constant_quotient_by_zero_is_arbitrary() -> None:
    dead = index(Quotient(constant(5), ZERO))
    with without_smt():
        for fact in (less(dead, ZERO), equal(dead, constant(3))):
            assert prove(Facts().assume(fact), FALSE) == Refuted(Model())
            assert isinstance(prove(Facts().assume(fact), less(dead, constant(-9))), Unknown)


def test_leaf_is_not_computed() -> None:
    table, system = system_of(at_most(ZERO, read(ROW, (x,))))
    found = search(table, system, undefined=True)
    ((column, _),) = ((column, atom) for column, atom in table.atoms.items() if isinstance(atom, Read))
    with pytest.raises(TypeError, match="chosen"):
        found._derived(column, dict.fromkeys(table.atoms, 1))


def test_z3_has_a_fixed_seed_and_a_limit_of_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: list[tuple[str, int]] = []
    plain = z3.Solver.set

    def recorded(solver: Any, *what: Any) -> None:
        settings.append(what)
        plain(solver, *what)

    monkeypatch.setattr(z3.Solver, "set", recorded)

    def limits(**how: Any) -> dict[str, int]:
        settings.clear()
        solve(*system_of(less(x, y)), **how)
        return dict(settings)

    assert limits(defined=False) == {"random_seed": 0, "rlimit": STEPS}
    assert limits(defined=True) == {"random_seed": 0, "rlimit": STEPS_AGAIN}
    assert limits(defined=False, steps=100_000)["rlimit"] == 100_000
    assert limits(defined=True, steps=100_000)["rlimit"] == 100_000
    assert limits(defined=True, steps=STEPS_AGAIN + 1)["rlimit"] == STEPS_AGAIN


def test_z3_gives_up_at_its_step_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    square = system_of(less(n * n + m * m, 2 * n * m))
    assert solve(*square, defined=False) == Contradiction()
    assert solve(*square, defined=False, steps=1) == GaveUp("z3 gave up within its limit of steps")
    monkeypatch.setitem(sys.modules, "z3", None)
    assert solve(*square, defined=False) == GaveUp("z3 is not installed")


def test_z3_encodes_the_width_of_xor() -> None:
    for a, b in ((6, 5), (5, 5), (3, 1), (8, 1), (1, 1), (255, 254)):
        known = equal(x, constant(a)), equal(y, constant(b))
        most = (1 << max(a, b).bit_length()) - 1
        assert not z3_contradicts(*known, equal(exclusive_or(x, y), constant(a ^ b)))
        above = most + 1 + (most + 1 + a + b) % 2  # the lowest bit is encoded too
        assert z3_contradicts(*known, equal(exclusive_or(x, y), constant(above)))
    few = within(ZERO, x, constant(8)), within(ZERO, y, constant(8))
    for value in range(8):
        assert not z3_contradicts(*few, equal(exclusive_or(x, y), constant(value)))
    assert z3_contradicts(*few, equal(exclusive_or(x, y), constant(8)))
    assert not z3_contradicts(at_most(x, constant(7)), at_most(y, ZERO), equal(exclusive_or(x, y), constant(9)))


def test_z3_encodes_out_of_range_elements_as_zero() -> None:
    for at, value in product((-1, 0, 2, 3, 4), (0, 2, 3)):
        known = equal(n, constant(3)), equal(x, constant(at)), equal(read(ROW, (x,)), constant(value))
        assert z3_contradicts(*known) == ((value >= 2) != (0 <= at < 3)), (at, value)


def test_z3_encodes_order_within_each_row() -> None:
    inside = within(ZERO, x, n), within(ZERO, y, n), within(ZERO, z, n), less(z, n - 1)
    for (first, second), step in product(((x, x), (x, y)), (-1, 0, 1)):
        known = equal(read(GRID, (first, z)), constant(5)), equal(read(GRID, (second, z + 1)), constant(5 + step))
        rows = () if first == second else (less(x, y),)
        assert z3_contradicts(*inside, *rows, *known) == (first == second and step < 1)


def test_z3_encodes_no_order_without_known_positions() -> None:
    inside = within(ZERO, x, m), within(ZERO, y, m), less(x, y)
    falls = equal(read(PARTED, (x,)), constant(3)), equal(read(PARTED, (y,)), constant(1))
    assert not z3_contradicts(*inside, *falls)


def test_z3_finds_the_segment_of_two_elements() -> None:
    """One pair of neighbouring positions is enough; positions that are not neighbours do not count."""
    where = within(ZERO, x, m), within(ZERO, y, m), less(x, y), within(ZERO, z, n - 2)
    first, second, third = (read(POSITIONS, (z + at,)) for at in range(3))
    falls = equal(read(PARTED, (x,)), constant(3)), equal(read(PARTED, (y,)), constant(1))
    some = at_most(ZERO, first + second + third)
    assert z3_contradicts(*where, *falls, some, at_most(second, x), less(y, third))
    assert z3_contradicts(*where, *falls, some, at_most(first, x), less(y, second))
    assert not z3_contradicts(*where, *falls, some, at_most(first, x), less(y, third))
    assert not z3_contradicts(*where, *falls, some, at_most(first, x), equal(y, second))
    assert not z3_contradicts(*where, *falls, some, less(x, first), less(y, second))


def test_earlier_parts_simplify_later_ones() -> None:
    below, far = less(x, constant(4)), less(x, constant(9))
    assert simplify_predicate(Facts(), conjunction((below, far))) == below
    assert simplify_predicate(Facts(), conjunction((far, below))) == conjunction((far, below))
    assert simplify_predicate(Facts(), disjunction((far, below))) == far
    assert simplify_predicate(Facts(), disjunction((below, far))) == disjunction((below, far))
    decided = Facts().assume(at_most(constant(9), x))
    assert simplify_predicate(decided, conjunction((less(y, x), below))) == FALSE
    assert simplify_predicate(decided, conjunction((below, less(y, x)))) == FALSE
