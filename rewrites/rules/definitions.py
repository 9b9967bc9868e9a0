"""The reshape operators, each defined by its elements (Fig. 4.3)."""

from __future__ import annotations

from atl import ceildiv, concat, flatten, gen, guard, padl, padr, split, transpose, truncl, truncr
from rewrites.rule import Equation, Index, Matrix, Vector, equation, rule


@rule(family="definitions", source="Fig. 4.3")
def unfold_transpose(v: Matrix) -> Equation:
    """A transpose is, by its elements, a generation of the matrix's columns."""
    return equation(transpose(v), gen(v.shape[1], lambda i: gen(v.shape[0], lambda j: v[j, i])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_split(k: Index, v: Vector) -> Equation:
    """A split is, by its elements, a generation of rows of k; the tail of the last row is padding."""
    n = v.shape[0]
    return equation(split(k, v), gen(ceildiv(n, k), k, lambda i, j: guard(i * k + j < n, v[i * k + j])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_flatten(v: Matrix) -> Equation:
    """A flattened matrix is, by its elements, one generation over the elements of its rows, row by row."""
    n, m = v.shape[0], v.shape[1]
    return equation(flatten(v), gen(n * m, lambda i: v[i // m, i % m]))


@rule(family="definitions", source="Fig. 4.3")
def unfold_concat(a: Vector, b: Vector) -> Equation:
    """A concatenation is, by its elements, a generation of two guarded terms, one for each part."""
    n, m = a.shape[0], b.shape[0]
    return equation(concat(a, b), gen(n + m, lambda i: guard(i < n, a[i]) + guard(n <= i, b[i - n])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_padr(k: Index, v: Vector) -> Equation:
    """A tensor padded on the right is, by its elements, a longer generation with a guard on the new elements."""
    n = v.shape[0]
    return equation(padr(k, v), gen(n + k, lambda i: guard(i < n, v[i])))


@rule(family="definitions", source="Fig. 4.3")
def unfold_padl(k: Index, v: Vector) -> Equation:
    """A tensor padded on the left is, by its elements, a generation shifted by k with a guard on the new elements."""
    return equation(padl(k, v), gen(v.shape[0] + k, lambda i: guard(k <= i, v[i - k])))


@rule(family="definitions", source="Fig. 4.3, E3")
def unfold_truncr(k: Index, v: Vector) -> Equation:
    """A tensor truncated on the right is, by its elements, a generation that is shorter by k."""
    return equation(truncr(k, v), gen(v.shape[0] - k, lambda i: v[i]))


@rule(family="definitions", source="Fig. 4.3, E3")
def unfold_truncl(k: Index, v: Vector) -> Equation:
    """A tensor truncated on the left is, by its elements, a generation that begins at element k."""
    return equation(truncl(k, v), gen(v.shape[0] - k, lambda i: v[i + k]))
