"""User-defined rules about comparisons and Boolean elements: what holds for floats only is not proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl import Tensor, exp, maximum, minimum, rec, where
from rewrites import kernel
from rewrites.errors import FalseRule, NotATheorem
from rewrites.rule import Equation, Index, Scalar, Vector, equation, given
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.status import Status
from rewrites.user_rules import rule

LARGE = 2_000_000_000
"""A constant whose double is not an int32."""


@rule
def cancelled(a: Scalar, b: Scalar, c: Scalar) -> Equation:
    """A common term of a comparison cancels, unless integers wrap."""
    return equation(where(b == LARGE, a + b, a) < where(b == LARGE, c + b, c), a < c)


@rule
def wrapped(a: Scalar, b: Scalar) -> Equation:
    """The sum of constants is positive, unless integers wrap."""
    return equation(where((a - a) + LARGE + LARGE > 0, a, b), a)


@rule
def of_bits(a: Scalar, b: Scalar, c: Scalar) -> Equation:
    """For integers, min(a, ~a) is negative. Boolean elements have no sign."""
    return equation(where(minimum(a, ~a) < (a ^ a), b, c), b)


@rule
def exchanged(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Equation:
    """A negated comparison exchanges the operands of a choice."""
    return equation(where(~(a < b), c, d), where(a < b, d, c))


def test_comparisons_are_not_proved_by_differences() -> None:
    for each in (cancelled, wrapped):
        found = status_of(each)
        assert found is not None
        assert found.status != Status.PROVED
    found = status_of(exchanged)
    assert found is not None
    assert found.status == Status.PROVED


def test_tested_rule_is_not_used_for_boolean_elements() -> None:
    x = atl.tensor("x", dtype="bool")
    y, z = (atl.tensor(name, dtype="float64") for name in "yz")
    program = atl.program("f", [x, y, z], where(minimum(x, ~x) < (x ^ x), y, z))
    with pytest.raises(NotATheorem, match="was not tried for Boolean elements"):
        kernel.rewrite(kernel.reflexivity(program), of_bits, (), {"a": x.node, "b": y.node, "c": z.node})


@pytest.mark.parametrize(
    "step",
    [
        lambda y, _: maximum(y, 0),
        lambda y, _: where(y < 0, 1, y),
        lambda y, x: where((y == x) & (x != 2), y + 1, y),
    ],
    ids=["max with 0", "less than 0", "equal"],
)
def test_false_steps_of_recurrences_are_refused(step: Callable[..., Any]) -> None:
    """Numbers modulo a prime, in which recurrences are compared, have no order."""

    def kept(hi: Index, x: Vector, z: Vector) -> Equation:
        """The step changes nothing."""
        left = rec(x, hi, lambda p, y: step(y[p - 1], z[0]))
        return equation(left, rec(x, hi, lambda p, y: y[p - 1]), given(x.shape[0] >= 1, z.shape[0] >= 1))

    with pytest.raises(FalseRule, match="kept is false: its sides differ"):
        rule(kept)


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "right"),
    [
        (lambda y, x: maximum(y + 1, x + 1), lambda y, x: maximum(y, x) + 1),
        (lambda y, x: exp(y) * exp(x), lambda y, x: exp(y + x)),
        (lambda y, _: maximum(y, -y), lambda y, _: abs(y)),
    ],
    ids=["max", "exp", "abs"],
)
def test_true_steps_of_recurrences_are_tested_in_numbers(
    left: Callable[..., Tensor], right: Callable[..., Tensor]
) -> None:
    def same(hi: Index, x: Vector) -> Equation:
        """Both steps are equal."""
        one = rec(x, hi, lambda p, y: left(y[p - 1], x[0]))
        return equation(one, rec(x, hi, lambda p, y: right(y[p - 1], x[0])), given(x.shape[0] >= 1))

    found = status_of(rule(same))
    assert found is not None
    assert found.status == Status.TESTED
