"""Sets of facts, and bounds at the ends of variable ranges."""

from __future__ import annotations

from typing import Final

import pytest

from atl.core.index import ONE, ZERO, Array, Index, Quotient, Var, bound, constant, index, read
from atl.core.predicate import TRUE, NonNegative, at_most, conjunction, equal, less, within
from atl.prove import Facts, Proved, Refuted, prove, proves
from atl.prove.steps import _collected, _Ends, is_least_at_ends
from proofs_tests.prover.common import VX, given, k, m, n, refutation, x, y, z


def natural(facts: Facts, expression: Index) -> bool:
    """Return whether the ends of ranges show that the expression is not negative."""
    return is_least_at_ends(facts, expression, lambda predicate: proves(facts, predicate, thorough=False))


def test_facts_can_be_given_together_or_one_by_one() -> None:
    inside, other = within(ZERO, x, n), less(x, m)
    facts = Facts((inside, TRUE, other, other))
    assert facts == given(inside, TRUE, other)
    assert facts.predicates == (at_most(ZERO, x), less(x, n), other)
    assert len(facts.topics) == 3
    assert given(TRUE) == Facts((TRUE,)) == Facts()
    assert prove(facts, less(x, n)) == Proved("trivial")


def test_known_facts_are_not_added() -> None:
    facts = given(within(ZERO, x, n), less(x, m))
    assert facts.assume(less(x, n), less(x, m)) is facts
    assert facts.assume(less(x, n), less(y, m)).predicates == (*facts.predicates, less(y, m))


def test_facts_about_one_array_belong_together() -> None:
    """If they were kept separately, two models could give one element different values."""
    plain = Array("plain", (constant(9),), "int64")
    facts = given(equal(x, constant(3)), at_most(constant(5), read(plain, (x,))), equal(y, constant(3)))
    assert isinstance(prove(facts, at_most(constant(5), read(plain, (y,)))), Proved)
    assert isinstance(prove(facts, at_most(constant(6), read(plain, (y,)))), Refuted)


def test_variables_with_low_ids_are_renumbered() -> None:
    first, last = index(Var(0, "i")), index(Var(5, "j"))
    facts = given(at_most(ZERO, first), less(first, last), less(last, n))
    assert isinstance(prove(facts, less(first + 1, n)), Proved)
    answer = refutation(facts, less(first + 2, n))
    assert answer.model.numbers.keys() == {"n", "i", "j"}
    assert answer.model.satisfies(conjunction((*facts.predicates, equal(first + 2, n))))


RANGES: Final = (less(ZERO, k), within(ZERO, x, constant(8)), within(ZERO, y, n), less(z, n))
"""z has no lower bound."""
FALSE_CLAIMS: Final[dict[str, tuple[Index, dict[str, int]]]] = {
    "a remainder is at least its divisor less 1":
        ((y - k * (y // k)) * m - m, {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1}),
    "a remainder is at least 7": (x % 8 * m - m, {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1}),
    "a number below n is above -n": (z * m + n * m, {"x": 0, "y": 0, "z": -2, "n": 1, "m": 1, "k": 1}),
    "a quotient is at least that of the end": (x // 2 * m - m, {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1}),
    "a numerator's constant is part of its digit":
        ((y - k * ((y + 1) // k)) * m, {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1}),
}  # fmt: skip
TRUE_CLAIMS: Final[dict[str, Index]] = {
    "a remainder is at least 0": (y - k * (y // k)) * m,
    "a remainder is at most its divisor less 1": (k - 1 - (y - k * (y // k))) * m,
    "a number below n is at most n - 1": (n - 1 - z) * m,
    "a quotient is at most that of the end": 3 * m - x // 2 * m,
    "a remainder of a sum is at least 0": (y + 1 - k * ((y + 1) // k)) * m,
    "a quotient of a natural number is at least 0": x // k * y - n * y + n * n,
}


@pytest.mark.parametrize("name", FALSE_CLAIMS)
def test_range_ends_do_not_prove_false_claims(name: str) -> None:
    expression, numbers = FALSE_CLAIMS[name]
    facts = given(*RANGES)
    values = given(*(equal(each, constant(numbers[str(each)])) for each in (x, y, z, n, m, k)))
    assert all(isinstance(prove(values, fact), Proved) for fact in facts.predicates)
    assert isinstance(prove(values, less(expression, ZERO)), Proved)
    assert not natural(facts, expression)
    assert isinstance(prove(facts, at_most(ZERO, expression)), Refuted)


@pytest.mark.parametrize("name", TRUE_CLAIMS)
def test_range_ends_prove_true_claims(name: str) -> None:
    assert natural(given(*RANGES), TRUE_CLAIMS[name])


def test_quotient_by_zero_has_no_digits() -> None:
    """The quotient may be any number, even if a fact says that it is not negative."""
    by_zero = index(Quotient(x, ZERO))
    facts = given(at_most(ZERO, by_zero))
    assert not natural(facts, m * by_zero - k * x)
    assert not isinstance(prove(facts, at_most(k * x, m * by_zero)), Proved)


def test_squared_variable_has_no_coefficient() -> None:
    assert _collected(x * y + 2 * x + n, VX) == (y + 2, n)
    assert _collected(x * x * n + x, VX) == (None, x * x * n + x)
    squared = x * x * m + x // k
    assert _Ends(given(*RANGES), lambda _: False).in_digits(squared) == squared
    assert natural(given(*RANGES), squared)


def test_mutual_bounds_terminate() -> None:
    """Two variables bound each other; each bound is tried once."""
    search = _Ends(given(at_most(x, y), at_most(y, x)), lambda _: False)
    before = search.left
    assert not search.never_negative(n * n - n * x, frozenset())
    assert before - search.left == 2


def test_inner_indices_are_bounded_first() -> None:
    """The bound of an inner index may depend on an outer one, not vice versa."""
    outer, inner = bound(1), bound(0)
    facts = given(within(ZERO, outer, n), within(ZERO, inner, outer))
    assert natural(facts, n * m - m - m * inner)
    atoms = _Ends(facts, lambda _: False)._variables(outer * k + inner * m)
    assert [str(index(atom)) for atom in atoms] == [str(inner), str(outer)]


def test_digits_are_bounded_in_written_order() -> None:
    """In the other order n - 1 would multiply a factor of unknown sign."""
    facts = given(less(ZERO, n))
    search = _Ends(facts, lambda predicate: proves(facts, predicate, thorough=False))
    one, other = x - (k + 1) * (x // (k + 1)), y - n * (y // n)
    assert search.never_negative(search.in_digits(k * m * n - m * one * other), frozenset())
    assert list(search.digits.values()) == [k + 1, n]
    assert len({digit.order for digit in search.digits}) == 2


def test_quotients_are_bounded_in_written_order() -> None:
    """The order must not depend on memory addresses."""
    for at in range(20):
        one, other = (index(Var(10 * at + place, "i")) // k for place in (1, 2))
        facts = given(less(ZERO, k), at_most(ZERO, one), at_most(ZERO, other), less(one, constant(8)), less(other, k))
        assert natural(facts, 7 * n * k - n * one * other)


def test_facts_about_quotients_bound_them() -> None:
    facts = given(less(ZERO, k), NonNegative(n - x // k), at_most(ONE, x // k))
    assert natural(facts, (n - x // k) * m)
    assert natural(facts, x // k * m - m)
    assert not natural(facts, x // k * m - 2 * m)
    assert not natural(conjoined(facts), (n - 1 - x // k) * m)


def conjoined(facts: Facts) -> Facts:
    return Facts((conjunction(facts.predicates),))
