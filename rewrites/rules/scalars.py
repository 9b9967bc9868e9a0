"""Arithmetic on scalars, and element by element on tensors of one shape."""

from __future__ import annotations

from atl.core.operations import COMMUTATIVE, BinaryOp
from atl.core.terms import Monoid
from rewrites.named_operators import binary, folded, literal, padding
from rewrites.rule import Elem, Equation, Scalar, equation, rule, rules


@rules(named="{}_comm", over=COMMUTATIVE, family="scalars", source="§3.3, bin commutative")
def comm(op: BinaryOp, a: Elem, b: Elem) -> Equation:
    """a ∘ b = b ∘ a."""
    return equation(binary(op, a, b), binary(op, b, a))


@rules(named="{}_assoc", over=("add", "mul", "min", "max"), family="scalars", source="§3.3, bin associative")
def assoc(op: BinaryOp, a: Elem, b: Elem, c: Elem) -> Equation:
    """(a ∘ b) ∘ c = a ∘ (b ∘ c)."""
    return equation(binary(op, binary(op, a, b), c), binary(op, a, binary(op, b, c)))


@rules(named="{}_same", over=("min", "max"), family="scalars", source="idempotence")
def same(m: Monoid, a: Elem) -> Equation:
    """min(a, a) = a, and the same for max."""
    return equation(folded(m, a, a), a)


@rule(family="scalars", source="§3.3, scalar_mul distributes")
def mul_add(a: Elem, b: Elem, c: Elem) -> Equation:
    """a * (b + c) = a * b + a * c."""
    return equation(a * (b + c), a * b + a * c)


@rule(family="scalars", source="§3.3", derived_from=("mul_comm", "mul_add", "mul_comm", "mul_comm"))
def add_mul(a: Elem, b: Elem, c: Elem) -> Equation:
    """(a + b) * c = a * c + b * c."""
    return equation((a + b) * c, a * c + b * c)


@rule(family="scalars", source="§3.3, 0*a")
def mul_padding(a: Elem) -> Equation:
    """A product with padding is padding."""
    return equation(a * padding(a), padding(a))


@rule(family="scalars", source="padding reads as zero")
def zero_padding(a: Scalar) -> Equation:
    """Zero is what padding reads as. In reverse, padding becomes a literal, which is stored."""
    return equation(literal(0, a), padding(a))


@rule(family="scalars", source="ring")
def add_zero(a: Scalar) -> Equation:
    """a + 0 = a."""
    return equation(a + literal(0, a), a)


@rule(family="scalars", source="ring")
def mul_zero(a: Scalar) -> Equation:
    """a * 0 = 0."""
    return equation(a * literal(0, a), literal(0, a))


@rule(family="scalars", source="§3.3, 1*a")
def mul_one(a: Scalar) -> Equation:
    """a * 1 = a."""
    return equation(a * literal(1, a), a)


@rule(family="scalars", source="ring")
def sub_neg(a: Elem, b: Elem) -> Equation:
    """a - b = a + -b."""
    return equation(a - b, a + -b)


@rule(family="scalars", source="ring")
def sub_self(a: Elem) -> Equation:
    """a - a = 0, and the zero is padding."""
    return equation(a - a, padding(a))


@rule(family="scalars", source="ring")
def neg_neg(a: Elem) -> Equation:
    """-(-a) = a."""
    negative = -a
    return equation(-negative, a)


@rule(family="scalars", source="ring")
def neg_add(a: Elem, b: Elem) -> Equation:
    """-(a + b) = -a + -b."""
    return equation(-(a + b), -a + -b)


@rule(family="scalars", source="ring")
def neg_mul(a: Elem, b: Elem) -> Equation:
    """-(a * b) = -a * b."""
    return equation(-(a * b), -a * b)


@rule(family="scalars", source="field, x / 0 = 0")
def mul_div(a: Elem, b: Elem, c: Elem) -> Equation:
    """(a * b) / c = a * (b / c)."""
    return equation((a * b) / c, a * (b / c))


@rule(family="scalars", source="field, x / 0 = 0")
def add_div(a: Elem, b: Elem, c: Elem) -> Equation:
    """(a + b) / c = a / c + b / c."""
    return equation((a + b) / c, a / c + b / c)
