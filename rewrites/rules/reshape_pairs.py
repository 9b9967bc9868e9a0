"""Pairs of inverse reshape operators (Fig. 4.6 with E3, E4 and E10)."""

from __future__ import annotations

from atl import ceildiv, flatten, padl, padr, split, transpose, truncl, truncr
from rewrites.rule import Equation, Index, Matrix, Vector, equation, given, rule


@rule(family="reshape pairs", source="Fig. 4.6")
def transpose_transpose(v: Matrix) -> Equation:
    """Transposing twice does nothing."""
    return equation(transpose(transpose(v)), v)


@rule(family="reshape pairs", source="Fig. 4.6, E10")
def truncr_flatten_split(v: Vector, k: Index) -> Equation:
    """Splitting into rows of k, flattening, and dropping the added tail does nothing."""
    n = v.shape[0]
    return equation(truncr(ceildiv(n, k) * k - n, flatten(split(k, v))), v)


@rule(family="reshape pairs", source="Fig. 4.6")
def flatten_split(v: Vector, k: Index) -> Equation:
    """Splitting into rows of k and flattening does nothing if k divides the length."""
    return equation(flatten(split(k, v)), v, given(v.shape[0] % k == 0))


@rule(family="reshape pairs", source="Fig. 4.6")
def split_flatten(v: Matrix, k: Index) -> Equation:
    """Flattening a matrix and splitting into rows of the same length does nothing."""
    return equation(split(k, flatten(v)), v, given(k == v.shape[1]))


@rule(family="reshape pairs", source="Fig. 4.6, E4")
def truncr_padr(v: Vector, k: Index) -> Equation:
    """Padding on the right and dropping the padding does nothing."""
    return equation(truncr(k, padr(k, v)), v)


@rule(family="reshape pairs", source="Fig. 4.6, E4")
def truncl_padl(v: Vector, k: Index) -> Equation:
    """Padding on the left and dropping the padding does nothing."""
    return equation(truncl(k, padl(k, v)), v)
