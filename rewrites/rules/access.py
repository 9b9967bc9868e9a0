"""Generation and access."""

from __future__ import annotations

from atl import gen, guard
from rewrites.rule import Body, Equation, Index, Vector, equation, given, rule


@rule(family="access", source="§4.2.1")
def get_gen_guarded(lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
    """Reading one element of a generation computes only that element, where there is one."""
    return equation(gen((lo, hi), e)[k], guard((k >= 0) & (k < hi - lo), e(lo + k)))


@rule(family="access", source="§4.2.1", follows=("get_gen_guarded", "guard_true"))
def get_gen(lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
    """Reading one element of a generation, within it, computes only that element."""
    return equation(gen((lo, hi), e)[k], e(lo + k), given(k >= 0, k < hi - lo))


@rule(family="access", source="§4.3.2")
def gen_eta(n: Index, v: Vector) -> Equation:
    """A tensor is the generation of its elements."""
    return equation(gen(n, lambda i: v[i]), v, given(n == v.shape[0]))
