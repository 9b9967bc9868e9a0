"""Reshape operators pushed into their operands, fused with one another, and made to vanish."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, guard, padl, padr, split, truncl, truncr
from rewrites.named_operators import AMOUNTS, EXCHANGES, PADS_AND_TRUNCATIONS, moved, moved_by, padding
from rewrites.rule import Body, Cube, Equation, Index, Matrix, Vector, equation, given, rule, rules


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


@rules(named="{}_of_padding", over=EXCHANGES, family="reshape algebra", source="Fig. 4.3")
def of_padding(op: str, v: Matrix) -> Equation:
    """Padding, reshaped, is padding."""
    return equation(moved(op, padding(v)), padding(moved(op, v)))


@rules(named="{}_of_padding", over=AMOUNTS, family="reshape algebra", source="Fig. 4.3")
def by_of_padding(op: str, k: Index, v: Vector) -> Equation:
    """Padding, padded or cut, is padding."""
    return equation(moved_by(op, k, padding(v)), padding(moved_by(op, k, v)))


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
    """A pad on the right is padding that follows."""
    return equation(padr(k, v), concat(v, padding(gen(k, lambda i: v[i]))))


@rule(family="reshape algebra", source="§4.5.3")
def padl_concat(k: Index, v: Vector) -> Equation:
    """A pad on the left is padding that comes before."""
    return equation(padl(k, v), concat(padding(gen(k, lambda i: v[i])), v))


@rule(family="reshape algebra", source="section 5 of the reference: lowering of ++")
def concat_pads(a: Vector, b: Vector) -> Equation:
    """A concatenation is the sum of its parts, each padded to the whole."""
    return equation(concat(a, b), padr(b.shape[0], a) + padl(a.shape[0], b))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncr_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """The right part of a concatenation dropped."""
    return equation(truncr(k, concat(a, b)), a, given(k == b.shape[0]))


@rule(family="reshape algebra", source="Fig. 4.3")
def truncl_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """The left part of a concatenation dropped."""
    return equation(truncl(k, concat(a, b)), b, given(k == a.shape[0]))


@rule(family="reshape algebra", source="§4.5.2")
def concat_truncations(k: Index, v: Vector) -> Equation:
    """A tensor is its first elements followed by the others."""
    return equation(v, concat(truncr(v.shape[0] - k, v), truncl(k, v)))


@rule(family="reshape algebra", source="Fig. 4.3")
def flatten_of_concat(a: Matrix, b: Matrix) -> Equation:
    """Rows followed by rows, in one row."""
    return equation(flatten(concat(a, b)), concat(flatten(a), flatten(b)))


@rule(family="reshape algebra", source="Fig. 4.3")
def split_of_concat(k: Index, a: Vector, b: Vector) -> Equation:
    """A concatenation in rows of k, where the first part fills its rows."""
    return equation(split(k, concat(a, b)), concat(split(k, a), split(k, b)), given(a.shape[0] % k == 0))


@rule(family="reshape algebra", source="Fig. 4.3, E10")
def flatten_split_padr(k: Index, v: Vector) -> Equation:
    """A tensor in rows of k, made one row again, is padded to whole rows."""
    n = v.shape[0]
    return equation(flatten(split(k, v)), padr(ceildiv(n, k) * k - n, v))


@rule(family="reshape algebra", source="[D] storage order")
def flatten_flatten(v: Cube) -> Equation:
    """Three dimensions are flattened from either end."""
    return equation(flatten(flatten(v)), flatten(gen(v.shape[0], lambda i: flatten(v[i]))))


@rule(family="reshape algebra", source="[D] storage order")
def split_split(a: Index, b: Index, v: Vector) -> Equation:
    """Rows of b in blocks of a rows are blocks of a * b, each in rows."""
    whole = split(a * b, v)
    return equation(split(a, split(b, v)), gen(ceildiv(v.shape[0], a * b), lambda i: split(b, whole[i])), given(b > 0))


@rule(family="reshape algebra", source="§4.5.4", follows=("unfold_split", "get_gen"))
def split_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation in rows of k."""
    n = hi - lo
    return equation(
        split(k, gen((lo, hi), e)), gen(ceildiv(n, k), k, lambda o, i: guard(o * k + i < n, e(lo + o * k + i)))
    )


@rule(family="reshape algebra", source="[R] flatten_gen")
def flatten_of_gen(lo: Index, hi: Index, v: Vector[Index]) -> Equation:
    """A generation of rows, in one row."""
    m = v(lo).shape[0]
    return equation(flatten(gen((lo, hi), v)), gen((hi - lo) * m, lambda k: v(lo + k // m)[k % m]))


@rule(family="reshape algebra", source="[R] pad_gen")
def padr_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation padded on the right runs on, with nothing computed there."""
    return equation(padr(k, gen((lo, hi), e)), gen((lo, hi + k), lambda i: guard(i < hi, e(i))))


@rule(family="reshape algebra", source="[R] help")
def padl_of_gen(k: Index, lo: Index, hi: Index, e: Body[Index]) -> Equation:
    """A generation padded on the left starts earlier, with nothing computed there."""
    return equation(padl(k, gen((lo, hi), e)), gen((lo - k, hi), lambda i: guard(lo <= i, e(i))))
