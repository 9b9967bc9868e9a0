"""What tactics finish with: selections decided, loops of one iteration, arithmetic element by element."""

from __future__ import annotations

from atl import concat, gen, select
from rewrites.rule import Body, Cond, Elem, Equation, Index, Vector, equation, given, rule


@rule(family="guards", source="§3.2")
def select_true(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection whose condition holds is its left operand."""
    return equation(select(p, a, b), a, given(p))


@rule(family="guards", source="§3.2")
def select_false(p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection whose condition does not hold is its right operand."""
    return equation(select(p, a, b), b, given(~p))


@rule(family="loops", source="[R] gen_step")
def gen_one(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation of one element."""
    return equation(gen((lo, hi), e), gen(1, lambda i: e(lo)), given(hi == lo + 1))


@rule(family="access", source="[R] get_concat_l")
def concat_access_left(a: Vector, b: Vector, k: Index) -> Equation:
    """An element of the first part of a concatenation."""
    return equation(concat(a, b)[k], a[k], given(k < a.shape[0]))


@rule(family="access", source="[R] get_concat_r")
def concat_access_right(a: Vector, b: Vector, k: Index) -> Equation:
    """An element of the second part of a concatenation."""
    return equation(concat(a, b)[k], b[k - a.shape[0]], given(a.shape[0] <= k))
