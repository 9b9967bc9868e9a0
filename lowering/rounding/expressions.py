"""Expressions in double precision for nests that compute bounds: constants are folded, so most of a bound vanishes."""

from __future__ import annotations

import math
from typing import Final

from lowering.nest import loopnest as ln
from lowering.nest.loopnest import Apply, Number, ScalarExpr

WIDE: Final = "float64"
"""The type in which bounds are computed."""


def number(value: float) -> Number:
    """Return a literal."""
    return Number(value, WIDE)


ZERO: Final = number(0)
ONE: Final = number(1)
INFINITE: Final = number(math.inf)


def known(e: ScalarExpr) -> float | None:
    """Return the value of a literal; None for other expressions."""
    return e.value if isinstance(e, Number) else None


def plus(*parts: ScalarExpr) -> ScalarExpr:
    """Return the sum."""
    total: ScalarExpr = ZERO
    for part in parts:
        x, y = known(total), known(part)
        if x is not None and y is not None:
            total = number(x + y)
        elif x == 0:
            total = part
        elif y != 0:
            total = Apply("add", (total, part), WIDE)
    return total


def minus(left: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
    """Return the difference."""
    return left if known(right) == 0 else Apply("sub", (left, right), WIDE)


def times(*factors: ScalarExpr) -> ScalarExpr:
    """Return the product; zero times anything is zero."""
    product: ScalarExpr = ONE
    for factor in factors:
        x, y = known(product), known(factor)
        if x == 0 or y == 0:
            return ZERO
        if x is not None and y is not None:
            product = number(x * y)
        elif x == 1:
            product = factor
        elif y != 1:
            product = Apply("mul", (product, factor), WIDE)
    return product


def over(left: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
    """Return the quotient."""
    return ZERO if known(left) == 0 else Apply("div", (left, right), WIDE)


def most(left: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
    """Return the maximum of two numbers that are not negative."""
    x, y = known(left), known(right)
    if x is not None and y is not None:
        return number(max(x, y))
    if x == 0:
        return right
    return left if y == 0 or left == right else Apply("max", (left, right), WIDE)


def function(op: ln.ScalarOp, *arguments: ScalarExpr) -> ScalarExpr:
    """Return an operation on these arguments."""
    return Apply(op, arguments, WIDE)


def magnitude(e: ScalarExpr) -> ScalarExpr:
    """Return the absolute value."""
    value = known(e)
    return function("abs", e) if value is None else number(abs(value))


def test(op: ln.ScalarOp, left: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
    """Return a comparison."""
    return Apply(op, (left, right), "bool")


def chosen(condition: ScalarExpr, left: ScalarExpr, right: ScalarExpr) -> ScalarExpr:
    """Return the left expression if the condition holds, else the right one. Both are evaluated."""
    return left if left == right else Apply("where", (condition, left, right), WIDE)
