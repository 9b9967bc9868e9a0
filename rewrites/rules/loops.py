"""Splitting, joining and interchanging generations."""

from __future__ import annotations

from atl import concat, gen, transpose
from rewrites.rule import Body, Equation, Index, equation, rule


@rule(family="loops", source="§4.5.2, split_gen")
def split_gen(lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A generation is that of its first indices followed by that of the others."""
    return equation(gen((lo, hi), e), concat(gen((lo, k), e), gen((k, hi), e)))


@rule(family="loops", source="[R] transpose_gen_gen")
def gen_interchange(a: Index, b: Index, c: Index, d: Index, e: Body[Index, Index]) -> Equation:
    """Two nested generations change places under a transpose."""
    inner_first = gen((c, d), lambda j: gen((a, b), lambda i: e(i, j)))
    return equation(gen((a, b), lambda i: gen((c, d), lambda j: e(i, j))), transpose(inner_first))


@rule(family="loops", source="[R] gen_trunc")
def gen_rebase(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation counted from zero."""
    return equation(gen((lo, hi), e), gen(hi - lo, lambda i: e(lo + i)))


@rule(family="loops", source="[R] distrib_gen_concat")
def gen_concat(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A generation of concatenations is, transposed, a concatenation of generations."""
    return equation(
        transpose(gen((lo, hi), lambda i: concat(a(i), b(i)))),
        concat(transpose(gen((lo, hi), a)), transpose(gen((lo, hi), b))),
    )
