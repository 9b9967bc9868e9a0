"""How expressions are read by their bits, and bounds over loops: what is false of them is not proved, what is true is.

Each bound that would be too small stands beside the value that exceeds it.
"""

from __future__ import annotations

from typing import Final

import pytest

from atl.core.index import ONE, ZERO, Array, Index, Size, Var, constant, exclusive_or, index, read, size
from atl.core.predicate import NonNegative, Predicate, at_most, equal, less, within
from atl.prove import Facts, Proved, Refuted, lower_bound, prove, upper_bound, without_smt
from atl.prove.bits import MAX_BITS, _extents, by_bits
from atl.prove.bounds import _Elimination

VX, VY, VZ = (Var(1 + at, name) for at, name in enumerate("xyz"))
x, y, z = map(index, (VX, VY, VZ))
n, m, k = map(size, "nmk")


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def below(extent: int, *variables: Index) -> tuple[Predicate, ...]:
    return tuple(within(ZERO, each, constant(extent)) for each in variables)


# -- bits -------------------------------------------------------------------------------------------------------------

BITS: Final = below(2, x, y, z)

TRUE_OF_BITS: Final[dict[str, tuple[tuple[Predicate, ...], Predicate]]] = {
    "two bits that are turned are turned back": (BITS, equal(exclusive_or(1 - x, 1 - y), exclusive_or(x, y))),
    "three bits that are turned are turned once": (
        BITS,
        equal(exclusive_or(1 - x, 1 - y, 1 - z), 1 - exclusive_or(x, y, z)),
    ),
    "the lowest bit is lost by halving": (below(8, x, y), equal(exclusive_or(x, y) // 2, exclusive_or(x // 2, y // 2))),
    "a negative number has ones above its bits": (below(8, x), equal(exclusive_or(x, constant(-8)), x - 8)),
    "a multiple of a size stands above the bits": (below(4, x, y), equal(exclusive_or(x + 12 * n, y) // 4, 3 * n)),
}


@pytest.mark.parametrize("name", TRUE_OF_BITS)
def test_by_bits_it_is_proved_that(name: str) -> None:
    facts, goal = TRUE_OF_BITS[name]
    with without_smt():
        assert isinstance(prove(given(*facts), goal), Proved)


FALSE_OF_BITS: Final[dict[str, tuple[tuple[Predicate, ...], Predicate]]] = {
    "two bits that are turned add up": (BITS, equal(exclusive_or(1 - x, 1 - y), 2 - exclusive_or(x, y))),
    "three times a bit is twice a bit": ((*BITS, equal(3 * x, 2 * y + z)), equal(exclusive_or(x, z), x)),
    "six times a size leaves room for two bits": (below(4, x, y), equal(exclusive_or(x + 6 * n, y) // 4, 3 * n // 2)),
}


@pytest.mark.parametrize("name", FALSE_OF_BITS)
def test_by_bits_it_is_refuted_that(name: str) -> None:
    facts, goal = FALSE_OF_BITS[name]
    assert isinstance(prove(given(*facts), goal), Refuted)


OTHER_FACTS: Final[dict[str, tuple[Predicate, ...]]] = {
    "nothing else": (),
    "a quotient that is natural": (at_most(ZERO, z // 8),),
    "the range of a quotient": (within(ZERO, z // 3, constant(64)),),
    "the sign of a product": (at_most(ZERO, x * y),),
    "that nothing is not negative": (NonNegative(ZERO),),
}


@pytest.mark.parametrize("name", OTHER_FACTS)
def test_of_numbers_without_an_end_the_bits_that_are_asked_for_are_taken_off(name: str) -> None:
    """One bit, for the goal halves; whatever is known of other quotients."""
    known = less(exclusive_or(x // 2, y // 2), n)
    facts = Facts((known, *OTHER_FACTS[name]))
    assert by_bits(facts, less(exclusive_or(x, y) // 2, n)) == known
    with without_smt():
        assert isinstance(prove(facts, less(exclusive_or(x, y) // 2, n)), Proved)


def test_what_does_not_speak_of_bits_is_left_alone() -> None:
    """Where x is 0 that would be seen by its bits, of which it has none."""
    nothing = within(ZERO, x, ONE)
    both = exclusive_or(y, z)
    assert by_bits(given(nothing, equal(both, n)), less(x, y)) is None
    assert by_bits(given(nothing, less(both, n)), equal(x, y)) is None
    assert by_bits(given(nothing, equal(both, n)), equal(x, y)) is not None
    assert by_bits(given(nothing), equal(x, y // n)) is None


def test_a_number_of_too_many_bits_is_not_looked_at_bit_by_bit() -> None:
    most = 1 << MAX_BITS
    assert dict(_extents(given(within(ZERO, x, constant(most))))) == {VX: MAX_BITS}
    assert dict(_extents(given(within(ZERO, x, constant(most + 1))))) == {}


# -- bounds -----------------------------------------------------------------------------------------------------------


def test_a_bound_speaks_of_no_variable_of_the_loops() -> None:
    """Not where the variable divides either: n // (x + 1) is n at x = 0."""
    assert upper_bound(Facts(), n // (x + 1), [(VX, ZERO, n)]) is None
    assert lower_bound(Facts(), n // (x + 1), [(VX, ZERO, n)]) is None
    assert upper_bound(Facts(), x - (x + 1) * (n // (x + 1)), [(VX, ZERO, n)]) is None


def test_an_exclusive_or_has_the_bits_of_its_largest_part() -> None:
    """6 ^ 1 is 7."""
    assert upper_bound(Facts(), exclusive_or(x, ONE), [(VX, ZERO, constant(8))]) == constant(7)
    assert upper_bound(Facts(), exclusive_or(x, constant(9)), [(VX, ZERO, constant(2))]) == constant(15)


def test_an_element_is_zero_where_one_of_its_positions_is_outside() -> None:
    high = Array("high", (n, m), "int64", low=constant(2), high=constant(9))
    low = Array("low", (n, m), "int64", low=constant(-9), high=constant(-3))
    loop = [(VX, ZERO, n)]
    for position in ((x, k), (x, x)):
        assert lower_bound(Facts(), read(high, position), loop) == ZERO
        assert upper_bound(Facts(), read(low, position), loop) == ZERO
    inside = given(less(k, m))
    assert lower_bound(inside, read(high, (x, k)), loop) == constant(2)
    assert upper_bound(inside, read(low, (x, k)), loop) == constant(-4)


def test_a_bound_of_a_quotient_is_divided_by_what_the_loops_show_to_be_positive() -> None:
    """Around the loops nothing is known of k."""
    loops = [(VY, ZERO, k), (VX, ZERO, k * n)]
    assert upper_bound(Facts(), x // k, loops) == n - 1
    assert lower_bound(Facts(), x // k, loops) == ZERO


def test_what_does_not_hold_the_variable_is_its_own_bound() -> None:
    loop = _Elimination(given(within(ZERO, x, n)), VX, ZERO, n - 1)
    for up in (False, True):
        assert loop.extreme(m, up) == m
        assert loop.extreme(ZERO, up) == ZERO
        assert loop._atom(Size("m"), up) == m
