"""Proofs that addresses are in range: any rank, tiles of symbolic size, ordered index arrays."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any

import numpy as np
import pytest

import atl
from atl import IndexExpr, Program
from atl.core.index import ZERO, Array, Index, Quotient, Size, Var, ceildiv, index, read, size
from atl.core.predicate import NonNegative, Predicate, at_most, holds, less, within
from atl.errors import ExtentError, UnsafeAccess
from atl.prove import Facts, Proved, Refuted, prove
from atl.prove.steps import is_least_at_ends
from lowering import compile as compile_program

n, m, b = atl.sizes("n m b")
K, L = atl.sizes("K L", min=1)
SIZES = [atl.sizes(f"s{k}") for k in range(9)]


pytestmark = [pytest.mark.usefixtures("private_cache"), pytest.mark.sampled]


def product(extents: Sequence[Any]) -> Any:
    return reduce(lambda whole, extent: whole * extent, extents)


def flat(indices: Sequence[Any], extents: Sequence[Any]) -> Any:
    return reduce(lambda address, pair: address * pair[1] + pair[0], zip(indices, extents, strict=True), 0)


def read_at(extents: Sequence[Any], loops: Sequence[Any], address: Callable[..., Any]) -> Program:
    """Return a program that reads a one-dimensional array at computed addresses."""
    x = atl.tensor("x", product(extents))
    return atl.program("read", [x], atl.gen(*loops, lambda *i: x[address(*i)]))


@pytest.mark.parametrize("rank", [2, 5, 6, 7, 8, 9])
def test_row_and_column_major_addresses_are_in_range(rank: int) -> None:
    extents = SIZES[:rank]
    atl.check_safe(read_at(extents, extents, lambda *i: flat(i, extents)))
    atl.check_safe(read_at(extents, extents, lambda *i: flat(i[::-1], extents[::-1])))


def test_address_with_exchanged_extents_is_refused() -> None:
    extents = SIZES[:6]
    exchanged = [*extents[:3], extents[4], extents[3], extents[5]]
    with pytest.raises(UnsafeAccess):
        atl.check_safe(read_at(extents, extents, lambda *i: flat(i, exchanged)))


BLOCKED: dict[str, tuple[Sequence[Any], Sequence[Any], Callable[..., Any]]] = {
    "loops over tiles": ((atl.ceildiv(n, K), atl.ceildiv(m, L), K, L), (atl.ceildiv(n, K), atl.ceildiv(m, L), K, L),
        lambda *i: flat(i, (atl.ceildiv(n, K), atl.ceildiv(m, L), K, L))),
    "elements of tiles": ((atl.ceildiv(n, K), atl.ceildiv(m, L), K, L), (n, m), lambda i,
        j: flat((i // K, j // L, i % K, j % L), (n, atl.ceildiv(m, L), K, L))),
    "one tile size": ((atl.ceildiv(n, K), atl.ceildiv(m, K), K, K), (n, m), lambda i,
        j: flat((i // K, j // K, i % K, j % K), (n, atl.ceildiv(m, K), K, K))),
    "tiles without tails":
        ((n, m, K, L), (n * K, m * L), lambda i, j: flat((i // K, j // L, i % K, j % L), (n, m, K, L))),
    "tiles of a batch": ((b, atl.ceildiv(n, K), atl.ceildiv(m, L), K, L), (b, n, m), lambda c, i,
        j: flat((c, i // K, j // L, i % K, j % L), (b, atl.ceildiv(n, K), atl.ceildiv(m, L), K, L))),
    "tiles by columns": ((atl.ceildiv(n, K), atl.ceildiv(m, L), K, L), (n, m), lambda i,
        j: flat((j // L, i // K, j % L, i % K), (m, atl.ceildiv(n, K), L, K))),
}  # fmt: skip


@pytest.mark.parametrize("name", BLOCKED)
def test_tiled_addresses_are_in_range(name: str) -> None:
    atl.check_safe(read_at(*BLOCKED[name]))


def test_kernel_reads_a_tiled_layout() -> None:
    kernel = compile_program(read_at(*BLOCKED["elements of tiles"]))
    tiles = np.arange(3 * 2 * 2 * 4, dtype=np.float32)
    wanted = tiles.reshape(3, 2, 2, 4).transpose(0, 2, 1, 3).reshape(6, 8)[:5, :7]
    np.testing.assert_array_equal(kernel(tiles, n=5, m=7, K=2, L=4), wanted)


def test_address_beyond_the_last_tile_is_refused() -> None:
    extents = (n // K, m // L, K, L)
    with pytest.raises(UnsafeAccess):
        atl.check_safe(read_at(extents, (n, m), lambda i, j: flat((i // K, j // L, i % K, j % L), extents)))


LEAVES = [Var(1, "i"), Var(2, "j"), Var(3, "k")]
EXTENTS = [Size("n"), Size("m"), Size("l")]


def shown_at_ends(facts: Facts, goal: Predicate) -> bool:
    assert isinstance(goal, NonNegative)
    return is_least_at_ends(facts, goal.expression, lambda p: isinstance(prove(facts, p, thorough=False), Proved))


def _some(chosen: random.Random, leaves: Sequence[Index]) -> Index:
    total = index(chosen.randrange(-2, 3))
    for _ in range(chosen.randrange(1, 4)):
        total = total + chosen.choice((1, 1, -1, 2)) * reduce(lambda x, y: x * y, chosen.sample(leaves, 2))
    return total


def _address_in_range(chosen: random.Random, variables: Sequence[Index], extents: Sequence[Index]) -> Predicate:
    """Return a bound of an address that is often correct, or nearly."""
    i, j, _ = variables
    tile = extents[1]
    digits = chosen.choice(([i, j], variables, [i // tile, i % tile], [j, i // tile, i % tile]))
    shape = [chosen.choice((*extents, ceildiv(extents[0], tile), tile)) for _ in digits]
    if chosen.randrange(3):
        shape[-1] = tile
    whole = product(chosen.choice((shape, shape, shape[1:], [*shape[1:], tile])))
    address = flat(digits, shape) + chosen.choice((0, 0, -1, 1))
    return less(address, whole) if chosen.randrange(3) else at_most(ZERO, address)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_bounds_at_range_ends_hold_everywhere(seed: int) -> None:
    chosen = random.Random(seed)
    extents = [index(extent) for extent in EXTENTS]
    variables = [index(leaf) for leaf in LEAVES]
    for _ in range(40):
        ends = [chosen.choice((*extents, ceildiv(extents[0], extents[1]), variables[0])) for _ in variables]
        ends[0] = chosen.choice(extents)
        lows = [chosen.choice((ZERO, ZERO, index(-1), index(1))) for _ in variables]
        facts = Facts().assume(
            less(ZERO, extents[1]), *(within(low, i, end) for low, i, end in zip(lows, variables, ends, strict=True))
        )
        atoms = [*variables, *extents, variables[0] // extents[1], ceildiv(extents[0], extents[1]), variables[0] // 3]
        goal = at_most(_some(chosen, atoms), _some(chosen, atoms))
        if chosen.randrange(2):
            goal = _address_in_range(chosen, variables, extents)
        if not isinstance(goal, NonNegative) or not shown_at_ends(facts, goal):
            continue
        for values in itertools.product(range(-2, 5), repeat=3):
            for sizes in itertools.product(range(4), (1, 2, 3), range(3)):
                at: dict[Any, int] = dict(zip((*LEAVES, *EXTENTS), (*values, *sizes), strict=True))
                if all(_true(fact, at) for fact in facts.predicates):
                    assert _true(goal, at), (facts, goal, at)


def test_quotient_bound_needs_a_positive_divisor() -> None:
    i, extent, tile = index(LEAVES[0]), index(EXTENTS[0]), index(EXTENTS[1])
    inside = Facts().assume(within(ZERO, i, extent))
    for goal in (at_most(ZERO, i // tile * extent), less(i // tile * tile, ceildiv(extent, tile) * tile)):
        assert not shown_at_ends(inside, goal)
        assert shown_at_ends(inside.assume(less(ZERO, tile)), goal)
    never = inside.assume(less(extent, ZERO))
    assert not shown_at_ends(Facts(), at_most(ZERO, index(Quotient(i, ZERO)) * extent))
    shown_at_ends(never, at_most(ZERO, index(Quotient(i, ZERO)) * extent))


def _true(predicate: Predicate, at: dict[Any, int]) -> bool:
    return holds(predicate, at.__getitem__, lambda _array, _at: 0)


P, N, M = index(Var(1, "p")), size("n"), size("m")
STRICT = Array("so", (N,), "int64", low=ZERO, high=M, monotonic="increasing")
INSIDE = Facts().assume(within(ZERO, P, N))


def test_increasing_elements_are_bounded_by_their_positions() -> None:
    so = read(STRICT, (P,))
    for goal in (at_most(P, so), at_most(so - P, M - N), within(ZERO, so - P, M - N + 1)):
        assert isinstance(prove(INSIDE, goal), Proved)
    assert isinstance(prove(INSIDE, less(P, so)), Refuted)
    assert isinstance(prove(INSIDE, less(so - P, M - N)), Refuted)
    without = Array("so", (N,), "int64", low=ZERO, high=M)
    assert isinstance(prove(INSIDE, at_most(P, read(without, (P,)))), Refuted)


@pytest.mark.parametrize("low", [-3, 0, 2])
@pytest.mark.parametrize("off", [-1, 0, 1])
def test_counterexamples_about_ordered_elements_are_completable(low: int, off: int) -> None:
    ordered = Array("so", (N,), "int64", low=index(low), high=M, monotonic="increasing")
    goals = (at_most(P + low + off, read(ordered, (P,))), at_most(read(ordered, (P,)) + N + off, M + P))
    for goal in goals:
        answer = prove(INSIDE, goal)
        assert isinstance(answer, Proved if off <= 0 else Refuted), (goal, answer)
        if isinstance(answer, Refuted):
            at = answer.model.numbers
            ((_, (position,), value),) = answer.model.elements
            assert low + position <= value < at["m"] - (at["n"] - 1 - position)


def test_increasing_index_minus_position_needs_no_guard() -> None:
    so = atl.tensor("so", n, dtype="int64", range=(0, m), monotonic="increasing")
    z = atl.tensor("z", m - n + 1)
    program = atl.program("gaps", [so, z], atl.gen(n, lambda i: z[so[i] - i]), given=[n <= m])
    ordered = np.array([0, 3, 4, 7], np.int64)
    held = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(compile_program(program)(ordered, held, m=8), held[ordered - np.arange(4)])


def divided() -> dict[str, Program]:
    x = atl.tensor("x", n)
    c = atl.sizes("c")

    def guarded(i: IndexExpr) -> atl.Tensor:
        return atl.guard(c > 0, x[i // c])

    def chosen(i: IndexExpr) -> atl.Tensor:
        return atl.select(c > 0, x[i // c], 7.0)

    return {
        "a guard": atl.program("divided", [x], atl.gen(n, guarded)),
        "a guard within a guard": atl.program(
            "divided", [x], atl.gen(n, lambda i: atl.guard(c > 0, atl.guard(i // c < 2, x[i // c])))
        ),
        "a selection": atl.program("divided", [x], atl.gen(n, chosen)),
        "an empty sum": atl.program("divided", [x], atl.gen(n, lambda i: atl.sum(c, lambda _: x[i // c]))),
        "an empty tensor": atl.program("divided", [x], atl.gen(c, n, lambda _, i: x[i // c])),
    }


@pytest.mark.parametrize("name", divided())
@pytest.mark.parametrize("fixed", [0, 2])
def test_unused_divisor_may_be_fixed_to_zero(name: str, fixed: int) -> None:
    program, held = divided()[name], np.arange(1, 6, dtype=np.float32)
    found = compile_program(program, sizes={"c": fixed})(held)
    np.testing.assert_array_equal(found, atl.evaluate(program, held, c=fixed))


def test_used_divisor_fixed_to_zero_is_refused() -> None:
    x = atl.tensor("x", n)
    program = atl.program("divided", [x], atl.gen(n, lambda i: x[i // K]))
    with pytest.raises((ExtentError, atl.ATLError)):
        compile_program(program, sizes={"K": 0})
