"""Bit-level reasoning over F2: proofs, refutations, random queries and planted faults."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Final

import pytest

from atl.core.index import ZERO, Index, Var, constant, exclusive_or, floordiv, index
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, equal, holds, less, within
from atl.prove import Facts, Proved, Refuted, bits, prove, without_smt
from atl.prove.bits import by_bits
from proofs_tests.prover.common import VX, VY, VZ, n, x, y, z

VARIABLES: Final = (VX, VY, VZ)


def bit(e: Index, k: int) -> Index:
    return index(e // 2**k % 2)


def inside(*extents: int) -> Facts:
    limits = zip((x, y, z), extents, strict=False)
    return Facts().assume(*(within(ZERO, e, constant(extent)) for e, extent in limits))


KNOWN: Final[dict[str, tuple[Facts, Predicate]]] = {
    "xor of single bits is a bit":
        (inside(16, 16, 16), within(ZERO, exclusive_or(bit(x, 0), bit(x, 3), bit(y, 1), bit(z, 2)), constant(2))),
    "a number is the sum of its bits": (inside(64), equal(x, sum((2**k * bit(x, k) for k in range(6)), ZERO))),
    "xor works bit by bit": (inside(16, 16),
        equal(exclusive_or(x, y), sum((2**k * exclusive_or(bit(x, k), bit(y, k)) for k in range(4)), ZERO))),
    "the high half of xor is xor of the high halves":
        (Facts(), equal(exclusive_or(x, y) // 8, exclusive_or(x // 8, y // 8))),
    "a swizzle stays within a multiple of its group":
        (Facts().assume(within(ZERO, x, 8 * n)), within(ZERO, exclusive_or(x, y % 8), 8 * n)),
    "a swizzle of addresses is its own inverse": (Facts().assume(within(ZERO, x, n), within(ZERO, y, constant(64))),
        equal(64 * x + y, exclusive_or(a := exclusive_or(64 * x + y, 8 * (x % 8)), 8 * (a // 64 % 8)))),
    "a Gray code determines its number":
        (inside(8), equal(x, exclusive_or(g := exclusive_or(x, x // 2), g // 2, g // 4))),
    "xor with one number can be cancelled":
        (inside(8, 8, 8).assume(equal(exclusive_or(x, z), exclusive_or(y, z))), equal(x, y)),
    "equal parts of a number can be cancelled":
        (Facts().assume(equal(exclusive_or(x % 8, z % 4), exclusive_or(y % 8, z % 4)), equal(x // 8, y // 8)),
        equal(x, y)),
}  # fmt: skip


@pytest.mark.parametrize("name", KNOWN)
def test_bit_facts_are_proved(name: str) -> None:
    facts, goal = KNOWN[name]
    with without_smt():
        assert isinstance(prove(facts, goal), Proved)


UNKNOWN: Final[dict[str, tuple[Facts, Predicate]]] = {
    "a bit too many": (inside(16, 32), less(exclusive_or(x, y), constant(16))),
    "another bit": (inside(16), equal(bit(x, 1), bit(x, 2))),
    "xor is the sum": (inside(8, 8), equal(exclusive_or(x, y), x + y)),
    "a swizzle in a partial group": (Facts().assume(within(ZERO, x, n)), less(exclusive_or(x, y % 8), n)),
    "cancelling different numbers": (
        inside(8, 8, 8).assume(equal(exclusive_or(x, z), exclusive_or(y, x))),
        equal(x, y),
    ),
    "a Gray code with a step too few": (inside(8), equal(x, exclusive_or(g, g // 2))),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_false_bit_claims_are_refuted(name: str) -> None:
    assert isinstance(prove(*UNKNOWN[name]), Refuted)


def test_by_bits_needs_bits() -> None:
    assert by_bits(Facts(), equal(x, y)) is None
    assert by_bits(Facts(), equal(x // 3, y)) is None
    assert by_bits(Facts(), at_most(ZERO, x // 2)) is None


SEED: Final = 14


def expression(numbers: Random, depth: int) -> Index:
    if not depth or numbers.random() < 0.2:
        return index(numbers.choice(VARIABLES)) if numbers.random() < 0.8 else constant(numbers.randrange(-3, 9))
    inner = expression(numbers, depth - 1)
    power = constant(2 ** numbers.randrange(1, 4))
    match numbers.randrange(5):
        case 0:
            return exclusive_or(inner, expression(numbers, depth - 1))
        case 1:
            return floordiv(inner, power)
        case 2:
            return inner - power * floordiv(inner, power)
        case 3:
            return inner + numbers.choice((1, 2, -1, 8)) * expression(numbers, depth - 1)
        case _:
            return inner * numbers.choice((1, 2, -2))


def question(numbers: Random) -> tuple[Facts, Predicate, list[range]]:
    """Return facts, a goal, and the ranges of the variables, of which one may be signed."""
    extents = [numbers.choice((2, 4, 5, 8)) for _ in VARIABLES]
    free = numbers.random() < 0.2
    ranges = [range(-9, 17) if free and not k else range(extent) for k, extent in enumerate(extents)]
    facts = Facts()
    for variable, extent in list(zip(VARIABLES, extents, strict=True))[free:]:
        facts = facts.assume(within(ZERO, index(variable), constant(extent)))
    if numbers.random() < 0.3:
        facts = facts.assume(equal(expression(numbers, 1), expression(numbers, 1)))
    a, b, power = expression(numbers, 2), expression(numbers, 2), constant(2 ** numbers.randrange(1, 4))
    whole, other = (exclusive_or(a, b), exclusive_or) if numbers.random() < 0.5 else (a + b, Index.__add__)
    goals = (
        equal(whole // power, other(a // power, b // power)),
        equal(exclusive_or(whole, z), other(exclusive_or(a, z), b)),
        within(ZERO, whole, constant(numbers.choice((4, 8, 16)))),
        at_most(whole, a + b),
    )
    return facts, numbers.choice(goals), ranges


def breaks(facts: Facts, goal: Predicate, ranges: list[range]) -> bool:
    for values in product(*ranges):
        at = dict(zip(VARIABLES, values, strict=True))

        def leaf(variable: object, at: dict[Var, int] = at) -> int:
            assert isinstance(variable, Var)
            return at[variable]

        if all(holds(fact, leaf, lambda *_: 0) for fact in facts.predicates) and not holds(goal, leaf, lambda *_: 0):
            return True
    return False


def false_steps(count: int) -> int:
    """Count the random goals that `by_bits` proves, or replaces by a true goal, though they are false."""
    numbers, wrong, changed = Random(SEED), 0, 0
    for _ in range(count):
        facts, goal, ranges = question(numbers)
        left = by_bits(facts, goal)
        if left is None or left == FALSE:
            continue
        changed += 1
        wrong += (left == TRUE or not breaks(facts, left, ranges)) and breaks(facts, goal, ranges)
    assert changed >= count // 20
    return wrong


@pytest.mark.long
def test_random_bit_queries_have_no_wrong_answer() -> None:
    assert false_steps(600) == 0


def bits_value(value: bits.Value, by: int) -> bits.Value:
    halved = {form: weight >> by for form, weight in value.weights.items() if weight >> by}
    return bits.Value(halved, value.rest // 2**by)


def whole_string(value: bits.Value) -> bits._String:
    return bits._String([(form, False) for form in value.weights], value.rest)


FAULTS: Final = {
    "a carry is lost": ("_shifted", bits_value),
    "every number is a bit string": ("_string", whole_string),
    "the high part of equal numbers is ignored": ("_equal_bits", lambda value: iter(value.weights)),
}


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS)
def test_planted_faults_are_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, wrong = FAULTS[fault]
    monkeypatch.setattr(bits, name, wrong)
    assert false_steps(600) > 0
