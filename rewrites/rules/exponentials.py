"""Exponentials over the real numbers: exponents with sums, and another number to subtract from exponents."""

from __future__ import annotations

from atl import exp, sum
from rewrites.rule import Body, Elem, Equation, Index, equation, rule


@rule(family="exponentials", source="the definition of exp")
def exp_add(a: Elem, b: Elem) -> Equation:
    """exp(a + b) = exp(a) * exp(b)."""
    return equation(exp(a + b), exp(a) * exp(b))


@rule(family="exponentials", source="exp(a + b) = exp(a) * exp(b)")
def exp_rescale(a: Elem, b: Elem, c: Elem) -> Equation:
    """exp(a - b) * exp(b - c) = exp(a - c)."""
    return equation(exp(a - b) * exp(b - c), exp(a - c))


@rule(family="exponentials", source="exp(a + b) = exp(a) * exp(b)", derived_from=("sum_mul_right", "exp_rescale"))
def sum_exp_rescale(lo: Index, hi: Index, a: Body[Index], b: Elem, c: Elem) -> Equation:
    """A sum of exponentials, from whose exponents b is subtracted, is scaled to subtract c instead."""
    return equation(sum((lo, hi), lambda i: exp(a(i) - b)) * exp(b - c), sum((lo, hi), lambda i: exp(a(i) - c)))


@rule(family="exponentials", source="exp(a + b) = exp(a) * exp(b)")
def weighted_sum_exp_rescale(lo: Index, hi: Index, a: Body[Index], w: Body[Index], b: Elem, c: Elem) -> Equation:
    """A weighted sum of exponentials, from whose exponents b is subtracted, is scaled to subtract c instead."""
    return equation(
        sum((lo, hi), lambda i: exp(a(i) - b) * w(i)) * exp(b - c), sum((lo, hi), lambda i: exp(a(i) - c) * w(i))
    )
