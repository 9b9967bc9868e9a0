"""Sums."""

from __future__ import annotations

from atl import ceildiv, guard, sum
from rewrites.rule import Body, Cond, Equation, Index, Scalar, equation, given, rule


@rule(family="sums", source="[R] sum_iverson_lift")
def sum_guard(p: Cond, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A guard around a sum is one around each term."""
    return equation(guard(p, sum((lo, hi), e)), sum((lo, hi), lambda i: guard(p, e(i))))


@rule(family="sums", source="[R] sum_bound_indic")
def sum_delta(lo: Index, hi: Index, a: Index, p: Cond[Index], e: Body[Index]) -> Equation:
    """A sum of terms of which only that at a counts is that term, where there is one (Kronecker's delta)."""
    return equation(sum((lo, hi), lambda k: guard((k == a) & p(k), e(k))), guard((lo <= a) & (a < hi) & p(a), e(a)))


@rule(family="sums", source="[R] sum_bound_indic_no_f")
def sum_delta_only(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
    """The same with no further condition; in reverse it introduces a sum."""
    return equation(sum((lo, hi), lambda k: guard(k == a, e(k))), guard((lo <= a) & (a < hi), e(a)))


@rule(family="sums", source="[R] sum_bin_split")
def sum_add(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A sum of additions is the addition of the sums."""
    return equation(sum((lo, hi), lambda i: a(i) + b(i)), sum((lo, hi), a) + sum((lo, hi), b))


@rule(family="sums", source="distributivity")
def sum_mul_left(lo: Index, hi: Index, c: Scalar, e: Body[Index]) -> Equation:
    """A common factor leaves a sum."""
    return equation(sum((lo, hi), lambda i: c * e(i)), c * sum((lo, hi), e))


@rule(family="sums", source="[D] section 8")
def split_sum(lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A sum is that of its first terms added to that of the others."""
    return equation(sum((lo, hi), e), sum((lo, k), e) + sum((k, hi), e), given(lo <= k, k <= hi))


@rule(family="sums", source="[D] section 8")
def tile_sum(n: Index, k: Index, e: Body[Index]) -> Equation:
    """A sum in blocks of k terms, the last one guarded."""
    return equation(
        sum(n, e),
        sum(ceildiv(n, k), lambda o: sum(k, lambda i: guard(o * k + i < n, e(o * k + i)))),
        given(k > 0),
    )
