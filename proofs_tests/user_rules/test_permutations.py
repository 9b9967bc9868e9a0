"""Permutations of the axes of elements at ranks 4 to 6: stated when they are used, and refused unless they are true."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.index import constant
from atl.surface.values import Tensor
from examples.xla_rules import reversed_, transposed
from rewrites.errors import DoesNotApply, FalseRule
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument
from rewrites.rule_statement import LARGEST_RANK, permutations_of, permuted_groups
from rewrites.user_rules import Elem, Equation, Perm, equation, proof_status, rule

EVERY = "proved for all sizes and every rank"


def transposed_sum(a: Elem, b: Elem, p: Perm) -> Equation:
    """A sum of transposed tensors is the transposed sum."""
    return equation(transposed(a, p) + transposed(b, p), transposed(a + b, p))


def composed(a: Elem, p: Perm, q: Perm) -> Equation:
    """A transposition of a transposition is a transposition."""
    return equation(transposed(transposed(a, p), q), transposed(a, tuple(p[axis] for axis in q)))


def is_true(made: Rule, rank: int, orders: Sequence[tuple[int, ...]]) -> bool:
    """Return whether both sides of a statement have equal shapes and elements, for different extents of the axes."""
    extents = random.Random(rank).sample(range(1, rank + 1), rank)
    names = [name for name, kind in made.metavariables.items() if kind.sort == "tensor"]
    inputs = {name: atl.tensor(name, *extents, dtype="float64") for name in names}
    given: dict[str, Argument] = {name: tensor.node for name, tensor in inputs.items()}
    for name, order in zip(permuted_groups(made.metavariables), orders, strict=True):
        given |= {f"{name}_{at}": constant(axis) for at, axis in enumerate((*order, *[0] * (LARGEST_RANK - rank)))}
    made_sides = made.instance(given)
    arrays = [np.random.default_rng(number).random(extents) for number in range(len(names))]
    sides = [
        atl.evaluate_fast(atl.program("side", list(inputs.values()), Tensor(side)), *arrays)
        for side in (made_sides.lhs, made_sides.rhs)
    ]
    return bool(np.array_equal(*sides))


def accepted(made: Rule, rank: int, numbers: Sequence[int]) -> bool:
    """Return whether a rule has a statement for these permutations, given by their numbers, and check that it is true.

    A statement that is accepted must be true.
    """
    if (rank, *numbers) not in made.statements:
        return False
    assert is_true(made, rank, [permutations_of(rank)[number] for number in numbers])
    return True


@pytest.mark.parametrize("rank", [4, pytest.param(5, marks=pytest.mark.long), pytest.param(6, marks=pytest.mark.long)])
def test_every_permutation_has_a_statement(rank: int) -> None:
    made = rule(transposed_sum)
    every = list(range(factorial(rank)))
    assert all(accepted(made, rank, [at]) for at in random.Random(0).sample(every, min(len(every), 40)))


@pytest.mark.long
@pytest.mark.parametrize("rank", [4, 5, 6])
def test_two_permutations_have_a_statement_above_rank_3(rank: int) -> None:
    made = rule(composed)
    draw = random.Random(rank)
    assert str(proof_status(made)) == EVERY
    assert all(accepted(made, rank, [draw.randrange(factorial(rank)) for _ in "pq"]) for _ in range(30))


@pytest.mark.long
def test_permutation_of_rank_5_is_found_and_certified(tmp_path: Path) -> None:
    made, order = rule(transposed_sum), (3, 1, 4, 0, 2)
    x, y = (atl.tensor(name, 2, 1, 3, 2, 4) for name in "xy")
    program = atl.program("p", [x, y], transposed(x, order) + transposed(y, order))
    theorem = atl.reschedule(program).rw(made).done()
    assert theorem.rhs == atl.reschedule(program).rw(made, p=order).done().rhs
    theorem.save(tmp_path / "p.atl.json")
    assert str(atl.load(tmp_path / "p.atl.json")) == str(theorem)
    with pytest.raises(DoesNotApply, match="no place in the goal matches transposed_sum"):
        atl.reschedule(program).rw(made, p=(0, 1, 2, 3, 4))


@pytest.mark.long
@pytest.mark.parametrize(
    "wrong",
    [lambda a, p: a * 2, lambda a, p: transposed(a, p[::-1]), lambda a, p: a[(0,) * 5]],
    ids=["double", "reversed", "element"],
)
def test_function_that_returns_another_equation_later_is_refused(wrong: Callable[..., object]) -> None:
    changed = False

    @rule
    def twice(a: Elem, p: Perm) -> Equation:
        """A sum of equal transposed tensors is the transposed double."""
        return equation(transposed(a, p) + transposed(a, p), wrong(a, p) if changed else transposed(a + a, p))

    changed = True
    x, order = atl.tensor("x", *[2] * 5), (0, 1, 4, 3, 2)
    number = permutations_of(5).index(order)
    program = atl.program("p", [x], transposed(x, order) + transposed(x, order))
    assert (5, number) not in twice.statements
    with pytest.raises(atl.errors.ATLError):
        atl.reschedule(program).rw(twice, p=order)


def drawn(seed: int) -> Callable[[Elem, Perm, Perm], Equation]:
    """Return a random rule about two permutations. Many are false, some of them above rank 3 only."""
    draw = random.Random(seed)
    steps = [draw.choice("pPqQr") for _ in range(draw.randint(1, 4))]
    power = draw.choice((0, 0, 2, 3, 6))
    other = [*steps, *draw.choice("pPqQr") * power] if power else draw.sample(steps, len(steps))

    def moved(a: Any, p: Perm, q: Perm, along: Sequence[str]) -> Any:
        for step in along:
            order = p if step in "pP" else q
            inverse = tuple(order.index(axis) for axis in range(len(order)))
            a = reversed_(a) if step == "r" else transposed(a, order if step.islower() else inverse)
        return a

    def law(a: Elem, p: Perm, q: Perm) -> Equation:
        """Two random sequences of transpositions and reversals are the same."""
        return equation(moved(a, p, q, steps) + 1, moved(a + 1, p, q, other))

    return law


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(150))
def test_random_rule_has_true_statements_only(seed: int) -> None:
    try:
        made = rule(drawn(seed))
    except (FalseRule, atl.errors.InvalidArgument):
        return
    draw = random.Random(seed)
    for rank in (4, 4, 4, 5, 5, 6):
        accepted(made, rank, [draw.randrange(factorial(rank)) for _ in "pq"])
