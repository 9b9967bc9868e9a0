"""More of sums: linearity, ranges, what is constant, what is padding."""

from __future__ import annotations

from atl import concat, guard, sum, value
from rewrites.named_operators import AMOUNTS, EXCHANGES, moved, moved_by, padding
from rewrites.rule import Body, Elem, Equation, Index, Matrix, Scalar, Vector, equation, given, rule, rules


@rule(family="sums", source="[R] sum_of_nat_step", follows=("split_sum", "sum_one"))
def sum_step(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum is its first term added to the sum of the others."""
    return equation(sum((lo, hi), e), e(lo) + sum((lo + 1, hi), e), given(lo < hi))


@rule(family="sums", source="linearity")
def sum_sub(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A sum of differences is the difference of the sums."""
    return equation(sum((lo, hi), lambda i: a(i) - b(i)), sum((lo, hi), a) - sum((lo, hi), b))


@rule(family="sums", source="linearity")
def sum_neg(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum of negated terms is the sum negated."""
    return equation(sum((lo, hi), lambda i: -e(i)), -sum((lo, hi), e))


@rule(family="sums", source="distributivity", follows=("mul_comm", "sum_mul_left", "mul_comm"))
def sum_mul_right(lo: Index, hi: Index, e: Body[Index], c: Elem) -> Equation:
    """A common factor on the right leaves a sum."""
    return equation(sum((lo, hi), lambda i: e(i) * c), sum((lo, hi), e) * c)


@rule(family="sums", source="distributivity")
def sum_div(lo: Index, hi: Index, e: Body[Index], c: Elem) -> Equation:
    """A common divisor leaves a sum."""
    return equation(sum((lo, hi), lambda i: e(i) / c), sum((lo, hi), e) / c)


@rule(family="sums", source="[R] sum_bound_indic_no_f_guard", follows=("sum_delta_only", "guard_true"))
def sum_delta_within(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
    """A sum of which only the term at a counts, where a lies in its range; in reverse it introduces a sum."""
    return equation(sum((lo, hi), lambda k: guard(k == a, e(k))), e(a), given(lo <= a, a < hi))


@rule(family="sums", source="[R] sum_push_bound_indic")
def sum_restrict(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """A sum whose terms are guarded by a range within its own is the sum over that range."""
    return equation(sum((lo, hi), lambda k: guard((a <= k) & (k < b), e(k))), sum((a, b), e), given(lo <= a, b <= hi))


@rule(family="sums", source="induction")
def sum_constant(lo: Index, hi: Index, e: Scalar) -> Equation:
    """A sum of equal terms is their number times the term."""
    return equation(sum((lo, hi), lambda i: e), value(hi - lo) * e, given(lo <= hi))


@rule(family="sums", source="Fig. 3.2")
def sum_padding(lo: Index, hi: Index, e: Elem) -> Equation:
    """A sum of terms that are padding is padding."""
    return equation(sum((lo, hi), lambda i: padding(e)), padding(e))


@rule(family="sums", source="Fig. 3.2")
def sum_concat(lo: Index, hi: Index, a: Vector[Index], b: Vector[Index]) -> Equation:
    """A sum of concatenations is the concatenation of the sums."""
    return equation(sum((lo, hi), lambda i: concat(a(i), b(i))), concat(sum((lo, hi), a), sum((lo, hi), b)))


@rules(named="{}_of_sum", over=EXCHANGES, family="reshape algebra", source="[R] transpose_sum, flatten_sum")
def of_sum(op: str, lo: Index, hi: Index, e: Matrix[Index]) -> Equation:
    """A reshape operator goes into a sum."""
    return equation(moved(op, sum((lo, hi), e)), sum((lo, hi), lambda i: moved(op, e(i))))


@rules(named="{}_of_sum", over=AMOUNTS, family="reshape algebra", source="[D] linearity")
def by_of_sum(op: str, k: Index, lo: Index, hi: Index, e: Vector[Index]) -> Equation:
    """A reshape operator with an amount goes into a sum."""
    return equation(moved_by(op, k, sum((lo, hi), e)), sum((lo, hi), lambda i: moved_by(op, k, e(i))))
