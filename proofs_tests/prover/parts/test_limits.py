"""Limits on the prover's work: budgets, memo sizes, late case splits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from atl.core.index import ZERO, Var, constant, imax, index
from atl.core.node import identity
from atl.core.predicate import Predicate, at_most, less, non_negative, within
from atl.prove import Facts, Proved, Refuted, Unknown, forget, linear, prove, prover, rows, steps, without_smt
from atl.prove.linear import BUDGET, _divisors, _Refutation, _State, consequences, refuted, refuted_by_rounding
from atl.prove.rows import Budget, Intervals, Row, System, Table, contradict, leaves_no_rows
from atl.prove.steps import _Ends
from proofs_tests.prover.common import given, k, m, n, x, y, z

AROUND: Final[list[Row]] = [{1: -1, 2: 1, 0: -1}, {2: -1, 3: 1}, {3: -1, 4: 1}, {4: -1, 5: 1}, {5: -1, 1: 1}]
"""x < y <= … <= x: each column is in two rows."""


def table_of(columns: int) -> Table:
    table = Table()
    for at in range(columns):
        table.row(index(Var(at, f"v{at}")))
    return table


def test_zero_effort_refutes_nothing() -> None:
    table = table_of(1)
    assert refuted(table, System([{1: 1}]), System([{1: -1, 0: -1}]), effort=1)
    assert not refuted(table, System([{1: 1}]), System([{1: -1, 0: -1}]), effort=0)
    assert refuted(table, System([], [], [()]), System(), effort=1)
    assert not refuted(table, System([], [], [()]), System(), effort=0)


def test_elimination_gives_up_on_too_many_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    assert contradict(AROUND, [], Budget(1_000))
    monkeypatch.setattr(rows, "MAX_ROWS", 3)
    assert not contradict(AROUND, [], Budget(1_000))
    monkeypatch.setattr(rows, "MAX_ROWS", 4)
    assert contradict(AROUND, [], Budget(1_000))


def test_splits_are_counted_one_by_one() -> None:
    """|x| + |y| <= 1 with x, y != 0 needs two nested splits."""
    diamond = System([{1: a, 2: b, 0: 1} for a in (1, -1) for b in (1, -1)])
    diamond.cases = [(System([{at: 1, 0: -1}]), System([{at: -1, 0: -1}])) for at in (1, 2)]
    seen = [refuted(table_of(2), diamond, System(), splits=splits) for splits in range(4)]
    assert seen == [False, False, True, True]


def test_rounding_happens_only_on_request() -> None:
    # 2 x - y >= 2, -2 x - 3 y >= 2 and y >= -1: y is -1, so 1 <= 2 x <= 1.
    rows = System([{1: 2, 2: -1, 0: -2}, {1: -2, 2: -3, 0: -2}, {2: 1, 0: 1}])
    assert not refuted(table_of(2), rows, System())
    assert refuted_by_rounding(table_of(2), rows, System())


def test_chernikov_rule_discards_redundant_rows() -> None:
    """Chernikov's rule leaves 51 combinations of this satisfiable system."""
    left = Budget(10_000)
    assert not contradict(
        [
            {1: 2, 3: 2, 0: 4}, {1: 2, 2: -2, 3: 2, 4: -2, 0: 8}, {1: -2, 3: -2, 4: 1, 0: -3}, {1: -1, 2: 2, 0: 8},
            {2: 2, 4: -1, 0: 2}, {2: 1, 4: -2, 0: 3}, {1: 1, 2: -1, 3: 1, 4: 2, 0: 1}, {1: 2, 2: 2, 3: -1, 4: 2, 0: 7},
            {3: 1, 4: -2, 0: 4}, {1: 2, 2: 2, 3: -2, 4: -2, 0: 1},
        ],
        [],
        left,
    )  # fmt: skip
    assert 10_000 - left.left == 51


def test_intervals_are_recomputed_only_if_stale() -> None:
    state = _State(System([{1: 1}]), [])
    search = _Refutation(table_of(1), Budget(100), wide=False)
    first = search._intervals(state, fresh=True)
    assert first is not None
    assert search._intervals(state, fresh=True) is first
    state.stale = True
    assert search._intervals(state, fresh=False) is first
    assert search._intervals(state, fresh=True) is not first


def test_number_of_divisors_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(4)
    pairs = [table.column((1, 2)), table.column((3, 4))]
    system = System([dict.fromkeys(pairs, 1)])
    assert list(_divisors(table, system)) == [(1, 2), (3, 4)]
    monkeypatch.setattr(linear, "MAX_DIVISORS", 1)
    assert list(_divisors(table, system)) == [(1, 2)]


def test_number_of_products_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of(2)
    system = System([{1: 1, 2: -1}, {2: 1, 0: -1}], [{1: 1, 2: -2, 0: -1}, {1: 1, 2: -3}, {table.column((1, 2)): 1}])
    bounds = Intervals(table, {1: 0, 2: 1}, {})

    def made(most: int) -> tuple[int, int]:
        monkeypatch.setattr(linear, "MAX_PRODUCTS", most)
        out = linear.products(table, system, bounds, wide=True)
        return len(out.rows), len(out.equalities)

    assert [made(most) for most in range(3)] == [(0, 0), (1, 1), (2, 2)]
    assert min(made(100)) > 2


def test_each_tried_end_counts_once() -> None:
    facts = given(within(ZERO, x, n), within(ZERO, y, m))
    search = _Ends(facts, lambda predicate: predicate == at_most(ZERO, n) or "m" in str(predicate))
    before = search.left
    assert search.never_negative(n * m - 1 - (x * m + y), frozenset())
    assert before - search.left == 2


def test_number_of_tried_ends_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = given(within(ZERO, x, n), within(ZERO, y, m))

    def seen(left: int) -> bool:
        search = _Ends(facts, lambda predicate: predicate == at_most(ZERO, n) or "m" in str(predicate), left=left)
        return search.never_negative(n * m - 1 - (x * m + y), frozenset())

    assert [seen(left) for left in range(4)] == [False, False, True, True]
    monkeypatch.setattr(steps, "MAX_TERMS", 4)
    assert seen(2)
    monkeypatch.setattr(steps, "MAX_TERMS", 3)
    assert not seen(2)


def test_variable_gets_one_set_of_digits() -> None:
    facts = given(within(ZERO, x, n), within(ZERO, y, m))
    search = _Ends(facts, lambda _: False)
    search.in_digits((x + y + x // 2 + (x + y) // 3 + (x + z) // 5) * n)
    assert len(search.digits) == 2


def test_elimination_respects_its_budget() -> None:
    needed = next(budget for budget in range(100) if contradict(AROUND, [], Budget(budget)))
    spent = Budget(needed)
    assert contradict(AROUND, [], spent)
    assert (needed, spent.left) == (9, 0)


def test_leaves_nothing_respects_its_budget() -> None:
    # -3 x <= y <= 2 x and 5 z <= y <= 7 z: eliminating y leaves rows of x and z.
    rows: list[Row] = [{1: 3, 2: 1}, {1: 2, 2: -1}, {2: 1, 3: -5}, {2: -1, 3: 7}]
    assert not leaves_no_rows(rows, frozenset([1, 3]), Budget(100))
    around: list[Row] = [{1: 1, 2: 1}, {1: -1, 2: 1, 3: 1}, {3: -1, 2: 1}]
    assert leaves_no_rows(around, frozenset(), Budget(100))
    assert not leaves_no_rows([{1: 1, 4: 1}, {1: -1, 4: -1}, {1: 1, 0: 1}], frozenset(), Budget(1))


def test_number_of_consequences_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    table = Table()
    rows = [table.row(y - k * x), table.row(k * n - y - 1)]
    ((of_k, _),) = table.row(k).items()
    bounds = Intervals(table, {of_k: 0}, {})
    assert consequences(System(rows), bounds, Budget(100))
    monkeypatch.setattr(linear, "MAX_CONSEQUENCES", 0)
    assert not consequences(System(rows), bounds, Budget(100))


def test_memo_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prover, "MEMO_SIZE", 20)
    forget()
    for number in range(21):
        one = identity(("memo", number))
        prover._remember((one, one, True, True), Proved("trivial"))
        assert len(prover._memo) == (number + 1 if number < 20 else 19)
    forget()


def test_quick_queries_use_relevant_facts_only() -> None:
    facts = given(within(ZERO, x, n), *(less(x % d, constant(d - 1)) for d in range(2, 30, 2)))
    goal = less(x + 1, n)  # x = 0, n = 1 refutes it, but a quick query does not check the other facts
    assert isinstance(prove(facts, goal, thorough=False), Unknown)
    assert isinstance(prove(facts, goal), Refuted)
    assert isinstance(prove(facts, less(x, n + 1), thorough=False), Proved)
    assert isinstance(prove(facts, less(x, n + 1)), Proved)


def test_search_precedes_case_splits(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[tuple[int, int]] = []
    plain: Callable[..., Any] = vars(prover)["refuted"]

    def recorded(*arguments: Any, effort: int, **how: Any) -> Any:
        calls.append((effort, how.get("splits", -1)))
        return plain(*arguments, effort=effort, **how)

    monkeypatch.setattr(prover, "refuted", recorded)
    forget()
    prove(given(within(ZERO, x, n)), less(imax(x, y), imax(n, y + 1)))
    assert calls[0] == (prover.FIRST_BUDGET, 0)
    assert BUDGET in {effort for effort, _ in calls}
    assert prover.QUICK_BUDGET not in {effort for effort, _ in calls}
    calls.clear()
    prove(given(within(ZERO, x, n)), less(imax(x, y), imax(n, y + 1)), thorough=False)
    assert BUDGET not in {effort for effort, _ in calls}
    assert prover.QUICK_BUDGET in {effort for effort, _ in calls}
    forget()


def test_goal_is_simplified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Predicate] = []

    def weaker(query: Any) -> Predicate:
        made.append(query.goal)
        return non_negative(query.goal.expression + len(made))

    monkeypatch.setattr(prover._Query, "_simpler", weaker)
    forget()
    with without_smt():
        prove(Facts(), at_most(2 * n * m, n * n + m * m))
    assert len(made) == 1
    forget()
