"""Tests of elements, and choices by them: where(c, a, b)."""

from __future__ import annotations

from atl import gen, guard, let, select, sum, where
from atl.core.operations import BINARY, BinaryOp
from rewrites.named_operators import FUNCTIONS, binary, count, truth, unary
from rewrites.rule import Body, Cond, Elem, ElemT, Equation, Index, Scalar, equation, rule, rules

# -- choices ----------------------------------------------------------------------------------------------------------


@rule(family="choices", source="if")
def where_same(c: Elem, a: Elem) -> Equation:
    """A choice between equal tensors is that tensor."""
    return equation(where(c, a, a), a)


@rule(family="choices", source="if")
def where_true(a: Scalar, b: Scalar) -> Equation:
    """A choice by a test that is true is its left operand."""
    return equation(where(truth(value=True), a, b), a)


@rule(family="choices", source="if")
def where_false(a: Scalar, b: Scalar) -> Equation:
    """A choice by a test that is false is its right operand."""
    return equation(where(truth(value=False), a, b), b)


@rule(family="choices", source="if")
def where_not(c: Elem, a: Elem, b: Elem) -> Equation:
    """A choice by the negated test exchanges its operands."""
    return equation(where(~c, a, b), where(c, b, a))


@rule(family="choices", source="if")
def where_and(c: Elem, d: Elem, a: Elem, b: Elem) -> Equation:
    """A choice by a conjunction is two nested choices."""
    return equation(where(c & d, a, b), where(c, where(d, a, b), b))


@rule(family="choices", source="if")
def where_or(c: Elem, d: Elem, a: Elem, b: Elem) -> Equation:
    """A choice by a disjunction is two nested choices."""
    return equation(where(c | d, a, b), where(c, a, where(d, a, b)))


@rule(family="choices", source="if")
def where_where(c: Elem, d: Elem, a: Elem, b: Elem, e: Elem, f: Elem) -> Equation:
    """Two nested choices can be exchanged."""
    return equation(where(c, where(d, a, b), where(d, e, f)), where(d, where(c, a, e), where(c, b, f)))


# -- choices and other operations -------------------------------------------------------------------------------------


@rules(named="where_{}_left", over=BINARY, family="choices", source="if")
def where_left(op: BinaryOp, c: Elem, a: Elem, b: Elem, d: Elem) -> Equation:
    """A choice moves out of the left operand of an operation."""
    return equation(binary(op, where(c, a, b), d), where(c, binary(op, a, d), binary(op, b, d)))


@rules(named="where_{}_right", over=BINARY, family="choices", source="if")
def where_right(op: BinaryOp, c: Elem, a: Elem, b: Elem, d: Elem) -> Equation:
    """A choice moves out of the right operand of an operation."""
    return equation(binary(op, d, where(c, a, b)), where(c, binary(op, d, a), binary(op, d, b)))


@rules(named="where_{}", over=FUNCTIONS, family="choices", source="if")
def where_unary(op: str, c: Elem, a: Elem, b: Elem) -> Equation:
    """A choice moves out of the operand of a function."""
    return equation(unary(op, where(c, a, b)), where(c, unary(op, a), unary(op, b)))


@rule(family="choices", source="if")
def gen_where(lo: Index, hi: Index, c: Body[Index], a: Body[Index], b: Body[Index]) -> Equation:
    """A generation of choices is a choice between generations."""
    return equation(
        gen((lo, hi), lambda i: where(c(i), a(i), b(i))), where(gen((lo, hi), c), gen((lo, hi), a), gen((lo, hi), b))
    )


@rule(family="choices", source="if")
def sum_where(lo: Index, hi: Index, c: Elem, a: Body[Index], b: Body[Index]) -> Equation:
    """A choice by a test that does not depend on the index moves out of a sum."""
    return equation(sum((lo, hi), lambda i: where(c, a(i), b(i))), where(c, sum((lo, hi), a), sum((lo, hi), b)))


@rule(family="choices", source="§3.2")
def guard_where(p: Cond, c: Elem, a: Elem, b: Elem) -> Equation:
    """A guard around a choice is a guard around each operand."""
    return equation(guard(p, where(c, a, b)), where(c, guard(p, a), guard(p, b)))


@rule(family="choices", source="§3.2")
def ll_where_test(x: ElemT, e: Body[ElemT], a: Elem, b: Elem) -> Equation:
    """A let moves out of the test of a choice."""
    return equation(where(let(x, e), a, b), let(x, lambda y: where(e(y), a, b)))


@rule(family="choices", source="§3.2")
def ll_where_left(x: ElemT, c: Elem, e: Body[ElemT], b: Elem) -> Equation:
    """A let moves out of the left operand of a choice."""
    return equation(where(c, let(x, e), b), let(x, lambda y: where(c, e(y), b)))


@rule(family="choices", source="§3.2")
def ll_where_right(x: ElemT, c: Elem, a: Elem, e: Body[ElemT]) -> Equation:
    """A let moves out of the right operand of a choice."""
    return equation(where(c, a, let(x, e)), let(x, lambda y: where(c, a, e(y))))


# -- tests ------------------------------------------------------------------------------------------------------------


@rule(family="choices", source="total order")
def not_lt(a: Elem, b: Elem) -> Equation:
    """~(a < b) = b <= a. For NaN, both comparisons of floats are false."""
    return equation(~(a < b), b <= a)


@rule(family="choices", source="total order")
def not_le(a: Elem, b: Elem) -> Equation:
    """~(a <= b) = b < a. For NaN, both comparisons of floats are false."""
    return equation(~(a <= b), b < a)


@rule(family="choices", source="de Morgan")
def where_not_and(c: Elem, d: Elem, a: Elem, b: Elem) -> Equation:
    """A negated conjunction is the disjunction of the negated tests."""
    return equation(where(~(c & d), a, b), where(~c | ~d, a, b))


@rule(family="choices", source="de Morgan")
def where_not_or(c: Elem, d: Elem, a: Elem, b: Elem) -> Equation:
    """A negated disjunction is the conjunction of the negated tests."""
    return equation(where(~(c | d), a, b), where(~c & ~d, a, b))


@rule(family="choices", source="counting")
def where_count(lo: Index, hi: Index, n: Index, a: Scalar, b: Scalar) -> Equation:
    """A choice by the number of terms in a range is a selection."""
    ones = sum((lo, hi), lambda k: count(1))
    return equation(where(ones < count(n), a, b), select((hi - lo < n) & (n > 0), a, b))
