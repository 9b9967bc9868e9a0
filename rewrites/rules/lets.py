"""Lets: moving them out of operators, combining them, and moving operators from a binding to its uses."""

from __future__ import annotations

from atl import concat, flatten, gen, guard, let, reduce, select, split, transpose
from atl.core.operations import BINARY, BinaryOp
from atl.core.terms import MONOIDS, Monoid
from rewrites.named_operators import (
    AMOUNTS,
    FUNCTIONS,
    MATRIX_OPERATORS,
    PADS_AND_TRUNCATIONS,
    binary,
    reshaped,
    reshaped_by,
    unary,
)
from rewrites.rule import (
    Body,
    BodyT,
    Cond,
    Elem,
    ElemT,
    ElemU,
    Equation,
    Index,
    Matrix,
    MatrixT,
    Vector,
    VectorT,
    equation,
    rule,
    rules,
)

# -- one let, and two -------------------------------------------------------------------------------------------------


@rule(family="lets", source="§4.2.1, unfold_let")
def unfold_let(x: ElemT, e: Body[ElemT]) -> Equation:
    """A let is its body with the bound tensor substituted. In reverse, a subterm is bound to a name."""
    return equation(let(x, e), e(x))


@rule(family="lets", source="§4.2.1", derived_from=("unfold_let",))
def let_unused(x: ElemT, e: Elem) -> Equation:
    """An unused let can be removed."""
    return equation(let(x, lambda y: e), e)


@rule(family="lets", source="§4.2.1")
def let_swap(x: ElemT, z: ElemU, e: Body[ElemT, ElemU]) -> Equation:
    """Two independent lets can be exchanged."""
    return equation(let(x, lambda a: let(z, lambda b: e(a, b))), let(z, lambda b: let(x, lambda a: e(a, b))))


@rule(family="lets", source="[R] let_let_same")
def let_let_same(x: ElemT, e: Body[ElemT, ElemT]) -> Equation:
    """Two lets that bind the same tensor can be merged."""
    return equation(let(x, lambda y: let(x, lambda z: e(y, z))), let(x, lambda y: e(y, y)))


@rule(family="lets", source="[R] let_let_flip")
def let_let(x: ElemU, f: BodyT[ElemU], e: Body[ElemT]) -> Equation:
    """A let inside the value of another let can be bound before it."""
    return equation(let(let(x, f), e), let(x, lambda y: let(f(y), e)))


@rule(family="lets", source="[R] let_let_flip")
def let_let_flip(x: ElemU, f: BodyT[ElemU], e: Body[ElemT]) -> Equation:
    """A let inside the value of another let replaces it, and the rest of the value is computed at its uses."""
    return equation(let(let(x, f), e), let(x, lambda y: e(f(y))))


# -- moving lets out of operators -------------------------------------------------------------------------------------


@rule(family="lets", source="[R] ll_gen")
def ll_gen(lo: Index, hi: Index, x: BodyT[Index], e: Body[Index, ElemT]) -> Equation:
    """The tensors bound in each iteration of a generation can be stored in one buffer, bound before it."""
    return equation(
        gen((lo, hi), lambda i: let(x(i), lambda y: e(i, y))),
        let(gen((lo, hi), x), lambda y: gen((lo, hi), lambda i: e(i, y[i - lo]))),
    )


@rule(family="lets", source="[R] ll_gen_indep")
def ll_gen_indep(lo: Index, hi: Index, x: ElemT, e: Body[Index, ElemT]) -> Equation:
    """A let that does not depend on the index of a generation moves out of it."""
    return equation(
        gen((lo, hi), lambda i: let(x, lambda y: e(i, y))), let(x, lambda y: gen((lo, hi), lambda i: e(i, y)))
    )


@rule(family="lets", source="[R] ll_gen_bound")
def ll_gen_bound(lo: Index, hi: Index, k: Index, x: BodyT[Index], e: Body[Index, ElemT]) -> Equation:
    """Tensors that are bound only in iterations below k need a buffer of k tensors."""
    return equation(
        gen((lo, hi), lambda i: let(guard(i < k, x(i)), lambda y: e(i, y))),
        let(gen((lo, k), x), lambda y: gen((lo, hi), lambda i: e(i, y[i - lo]))),
    )


@rules(named="ll_{}", over=MONOIDS, family="lets", source="[R] ll_sum, ll_sumr")
def ll_fold(m: Monoid, lo: Index, hi: Index, x: BodyT[Index], e: Body[Index, ElemT]) -> Equation:
    """The tensors bound in each term of a sum, or of another fold, can be stored in one buffer, bound before it."""
    return equation(
        reduce(m, (lo, hi), lambda i: let(x(i), lambda y: e(i, y))),
        let(gen((lo, hi), x), lambda y: reduce(m, (lo, hi), lambda i: e(i, y[i - lo]))),
    )


@rules(named="ll_{}_indep", over=MONOIDS, family="lets", source="[R] ll_sum_indep")
def ll_fold_indep(m: Monoid, lo: Index, hi: Index, x: ElemT, e: Body[Index, ElemT]) -> Equation:
    """A let that does not depend on the index of a sum, or of another fold, moves out of it."""
    return equation(
        reduce(m, (lo, hi), lambda i: let(x, lambda y: e(i, y))),
        let(x, lambda y: reduce(m, (lo, hi), lambda i: e(i, y))),
    )


@rule(family="lets", source="[R] ll_get")
def ll_get(x: ElemT, e: Vector[ElemT], k: Index) -> Equation:
    """A let moves out of an access."""
    return equation(let(x, e)[k], let(x, lambda y: e(y)[k]))


@rule(family="lets", source="[R] ll_iverson_")
def ll_guard(p: Cond, x: ElemT, e: Body[ElemT]) -> Equation:
    """A let moves out of a guard."""
    return equation(guard(p, let(x, e)), let(x, lambda y: guard(p, e(y))))


@rule(family="lets", source="[R] let_guard_lift")
def let_guard(p: Cond, x: ElemT, e: Body[ElemT]) -> Equation:
    """A tensor that is used only under a guard can be guarded itself."""
    return equation(let(x, lambda y: guard(p, e(y))), let(guard(p, x), lambda y: guard(p, e(y))))


@rule(family="lets", source="[R] let_guard_lift", derived_from=("ll_guard", "let_guard"))
def ll_guarded(p: Cond, x: ElemT, e: Body[ElemT]) -> Equation:
    """A let moves out of a guard, and its tensor is guarded itself, so that it is computed nowhere else."""
    return equation(guard(p, let(x, e)), let(guard(p, x), lambda y: guard(p, e(y))))


@rules(named="ll_{}_left", over=BINARY, family="lets", source="[R] ll_bin_l, ll_mult_l, ll_div_l")
def ll_left(op: BinaryOp, x: ElemT, e: Body[ElemT], c: Elem) -> Equation:
    """A let moves out of the left operand of an operation."""
    return equation(binary(op, let(x, e), c), let(x, lambda y: binary(op, e(y), c)))


@rules(named="ll_{}_right", over=BINARY, family="lets", source="[R] ll_bin_r, ll_mult_r, ll_div_r")
def ll_right(op: BinaryOp, x: ElemT, e: Body[ElemT], c: Elem) -> Equation:
    """A let moves out of the right operand of an operation."""
    return equation(binary(op, c, let(x, e)), let(x, lambda y: binary(op, c, e(y))))


@rules(named="ll_{}", over=FUNCTIONS, family="lets", source="[R] ll_exp")
def ll_unary(op: str, x: ElemT, e: Body[ElemT]) -> Equation:
    """A let moves out of the operand of a function."""
    return equation(unary(op, let(x, e)), let(x, lambda y: unary(op, e(y))))


@rule(family="lets", source="[R] ll_concat_l")
def ll_concat_left(x: ElemT, e: Vector[ElemT], c: Vector) -> Equation:
    """A let moves out of the first part of a concatenation."""
    return equation(concat(let(x, e), c), let(x, lambda y: concat(e(y), c)))


@rule(family="lets", source="[R] ll_concat_r")
def ll_concat_right(x: ElemT, e: Vector[ElemT], c: Vector) -> Equation:
    """A let moves out of the second part of a concatenation."""
    return equation(concat(c, let(x, e)), let(x, lambda y: concat(c, e(y))))


@rule(family="lets", source="§3.2")
def ll_select_left(p: Cond, x: ElemT, e: Body[ElemT], c: Elem) -> Equation:
    """A let moves out of the left operand of a selection."""
    return equation(select(p, let(x, e), c), let(x, lambda y: select(p, e(y), c)))


@rule(family="lets", source="§3.2")
def ll_select_right(p: Cond, x: ElemT, e: Body[ElemT], c: Elem) -> Equation:
    """A let moves out of the right operand of a selection."""
    return equation(select(p, c, let(x, e)), let(x, lambda y: select(p, c, e(y))))


@rules(named="let_share_{}", over=BINARY, family="lets", source="[R] tlet_bin_distr")
def let_share(op: BinaryOp, x: ElemT, a: Body[ElemT], b: Body[ElemT]) -> Equation:
    """If both operands of an operation bind the same tensor, they can share one buffer."""
    return equation(binary(op, let(x, a), let(x, b)), let(x, lambda y: binary(op, a(y), b(y))))


# -- moving operators into lets ---------------------------------------------------------------------------------------


@rules(named="{}_of_let", over=MATRIX_OPERATORS, family="lets", source="[R] transpose_let, flatten_let")
def of_let(op: str, x: ElemT, e: Matrix[ElemT]) -> Equation:
    """A reshape operator moves into the body of a let."""
    return equation(reshaped(op, let(x, e)), let(x, lambda y: reshaped(op, e(y))))


@rules(named="{}_of_let", over=AMOUNTS, family="lets", source="[R] flatten_trunc_let")
def by_of_let(op: str, k: Index, x: ElemT, e: Vector[ElemT]) -> Equation:
    """A reshape operator with an amount moves into the body of a let."""
    return equation(reshaped_by(op, k, let(x, e)), let(x, lambda y: reshaped_by(op, k, e(y))))


@rule(family="lets", source="[R] tlet_f_bound_body")
def tlet_f_bound_body(x: ElemU, f: BodyT[ElemU], e: Body[ElemT]) -> Equation:
    """A function of a tensor can be computed at its uses instead of where it is bound."""
    return equation(let(f(x), e), let(x, lambda y: e(f(y))))


@rule(family="lets", source="[R] tlet_f_bound_body")
def let_of_transpose(x: MatrixT, e: Body[MatrixT]) -> Equation:
    """A transpose moves from a binding to its uses: the buffer is stored in the other order."""
    return equation(let(transpose(x), e), let(x, lambda y: e(transpose(y))))


@rule(family="lets", source="[R] tlet_f_bound_body")
def let_of_flatten(x: MatrixT, e: Body[VectorT]) -> Equation:
    """A flattening moves from a binding to its uses."""
    return equation(let(flatten(x), e), let(x, lambda y: e(flatten(y))))


@rule(family="lets", source="[R] tlet_f_bound_body")
def let_of_split(k: Index, x: VectorT, e: Body[MatrixT]) -> Equation:
    """A split moves from a binding to its uses."""
    return equation(let(split(k, x), e), let(x, lambda y: e(split(k, y))))


@rules(named="let_of_{}", over=PADS_AND_TRUNCATIONS, family="lets", source="[R] tlet_f_bound_body")
def let_of_by(op: str, k: Index, x: VectorT, e: Body[VectorT]) -> Equation:
    """A pad or a truncation moves from a binding to its uses."""
    return equation(let(reshaped_by(op, k, x), e), let(x, lambda y: e(reshaped_by(op, k, y))))
