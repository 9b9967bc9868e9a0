"""Arithmetic and selections of tensors, computed element by element."""

from __future__ import annotations

from atl import gen, select, where
from atl.core.operations import BINARY, BinaryOp
from rewrites.named_operators import FUNCTIONS, binary, unary
from rewrites.rule import Cond, Equation, Vector, equation, rule, rules


@rules(named="pointwise_{}", over=BINARY, family="normalisation", source="§4.3.2, normalize_bin")
def pointwise_binary(op: BinaryOp, a: Vector, b: Vector) -> Equation:
    """Tensors are added, multiplied … element by element."""
    return equation(binary(op, a, b), gen(a.shape[0], lambda i: binary(op, a[i], b[i])))


@rules(named="pointwise_{}", over=FUNCTIONS, family="normalisation", source="§4.3.2")
def pointwise_unary(op: str, a: Vector) -> Equation:
    """A function of a tensor is computed element by element."""
    return equation(unary(op, a), gen(a.shape[0], lambda i: unary(op, a[i])))


@rule(family="normalisation", source="§4.3.2")
def pointwise_where(c: Vector, a: Vector, b: Vector) -> Equation:
    """Elements of tensors are chosen element by element."""
    return equation(where(c, a, b), gen(a.shape[0], lambda i: where(c[i], a[i], b[i])))


@rule(family="normalisation", source="§4.3.2")
def pointwise_select(p: Cond, a: Vector, b: Vector) -> Equation:
    """Tensors are selected element by element."""
    return equation(select(p, a, b), gen(a.shape[0], lambda i: select(p, a[i], b[i])))
