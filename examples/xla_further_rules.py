# mypy: disallow-any-generics=False
"""Further rules of XLA's algebraic simplifier, of operators that TensorRight does not have.

They are about exponentials, roots, bits, casts, reshapes, windows and folds. `docs/every_rank.md` lists those that
cannot be stated here.

    python examples/xla_further_rules.py    # declares and proves them all
"""

from __future__ import annotations

from collections.abc import Callable

import atl
from examples.xla_rules import FALSE, TRUE, at, clamp, full, ordered, over, same, transposed
from rewrites.user_rules import (
    Body,
    Elem,
    Equation,
    Index,
    Matrix,
    Perm,
    Rule,
    Scalar,
    Vector,
    equation,
    given,
    given_all,
    proof_status,
    rule,
)

LAWS: list[Callable[..., Equation]] = []
"""The functions that state the rules."""


def law(function: Callable[..., Equation]) -> Callable[..., Equation]:
    """Add the function of a rule to the list."""
    LAWS.append(function)
    return function


# -- arithmetic -------------------------------------------------------------------------------------------------------


@law
def exp_over_exp(a: Elem, b: Elem) -> Equation:
    """A quotient of exponentials is that of the difference."""
    return equation(atl.exp(a) / atl.exp(b), atl.exp(a - b))


@law
def over_exp(a: Elem, b: Elem) -> Equation:
    """A quotient by an exponential is a product."""
    return equation(a / atl.exp(b), a * atl.exp(-b))


@law
def log_of_exp(a: Elem) -> Equation:
    """The logarithm of an exponential is the exponent."""
    return equation(atl.log(atl.exp(a)), a)


@law
def root_of_square(a: Elem) -> Equation:
    """The root of a square is the absolute value."""
    return equation(atl.sqrt(a * a), abs(a))


@law
def abs_of_abs(a: Elem) -> Equation:
    """An absolute value is its absolute value."""
    return equation(abs(abs(a)), abs(a))


@law
def abs_of_negation(a: Elem) -> Equation:
    """The absolute value of a negation is that of the operand."""
    return equation(abs(-a), abs(a))


@law
def abs_of_product(a: Elem, b: Elem) -> Equation:
    """A product of absolute values is that of the product."""
    return equation(abs(a) * abs(b), abs(a * b))


@law
def negated_factors(a: Elem, b: Elem) -> Equation:
    """Two negations in a product cancel."""
    return equation((-a) * (-b), a * b)


@law
def negated_difference(a: Elem, b: Elem) -> Equation:
    """A negated difference is the opposite one."""
    return equation(-(a - b), b - a)


@law
def minus_negation(a: Elem, b: Elem) -> Equation:
    """Subtracting a negation adds."""
    return equation(a - (-b), a + b)


@law
def plus_negation(a: Elem, b: Elem) -> Equation:
    """Adding a negation subtracts."""
    return equation(a + (-b), a - b)


@law
def same_divisor(a: Elem, b: Elem, c: Elem) -> Equation:
    """Quotients by one divisor are added at once."""
    return equation(a / c + b / c, (a + b) / c)


@law
def floor_of_floor(a: Elem) -> Equation:
    """A rounded number is rounded."""
    return equation(atl.floor(atl.floor(a)), atl.floor(a))


@law
def max_of_itself(a: Elem) -> Equation:
    """The larger of a number and itself is the number."""
    return equation(atl.maximum(a, a), a)


@law
def max_absorbs(a: Elem, b: Elem) -> Equation:
    """The larger of a number and a smaller one is the number."""
    return equation(atl.maximum(a, atl.minimum(a, b)), a)


@law
def max_twice(a: Elem, b: Elem) -> Equation:
    """A second comparison with the same number changes nothing."""
    return equation(atl.maximum(atl.maximum(a, b), b), atl.maximum(a, b))


@law
def max_of_negations(a: Elem, b: Elem) -> Equation:
    """The larger of two negations is the negation of the smaller one."""
    return equation(atl.maximum(-a, -b), -atl.minimum(a, b))


# -- truth values and bits --------------------------------------------------------------------------------------------


@law
def and_of_itself(a: Elem) -> Equation:
    """A conjunction with itself is the condition."""
    return equation((a < 0) & (a < 0), a < 0)


@law
def xor_of_itself(a: Elem) -> Equation:
    """A condition is not different from itself."""
    return equation((a < 0) ^ (a < 0), full(a.shape, FALSE))


@law
def xor_with_true(a: Elem) -> Equation:
    """A difference from true is a negation."""
    return equation((a < 0) ^ full(a.shape, TRUE), ~(a < 0))


@law
def negated_and(a: Elem, b: Elem) -> Equation:
    """A negated conjunction is the disjunction of the negations."""
    return equation(~((a < 0) & (b < 0)), ~(a < 0) | ~(b < 0))


@law
def select_of_truth(a: Elem) -> Equation:
    """A choice between true and false is the condition."""
    return equation(atl.where(a < 0, full(a.shape, TRUE), full(a.shape, FALSE)), a < 0)


@law
def select_in_select(p: Elem, a: Elem, b: Elem, c: Elem) -> Equation:
    """A choice by a condition that is known is decided."""
    return equation(atl.where(p < 0, atl.where(p < 0, a, b), c), atl.where(p < 0, a, c))


@law
def shifted_for_divided(a: Elem) -> Equation:
    """A quotient by a power of two is a shift."""
    return equation(a // 8, a >> 3)


@law
def masked_for_remainder(a: Elem) -> Equation:
    """A remainder by a power of two is a mask."""
    return equation(a % 8, a & 7)


@law
def bits_xor_themselves(a: Elem) -> Equation:
    """Bits do not differ from themselves."""
    return equation((a & 255) ^ (a & 255), (a & 0))


@law
def cast_of_cast(a: Elem) -> Equation:
    """A truth value is cast at once."""
    return equation(atl.cast("float64", atl.cast("int32", a < 0)), atl.cast("float64", a < 0))


# -- reshapes and transpositions --------------------------------------------------------------------------------------


@law
def flatten_of_split(v: Vector, k: Index) -> Equation:
    """A tensor that is split into rows and flattened is the tensor, cut to its length."""
    n = v.shape[0]
    return equation(atl.truncr(atl.ceildiv(n, k) * k - n, atl.flatten(atl.split(k, v))), v, given(k >= 1, n >= 0))


@law
def split_of_flatten(v: Matrix) -> Equation:
    """Rows that are joined and split again are the rows."""
    return equation(atl.split(v.shape[1], atl.flatten(v)), v, given(v.shape[1] >= 1, v.shape[0] >= 0))


@law
def flatten_of_constant(t: Elem, n: Index, m: Index, c: Scalar) -> Equation:
    """A reshaped constant tensor is a constant tensor."""
    return equation(atl.flatten(full((n, m, *t.shape), c)), full((n * m, *t.shape), c), given(n >= 0, m >= 1))


@law
def flatten_one_row(v: Matrix) -> Equation:
    """An axis of one element is dropped."""
    return equation(atl.flatten(v), v[0], given(v.shape[0] == 1))


@law
def transposed_product(a: Elem, b: Elem, order: Perm) -> Equation:
    """A product of transposed tensors is the transposed product."""
    return equation(transposed(a, order) * transposed(b, order), transposed(a * b, order))


@law
def transposed_function(a: Elem, order: Perm) -> Equation:
    """A function of a transposed tensor is the transposed function."""
    return equation(atl.exp(transposed(a, order)), transposed(atl.exp(a), order))


@law
def broadcast_then_transpose(a: Elem, n: Index, order: Perm) -> Equation:
    """A broadcast of a transposed tensor transposes the other axes."""
    return equation(
        over((n,), lambda _: transposed(a, order)),
        over((n, *ordered(a.shape, order)), lambda i: at(transposed(a, order), i[1:])),
        given(n >= 0),
    )


# -- folds and windows ------------------------------------------------------------------------------------------------


@law
def sum_of_constant(n: Index, a: Elem) -> Equation:
    """A sum of equal terms is a product."""
    return equation(atl.sum(n, lambda i: a), full(a.shape, atl.value(n)) * a, given(n >= 0))


@law
def sum_of_flatten(v: Matrix) -> Equation:
    """A sum over a reshaped tensor is one over both axes."""
    n, m = v.shape[:2]
    flat = atl.flatten(v)
    return equation(
        atl.sum(n * m, lambda i: flat[i]),
        atl.sum(n, lambda i: atl.sum(m, lambda j: v[i, j])),
        given(n >= 0, m >= 1),
    )


@law
def sum_of_padding(v: Vector, k: Index) -> Equation:
    """Zeros behind a tensor do not change its sum."""
    n = v.shape[0]
    more = atl.padr(k, v)
    return equation(atl.sum(n + k, lambda i: more[i]), atl.sum(n, lambda i: v[i]), given(n >= 0, k >= 0))


@law
def sum_of_reversed(v: Vector) -> Equation:
    """A sum does not depend on the order of its terms."""
    n = v.shape[0]
    return equation(atl.sum(n, lambda i: v[n - 1 - i]), atl.sum(n, lambda i: v[i]), given(n >= 0))


@law
def window_of_one(v: Vector) -> Equation:
    """A sum over windows of one element is the tensor."""
    return equation(over((v.shape[0],), lambda i: atl.sum(1, lambda j: v[i[0] + j])), v)


@law
def window_of_all(v: Vector) -> Equation:
    """A sum over one window that has all elements is a sum."""
    n = v.shape[0]
    return equation(
        over((1,), lambda i: atl.sum(n, lambda j: v[i[0] + j])),
        over((1,), lambda _: atl.sum(n, lambda j: v[j])),
        given(n >= 0),
    )


@law
def scaled_operand(n: Index, x: Body[Index], y: Body[Index], c: Scalar) -> Equation:
    """A factor of an operand is a factor of the product."""
    shape = x(0).shape
    return equation(
        atl.sum(n, lambda i: (x(i) * full(shape, c)) * y(i)),
        atl.sum(n, lambda i: x(i) * y(i)) * full(shape, c),
        given(n >= 0),
    )


@law
def product_with_identity(v: Vector) -> Equation:
    """The product with the identity matrix is the operand."""
    n = v.shape[0]
    return equation(over((n,), lambda i: atl.sum(n, lambda j: atl.guard(i[0] == j, v[j]))), v)


@law
def transposed_dot(n: Index, m: Index, k: Index, a: Body[Index, Index], b: Body[Index, Index]) -> Equation:
    """The transpose of a product is the product of the transposes in the other order."""
    return equation(
        atl.transpose(over((n, m), lambda i: atl.sum(k, lambda j: a(i[0], j) * b(j, i[1])))),
        over((m, n), lambda i: atl.sum(k, lambda j: b(j, i[0]) * a(i[1], j))),
        given(n >= 0, m >= 0, k >= 0, *same(a(0, 0).shape, b(0, 0).shape)),
    )


@law
def largest_of_one(v: Vector) -> Equation:
    """The largest of one element is the element."""
    return equation(atl.reduce("max", v.shape[0], lambda i: v[i]), v[0], given(v.shape[0] == 1))


# -- gathers ----------------------------------------------------------------------------------------------------------
# The position k of an element may be read from a tensor of integers: these rules apply to v[f[i]].


@law
def gather_of_sum(a: Vector, b: Vector, k: Index) -> Equation:
    """Elements of a sum are the sums of elements."""
    return equation((a + b)[k], a[k] + b[k], given(k >= 0, k < a.shape[0]))


@law
def gather_of_broadcast(n: Index, a: Elem, k: Index) -> Equation:
    """Elements of a broadcast along the axis are the operand."""
    return equation(over((n,), lambda _: a)[k], a, given(k >= 0, k < n))


@law
def gather_of_gather(n: Index, e: Body[Index], k: Index) -> Equation:
    """Elements of gathered elements are gathered at composed positions."""
    return equation(atl.gen(n, e)[k], e(k), given(k >= 0, k < n))


@law
def gather_of_concatenation(a: Vector, b: Vector, k: Index) -> Equation:
    """Elements of a concatenation are elements of a part."""
    n = a.shape[0]
    return equation(
        atl.concat(a, b)[k], atl.select(k < n, a[k], b[k - n]), given(k >= 0, k < n + b.shape[0], b.shape[0] >= 0)
    )


@law
def gather_of_reversed(a: Vector, k: Index) -> Equation:
    """Elements of a reversal are elements at mirrored positions."""
    n = a.shape[0]
    return equation(atl.gen(n, lambda j: a[n - 1 - j])[k], a[n - 1 - k], given(k >= 0, k < n))


# -- premises about every element -------------------------------------------------------------------------------------


@law
def clamp_in_any_order(a: Elem, low: Elem, high: Elem) -> Equation:
    """If low <= high, a clamp may apply either limit first."""
    return equation(atl.maximum(low, atl.minimum(a, high)), clamp(low, a, high), given_all(low <= high))


@law
def below_smaller_of_two(a: Elem, c: Scalar, d: Scalar) -> Equation:
    """If c <= d, an element that is less than c is less than d too."""
    return equation((a < full(a.shape, c)) & (a < full(a.shape, d)), a < full(a.shape, c), given_all(c <= d))


def rules() -> dict[str, Rule]:
    """Declare all rules, and return them by name."""
    return {function.__name__: rule(function) for function in LAWS}


def main() -> None:
    """Print the proof status of each rule."""
    for name, each in rules().items():
        print(f"{name:26}{proof_status(each)}")  # noqa: T201


if __name__ == "__main__":
    main()
