"""Facts by themselves, and what is least where its variables are at ends of their ranges."""

from __future__ import annotations

from typing import Final

import pytest

from atl.core.index import ONE, ZERO, Array, Index, Quotient, Var, bound, constant, index, read, size
from atl.core.predicate import TRUE, NonNegative, Predicate, at_most, conjunction, equal, less, within
from atl.prove import Facts, Proved, Refuted, prove, proves
from atl.prove.ends import _collected, _Ends, is_least_at_ends

VX, VY, VZ = (Var(1 + at, name) for at, name in enumerate("xyz"))
x, y, z = map(index, (VX, VY, VZ))
n, m, k = map(size, "nmk")


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def natural(facts: Facts, expression: Index) -> bool:
    """Whether the ends of ranges show that the expression is not negative."""
    return is_least_at_ends(facts, expression, lambda predicate: proves(facts, predicate, thorough=False))


# -- facts ------------------------------------------------------------------------------------------------------------


def test_facts_that_are_given_at_once_are_those_that_are_assumed_one_by_one() -> None:
    inside, other = within(ZERO, x, n), less(x, m)
    facts = Facts((inside, TRUE, other, other))
    assert facts == given(inside, TRUE, other)
    assert facts.predicates == (at_most(ZERO, x), less(x, n), other)
    assert len(facts.topics) == 3
    assert given(TRUE) == Facts((TRUE,)) == Facts()
    assert prove(facts, less(x, n)) == Proved("trivial")


def test_what_is_known_already_adds_no_fact() -> None:
    facts = given(within(ZERO, x, n), less(x, m))
    assert facts.assume(less(x, n), less(x, m)) is facts
    assert facts.assume(less(x, n), less(y, m)).predicates == (*facts.predicates, less(y, m))


def test_facts_about_elements_of_one_array_belong_together() -> None:
    """Or numbers would be found for each of them by themselves: a[3] is 0 for one, and 5 for the other."""
    plain = Array("plain", (constant(9),), "int64")
    facts = given(equal(x, constant(3)), at_most(constant(5), read(plain, (x,))), equal(y, constant(3)))
    assert isinstance(prove(facts, at_most(constant(5), read(plain, (y,)))), Proved)
    assert isinstance(prove(facts, at_most(constant(6), read(plain, (y,)))), Refuted)


def test_variables_of_which_some_have_their_number_already_are_numbered() -> None:
    first, last = index(Var(0, "i")), index(Var(5, "j"))
    facts = given(at_most(ZERO, first), less(first, last), less(last, n))
    assert isinstance(prove(facts, less(first + 1, n)), Proved)
    answer = prove(facts, less(first + 2, n))
    assert isinstance(answer, Refuted)
    assert answer.model.numbers.keys() == {"n", "i", "j"}
    assert answer.model.satisfies(conjunction((*facts.predicates, equal(first + 2, n))))


# -- ends of ranges ---------------------------------------------------------------------------------------------------

RANGES: Final = (less(ZERO, k), within(ZERO, x, constant(8)), within(ZERO, y, n), less(z, n))
"""z is bounded from above alone."""
NOT_SEEN: Final[dict[str, tuple[Index, dict[str, int]]]] = {
    "a remainder is at most its divisor less 1, and not at least": (
        (y - k * (y // k)) * m - m,
        {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1},
    ),
    "a remainder is at most 7, and not at least": (x % 8 * m - m, {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1}),
    "what is below n is not above -n": (z * m + n * m, {"x": 0, "y": 0, "z": -2, "n": 1, "m": 1, "k": 1}),
    "a quotient is no more than that of the end": (x // 2 * m - m, {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1}),
    "what stands beside a variable in a numerator is taken off its digits": (
        (y - k * ((y + 1) // k)) * m,
        {"x": 0, "y": 0, "z": 0, "n": 1, "m": 1, "k": 1},
    ),
}
SEEN: Final[dict[str, Index]] = {
    "a remainder is at least 0": (y - k * (y // k)) * m,
    "a remainder is at most its divisor less 1": (k - 1 - (y - k * (y // k))) * m,
    "what is below n is at most n - 1": (n - 1 - z) * m,
    "a quotient is at most that of the end": 3 * m - x // 2 * m,
    "a remainder of a sum is at least 0": (y + 1 - k * ((y + 1) // k)) * m,
    "a quotient of what is natural is at least 0": x // k * y - n * y + n * n,
}


@pytest.mark.parametrize("name", NOT_SEEN)
def test_at_ends_it_is_not_seen_that(name: str) -> None:
    expression, numbers = NOT_SEEN[name]
    facts = given(*RANGES)
    told = given(*(equal(each, constant(numbers[str(each)])) for each in (x, y, z, n, m, k)))
    assert all(isinstance(prove(told, fact), Proved) for fact in facts.predicates)
    assert isinstance(prove(told, less(expression, ZERO)), Proved)
    assert not natural(facts, expression)
    assert isinstance(prove(facts, at_most(ZERO, expression)), Refuted)


@pytest.mark.parametrize("name", SEEN)
def test_at_ends_it_is_seen_that(name: str) -> None:
    assert natural(given(*RANGES), SEEN[name])


def test_a_quotient_by_zero_has_no_digits() -> None:
    """It may be any number, also where a fact says that it is natural."""
    by_zero = index(Quotient(x, ZERO))
    facts = given(at_most(ZERO, by_zero))
    assert not natural(facts, m * by_zero - k * x)
    assert not isinstance(prove(facts, at_most(k * x, m * by_zero)), Proved)


def test_a_variable_that_is_multiplied_by_itself_has_no_multiple() -> None:
    assert _collected(x * y + 2 * x + n, VX) == (y + 2, n)
    assert _collected(x * x * n + x, VX) == (None, x * x * n + x)
    squared = x * x * m + x // k
    assert _Ends(given(*RANGES), lambda _: False).in_digits(squared) == squared
    assert natural(given(*RANGES), squared)


def test_what_is_at_its_end_does_not_come_back() -> None:
    """Each of two is at most the other one: that is tried once from each side."""
    search = _Ends(given(at_most(x, y), at_most(y, x)), lambda _: False)
    before = search.left
    assert not search.never_negative(n * n - n * x, frozenset())
    assert before - search.left == 2


def test_inner_indices_are_put_at_their_ends_first() -> None:
    """The end of an inner one may speak of an outer one, and not the other way round."""
    outer, inner = bound(1), bound(0)
    facts = given(within(ZERO, outer, n), within(ZERO, inner, outer))
    assert natural(facts, n * m - m - m * inner)
    atoms = _Ends(facts, lambda _: False)._variables(outer * k + inner * m)
    assert [str(index(atom)) for atom in atoms] == [str(inner), str(outer)]


def test_digits_are_put_at_their_ends_in_the_order_in_which_they_are_written() -> None:
    """By n - 1 the other digit would be multiplied by what has no sign that its terms show."""
    facts = given(less(ZERO, n))
    search = _Ends(facts, lambda predicate: proves(facts, predicate, thorough=False))
    one, other = x - (k + 1) * (x // (k + 1)), y - n * (y // n)
    assert search.never_negative(search.in_digits(k * m * n - m * one * other), frozenset())
    assert list(search.digits.values()) == [k + 1, n]
    assert len({digit.order for digit in search.digits}) == 2


def test_quotients_are_put_at_their_ends_in_the_order_in_which_they_are_written() -> None:
    """Whatever their places in memory: by the end of the second one the first would be multiplied by k - 1."""
    for at in range(20):
        one, other = (index(Var(10 * at + place, "i")) // k for place in (1, 2))
        facts = given(less(ZERO, k), at_most(ZERO, one), at_most(ZERO, other), less(one, constant(8)), less(other, k))
        assert natural(facts, 7 * n * k - n * one * other)


def test_what_is_said_of_quotients_bounds_them() -> None:
    facts = given(less(ZERO, k), NonNegative(n - x // k), at_most(ONE, x // k))
    assert natural(facts, (n - x // k) * m)
    assert natural(facts, x // k * m - m)
    assert not natural(facts, x // k * m - 2 * m)
    assert not natural(conjoined(facts), (n - 1 - x // k) * m)


def conjoined(facts: Facts) -> Facts:
    return Facts((conjunction(facts.predicates),))
