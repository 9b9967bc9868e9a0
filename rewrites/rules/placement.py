"""Placed terms: tensors with one stored element and padding elsewhere. Their sums are scatters (§7.2)."""

from __future__ import annotations

from atl import (
    ceildiv,
    flatten,
    gen,
    guard,
    let,
    padl,
    padr,
    place,
    select,
    shear,
    split,
    sum,
    transpose,
    truncl,
    truncr,
    unshear,
)  # fmt: skip
from atl.core.operations import ZERO_AT_ZEROS, BinaryOp
from rewrites.named_operators import FUNCTIONS_ZERO_AT_ZERO, binary, padding, unary
from rewrites.rule import Body, Cond, Elem, ElemT, Equation, Index, Matrix, Scalar, Vector, equation, given, rule, rules

# -- elements ---------------------------------------------------------------------------------------------------------


@rule(family="placement", source="Fig. 7.3")
def place_access(n: Index, i: Index, e: Elem, k: Index) -> Equation:
    """An element of a placed term is the term at its position, and padding elsewhere."""
    return equation(place(n, i, e)[k], guard(k == i, e))


@rule(family="placement", source="Fig. 7.4, RWSCAT")
def gen_as_place(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
    """A generation that computes only the element at a is a placed term."""
    return equation(gen((lo, hi), lambda i: guard(i == a, e(i))), place(hi - lo, a - lo, e(a)))


@rule(family="placement", source="Fig. 7.3", derived_from=("gen_as_place",))
def unfold_place(n: Index, i: Index, e: Elem) -> Equation:
    """A placed term is, by its elements, a generation that computes the term only at its position."""
    return equation(place(n, i, e), gen(n, lambda k: guard(k == i, e)))


@rule(family="placement", source="Fig. 7.3")
def place_pads(n: Index, i: Index, e: Elem) -> Equation:
    """A placed term is one element with padding before and after it."""
    return equation(place(n, i, e), padl(i, padr(n - 1 - i, gen(1, lambda k: e))))


@rule(family="placement", source="Fig. 4.3")
def gen_restrict(lo: Index, hi: Index, a: Index, b: Index, e: Body[Index]) -> Equation:
    """A generation that computes only a range of its elements is a generation over that range, padded on both sides."""
    return equation(
        gen((lo, hi), lambda i: guard((a <= i) & (i < b), e(i))), padl(a - lo, padr(hi - b, gen((a, b), e)))
    )


@rule(family="placement", source="Fig. 7.3")
def gen_scatter(n: Index, e: Body[Index]) -> Equation:
    """A tensor is the sum of its elements, each placed at its position."""
    return equation(gen(n, e), sum(n, lambda i: place(n, i, e(i))))


@rule(family="placement", source="Fig. 7.4, RWSCAT")
def gen_as_guarded_place(lo: Index, hi: Index, a: Index, e: Body[Index]) -> Equation:
    """A generation of zeros except for one element is that element, placed at its position, if it is in the range."""
    return equation(
        gen((lo, hi), lambda i: guard(i == a, e(i))), guard((lo <= a) & (a < hi), place(hi - lo, a - lo, e(a)))
    )


# -- guards, sums, arithmetic -----------------------------------------------------------------------------------------


@rule(family="placement", source="Fig. 7.3, E16")
def place_of_guard(n: Index, i: Index, p: Cond, e: Elem) -> Equation:
    """A guard moves out of a placed term: an element that is not computed is not stored."""
    return equation(place(n, i, guard(p, e)), guard(p, place(n, i, e)))


@rule(family="placement", source="Fig. 7.3")
def place_of_select(n: Index, i: Index, p: Cond, a: Elem, b: Elem) -> Equation:
    """A selection moves out of a placed term."""
    return equation(place(n, i, select(p, a, b)), select(p, place(n, i, a), place(n, i, b)))


@rule(family="placement", source="Fig. 7.3")
def place_of_padding(n: Index, i: Index, e: Elem) -> Equation:
    """Placed padding is padding."""
    return equation(place(n, i, padding(e)), padding(place(n, i, e)))


@rule(family="placement", source="linearity")
def place_of_sum(n: Index, i: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A sum moves out of a placed term: each of its terms is added at the same position."""
    return equation(place(n, i, sum((lo, hi), e)), sum((lo, hi), lambda k: place(n, i, e(k))))


@rules(named="place_of_{}", over=ZERO_AT_ZEROS, family="placement", source="0 op 0 = 0")
def place_of_binary(op: BinaryOp, n: Index, i: Index, a: Elem, b: Elem) -> Equation:
    """A sum, product … moves out of a placed term."""
    return equation(place(n, i, binary(op, a, b)), binary(op, place(n, i, a), place(n, i, b)))


@rules(named="place_of_{}", over=FUNCTIONS_ZERO_AT_ZERO, family="placement", source="§3.2")
def place_of_unary(op: str, n: Index, i: Index, a: Elem) -> Equation:
    """A function that maps zero to zero moves out of a placed term."""
    return equation(place(n, i, unary(op, a)), unary(op, place(n, i, a)))


@rule(family="placement", source="linearity")
def place_scaled(n: Index, i: Index, c: Scalar, e: Elem) -> Equation:
    """A scalar factor moves out of a placed term."""
    return equation(place(n, i, c * e), c * place(n, i, e))


# -- lets -------------------------------------------------------------------------------------------------------------


@rule(family="placement", source="[R] ll_get")
def ll_place(n: Index, i: Index, x: ElemT, e: Body[ElemT]) -> Equation:
    """A let moves out of a placed term."""
    return equation(place(n, i, let(x, e)), let(x, lambda y: place(n, i, e(y))))


# -- other reshape operators ------------------------------------------------------------------------------------------


@rule(family="placement", source="Fig. 4.3")
def gen_place(n: Index, i: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """Terms placed at one position in every row are the transpose of one placed row."""
    return equation(gen((lo, hi), lambda j: place(n, i, e(j))), transpose(place(n, i, gen((lo, hi), e))))


@rule(family="placement", source="Fig. 4.3", derived_from=("gen_eta", "gen_place"))
def transpose_of_place(n: Index, i: Index, v: Vector) -> Equation:
    """A placed row, transposed, is a column: each of its elements is placed in a separate row."""
    return equation(transpose(place(n, i, v)), gen(v.shape[0], lambda j: place(n, i, v[j])))


@rule(family="placement", source="Fig. 4.3")
def place_place(n: Index, i: Index, m: Index, j: Index, e: Elem) -> Equation:
    """A term can be placed in two dimensions in either order, under a transpose."""
    return equation(transpose(place(n, i, place(m, j, e))), place(m, j, place(n, i, e)))


@rule(family="placement", source="Fig. 4.3")
def flatten_of_place(n: Index, i: Index, v: Vector) -> Equation:
    """A placed row, flattened, is the row with whole rows of padding before and after it."""
    m = v.shape[0]
    return equation(flatten(place(n, i, v)), padl(i * m, padr((n - 1 - i) * m, v)))


@rule(family="placement", source="Fig. 4.3", derived_from=("flatten_of_place", "padr_of_place", "padl_of_place"))
def flatten_of_places(n: Index, i: Index, m: Index, j: Index, e: Elem) -> Equation:
    """A term placed in row i and column j, flattened, is placed at i * m + j, where m is the length of a row."""
    return equation(flatten(place(n, i, place(m, j, e))), place(n * m, i * m + j, e))


@rule(family="placement", source="Fig. 4.3")
def split_of_place(n: Index, k: Index, i: Index, e: Elem) -> Equation:
    """A placed term, split into rows of k, is placed in row i // k and column i % k."""
    return equation(split(k, place(n, i, e)), place(ceildiv(n, k), i // k, place(k, i % k, e)))


@rule(family="placement", source="Fig. 4.3")
def padl_of_place(n: Index, i: Index, k: Index, e: Elem) -> Equation:
    """A placed term with k elements of padding before it is placed k positions later."""
    return equation(padl(k, place(n, i, e)), place(n + k, i + k, e))


@rule(family="placement", source="Fig. 4.3")
def padr_of_place(n: Index, i: Index, k: Index, e: Elem) -> Equation:
    """A placed term with k elements of padding after it is placed in a tensor longer by k."""
    return equation(padr(k, place(n, i, e)), place(n + k, i, e))


@rule(family="placement", source="Fig. 4.3, E3")
def truncl_of_place(n: Index, i: Index, k: Index, e: Elem) -> Equation:
    """A placed term without k of the elements before it is placed k positions earlier."""
    return equation(truncl(k, place(n, i, e)), place(n - k, i - k, e))


@rule(family="placement", source="Fig. 4.3, E3")
def truncr_of_place(n: Index, i: Index, k: Index, e: Elem) -> Equation:
    """A placed term without k of the elements after it is placed in a tensor shorter by k."""
    return equation(truncr(k, place(n, i, e)), place(n - k, i, e))


@rule(family="placement", source="Fig. 4.3, E3")
def truncl_past_place(n: Index, i: Index, k: Index, e: Elem) -> Equation:
    """A placed term that a truncation on the left drops leaves padding."""
    return equation(truncl(k, place(n, i, e)), padding(truncl(k, place(n, i, e))), given(i < k))


@rule(family="placement", source="Fig. 4.3, E3")
def truncr_past_place(n: Index, i: Index, k: Index, e: Elem) -> Equation:
    """A placed term that a truncation on the right drops leaves padding."""
    return equation(truncr(k, place(n, i, e)), padding(truncr(k, place(n, i, e))), given(n - k <= i))


# -- shears -----------------------------------------------------------------------------------------------------------


@rule(family="placement", source="§7.2.2, E6")
def unshear_shear(v: Matrix) -> Equation:
    """Shearing a matrix into its diagonals and unshearing it does nothing."""
    return equation(unshear(v.shape[0], v.shape[1], shear(v)), v)
