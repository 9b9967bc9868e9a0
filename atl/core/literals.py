"""Literals take the element type of what they meet, and a scalar that meets a tensor meets each of its elements."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from atl.core.index import Var, index
from atl.core.substitution import close, fresh_uid, rebuild
from atl.core.terms import Access, Binary, BinaryOp, Expr, Gen


def strengthen(expr: Expr, dtype: str) -> Expr:
    """The term with its untyped literals given an element type."""
    if expr.type.dtype is not None:
        return expr
    made = rebuild(expr, lambda child: strengthen(child.expr, dtype), lambda e: e)
    untyped: dict[str, Any] = {name: dtype for name in type(made).form.dtypes if getattr(made, name) is None}
    return replace(made, **untyped) if untyped else made


def agree(*terms: Expr) -> tuple[Expr, ...]:
    """The terms, with literals among them given the element type of the others."""
    dtype = next((term.type.dtype for term in terms if term.type.dtype is not None), None)
    return terms if dtype is None else tuple(strengthen(term, dtype) for term in terms)


def arithmetic(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """A scalar operation; where a scalar meets a tensor, it meets each of its elements."""
    first, second = agree(left, right)
    if 0 in (first.type.rank, second.type.rank) and first.type.rank != second.type.rank:
        return _spread(op, first, second)
    return Binary(op, first, second)


def _spread(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """The generation of the scalar operation over every element of the operand that is a tensor."""
    larger = left if left.type.rank else right
    variables = [Var(next(fresh_uid), name) for name in "ijklpqrstuvw"[: larger.type.rank]]
    element: Expr = larger
    for variable in variables:
        element = Access(element, index(variable))
    node: Expr = Binary(op, element, right) if larger is left else Binary(op, left, element)
    for variable, extent in zip(reversed(variables), reversed(larger.type.shape), strict=True):
        node = Gen(index(0), extent, close(node, variable), variable.name)
    return node
