"""Bit-level reasoning, and bounds over loops: true claims are proved, false ones are not."""

from __future__ import annotations

from typing import Final

import pytest

from atl.core.index import ONE, ZERO, Array, Size, constant, exclusive_or, read
from atl.core.predicate import NonNegative, Predicate, at_most, equal, less, within
from atl.prove import Facts, Proved, Refuted, lower_bound, prove, upper_bound, without_smt
from atl.prove.bits import MAX_BITS, _extents, by_bits
from atl.prove.bounds import _Elimination
from proofs_tests.prover.common import VX, VY, below, given, k, m, n, x, y, z

BITS: Final = below(2, x, y, z)

TRUE_OF_BITS: Final[dict[str, tuple[tuple[Predicate, ...], Predicate]]] = {
    "xor of two negated bits": (BITS, equal(exclusive_or(1 - x, 1 - y), exclusive_or(x, y))),
    "xor of three negated bits": (BITS, equal(exclusive_or(1 - x, 1 - y, 1 - z), 1 - exclusive_or(x, y, z))),
    "halving drops the lowest bit": (below(8, x, y), equal(exclusive_or(x, y) // 2, exclusive_or(x // 2, y // 2))),
    "a negative number has high bits one": (below(8, x), equal(exclusive_or(x, constant(-8)), x - 8)),
    "a multiple of a size is above the bits": (below(4, x, y), equal(exclusive_or(x + 12 * n, y) // 4, 3 * n)),
}


@pytest.mark.parametrize("name", TRUE_OF_BITS)
def test_bits_prove(name: str) -> None:
    facts, goal = TRUE_OF_BITS[name]
    with without_smt():
        assert isinstance(prove(given(*facts), goal), Proved)


FALSE_OF_BITS: Final[dict[str, tuple[tuple[Predicate, ...], Predicate]]] = {
    "xor of negated bits is their sum": (BITS, equal(exclusive_or(1 - x, 1 - y), 2 - exclusive_or(x, y))),
    "three times a bit is twice a bit": ((*BITS, equal(3 * x, 2 * y + z)), equal(exclusive_or(x, z), x)),
    "six times a size leaves two free bits": (below(4, x, y), equal(exclusive_or(x + 6 * n, y) // 4, 3 * n // 2)),
}


@pytest.mark.parametrize("name", FALSE_OF_BITS)
def test_bits_refute(name: str) -> None:
    facts, goal = FALSE_OF_BITS[name]
    assert isinstance(prove(given(*facts), goal), Refuted)


OTHER_FACTS: Final[dict[str, tuple[Predicate, ...]]] = {
    "none": (),
    "a natural quotient": (at_most(ZERO, z // 8),),
    "the range of a quotient": (within(ZERO, z // 3, constant(64)),),
    "the sign of a product": (at_most(ZERO, x * y),),
    "zero is not negative": (NonNegative(ZERO),),
}


@pytest.mark.parametrize("name", OTHER_FACTS)
def test_needed_bits_of_unbounded_numbers_are_split_off(name: str) -> None:
    """One bit, since the goal halves; facts about other quotients do not matter."""
    known = less(exclusive_or(x // 2, y // 2), n)
    facts = Facts((known, *OTHER_FACTS[name]))
    assert by_bits(facts, less(exclusive_or(x, y) // 2, n)) == known
    with without_smt():
        assert isinstance(prove(facts, less(exclusive_or(x, y) // 2, n)), Proved)


def test_goals_without_bits_are_left_alone() -> None:
    # x is 0, so it has no bits.
    nothing = within(ZERO, x, ONE)
    both = exclusive_or(y, z)
    assert by_bits(given(nothing, equal(both, n)), less(x, y)) is None
    assert by_bits(given(nothing, less(both, n)), equal(x, y)) is None
    assert by_bits(given(nothing, equal(both, n)), equal(x, y)) is not None
    assert by_bits(given(nothing), equal(x, y // n)) is None


def test_wide_numbers_are_not_read_as_bits() -> None:
    most = 1 << MAX_BITS
    assert dict(_extents(given(within(ZERO, x, constant(most))))) == {VX: MAX_BITS}
    assert dict(_extents(given(within(ZERO, x, constant(most + 1))))) == {}


def test_bounds_contain_no_loop_variable() -> None:
    """Not even in a divisor: n // (x + 1) is n at x = 0."""
    assert upper_bound(Facts(), n // (x + 1), [(VX, ZERO, n)]) is None
    assert lower_bound(Facts(), n // (x + 1), [(VX, ZERO, n)]) is None
    assert upper_bound(Facts(), x - (x + 1) * (n // (x + 1)), [(VX, ZERO, n)]) is None


def test_xor_has_the_bits_of_its_largest_operand() -> None:
    assert upper_bound(Facts(), exclusive_or(x, ONE), [(VX, ZERO, constant(8))]) == constant(7)
    assert upper_bound(Facts(), exclusive_or(x, constant(9)), [(VX, ZERO, constant(2))]) == constant(15)


def test_out_of_range_element_is_zero() -> None:
    high = Array("high", (n, m), "int64", low=constant(2), high=constant(9))
    low = Array("low", (n, m), "int64", low=constant(-9), high=constant(-3))
    loop = [(VX, ZERO, n)]
    for position in ((x, k), (x, x)):
        assert lower_bound(Facts(), read(high, position), loop) == ZERO
        assert upper_bound(Facts(), read(low, position), loop) == ZERO
    inside = given(less(k, m))
    assert lower_bound(inside, read(high, (x, k)), loop) == constant(2)
    assert upper_bound(inside, read(low, (x, k)), loop) == constant(-4)


def test_loop_ranges_show_divisors_positive() -> None:
    """No fact outside the loops bounds k."""
    loops = [(VY, ZERO, k), (VX, ZERO, k * n)]
    assert upper_bound(Facts(), x // k, loops) == n - 1
    assert lower_bound(Facts(), x // k, loops) == ZERO


def test_invariant_expression_is_its_own_bound() -> None:
    loop = _Elimination(given(within(ZERO, x, n)), VX, ZERO, n - 1)
    for up in (False, True):
        assert loop.extreme(m, up) == m
        assert loop.extreme(ZERO, up) == ZERO
        assert loop._atom(Size("m"), up) == m
