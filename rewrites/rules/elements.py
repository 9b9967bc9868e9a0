"""An element of an operator's result, from elements of its operands."""

from __future__ import annotations

from atl import flatten, gen, guard, padl, padr, select, split, transpose, truncl, truncr
from atl.core.terms import BINARY, UNARY, BinaryOp, UnaryOp
from rewrites.named_operators import binary, padding, unary
from rewrites.rule import Cond, Equation, Index, Matrix, Vector, equation, given, rule, rules


@rule(family="access", source="Fig. 4.3")
def transpose_row(v: Matrix, i: Index) -> Equation:
    """A row of a transpose is a column."""
    return equation(transpose(v)[i], gen(v.shape[0], lambda j: v[j, i]))


@rule(family="access", source="Fig. 4.3")
def flatten_access(v: Matrix, k: Index) -> Equation:
    """An element of a flattened matrix."""
    m = v.shape[1]
    return equation(flatten(v)[k], v[k // m, k % m])


@rule(family="access", source="[R] get_flatten_trunc")
def flatten_access_at(v: Matrix, i: Index, j: Index) -> Equation:
    """The element of a flattened matrix at row i and column j."""
    return equation(flatten(v)[i * v.shape[1] + j], v[i, j], given(j >= 0, j < v.shape[1]))


@rule(family="access", source="Fig. 4.3")
def split_access(k: Index, v: Vector, i: Index, j: Index) -> Equation:
    """An element of a split tensor; the tail of the last row is padding."""
    return equation(split(k, v)[i][j], guard(i * k + j < v.shape[0], v[i * k + j]), given(j >= 0, j < k))


@rule(family="access", source="Fig. 4.3")
def padl_access(k: Index, v: Vector, i: Index) -> Equation:
    """An element of a tensor padded on the left."""
    return equation(padl(k, v)[i], guard(k <= i, v[i - k]))


@rule(family="access", source="Fig. 4.3")
def padr_access(k: Index, v: Vector, i: Index) -> Equation:
    """An element of a tensor padded on the right."""
    return equation(padr(k, v)[i], guard(i < v.shape[0], v[i]))


@rule(family="access", source="Fig. 4.3, E3")
def truncl_access(k: Index, v: Vector, i: Index) -> Equation:
    """An element of a tensor whose first ones are dropped."""
    return equation(truncl(k, v)[i], v[i + k], given(i >= 0))


@rule(family="access", source="Fig. 4.3, E3")
def truncr_access(k: Index, v: Vector, i: Index) -> Equation:
    """An element of a tensor whose last ones are dropped."""
    return equation(truncr(k, v)[i], v[i], given(i < v.shape[0] - k))


@rule(family="access", source="§3.2")
def select_access(p: Cond, a: Vector, b: Vector, k: Index) -> Equation:
    """An element of what is selected."""
    return equation(select(p, a, b)[k], select(p, a[k], b[k]))


@rule(family="access", source="Fig. 3.2")
def padding_access(v: Vector, k: Index) -> Equation:
    """An element of padding is padding."""
    return equation(padding(v)[k], padding(v[k]))


@rules(named="{}_access", over=BINARY, family="access", source="[R] get_bin_distr")
def binary_access(op: BinaryOp, a: Vector, b: Vector, k: Index) -> Equation:
    """An element of a sum, product … of tensors is that of their elements."""
    return equation(binary(op, a, b)[k], binary(op, a[k], b[k]))


@rules(named="{}_access", over=("neg", "abs", "sqrt", "tanh"), family="access", source="§3.2")
def unary_access(op: UnaryOp, a: Vector, k: Index) -> Equation:
    """An element of a function of a tensor that keeps zero is the function of the element."""
    return equation(unary(op, a)[k], unary(op, a[k]))


@rules(named="{}_access", over=("exp", "log"), family="access", source="§3.2")
def function_access(op: UnaryOp, a: Vector, k: Index) -> Equation:
    """An element of a function of a tensor is the function of the element, where there is one."""
    return equation(unary(op, a)[k], unary(op, a[k]), given(k >= 0, k < a.shape[0]))


@rules(named="pointwise_{}", over=BINARY, family="normalisation", source="§4.3.2, normalize_bin")
def pointwise_binary(op: BinaryOp, a: Vector, b: Vector) -> Equation:
    """Tensors are added, multiplied … element by element."""
    return equation(binary(op, a, b), gen(a.shape[0], lambda i: binary(op, a[i], b[i])))


@rules(named="pointwise_{}", over=UNARY, family="normalisation", source="§4.3.2")
def pointwise_unary(op: UnaryOp, a: Vector) -> Equation:
    """A function of a tensor is one of its elements."""
    return equation(unary(op, a), gen(a.shape[0], lambda i: unary(op, a[i])))


@rule(family="normalisation", source="§4.3.2")
def pointwise_select(p: Cond, a: Vector, b: Vector) -> Equation:
    """Tensors are selected element by element."""
    return equation(select(p, a, b), gen(a.shape[0], lambda i: select(p, a[i], b[i])))
