"""Exclusive or of indices: canonical form, proofs and refutations."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random

import pytest

import atl
from atl.core.index import ZERO, Index, Leaf, Xor, constant, exclusive_or, size, value_of
from atl.core.predicate import Predicate, at_most, equal, holds, less, within
from atl.prove import Facts, Proved, Refuted, prove, upper_bound, without_smt
from proofs_tests.prover.common import VX, VY, refutation, x, y


def value(expression: Index, at: dict[Leaf, int]) -> int:
    return value_of(expression, at.__getitem__, lambda *_: 0)


def values(a: int, b: int) -> Callable[[Leaf], int]:
    at: dict[Leaf, int] = {VX: a, VY: b}
    return at.__getitem__


def test_xor_is_canonical() -> None:
    assert exclusive_or(exclusive_or(x, y), y) == x
    assert exclusive_or(x, x) == ZERO
    assert exclusive_or(y, x) == exclusive_or(x, y)
    assert exclusive_or(x, constant(5), y, constant(3)) == exclusive_or(constant(6), y, x)
    assert exclusive_or(exclusive_or(x, constant(6)), constant(6)) == x
    assert isinstance(exclusive_or(x, y).atom, Xor)


def test_xor_evaluates_on_negative_numbers() -> None:
    for a, b in product(range(-9, 10), repeat=2):
        for extra in (0, 1, 6, -3):
            assert value(exclusive_or(x, y + 1, constant(extra)), {VX: a, VY: b}) == a ^ (b + 1) ^ extra


def test_xor_is_bounded_by_a_power_of_two() -> None:
    eight = Facts().assume(within(ZERO, x, constant(8)), within(ZERO, y, constant(6)))
    inside = exclusive_or(x, y)
    assert isinstance(prove(eight, within(ZERO, inside, constant(8))), Proved)
    assert isinstance(prove(eight, at_most(inside, x + y)), Proved)
    refuted = refutation(eight, less(inside, constant(7)))
    assert refuted.model.leaf(VX) ^ refuted.model.leaf(VY) == 7
    assert upper_bound(Facts(), exclusive_or(x, constant(4)), [(VX, ZERO, constant(6))]) == constant(7)
    unsigned = Facts().assume(less(x, constant(8)), less(y, constant(8)))
    assert isinstance(prove(unsigned, within(ZERO, inside, constant(8))), Refuted)


def test_swizzle_is_its_own_inverse_within_a_group() -> None:
    n = atl.sizes("n").node
    facts = Facts().assume(within(ZERO, x, n), within(ZERO, y, constant(8)))
    there = exclusive_or(y, x % 8)
    assert prove(facts, equal(exclusive_or(there, x % 8), y)) == Proved("trivial")
    assert isinstance(prove(facts, within(ZERO, there, constant(8))), Proved)


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(4))
def test_random_xor_claims_agree_with_brute_force(seed: int) -> None:
    random = Random(seed)
    for _ in range(40):
        most = random.randint(1, 9), random.randint(1, 9)
        low = random.choice((0, 0, 0, -2))
        facts = Facts().assume(within(constant(low), x, constant(most[0])), within(ZERO, y, constant(most[1])))
        goal = _some_claim(random)
        with without_smt():
            answer = prove(facts, goal)
        everywhere = all(
            holds(goal, values(a, b), lambda *_: 0) for a, b in product(range(low, most[0]), range(most[1]))
        )
        if isinstance(answer, Proved):
            assert everywhere, (facts, goal)
        if isinstance(answer, Refuted):
            assert not everywhere, (facts, goal)
            assert not answer.model.satisfies(goal)


def _some_claim(random: Random) -> Predicate:
    parts = [x, y, x % 4, y // 2, x + y, constant(random.randint(0, 6))]
    inside = exclusive_or(*random.sample(parts, random.randint(2, 3)))
    other = random.choice([x + y, constant(random.choice((3, 7, 15))), exclusive_or(x, y), x])
    return random.choice([at_most(inside, other), at_most(ZERO, inside), equal(inside % 2, (x + y) % 2)])


def test_xor_round_trips_through_text() -> None:
    program = atl.parse("f (x : float32[8]) : float32[8] := ⊞[i < 8] x[xor(i, 5)]")
    assert "x[xor(i, 5)]" in str(program)
    assert atl.parse(str(program)) == program
    i, j = atl.sizes("i j")
    assert repr((i ^ j) ^ 3) == "xor(i, j, 3)"
    assert repr(1 ^ i) == "xor(i, 1)"
    assert repr((i ^ j) ^ j) == "i"


def test_alternating_rows_are_decided_by_remainder_cases() -> None:
    n, m = size("n"), size("m")
    facts = Facts().assume(within(ZERO, x, n), within(ZERO, y, m))

    def turned(j: Index) -> Index:
        return j + (x % 2) * (m - 1 - 2 * j)

    with without_smt():
        assert isinstance(prove(facts, equal(turned(turned(y)), y)), Proved)
        assert isinstance(prove(facts, within(ZERO, turned(y), m)), Proved)
        wrong = prove(facts, equal(turned(y), y))
    assert isinstance(wrong, Refuted)
    assert not wrong.model.satisfies(equal(turned(y), y))


def test_false_case_prevents_proof() -> None:
    n = atl.sizes("n").node
    facts = Facts().assume(within(ZERO, x, n))
    for goal in (equal((x % 3) * (x % 3 - 1), ZERO), less((x % 2) * n, n), equal((x % 2) * (n - x), ZERO)):
        assert not isinstance(prove(facts, goal), Proved)


def test_small_xor_is_zero() -> None:
    """Found by random storages: in a tile of 3 columns, chunk x ^ y is the first only if x == y."""
    facts = Facts().assume(*(within(ZERO, part, constant(4)) for part in (x, y)))
    there = exclusive_or(x, y)
    assert isinstance(prove(facts.assume(less(3 * there, constant(3))), equal(x, y)), Proved)
    assert isinstance(prove(facts.assume(less(3 * there, constant(4))), equal(x, y)), Refuted)
    assert isinstance(prove(facts.assume(equal(there % 2, ZERO)), equal((x + y) % 2, ZERO)), Proved)
