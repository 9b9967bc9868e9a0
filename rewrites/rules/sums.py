"""Sums and folds by other monoids. Padding among the terms reads as zero, and an empty fold is padding."""

from __future__ import annotations

from atl import ceildiv, concat, gen, guard, imin, let, reduce, sum, value, where
from atl.core.terms import MONOIDS, Monoid
from rewrites.named_operators import count, folded, literal, padding
from rewrites.rule import Body, Cond, Elem, Equation, Index, Scalar, Tensor, Vector, equation, given, rule, rules

# -- guarded terms ----------------------------------------------------------------------------------------------------


@rule(family="sums", source="[R] sum_iverson_lift")
def sum_guard(p: Cond, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A guard around a sum is a guard around each term."""
    return equation(guard(p, sum((lo, hi), e)), sum((lo, hi), lambda i: guard(p, e(i))))


@rule(family="sums", source="[R] sum_bound_indic")
def sum_delta(lo: Index, hi: Index, a: Index, p: Cond[Index], e: Body[Index]) -> Equation:
    """A sum guarded by k == a is the term at a, guarded by the range and the other conditions (Kronecker delta)."""
    return equation(sum((lo, hi), lambda k: guard((k == a) & p(k), e(k))), guard((lo <= a) & (a < hi) & p(a), e(a)))


@rule(family="sums", source="[R] sum_bound_indic_no_f")
def sum_delta_only(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
    """A sum guarded by k == a is the term at a, guarded by the range. In reverse, it introduces a sum."""
    return equation(sum((lo, hi), lambda k: guard(k == a, e(k))), guard((lo <= a) & (a < hi), e(a)))


@rule(family="sums", source="[R] sum_bound_indic_no_f_guard", derived_from=("sum_delta_only", "guard_true"))
def sum_delta_within(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
    """A sum guarded by k == a is the term at a if a is in range. In reverse, it introduces a sum."""
    return equation(sum((lo, hi), lambda k: guard(k == a, e(k))), e(a), given(lo <= a, a < hi))


@rule(family="sums", source="[R] sum_push_bound_indic")
def sum_restrict(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """A sum whose terms are guarded by a smaller range is the sum over that range."""
    return equation(sum((lo, hi), lambda k: guard((a <= k) & (k < b), e(k))), sum((a, b), e), given(lo <= a, b <= hi))


@rule(family="sums", source="telescoping")
def let_sum_steps(lo: Index, hi: Index, p: Cond[Index], x: Scalar[Index], f: Scalar[Scalar]) -> Equation:
    """A function of a sum is its value at zero, and its growth with each term that is computed."""

    def below(k: Index) -> Tensor:
        return sum((lo, k), lambda i: guard(p(i), x(i)))

    return equation(
        let(below(hi), f), f(below(lo)) + sum((lo, hi), lambda k: guard(p(k), f(below(k) + x(k)) - f(below(k))))
    )


# -- linearity --------------------------------------------------------------------------------------------------------


@rule(family="sums", source="[R] sum_bin_split")
def sum_add(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A sum of additions is the addition of the sums."""
    return equation(sum((lo, hi), lambda i: a(i) + b(i)), sum((lo, hi), a) + sum((lo, hi), b))


@rule(family="sums", source="linearity")
def sum_sub(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A sum of differences is the difference of the sums."""
    return equation(sum((lo, hi), lambda i: a(i) - b(i)), sum((lo, hi), a) - sum((lo, hi), b))


@rule(family="sums", source="linearity")
def sum_neg(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum of negated terms is the sum negated."""
    return equation(sum((lo, hi), lambda i: -e(i)), -sum((lo, hi), e))


@rule(family="sums", source="distributivity")
def sum_mul_left(lo: Index, hi: Index, c: Scalar, e: Body[Index]) -> Equation:
    """A common factor on the left moves out of a sum."""
    return equation(sum((lo, hi), lambda i: c * e(i)), c * sum((lo, hi), e))


@rule(family="sums", source="distributivity", derived_from=("mul_comm", "sum_mul_left", "mul_comm"))
def sum_mul_right(lo: Index, hi: Index, e: Body[Index], c: Elem) -> Equation:
    """A common factor on the right moves out of a sum."""
    return equation(sum((lo, hi), lambda i: e(i) * c), sum((lo, hi), e) * c)


@rule(family="sums", source="distributivity")
def sum_div(lo: Index, hi: Index, e: Body[Index], c: Elem) -> Equation:
    """A common divisor moves out of a sum."""
    return equation(sum((lo, hi), lambda i: e(i) / c), sum((lo, hi), e) / c)


@rule(family="sums", source="induction")
def sum_constant(lo: Index, hi: Index, e: Scalar) -> Equation:
    """A sum of equal terms is their number times the term."""
    return equation(sum((lo, hi), lambda i: e), value(hi - lo) * e, given(lo <= hi))


@rule(family="sums", source="Fig. 3.2")
def sum_padding(lo: Index, hi: Index, e: Elem) -> Equation:
    """A sum of padding is padding."""
    return equation(sum((lo, hi), lambda i: padding(e)), padding(e))


@rule(family="sums", source="Fig. 3.2")
def sum_concat(lo: Index, hi: Index, a: Vector[Index], b: Vector[Index]) -> Equation:
    """A sum of concatenations is the concatenation of the sums."""
    return equation(sum((lo, hi), lambda i: concat(a(i), b(i))), concat(sum((lo, hi), a), sum((lo, hi), b)))


# -- ranges of a sum --------------------------------------------------------------------------------------------------


@rule(family="sums", source="[D] section 8")
def split_sum(lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A sum can be split into the sum of its first terms and the sum of the others."""
    return equation(sum((lo, hi), e), sum((lo, k), e) + sum((k, hi), e), given(lo <= k, k <= hi))


@rule(family="sums", source="[R] sum_of_nat_step", derived_from=("split_sum", "sum_one"))
def sum_step(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum is its first term added to the sum of the others."""
    return equation(sum((lo, hi), e), e(lo) + sum((lo + 1, hi), e), given(lo < hi))


@rule(family="sums", source="[D] section 8")
def tile_sum(n: Index, k: Index, e: Body[Index]) -> Equation:
    """A sum can be computed in blocks of k terms, with the last block guarded."""
    return equation(
        sum(n, e),
        sum(ceildiv(n, k), lambda o: sum(k, lambda i: guard(o * k + i < n, e(o * k + i)))),
        given(k > 0),
    )


# -- folds by any monoid ----------------------------------------------------------------------------------------------


@rules(named="{}_one", over=MONOIDS, family="sums", source="[R] sum_of_nat_step")
def one(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, of one term is that term."""
    return equation(reduce(m, (lo, hi), e), e(lo), given(hi == lo + 1))


@rules(named="{}_empty", over=MONOIDS, family="sums", source="Fig. 5.3, SumBase")
def empty(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, of no terms is padding."""
    return equation(reduce(m, (lo, hi), e), padding(reduce(m, (lo, hi), e)), given(hi <= lo))


@rules(named="{}_rebase", over=MONOIDS, family="sums", source="substitution")
def rebase(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """The index of a sum, or of another fold, can start from zero."""
    return equation(reduce(m, (lo, hi), e), reduce(m, hi - lo, lambda i: e(lo + i)))


@rules(named="{}_shift", over=MONOIDS, family="sums", source="substitution")
def shift(m: Monoid, lo: Index, hi: Index, by: Index, e: Body[Index]) -> Equation:
    """The range of a sum, or of another fold, can be shifted if its index is shifted back."""
    return equation(reduce(m, (lo, hi), e), reduce(m, (lo + by, hi + by), lambda i: e(i - by)))


@rules(named="{}_reverse", over=MONOIDS, family="sums", source="commutativity")
def reverse(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, can be computed from its last term to its first."""
    return equation(reduce(m, (lo, hi), e), reduce(m, (lo, hi), lambda i: e(lo + hi - 1 - i)))


@rules(named="{}_swap", over=MONOIDS, family="sums", source="[R] sum_swap")
def swap(m: Monoid, a: Index, b: Index, c: Index, d: Index, e: Body[Index, Index]) -> Equation:
    """Two nested sums, or other folds, can be interchanged."""
    return equation(
        reduce(m, (a, b), lambda i: reduce(m, (c, d), lambda j: e(i, j))),
        reduce(m, (c, d), lambda j: reduce(m, (a, b), lambda i: e(i, j))),
    )


@rules(named="{}_gen_swap", over=MONOIDS, family="sums", source="[R] sum_gen_swap")
def gen_swap(m: Monoid, a: Index, b: Index, c: Index, d: Index, e: Body[Index, Index]) -> Equation:
    """A generation of sums is a sum of generations; the same holds for other folds."""
    return equation(
        gen((a, b), lambda i: reduce(m, (c, d), lambda j: e(i, j))),
        reduce(m, (c, d), lambda j: gen((a, b), lambda i: e(i, j))),
    )


@rules(named="split_{}", over=("product", "min", "max"), family="sums", source="[D] section 8")
def split_fold(m: Monoid, lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A fold can be split into two non-empty parts."""
    first, second = reduce(m, (lo, k), e), reduce(m, (k, hi), e)
    return equation(reduce(m, (lo, hi), e), folded(m, first, second), given(lo < k, k < hi))


@rules(named="tile_{}", over=("product", "min", "max"), family="sums", source="[D] section 8")
def tile_fold(m: Monoid, n: Index, k: Index, e: Body[Index]) -> Equation:
    """A fold can be computed in blocks of k terms, where the last block may be shorter."""
    return equation(
        reduce(m, n, e),
        reduce(m, ceildiv(n, k), lambda o: reduce(m, imin(k, n - o * k), lambda i: e(o * k + i))),
        given(k > 0),
    )


@rules(named="{}_repeat", over=("min", "max"), family="sums", source="idempotence")
def repeat(m: Monoid, lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A minimum or a maximum may repeat its last term."""
    return equation(
        reduce(m, (lo, hi), e), reduce(m, (lo, k), lambda i: e(imin(i + 1, hi) - 1)), given(lo < hi, hi <= k)
    )


@rules(named="{}_collapse", over=MONOIDS, family="sums", source="[R] flatten_gen_gen")
def collapse(m: Monoid, n: Index, k: Index, e: Body[Index, Index]) -> Equation:
    """Two nested sums, or other folds, can be collapsed into one."""
    return equation(
        reduce(m, n, lambda i: reduce(m, k, lambda j: e(i, j))),
        reduce(m, n * k, lambda p: e(p // k, p % k)),
        given(k > 0),
    )


@rules(named="{}_pairs", over=("product", "min", "max"), family="sums", source="commutativity")
def pairs(m: Monoid, lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A product of terms a * b is the product of all a times the product of all b; the same holds for min and max."""
    return equation(
        reduce(m, (lo, hi), lambda i: folded(m, a(i), b(i))),
        folded(m, reduce(m, (lo, hi), a), reduce(m, (lo, hi), b)),
    )


# -- minima and maxima of few terms -----------------------------------------------------------------------------------


@rules(named="{}_of_few", over=("min", "max"), family="sums", source="pigeonhole principle")
def of_few(m: Monoid, lo: Index, n: Index, hi: Index, p: Cond[Index, Index], e: Scalar[Index, Index]) -> Equation:
    """A minimum or maximum of sums of fewer terms than there are sums is that of zero and the sums with terms."""

    def at(j: Index) -> Tensor:
        return sum((lo, hi), lambda k: guard(p(j, k), e(j, k)))

    every = reduce(m, n, at)
    zero = literal(0, every)

    def computed(k: Index) -> Tensor:
        return reduce(m, n, lambda j: folded(m, guard(p(j, k), at(j)), zero))

    terms = sum(n, lambda j: sum((lo, hi), lambda k: guard(p(j, k), count(1))))
    return equation(every, where(terms < count(n), reduce(m, (lo, hi), computed), every))


@rules(named="{}_delta", over=("min", "max"), family="sums", source="idempotence")
def delta(m: Monoid, n: Index, a: Index, e: Scalar[Index]) -> Equation:
    """A minimum or maximum of zero and the term at a does not depend on the number of zeros."""

    def term(j: Index) -> Tensor:
        return folded(m, guard(j == a, e(j)), literal(0, e(j)))

    there = folded(m, guard((a >= 0) & (a < n), e(a)), literal(0, e(a)))
    return equation(reduce(m, n, term), there)
