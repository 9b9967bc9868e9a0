"""User-defined rules about comparisons and Boolean elements: what holds for floats only is not proved."""

from __future__ import annotations

import pytest

import atl
from atl import minimum, where
from rewrites import kernel
from rewrites.errors import NotATheorem
from rewrites.rule import Equation, Scalar, equation
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
