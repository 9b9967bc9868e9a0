"""Element types of literals, and arithmetic between scalars and tensors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from atl.core.index import Var, index
from atl.core.substitution import close, fresh_uid, rebuild
from atl.core.terms import Access, Binary, BinaryOp, Expr, Gen, Type


def strengthen(expr: Expr, dtype: str) -> Expr:
    """Return the term with this element type for its untyped literals and padding."""
    if expr.type.dtype is not None:
        return expr
    made = rebuild(expr, lambda child: strengthen(child.expr, dtype), lambda e: e)
    form = type(made).form
    untyped: dict[str, Any] = {name: dtype for name in form.dtypes if getattr(made, name) is None}
    untyped |= {name: Type(dtype, of.shape) for name in form.types if (of := getattr(made, name)).dtype is None}
    return replace(made, **untyped) if untyped else made


def agree(*terms: Expr) -> tuple[Expr, ...]:
    """Return the terms, with the element type of the typed ones for untyped literals."""
    dtype = next((term.type.dtype for term in terms if term.type.dtype is not None), None)
    return terms if dtype is None else tuple(strengthen(term, dtype) for term in terms)


def arithmetic(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """Return a scalar operation; a scalar is combined with each element of a tensor."""
    first, second = agree(left, right)
    if 0 in (first.type.rank, second.type.rank) and first.type.rank != second.type.rank:
        return _spread(op, first, second)
    return Binary(op, first, second)


def _spread(op: BinaryOp, left: Expr, right: Expr) -> Expr:
    """Return a generation that applies the scalar operation to each element of the tensor operand."""
    larger = left if left.type.rank else right
    variables = [Var(next(fresh_uid), name) for name in "ijklpqrstuvw"[: larger.type.rank]]
    element: Expr = larger
    for variable in variables:
        element = Access(element, index(variable))
    node: Expr = Binary(op, element, right) if larger is left else Binary(op, left, element)
    for variable, extent in zip(reversed(variables), reversed(larger.type.shape), strict=True):
        node = Gen(index(0), extent, close(node, variable), variable.name)
    return node
