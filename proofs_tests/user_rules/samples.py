"""Sample rules and tactics, as a user would define them."""

from __future__ import annotations

import atl
from rewrites import Rule, Session, reschedule
from rewrites.user_rules import Body, Elem, Equation, Index, Scalar, equation, given, rule, tactic

OF_EXTREMES = """
import atl
from rewrites.user_rules import Equation, Scalar, equation, rule

@rule
def larger_and_smaller(a: Scalar, b: Scalar) -> Equation:
    '''The larger and the smaller of two are the two.'''
    return equation(atl.maximum(a, b) + atl.minimum(a, b), a + b)

@rule
def twice(a: Scalar) -> Equation:
    '''What is added to itself is doubled.'''
    return equation(a + a, 2 * a)
"""


@rule(source="telescoping")
def telescope(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum of differences of neighbours is the difference of the ends."""
    return equation(atl.sum((lo, hi), lambda i: e(i + 1) - e(i)), e(hi) - e(lo), given(lo <= hi))


@rule
def larger_and_smaller(a: Scalar, b: Scalar) -> Equation:
    """The larger and the smaller of two are the two."""
    return equation(atl.maximum(a, b) + atl.minimum(a, b), a + b)


@rule
def false_far_away(n: Index, e: Elem) -> Equation:
    """Law that is false at n = 1000 only, which neither a small size nor a number near the literal refutes."""
    return equation(atl.sum(n, lambda i: e), atl.sum(n, lambda i: e) + atl.guard(n * n == 10**6, e), given(n >= 0))


def taken_out(factor: int) -> Rule:
    """Return a rule named "out" for this factor."""

    @rule
    def out(e: Scalar) -> Equation:
        """A factor is taken out of a sum."""
        return equation(factor * e + e, (factor + 1) * e)

    return out


@tactic
def blocks(s: Session, name: str, by: int) -> None:
    """Run the blocks of a loop in parallel: ⊞[i < n] e → ⊞[block < _ | parallel] ⊞[ii < by] e.

    >>> x = atl.tensor("x", 64)
    >>> s = reschedule(atl.program("double", [x], atl.gen(64, lambda i: 2 * x[i])))
    >>> s.blocks("i", 8)
    double (x : float32[64]) : float32[64] :=
      flatten ⊞[block < 8 | parallel] ⊞[ii < 8] 2 * x[8*block + ii]
    """
    s.tile(name, by).rename(f"{name}o", "block").mark("block", "parallel")


def program() -> atl.Program:
    """Return a program for `telescope`."""
    n = atl.sizes("n")
    x = atl.tensor("x", n + 1)
    return atl.program("rise", [x], atl.sum(n, lambda i: x[i + 1] - x[i]))


def doubled() -> Session:
    """Return a session about a loop of 64."""
    x = atl.tensor("x", 64)
    return reschedule(atl.program("double", [x], atl.gen(64, lambda i: 2 * x[i])))


def extremes() -> atl.Program:
    """Return the sum of the larger and the smaller of two numbers."""
    x, y = atl.tensor("x"), atl.tensor("y")
    return atl.program("extremes", [x, y], atl.maximum(x, y) + atl.minimum(x, y))
