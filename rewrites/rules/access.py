"""Access: an element of an operator's result, from elements of its operands."""

from __future__ import annotations

from atl import concat, flatten, gen, guard, padl, padr, reduce, select, split, transpose, truncl, truncr, where
from atl.core.operations import NOT_ZERO_AT_ZERO, NOT_ZERO_AT_ZEROS, ZERO_AT_ZEROS, BinaryOp, UnaryOp
from atl.core.terms import MONOIDS, Monoid
from rewrites.named_operators import FUNCTIONS_ZERO_AT_ZERO, binary, padding, unary
from rewrites.rule import Body, Cond, Equation, Index, Matrix, Vector, equation, given, rule, rules

# -- generations ------------------------------------------------------------------------------------------------------


@rule(family="access", source="§4.2.1")
def get_gen_guarded(lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
    """Reading one element of a generation computes only that element; outside of its range it is padding."""
    return equation(gen((lo, hi), e)[k], guard((k >= 0) & (k < hi - lo), e(lo + k)))


@rule(family="access", source="§4.2.1", derived_from=("get_gen_guarded", "guard_true"))
def get_gen(lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
    """Reading an element in the range of a generation computes only that element."""
    return equation(gen((lo, hi), e)[k], e(lo + k), given(k >= 0, k < hi - lo))


@rule(family="access", source="§4.3.2")
def gen_eta(n: Index, v: Vector) -> Equation:
    """A tensor is the generation of its elements."""
    return equation(gen(n, lambda i: v[i]), v, given(n == v.shape[0]))


# -- reshape operators ------------------------------------------------------------------------------------------------


@rule(family="access", source="[R] get_concat_l")
def concat_access_left(a: Vector, b: Vector, k: Index) -> Equation:
    """An element in the first part of a concatenation is the element of that part."""
    return equation(concat(a, b)[k], a[k], given(k < a.shape[0]))


@rule(family="access", source="[R] get_concat_r")
def concat_access_right(a: Vector, b: Vector, k: Index) -> Equation:
    """An element beyond the first part of a concatenation is an element of the second part."""
    return equation(concat(a, b)[k], b[k - a.shape[0]], given(a.shape[0] <= k))


@rule(family="access", source="Fig. 4.3")
def transpose_row(v: Matrix, i: Index) -> Equation:
    """A row of a transpose is a column of the matrix."""
    return equation(transpose(v)[i], gen(v.shape[0], lambda j: v[j, i]))


@rule(family="access", source="Fig. 4.3")
def flatten_access(v: Matrix, k: Index) -> Equation:
    """Element k of a flattened matrix is in row k // m and column k % m, where m is the length of a row."""
    m = v.shape[1]
    return equation(flatten(v)[k], v[k // m, k % m])


@rule(family="access", source="[R] get_flatten_trunc")
def flatten_access_at(v: Matrix, i: Index, j: Index) -> Equation:
    """Element i * m + j of a flattened matrix is in row i and column j, where m is the length of a row."""
    return equation(flatten(v)[i * v.shape[1] + j], v[i, j], given(j >= 0, j < v.shape[1]))


@rule(family="access", source="Fig. 4.3")
def split_access(k: Index, v: Vector, i: Index, j: Index) -> Equation:
    """Row i of a split holds the k elements from i * k on; the tail of the last row is padding."""
    return equation(split(k, v)[i][j], guard(i * k + j < v.shape[0], v[i * k + j]), given(j >= 0, j < k))


@rule(family="access", source="Fig. 4.3")
def padl_access(k: Index, v: Vector, i: Index) -> Equation:
    """Element i of a tensor padded by k on the left is element i - k of the tensor, or padding."""
    return equation(padl(k, v)[i], guard(k <= i, v[i - k]))


@rule(family="access", source="Fig. 4.3")
def padr_access(k: Index, v: Vector, i: Index) -> Equation:
    """An element of a tensor padded on the right is the same element of the tensor, or padding beyond its end."""
    return equation(padr(k, v)[i], guard(i < v.shape[0], v[i]))


@rule(family="access", source="Fig. 4.3, E3")
def truncl_access(k: Index, v: Vector, i: Index) -> Equation:
    """Element i of a tensor without its first k elements is element i + k of the tensor."""
    return equation(truncl(k, v)[i], v[i + k], given(i >= 0))


@rule(family="access", source="Fig. 4.3, E3")
def truncr_access(k: Index, v: Vector, i: Index) -> Equation:
    """An element of a tensor without its last elements is the same element of the tensor."""
    return equation(truncr(k, v)[i], v[i], given(i < v.shape[0] - k))


# -- element by element -----------------------------------------------------------------------------------------------


@rule(family="access", source="§3.2")
def select_access(p: Cond, a: Vector, b: Vector, k: Index) -> Equation:
    """An element of a selection between tensors is the selection between their elements."""
    return equation(select(p, a, b)[k], select(p, a[k], b[k]))


@rule(family="access", source="Fig. 3.2")
def padding_access(v: Vector, k: Index) -> Equation:
    """An element of padding is padding."""
    return equation(padding(v)[k], padding(v[k]))


@rules(named="{}_access", over=ZERO_AT_ZEROS, family="access", source="[R] get_bin_distr")
def binary_access(op: BinaryOp, a: Vector, b: Vector, k: Index) -> Equation:
    """An element of a sum, product … of tensors is the sum, product … of their elements."""
    return equation(binary(op, a, b)[k], binary(op, a[k], b[k]))


@rules(named="{}_access", over=FUNCTIONS_ZERO_AT_ZERO, family="access", source="§3.2")
def unary_access(op: str, a: Vector, k: Index) -> Equation:
    """An element of a function of a tensor is the function of the element, for functions that map zero to zero."""
    return equation(unary(op, a)[k], unary(op, a[k]))


@rules(named="{}_access", over=NOT_ZERO_AT_ZEROS, family="access", source="[R] get_bin_distr")
def comparison_access(op: BinaryOp, a: Vector, b: Vector, k: Index) -> Equation:
    """An element of a comparison that holds for zeros is the comparison of the elements, within the tensor."""
    return equation(binary(op, a, b)[k], binary(op, a[k], b[k]), given(k >= 0, k < a.shape[0]))


@rule(family="access", source="§3.2")
def where_access(c: Vector, a: Vector, b: Vector, k: Index) -> Equation:
    """An element of a choice between tensors is the choice between their elements."""
    return equation(where(c, a, b)[k], where(c[k], a[k], b[k]))


@rules(named="{}_access", over=NOT_ZERO_AT_ZERO, family="access", source="§3.2")
def function_access(op: UnaryOp, a: Vector, k: Index) -> Equation:
    """An element of a function of a tensor is the function of the element, within the tensor."""
    return equation(unary(op, a)[k], unary(op, a[k]), given(k >= 0, k < a.shape[0]))


@rules(named="get_{}", over=MONOIDS, family="access", source="[R] get_sum")
def get(m: Monoid, lo: Index, hi: Index, e: Body[Index], k: Index) -> Equation:
    """An element of a sum is the sum of the elements; the same holds for other folds."""
    return equation(reduce(m, (lo, hi), e)[k], reduce(m, (lo, hi), lambda i: e(i)[k]))
