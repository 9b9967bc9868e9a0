"""Generations: shifting, splitting, tiling and joining their ranges; moving operators through them; concatenations."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, guard, select, split, transpose, truncl, truncr
from atl.core.operations import BINARY, BinaryOp
from rewrites.named_operators import FUNCTIONS, binary, padding, unary
from rewrites.rule import Body, Cond, Equation, Index, Vector, equation, given, rule, rules

# -- ranges: shifting and splitting -----------------------------------------------------------------------------------


@rule(family="loops", source="§4.5.2, split_gen")
def split_gen(lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A generation over a range is the concatenation of the generations over two parts of the range."""
    return equation(gen((lo, hi), e), concat(gen((lo, k), e), gen((k, hi), e)))


@rule(family="loops", source="[R] gen_trunc")
def gen_rebase(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """The index of a generation can start from zero."""
    return equation(gen((lo, hi), e), gen(hi - lo, lambda i: e(lo + i)))


@rule(family="loops", source="substitution")
def gen_shift(lo: Index, hi: Index, by: Index, e: Body[Index]) -> Equation:
    """The range of a generation can be shifted if its index is shifted back."""
    return equation(gen((lo, hi), e), gen((lo + by, hi + by), lambda i: e(i - by)))


@rule(family="loops", source="[R] gen_push_bounds")
def gen_bounds(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """The elements of a generation can be guarded by its range."""
    return equation(gen((lo, hi), e), gen((lo, hi), lambda i: guard((lo <= i) & (i < hi), e(i))))


@rule(family="loops", source="[R] gen_nonpos_empty")
def gen_empty(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation of no elements is padding."""
    return equation(gen((lo, hi), e), padding(gen((lo, hi), e)), given(hi == lo))


@rule(family="loops", source="[R] gen_step")
def gen_one(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation of one element can start from zero, with its index replaced by the lower bound."""
    return equation(gen((lo, hi), e), gen(1, lambda i: e(lo)), given(hi == lo + 1))


@rule(family="loops", source="[R] gen_step", derived_from=("split_gen", "gen_one"))
def gen_step(lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation is its first element followed by the others."""
    return equation(gen((lo, hi), e), concat(gen(1, lambda i: e(lo)), gen((lo + 1, hi), e)), given(lo < hi))


@rule(family="loops", source="§4.5.2", derived_from=("split_gen", "split_gen"))
def split_gen_twice(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """A generation can be split in three: prologue, main loop and epilogue."""
    parts = concat(gen((lo, a), e), gen((a, b), e), gen((b, hi), e))
    return equation(gen((lo, hi), e), parts)


# -- two generations, and tiles ---------------------------------------------------------------------------------------


@rule(family="loops", source="[R] transpose_gen_gen")
def gen_interchange(a: Index, b: Index, c: Index, d: Index, e: Body[Index, Index]) -> Equation:
    """Two nested generations can be interchanged under a transpose."""
    inner_first = gen((c, d), lambda j: gen((a, b), lambda i: e(i, j)))
    return equation(gen((a, b), lambda i: gen((c, d), lambda j: e(i, j))), transpose(inner_first))


@rule(family="loops", source="[R] flatten_gen_gen", derived_from=("split_flatten", "flatten_gen_gen"))
def gen_collapse(n: Index, m: Index, e: Body[Index, Index]) -> Equation:
    """Two nested generations can be computed by one loop, and stored as before."""
    return equation(gen(n, m, e), split(m, gen(n * m, lambda k: e(k // m, k % m))))


@rule(family="loops", source="§4.5.4", derived_from=("truncr_flatten_split", "unfold_split", "get_gen"))
def tile_gen(lo: Index, hi: Index, k: Index, e: Body[Index]) -> Equation:
    """A generation can be computed in tiles of k, with the last tile guarded, and stored as before."""
    n = hi - lo
    tiles = gen(ceildiv(n, k), k, lambda o, i: guard(o * k + i < n, e(lo + o * k + i)))
    return equation(gen((lo, hi), e), truncr(ceildiv(n, k) * k - n, flatten(tiles)))


# -- truncations ------------------------------------------------------------------------------------------------------


@rule(family="loops", source="[R] trunc_r_gen, trunc_gen")
def truncr_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation whose last k elements are dropped ends k earlier."""
    return equation(truncr(k, gen((lo, hi), e)), gen((lo, hi - k), e))


@rule(family="loops", source="[R] trunc_gen")
def truncl_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation whose first k elements are dropped begins k later."""
    return equation(truncl(k, gen((lo, hi), e)), gen((lo + k, hi), e))


@rule(family="loops", source="[R] gen_trunc", derived_from=("gen_shift", "truncl_of_gen"))
def gen_trunc(n: Index, k: Index, e: Body[Index]) -> Equation:
    """The indices of a generation can be shifted by k if k elements are added in front and dropped again."""
    return equation(gen(n, e), truncl(k, gen(n + k, lambda i: e(i - k))))


@rule(family="loops", source="[R] gen_trunc_guarded")
def gen_trunc_guarded(n: Index, k: Index, e: Body[Index]) -> Equation:
    """The indices of a generation can be shifted by k if k guarded elements are added in front and dropped again."""
    return equation(gen(n, e), truncl(k, gen(n + k, lambda i: guard(k <= i, e(i - k)))))


# -- concatenations ---------------------------------------------------------------------------------------------------


@rule(family="loops", source="§4.5.2")
def concat_empty_left(a: Vector, b: Vector) -> Equation:
    """An empty tensor on the left of a concatenation can be removed."""
    return equation(concat(a, b), b, given(a.shape[0] == 0))


@rule(family="loops", source="§4.5.2")
def concat_empty_right(a: Vector, b: Vector) -> Equation:
    """An empty tensor on the right of a concatenation can be removed."""
    return equation(concat(a, b), a, given(b.shape[0] == 0))


@rule(family="loops", source="§4.5.2")
def concat_assoc(a: Vector, b: Vector, c: Vector) -> Equation:
    """(a ++ b) ++ c = a ++ (b ++ c)."""
    return equation(concat(concat(a, b), c), concat(a, concat(b, c)))


@rule(family="loops", source="[R] distrib_gen_concat")
def gen_concat(lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A generation of concatenations is, transposed, a concatenation of generations."""
    return equation(
        transpose(gen((lo, hi), lambda i: concat(a(i), b(i)))),
        concat(transpose(gen((lo, hi), a)), transpose(gen((lo, hi), b))),
    )


@rules(named="concat_{}", over=BINARY, family="loops", source="Fig. 4.3")
def concat_binary(op: BinaryOp, a: Vector, b: Vector, c: Vector, d: Vector) -> Equation:
    """Concatenations of parts of equal extents are added, multiplied … part by part."""
    return equation(
        binary(op, concat(a, b), concat(c, d)), concat(binary(op, a, c), binary(op, b, d)),
        given(a.shape[0] == c.shape[0]),
    )  # fmt: skip


# -- arithmetic -------------------------------------------------------------------------------------------------------


@rules(named="gen_{}", over=BINARY, family="loops", source="[R] tensor_gen_bin, gen_mul_distr")
def gen_binary(op: BinaryOp, lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A generation of sums, products … is the sum, product … of the generations."""
    return equation(gen((lo, hi), lambda i: binary(op, a(i), b(i))), binary(op, gen((lo, hi), a), gen((lo, hi), b)))


@rules(named="gen_{}", over=FUNCTIONS, family="loops", source="[R] gen_map")
def gen_unary(op: str, lo: Index, hi: Index, a: Body[Index]) -> Equation:
    """A generation of a function's values is the function of the generation."""
    return equation(gen((lo, hi), lambda i: unary(op, a(i))), unary(op, gen((lo, hi), a)))


@rule(family="loops", source="§3.2")
def gen_select(p: Cond, lo: Index, hi: Index, a: Body[Index], b: Body[Index]) -> Equation:
    """A selection whose condition does not depend on the index moves out of a generation."""
    return equation(gen((lo, hi), lambda i: select(p, a(i), b(i))), select(p, gen((lo, hi), a), gen((lo, hi), b)))
