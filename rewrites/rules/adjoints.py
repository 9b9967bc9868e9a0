"""Adjoints: a pairing with a linear operation of v is a pairing with v (the transposed operation, term by term).

The pairing of y and v, tensors of one shape, is the sum of y * v over their elements. It is linear in both.

Rules for two operands require that their shapes are equal. Well-formedness implies that only where elements exist: if a
has no elements and b has some, the pairing with a + b is an empty sum, but the pairing with b is not.
"""

from __future__ import annotations

from atl import concat, flatten, gen, guard, let, place, select, split, sum, transpose, where
from atl.core.predicate import Predicate
from atl.surface.values import IndexExpr
from rewrites.named_operators import padding, pairing, reshaped_by
from rewrites.rule import Body, Cond, Elem, ElemT, Equation, Index, Matrix, Vector, equation, given, rule


def equal_shapes(*shapes: tuple[IndexExpr, ...]) -> tuple[Predicate, ...]:
    """Return the premise that shapes are equal."""
    return given(*(n == m for other in shapes[1:] for n, m in zip(shapes[0], other, strict=True)))


# -- scalar operations ------------------------------------------------------------------------------------------------


@rule(family="adjoints", source="linearity")
def adjoint_of_add(y: Elem, a: Elem, b: Elem) -> Equation:
    """Both operands of an addition are paired with y."""
    return equation(pairing(y, a + b), pairing(y, a) + pairing(y, b), equal_shapes(a.shape, b.shape))


@rule(family="adjoints", source="linearity")
def adjoint_of_sub(y: Elem, a: Elem, b: Elem) -> Equation:
    """The operands of a difference are paired with y and -y."""
    return equation(pairing(y, a - b), pairing(y, a) + pairing(-y, b), equal_shapes(a.shape, b.shape))


@rule(family="adjoints", source="linearity")
def adjoint_of_neg(y: Elem, a: Elem) -> Equation:
    """The operand of a negation is paired with -y."""
    return equation(pairing(y, -a), pairing(-y, a))


@rule(family="adjoints", source="commutativity")
def adjoint_of_mul(y: Elem, a: Elem, b: Elem) -> Equation:
    """A factor is paired with the product of y and the other factor."""
    return equation(pairing(y, a * b), pairing(y * b, a))


@rule(family="adjoints", source="field, x / 0 = 0")
def adjoint_of_div(y: Elem, a: Elem, b: Elem) -> Equation:
    """A dividend is paired with the quotient of y and the divisor."""
    return equation(pairing(y, a / b), pairing(y / b, a))


@rule(family="adjoints", source="if")
def adjoint_of_where(y: Elem, c: Elem, a: Elem, b: Elem) -> Equation:
    """Each operand of a choice is paired with y where it is chosen, and with zero elsewhere."""
    return equation(
        pairing(y, where(c, a, b)),
        pairing(where(c, y, padding(y)), a) + pairing(where(c, padding(y), y), b),
        equal_shapes(a.shape, b.shape),
    )


# -- structure --------------------------------------------------------------------------------------------------------


@rule(family="adjoints", source="Fig. 3.2")
def adjoint_of_padding(y: Elem, a: Elem) -> Equation:
    """A pairing with padding is padding."""
    return equation(pairing(y, padding(a)), padding(pairing(y, a)))


@rule(family="adjoints", source="Fig. 3.2")
def adjoint_of_gen(lo: Index, hi: Index, y: Vector, e: Body[Index]) -> Equation:
    """Each element of a generation is paired with the element of y at its position."""
    return equation(pairing(y, gen((lo, hi), e)), sum((lo, hi), lambda i: pairing(y[i - lo], e(i))), given(lo <= hi))


@rule(family="adjoints", source="linearity")
def adjoint_of_sum(lo: Index, hi: Index, y: Elem, e: Body[Index]) -> Equation:
    """Each term of a sum is paired with y."""
    return equation(pairing(y, sum((lo, hi), e)), sum((lo, hi), lambda i: pairing(y, e(i))))


@rule(family="adjoints", source="Fig. 3.2")
def adjoint_of_guard(p: Cond, y: Elem, a: Elem) -> Equation:
    """A guarded tensor is paired with y under the guard."""
    return equation(pairing(y, guard(p, a)), guard(p, pairing(y, a)))


@rule(family="adjoints", source="§3.2")
def adjoint_of_select(p: Cond, y: Elem, a: Elem, b: Elem) -> Equation:
    """Each operand of a selection is paired with y where it is selected."""
    return equation(
        pairing(y, select(p, a, b)), guard(p, pairing(y, a)) + guard(~p, pairing(y, b)), equal_shapes(a.shape, b.shape)
    )


@rule(family="adjoints", source="§3.2, [R] ll_get")
def adjoint_of_let(y: Elem, x: ElemT, e: Body[ElemT]) -> Equation:
    """A let moves out of a pairing."""
    return equation(pairing(y, let(x, e)), let(x, lambda z: pairing(y, e(z))))


@rule(family="adjoints", source="§7.2.1")
def adjoint_of_access(y: Elem, v: Vector, k: Index) -> Equation:
    """A pairing with an element is a pairing with the tensor, with y placed at the position of the element."""
    return equation(pairing(y, v[k]), pairing(place(v.shape[0], k, y), v), given(k >= 0, k < v.shape[0]))


@rule(family="adjoints", source="Fig. 4.3")
def adjoint_of_concat(y: Vector, a: Vector, b: Vector) -> Equation:
    """Each part of a concatenation is paired with its part of y."""
    n, m = a.shape[0], b.shape[0]
    first, second = gen(n, lambda i: y[i]), gen(m, lambda i: y[n + i])
    return equation(
        pairing(y, concat(a, b)),
        pairing(first, a) + pairing(second, b),
        (*given(n >= 0, m >= 0), *equal_shapes(a.shape[1:], b.shape[1:])),  # without terms, a and b need not be tensors
    )


# -- reshape operators ------------------------------------------------------------------------------------------------


@rule(family="adjoints", source="Fig. 4.3")
def adjoint_of_transpose(y: Matrix, v: Matrix) -> Equation:
    """A transposed matrix is paired with the transpose of y."""
    return equation(pairing(y, transpose(v)), pairing(transpose(y), v))


@rule(family="adjoints", source="Fig. 4.3")
def adjoint_of_flatten(y: Vector, v: Matrix) -> Equation:
    """The rows of a flattened matrix are paired with the parts of y."""
    n, m = v.shape[0], v.shape[1]
    return equation(pairing(y, flatten(v)), pairing(gen(n, m, lambda i, j: y[i * m + j]), v))


@rule(family="adjoints", source="Fig. 4.3")
def adjoint_of_split(k: Index, y: Matrix, v: Vector) -> Equation:
    """The elements of a split tensor are paired with the rows of y, one after the other."""
    n = v.shape[0]
    return equation(pairing(y, split(k, v)), pairing(gen(n, lambda i: y[i // k, i % k]), v), given(k > 0))


@rule(family="adjoints", source="Fig. 4.3")
def adjoint_of_padl(k: Index, y: Vector, v: Vector) -> Equation:
    """A tensor with padding before it is paired with y without its first elements."""
    padded = reshaped_by("padl", k, v)
    return equation(pairing(y, padded), pairing(gen(v.shape[0], lambda i: y[k + i]), v), given(k >= 0))


@rule(family="adjoints", source="Fig. 4.3")
def adjoint_of_padr(k: Index, y: Vector, v: Vector) -> Equation:
    """A tensor with padding after it is paired with y without its last elements."""
    padded = reshaped_by("padr", k, v)
    return equation(pairing(y, padded), pairing(gen(v.shape[0], lambda i: y[i]), v), given(k >= 0))


@rule(family="adjoints", source="Fig. 4.3, E3")
def adjoint_of_truncl(k: Index, y: Vector, v: Vector) -> Equation:
    """A tensor without its first elements is paired with y after as much padding."""
    kept = reshaped_by("truncl", k, v)
    return equation(pairing(y, kept), pairing(gen(v.shape[0], lambda i: guard(k <= i, y[i - k])), v), given(k >= 0))


@rule(family="adjoints", source="Fig. 4.3, E3")
def adjoint_of_truncr(k: Index, y: Vector, v: Vector) -> Equation:
    """A tensor without its last elements is paired with y before as much padding."""
    n = v.shape[0]
    kept = reshaped_by("truncr", k, v)
    return equation(pairing(y, kept), pairing(gen(n, lambda i: guard(i < n - k, y[i])), v), given(k >= 0))


@rule(family="adjoints", source="Fig. 7.3")
def adjoint_of_place(n: Index, i: Index, y: Vector, e: Elem) -> Equation:
    """A placed term is paired with the element of y at its position."""
    return equation(pairing(y, place(n, i, e)), pairing(y[i], e), given(i >= 0, i < n))


# -- the other operand ------------------------------------------------------------------------------------------------


@rule(family="adjoints", source="linearity")
def pairing_add(a: Elem, b: Elem, v: Elem) -> Equation:
    """Two pairings with one tensor are the pairing of the sum."""
    return equation(pairing(a, v) + pairing(b, v), pairing(a + b, v), equal_shapes(a.shape, b.shape))


@rule(family="adjoints", source="linearity")
def pairing_sum(lo: Index, hi: Index, a: Body[Index], v: Elem) -> Equation:
    """A sum of pairings with one tensor is the pairing of the sum."""
    return equation(sum((lo, hi), lambda i: pairing(a(i), v)), pairing(sum((lo, hi), a), v))


@rule(family="adjoints", source="Fig. 3.2")
def pairing_guard(p: Cond, a: Elem, v: Elem) -> Equation:
    """A guard around a pairing is a guard around its first operand."""
    return equation(guard(p, pairing(a, v)), pairing(guard(p, a), v))


@rule(family="adjoints", source="[R] ll_get")
def pairing_let(x: ElemT, a: Body[ElemT], v: Elem) -> Equation:
    """A let that only the first operand of a pairing uses moves into it."""
    return equation(let(x, lambda z: pairing(a(z), v)), pairing(let(x, a), v))
