"""Reshape operators pushed into their operands, fused with one another, and made to vanish."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, guard, padl, padr, split, sum, transpose, truncl, truncr
from rewrites.named_operators import AMOUNTS, EXCHANGES, PADS_AND_TRUNCATIONS, moved, moved_by, padding
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


@rules(named="{}_of_add", over=EXCHANGES, family="reshape algebra", source="[R] transpose_bin")
def of_add(op: str, a: Matrix, b: Matrix) -> Equation:
    """A reshape operator distributes over addition."""
    return equation(moved(op, a + b), moved(op, a) + moved(op, b))


@rules(named="{}_of_add", over=AMOUNTS, family="reshape algebra", source="[D] linearity")
def by_of_add(op: str, k: Index, a: Vector, b: Vector) -> Equation:
    """A reshape operator with an amount distributes over addition."""
    return equation(moved_by(op, k, a + b), moved_by(op, k, a) + moved_by(op, k, b))


@rules(named="{}_of_mul", over=EXCHANGES, family="reshape algebra", source="Fig. 4.3")
def of_mul(op: str, a: Matrix, b: Matrix) -> Equation:
    """A reshape operator distributes over multiplication."""
    return equation(moved(op, a * b), moved(op, a) * moved(op, b))


@rules(named="{}_of_mul", over=AMOUNTS, family="reshape algebra", source="Fig. 4.3")
def by_of_mul(op: str, k: Index, a: Vector, b: Vector) -> Equation:
    """A reshape operator with an amount distributes over multiplication."""
    return equation(moved_by(op, k, a * b), moved_by(op, k, a) * moved_by(op, k, b))


@rules(named="{}_of_guard", over=EXCHANGES, family="reshape algebra", source="[R] transpose_iverson, flatten_iverson")
def of_guard(op: str, p: Cond, v: Matrix) -> Equation:
    """A reshape operator goes into a guard."""
    return equation(moved(op, guard(p, v)), guard(p, moved(op, v)))


@rules(named="{}_of_guard", over=AMOUNTS, family="reshape algebra", source="[R] trunc_r_guard")
def by_of_guard(op: str, k: Index, p: Cond, v: Vector) -> Equation:
    """A reshape operator with an amount goes into a guard."""
    return equation(moved_by(op, k, guard(p, v)), guard(p, moved_by(op, k, v)))


@rules(named="{}_of_sum", over=EXCHANGES, family="reshape algebra", source="[R] transpose_sum, flatten_sum")
def of_sum(op: str, lo: Index, hi: Index, e: Matrix[Index]) -> Equation:
    """A reshape operator goes into a sum."""
    return equation(moved(op, sum((lo, hi), e)), sum((lo, hi), lambda i: moved(op, e(i))))


@rules(named="{}_of_sum", over=AMOUNTS, family="reshape algebra", source="[D] linearity")
def by_of_sum(op: str, k: Index, lo: Index, hi: Index, e: Vector[Index]) -> Equation:
    """A reshape operator with an amount goes into a sum."""
    return equation(moved_by(op, k, sum((lo, hi), e)), sum((lo, hi), lambda i: moved_by(op, k, e(i))))


@rules(named="{}_of_padding", over=EXCHANGES, family="reshape algebra", source="Fig. 4.3")
def of_padding(op: str, v: Matrix) -> Equation:
    """Padding, reshaped, is padding."""
    return equation(moved(op, padding(v)), padding(moved(op, v)))


@rules(named="{}_of_padding", over=AMOUNTS, family="reshape algebra", source="Fig. 4.3")
def by_of_padding(op: str, k: Index, v: Vector) -> Equation:
    """Padding, padded or cut, is padding."""
    return equation(moved_by(op, k, padding(v)), padding(moved_by(op, k, v)))


# -- pads and truncations ---------------------------------------------------------------------------------------------


@rules(named="{}_zero", over=PADS_AND_TRUNCATIONS, family="reshape algebra", source="Fig. 4.3")
def by_zero(op: str, k: Index, v: Vector) -> Equation:
    """To pad or drop nothing does nothing."""
    return equation(moved_by(op, k, v), v, given(k == 0))


@rules(named="{}_twice", over=PADS_AND_TRUNCATIONS, family="reshape algebra", source="Fig. 4.3")
def by_twice(op: str, a: Index, b: Index, v: Vector) -> Equation:
    """To pad or drop twice on one side is to do it once."""
    return equation(moved_by(op, a, moved_by(op, b, v)), moved_by(op, a + b, v), given(a >= 0, b >= 0))


@rule(family="reshape algebra", source="Fig. 4.3")
def padl_padr(a: Index, b: Index, v: Vector) -> Equation:
    """Both sides are padded in either order."""
    return equation(padl(a, padr(b, v)), padr(b, padl(a, v)))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncl_truncr(a: Index, b: Index, v: Vector) -> Equation:
    """Both sides are cut in either order."""
    return equation(truncl(a, truncr(b, v)), truncr(b, truncl(a, v)))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncl_padr(a: Index, b: Index, v: Vector) -> Equation:
    """The left side is cut and the right one padded in either order."""
    return equation(truncl(a, padr(b, v)), padr(b, truncl(a, v)), given(a <= v.shape[0]))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncr_padl(a: Index, b: Index, v: Vector) -> Equation:
    """The right side is cut and the left one padded in either order."""
    return equation(truncr(a, padl(b, v)), padl(b, truncr(a, v)), given(a <= v.shape[0]))


@rule(family="reshape algebra", source="§4.5.3")
def padr_concat(k: Index, v: Vector) -> Equation:
    """A pad on the right is a concatenation with padding that follows."""
    return equation(padr(k, v), concat(v, padding(gen(k, lambda i: v[i]))))


@rule(family="reshape algebra", source="§4.5.3")
def padl_concat(k: Index, v: Vector) -> Equation:
    """A pad on the left is a concatenation with padding that comes before."""
    return equation(padl(k, v), concat(padding(gen(k, lambda i: v[i])), v))


@rule(family="reshape algebra", source="section 5 of the reference: lowering of ++")
def concat_pads(a: Vector, b: Vector) -> Equation:
    """A concatenation is the sum of its parts, each padded to the whole."""
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
    """A tensor is its first elements followed by the others."""
    return equation(v, concat(truncr(v.shape[0] - k, v), truncl(k, v)))


# -- splits and flattenings -------------------------------------------------------------------------------------------


@rule(family="reshape algebra", source="Fig. 4.3")
def flatten_of_concat(a: Matrix, b: Matrix) -> Equation:
    """A concatenation of matrices is flattened part by part."""
    return equation(flatten(concat(a, b)), concat(flatten(a), flatten(b)))


@rule(family="reshape algebra", source="Fig. 4.3")
def split_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """A concatenation is split into rows of k part by part, where the first part fills its rows."""
    return equation(split(k, concat(a, b)), concat(split(k, a), split(k, b)), given(a.shape[0] % k == 0))


@rule(family="reshape algebra", source="Fig. 4.3, E10")
def flatten_split_padr(k: Index, v: Vector) -> Equation:
    """Splitting into rows of k and flattening pads a tensor to whole rows."""
    n = v.shape[0]
    return equation(flatten(split(k, v)), padr(ceildiv(n, k) * k - n, v))


@rule(family="reshape algebra", source="[D] storage order")
def flatten_flatten(v: Cube) -> Equation:
    """Three dimensions flattened into one: the outer two may come first, or the inner two."""
    return equation(flatten(flatten(v)), flatten(gen(v.shape[0], lambda i: flatten(v[i]))))


@rule(family="reshape algebra", source="[D] storage order")
def split_split(a: Index, b: Index, v: Vector) -> Equation:
    """A split into rows of b, then of these by a, is one into rows of a * b, each of which is split into rows of b."""
    whole = split(a * b, v)
    return equation(split(a, split(b, v)), gen(ceildiv(v.shape[0], a * b), lambda i: split(b, whole[i])), given(b > 0))


@rule(family="reshape algebra", source="§4.5.4", derived_from=("unfold_split", "get_gen"))
def split_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation split into rows of k is computed row by row, the last one guarded."""
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
    """Transposed matrices, one below the other, are the transpose of their rows joined end to end."""
    joined = gen(v(lo).shape[0], lambda j: flatten(gen((lo, hi), lambda i: v(i)[j])))
    return equation(flatten(gen((lo, hi), lambda i: transpose(v(i)))), transpose(joined))


@rule(family="reshape algebra", source="[D] storage order")
def flatten_of_tiles(lo: Index, hi: Index, v: Cube[Index]) -> Equation:
    """A matrix in tiles is stored tile by tile along its rows, or along its columns."""
    column = gen(v(lo).shape[0], lambda j: transpose(flatten(gen((lo, hi), lambda i: transpose(v(i)[j])))))
    return equation(flatten(gen((lo, hi), lambda i: transpose(flatten(v(i))))), transpose(flatten(column)))


@rule(family="reshape algebra", source="[D] storage order")
def gen_of_flatten(lo: Index, hi: Index, v: Matrix[Index]) -> Equation:
    """Rows that are stored in tiles are, transposed, tiles of the columns."""
    tiles = gen(v(lo).shape[0], lambda j: transpose(gen((lo, hi), lambda i: v(i)[j])))
    return equation(gen((lo, hi), lambda i: flatten(v(i))), transpose(flatten(tiles)))


@rules(named="gen_of_{}", over=("truncl", "truncr"), family="reshape algebra", source="[D] storage order")
def gen_of_cut(op: str, k: Index, lo: Index, hi: Index, v: Vector[Index]) -> Equation:
    """What is dropped from each of some rows may be dropped once, as rows of the transpose."""
    rows = gen((lo, hi), v)
    return equation(gen((lo, hi), lambda i: moved_by(op, k, v(i))), transpose(moved_by(op, k, transpose(rows))))


@rules(named="flatten_of_{}_rows", over=("truncl", "truncr"), family="reshape algebra", source="[D] storage order")
def flatten_of_cut(op: str, k: Index, lo: Index, hi: Index, v: Matrix[Index]) -> Equation:
    """Columns that are dropped from each of some matrices may be dropped once from all of them."""
    whole = flatten(gen((lo, hi), lambda i: transpose(v(i))))
    each = flatten(gen((lo, hi), lambda i: transpose(moved_by(op, k, v(i)))))
    return equation(each, transpose(moved_by(op, k, transpose(whole))))


@rule(family="reshape algebra", source="[R] pad_gen")
def padr_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation padded on the right runs on, with nothing computed there."""
    return equation(padr(k, gen((lo, hi), e)), gen((lo, hi + k), lambda i: guard(i < hi, e(i))))


@rule(family="reshape algebra", source="[R] help")
def padl_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation padded on the left starts earlier, with nothing computed there."""
    return equation(padl(k, gen((lo, hi), e)), gen((lo - k, hi), lambda i: guard(lo <= i, e(i))))
