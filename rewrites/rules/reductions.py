"""Folds by any monoid. The terms that are padding count as zero, and an empty fold is padding."""

from __future__ import annotations

from atl import gen, reduce
from atl.core.terms import MONOIDS, Monoid
from rewrites.named_operators import folded, padding
from rewrites.rule import Body, Equation, Index, equation, given, rules


@rules(named="{}_swap", over=MONOIDS, family="sums", source="[R] sum_swap")
def swap(m: Monoid, a: Index, b: Index, c: Index, d: Index, e: Body[Index, Index]) -> Equation:
    """Two nested sums, or other folds, change places."""
    return equation(
        reduce(m, (a, b), lambda i: reduce(m, (c, d), lambda j: e(i, j))),
        reduce(m, (c, d), lambda j: reduce(m, (a, b), lambda i: e(i, j))),
    )


@rules(named="{}_gen_swap", over=MONOIDS, family="sums", source="[R] sum_gen_swap")
def gen_swap(m: Monoid, a: Index, b: Index, c: Index, d: Index, e: Body[Index, Index]) -> Equation:
    """A generation of sums is a sum of generations; so for other folds."""
    return equation(
        gen((a, b), lambda i: reduce(m, (c, d), lambda j: e(i, j))),
        reduce(m, (c, d), lambda j: gen((a, b), lambda i: e(i, j))),
    )


@rules(named="get_{}", over=MONOIDS, family="access", source="[R] get_sum")
def get(m: Monoid, lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
    """An element of a sum is the sum of the elements; so for other folds."""
    return equation(reduce(m, (lo, hi), e)[k], reduce(m, (lo, hi), lambda i: e(i)[k]))


@rules(named="{}_one", over=MONOIDS, family="sums", source="[R] sum_of_nat_step")
def one(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, of one term."""
    return equation(reduce(m, (lo, hi), e), e(lo), given(hi == lo + 1))


@rules(named="{}_empty", over=MONOIDS, family="sums", source="Fig. 5.3, SumBase")
def empty(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, of no terms is padding."""
    return equation(reduce(m, (lo, hi), e), padding(reduce(m, (lo, hi), e)), given(hi <= lo))


@rules(named="{}_rebase", over=MONOIDS, family="sums", source="substitution")
def rebase(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, counted from zero."""
    return equation(reduce(m, (lo, hi), e), reduce(m, hi - lo, lambda i: e(lo + i)))


@rules(named="{}_shift", over=MONOIDS, family="sums", source="substitution")
def shift(m: Monoid, lo: Index, hi: Index, by: Index, e: Body[Index]) -> Equation:
    """The indices of a sum, or of another fold, moved."""
    return equation(reduce(m, (lo, hi), e), reduce(m, (lo + by, hi + by), lambda i: e(i - by)))


@rules(named="{}_reverse", over=MONOIDS, family="sums", source="commutativity")
def reverse(m: Monoid, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum, or another fold, from its last term to its first."""
    return equation(reduce(m, (lo, hi), e), reduce(m, (lo, hi), lambda i: e(lo + hi - 1 - i)))


@rules(named="split_{}", over=("product", "min", "max"), family="sums", source="[D] section 8")
def split_fold(m: Monoid, lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A fold is that of its first terms folded with that of the others, where there are some of both."""
    first, second = reduce(m, (lo, k), e), reduce(m, (k, hi), e)
    return equation(reduce(m, (lo, hi), e), folded(m, first, second), given(lo < k, k < hi))


@rules(named="{}_collapse", over=MONOIDS, family="sums", source="[R] flatten_gen_gen")
def collapse(m: Monoid, n: Index, k: Index, e: Body[Index, Index]) -> Equation:
    """Two nested sums, or other folds, as one."""
    return equation(
        reduce(m, n, lambda i: reduce(m, k, lambda j: e(i, j))),
        reduce(m, n * k, lambda p: e(p // k, p % k)),
        given(k > 0),
    )


@rules(named="{}_pairs", over=("product", "min", "max"), family="sums", source="commutativity")
def folds(m: Monoid, lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A fold of pairs is the pair of the folds."""
    return equation(
        reduce(m, (lo, hi), lambda i: folded(m, a(i), b(i))),
        folded(m, reduce(m, (lo, hi), a), reduce(m, (lo, hi), b)),
    )
