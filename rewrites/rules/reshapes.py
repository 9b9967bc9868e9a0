"""Reshape operators: adjoint pairs (Fig. 4.6 with E3, E4 and E10), and their definitions (Fig. 4.3)."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, guard, padl, padr, split, transpose, truncl, truncr
from rewrites.rule import Body, Equation, Index, Matrix, Vector, equation, given, rule


@rule(family="reshape pairs", source="Fig. 4.6")
def transpose_transpose(v: Matrix) -> Equation:
    """Transposing twice does nothing."""
    return equation(transpose(transpose(v)), v)


@rule(family="reshape pairs", source="Fig. 4.6, E10")
def truncr_flatten_split(v: Vector, k: Index) -> Equation:
    """A tensor in rows of k, made one row again, without the tail that was added."""
    n = v.shape[0]
    return equation(truncr(ceildiv(n, k) * k - n, flatten(split(k, v))), v)


@rule(family="reshape pairs", source="Fig. 4.6")
def flatten_split(v: Vector, k: Index) -> Equation:
    """The same, where the rows come out even."""
    return equation(flatten(split(k, v)), v, given(v.shape[0] % k == 0))


@rule(family="reshape pairs", source="Fig. 4.6")
def split_flatten(v: Matrix, k: Index) -> Equation:
    """A matrix made one row, in rows again."""
    return equation(split(k, flatten(v)), v, given(k == v.shape[1]))


@rule(family="reshape pairs", source="Fig. 4.6, E4")
def truncr_padr(v: Vector, k: Index) -> Equation:
    """What is added on the right, dropped on the right."""
    return equation(truncr(k, padr(k, v)), v)


@rule(family="reshape pairs", source="Fig. 4.6, E4")
def truncl_padl(v: Vector, k: Index) -> Equation:
    """What is added on the left, dropped on the left."""
    return equation(truncl(k, padl(k, v)), v)


@rule(family="definitions", source="Fig. 4.3")
def unfold_transpose(v: Matrix) -> Equation:
    """A transpose by its elements."""
    return equation(transpose(v), gen(v.shape[1], lambda i: gen(v.shape[0], lambda j: v[j, i])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_split(k: Index, v: Vector) -> Equation:
    """A split by its elements."""
    n = v.shape[0]
    return equation(split(k, v), gen(ceildiv(n, k), k, lambda i, j: guard(i * k + j < n, v[i * k + j])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_flatten(v: Matrix) -> Equation:
    """A flattening by its elements."""
    n, m = v.shape[0], v.shape[1]
    return equation(flatten(v), gen(n * m, lambda i: v[i // m, i % m]))


@rule(family="definitions", source="Fig. 4.3")
def unfold_concat(a: Vector, b: Vector) -> Equation:
    """A concatenation by its elements."""
    n, m = a.shape[0], b.shape[0]
    return equation(concat(a, b), gen(n + m, lambda i: guard(i < n, a[i]) + guard(n <= i, b[i - n])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_padr(k: Index, v: Vector) -> Equation:
    """A pad on the right by its elements."""
    n = v.shape[0]
    return equation(padr(k, v), gen(n + k, lambda i: guard(i < n, v[i])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_padl(k: Index, v: Vector) -> Equation:
    """A pad on the left by its elements."""
    return equation(padl(k, v), gen(v.shape[0] + k, lambda i: guard(k <= i, v[i - k])))


@rule(family="definitions", source="Fig. 4.3, E3")
def unfold_truncr(k: Index, v: Vector) -> Equation:
    """A truncation on the right by its elements."""
    return equation(truncr(k, v), gen(v.shape[0] - k, lambda i: v[i]))


@rule(family="definitions", source="Fig. 4.3, E3")
def unfold_truncl(k: Index, v: Vector) -> Equation:
    """A truncation on the left by its elements."""
    return equation(truncl(k, v), gen(v.shape[0] - k, lambda i: v[i + k]))


@rule(family="reshape algebra", source="[R] transpose_get_get")
def transpose_access(v: Matrix, i: Index, j: Index) -> Equation:
    """An element of a transpose."""
    return equation(transpose(v)[i][j], v[j][i])


@rule(family="reshape algebra", source="[R] flatten_gen_gen")
def flatten_gen_gen(n: Index, m: Index, e: Body[Index, Index]) -> Equation:
    """Two nested loops as one."""
    return equation(flatten(gen(n, m, e)), gen(n * m, lambda k: e(k // m, k % m)))
