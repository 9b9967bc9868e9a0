"""Reshape operators: pushing them into operands, merging them, and removing them."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, guard, padl, padr, split, sum, transpose, truncl, truncr
from rewrites.named_operators import AMOUNTS, MATRIX_OPERATORS, PADS_AND_TRUNCATIONS, padding, reshaped, reshaped_by
from rewrites.rule import Body, Cond, Cube, Equation, Index, Matrix, Vector, equation, given, rule, rules

# -- elements ---------------------------------------------------------------------------------------------------------


@rule(family="reshape algebra", source="[R] transpose_get_get")
def transpose_access(v: Matrix, i: Index, j: Index) -> Equation:
    """The element of a transpose at [i][j] is that of the matrix at [j][i]."""
    return equation(transpose(v)[i][j], v[j][i])


@rule(family="reshape algebra", source="[R] flatten_gen_gen")
def flatten_gen_gen(n: Index, m: Index, e: Body[Index, Index]) -> Equation:
    """Two nested generations, flattened, are one."""
    return equation(flatten(gen(n, m, e)), gen(n * m, lambda k: e(k // m, k % m)))


# -- linearity --------------------------------------------------------------------------------------------------------


@rules(named="{}_of_add", over=MATRIX_OPERATORS, family="reshape algebra", source="[R] transpose_bin")
def of_add(op: str, a: Matrix, b: Matrix) -> Equation:
    """A reshape operator distributes over addition."""
    return equation(reshaped(op, a + b), reshaped(op, a) + reshaped(op, b))


@rules(named="{}_of_add", over=AMOUNTS, family="reshape algebra", source="[D] linearity")
def by_of_add(op: str, k: Index, a: Vector, b: Vector) -> Equation:
    """A reshape operator with an amount distributes over addition."""
    return equation(reshaped_by(op, k, a + b), reshaped_by(op, k, a) + reshaped_by(op, k, b))


@rules(named="{}_of_mul", over=MATRIX_OPERATORS, family="reshape algebra", source="Fig. 4.3")
def of_mul(op: str, a: Matrix, b: Matrix) -> Equation:
    """A reshape operator distributes over multiplication."""
    return equation(reshaped(op, a * b), reshaped(op, a) * reshaped(op, b))


@rules(named="{}_of_mul", over=AMOUNTS, family="reshape algebra", source="Fig. 4.3")
def by_of_mul(op: str, k: Index, a: Vector, b: Vector) -> Equation:
    """A reshape operator with an amount distributes over multiplication."""
    return equation(reshaped_by(op, k, a * b), reshaped_by(op, k, a) * reshaped_by(op, k, b))


@rules(
    named="{}_of_guard",
    over=MATRIX_OPERATORS,
    family="reshape algebra",
    source="[R] transpose_iverson, flatten_iverson",
)
def of_guard(op: str, p: Cond, v: Matrix) -> Equation:
    """A reshape operator moves into a guard."""
    return equation(reshaped(op, guard(p, v)), guard(p, reshaped(op, v)))


@rules(named="{}_of_guard", over=AMOUNTS, family="reshape algebra", source="[R] trunc_r_guard")
def by_of_guard(op: str, k: Index, p: Cond, v: Vector) -> Equation:
    """A reshape operator with an amount moves into a guard."""
    return equation(reshaped_by(op, k, guard(p, v)), guard(p, reshaped_by(op, k, v)))


@rules(named="{}_of_sum", over=MATRIX_OPERATORS, family="reshape algebra", source="[R] transpose_sum, flatten_sum")
def of_sum(op: str, lo: Index, hi: Index, e: Matrix[Index]) -> Equation:
    """A reshape operator moves into a sum."""
    return equation(reshaped(op, sum((lo, hi), e)), sum((lo, hi), lambda i: reshaped(op, e(i))))


@rules(named="{}_of_sum", over=AMOUNTS, family="reshape algebra", source="[D] linearity")
def by_of_sum(op: str, k: Index, lo: Index, hi: Index, e: Vector[Index]) -> Equation:
    """A reshape operator with an amount moves into a sum."""
    return equation(reshaped_by(op, k, sum((lo, hi), e)), sum((lo, hi), lambda i: reshaped_by(op, k, e(i))))


@rules(named="{}_of_padding", over=MATRIX_OPERATORS, family="reshape algebra", source="Fig. 4.3")
def of_padding(op: str, v: Matrix) -> Equation:
    """Reshaped padding is padding."""
    return equation(reshaped(op, padding(v)), padding(reshaped(op, v)))


@rules(named="{}_of_padding", over=AMOUNTS, family="reshape algebra", source="Fig. 4.3")
def by_of_padding(op: str, k: Index, v: Vector) -> Equation:
    """Padding that is split, padded or truncated is padding."""
    return equation(reshaped_by(op, k, padding(v)), padding(reshaped_by(op, k, v)))


# -- pads and truncations ---------------------------------------------------------------------------------------------


@rules(named="{}_zero", over=PADS_AND_TRUNCATIONS, family="reshape algebra", source="Fig. 4.3")
def by_zero(op: str, k: Index, v: Vector) -> Equation:
    """Padding or truncating by zero does nothing."""
    return equation(reshaped_by(op, k, v), v, given(k == 0))


@rules(named="{}_twice", over=PADS_AND_TRUNCATIONS, family="reshape algebra", source="Fig. 4.3")
def by_twice(op: str, a: Index, b: Index, v: Vector) -> Equation:
    """Two paddings, or two truncations, on one side can be merged."""
    return equation(reshaped_by(op, a, reshaped_by(op, b, v)), reshaped_by(op, a + b, v), given(a >= 0, b >= 0))


@rule(family="reshape algebra", source="Fig. 4.3")
def padl_padr(a: Index, b: Index, v: Vector) -> Equation:
    """Padding on the left commutes with padding on the right."""
    return equation(padl(a, padr(b, v)), padr(b, padl(a, v)))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncl_truncr(a: Index, b: Index, v: Vector) -> Equation:
    """Truncation on the left commutes with truncation on the right."""
    return equation(truncl(a, truncr(b, v)), truncr(b, truncl(a, v)))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncl_padr(a: Index, b: Index, v: Vector) -> Equation:
    """Truncation on the left commutes with padding on the right."""
    return equation(truncl(a, padr(b, v)), padr(b, truncl(a, v)), given(a <= v.shape[0]))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncr_padl(a: Index, b: Index, v: Vector) -> Equation:
    """Truncation on the right commutes with padding on the left."""
    return equation(truncr(a, padl(b, v)), padl(b, truncr(a, v)), given(a <= v.shape[0]))


@rule(family="reshape algebra", source="§4.5.3")
def padr_concat(k: Index, v: Vector) -> Equation:
    """Padding on the right is a concatenation with padding after the tensor."""
    return equation(padr(k, v), concat(v, padding(gen(k, lambda i: v[i]))))


@rule(family="reshape algebra", source="§4.5.3")
def padl_concat(k: Index, v: Vector) -> Equation:
    """Padding on the left is a concatenation with padding before the tensor."""
    return equation(padl(k, v), concat(padding(gen(k, lambda i: v[i])), v))


@rule(family="reshape algebra", source="section 5 of the reference: lowering of ++")
def concat_pads(a: Vector, b: Vector) -> Equation:
    """A concatenation is the sum of its parts, each padded to the whole length."""
    return equation(concat(a, b), padr(b.shape[0], a) + padl(a.shape[0], b))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncr_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """A concatenation without its right part is its left part."""
    return equation(truncr(k, concat(a, b)), a, given(k == b.shape[0]))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncl_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """A concatenation without its left part is its right part."""
    return equation(truncl(k, concat(a, b)), b, given(k == a.shape[0]))


@rule(family="reshape algebra", source="§4.5.2")
def concat_truncations(k: Index, v: Vector) -> Equation:
    """A tensor is the concatenation of its first elements and the others."""
    return equation(v, concat(truncr(v.shape[0] - k, v), truncl(k, v)))


# -- splits and flattenings -------------------------------------------------------------------------------------------


@rule(family="reshape algebra", source="Fig. 4.3")
def flatten_of_concat(a: Matrix, b: Matrix) -> Equation:
    """A concatenation of matrices can be flattened part by part."""
    return equation(flatten(concat(a, b)), concat(flatten(a), flatten(b)))


@rule(family="reshape algebra", source="Fig. 4.3")
def split_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """A concatenation can be split part by part if the first part fills its rows."""
    return equation(split(k, concat(a, b)), concat(split(k, a), split(k, b)), given(a.shape[0] % k == 0))


@rule(family="reshape algebra", source="Fig. 4.3, E10")
def flatten_split_padr(k: Index, v: Vector) -> Equation:
    """Splitting into rows of k and flattening pads a tensor to whole rows."""
    n = v.shape[0]
    return equation(flatten(split(k, v)), padr(ceildiv(n, k) * k - n, v))


@rule(family="reshape algebra", source="[D] storage order")
def flatten_flatten(v: Cube) -> Equation:
    """Three dimensions can be flattened into one in either order."""
    return equation(flatten(flatten(v)), flatten(gen(v.shape[0], lambda i: flatten(v[i]))))


@rule(family="reshape algebra", source="[D] storage order")
def split_split(a: Index, b: Index, v: Vector) -> Equation:
    """Splitting by b and then by a is splitting by a * b, and each of the rows by b."""
    whole = split(a * b, v)
    return equation(split(a, split(b, v)), gen(ceildiv(v.shape[0], a * b), lambda i: split(b, whole[i])), given(b > 0))


@rule(family="reshape algebra", source="§4.5.4", derived_from=("unfold_split", "get_gen"))
def split_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation split into rows of k can be computed row by row, with the last row guarded."""
    n = hi - lo
    return equation(
        split(k, gen((lo, hi), e)), gen(ceildiv(n, k), k, lambda o, i: guard(o * k + i < n, e(lo + o * k + i)))
    )


@rule(family="reshape algebra", source="[R] flatten_gen")
def flatten_of_gen(lo: Index, hi: Index, v: Vector[Index]) -> Equation:
    """A generation of rows, flattened, is one generation of their elements."""
    m = v(lo).shape[0]
    return equation(flatten(gen((lo, hi), v)), gen((hi - lo) * m, lambda k: v(lo + k // m)[k % m]))


@rule(family="reshape algebra", source="[D] storage order")
def flatten_of_transposes(lo: Index, hi: Index, v: Matrix[Index]) -> Equation:
    """Stacked transposed matrices are the transpose of their rows joined end to end."""
    joined = gen(v(lo).shape[0], lambda j: flatten(gen((lo, hi), lambda i: v(i)[j])))
    return equation(flatten(gen((lo, hi), lambda i: transpose(v(i)))), transpose(joined))


@rule(family="reshape algebra", source="[D] storage order")
def flatten_of_tiles(lo: Index, hi: Index, v: Cube[Index]) -> Equation:
    """A tiled matrix can be assembled along its rows first or along its columns first."""
    column = gen(v(lo).shape[0], lambda j: transpose(flatten(gen((lo, hi), lambda i: transpose(v(i)[j])))))
    return equation(flatten(gen((lo, hi), lambda i: transpose(flatten(v(i))))), transpose(flatten(column)))


@rule(family="reshape algebra", source="[D] storage order")
def gen_of_flatten(lo: Index, hi: Index, v: Matrix[Index]) -> Equation:
    """A generation of flattened matrices is the transpose of flattened tiles of columns."""
    tiles = gen(v(lo).shape[0], lambda j: transpose(gen((lo, hi), lambda i: v(i)[j])))
    return equation(gen((lo, hi), lambda i: flatten(v(i))), transpose(flatten(tiles)))


@rules(named="gen_of_{}", over=("truncl", "truncr"), family="reshape algebra", source="[D] storage order")
def gen_of_cut(op: str, k: Index, lo: Index, hi: Index, v: Vector[Index]) -> Equation:
    """Elements dropped from each row of a matrix can be dropped as rows of its transpose."""
    rows = gen((lo, hi), v)
    return equation(gen((lo, hi), lambda i: reshaped_by(op, k, v(i))), transpose(reshaped_by(op, k, transpose(rows))))


@rules(named="flatten_of_{}_rows", over=("truncl", "truncr"), family="reshape algebra", source="[D] storage order")
def flatten_of_cut(op: str, k: Index, lo: Index, hi: Index, v: Matrix[Index]) -> Equation:
    """Columns dropped from each of some matrices can be dropped once from all of them."""
    whole = flatten(gen((lo, hi), lambda i: transpose(v(i))))
    each = flatten(gen((lo, hi), lambda i: transpose(reshaped_by(op, k, v(i)))))
    return equation(each, transpose(reshaped_by(op, k, transpose(whole))))


@rule(family="reshape algebra", source="[R] pad_gen")
def padr_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation padded on the right is a longer generation with a guard on the new elements."""
    return equation(padr(k, gen((lo, hi), e)), gen((lo, hi + k), lambda i: guard(i < hi, e(i))))


@rule(family="reshape algebra", source="[R] help")
def padl_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation padded on the left starts earlier, with a guard on the new elements."""
    return equation(padl(k, gen((lo, hi), e)), gen((lo - k, hi), lambda i: guard(lo <= i, e(i))))
