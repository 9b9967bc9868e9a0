"""What rules say and a person seldom writes: padding of a shape, literals of an element type, operations by name."""

from __future__ import annotations

from atl.index import constant
from atl.surface import Tensor, arithmetic
from atl.terms import OF_MONOID, BinaryOp, Constant, Monoid, Padding, Type, Unary, UnaryOp


def padding(like: Tensor) -> Tensor:
    """The node that stores nothing, of the type of a tensor."""
    return Tensor(Padding(like.node.type))


def empty(like: Tensor) -> Tensor:
    """No elements of this type."""
    of = like.node.type
    return Tensor(Padding(Type(of.dtype, (constant(0), *of.shape))))


def literal(value: int, like: Tensor) -> Tensor:
    """A literal of the element type of a tensor."""
    return Tensor(Constant(value, like.dtype))


def unary(op: UnaryOp, a: Tensor) -> Tensor:
    """The function of this name, element by element."""
    return Tensor(Unary(op, a.node))


def binary(op: BinaryOp, a: Tensor, b: Tensor) -> Tensor:
    """The operation of this name, element by element."""
    return arithmetic(op, a, b)


def folded(monoid: Monoid, a: Tensor, b: Tensor) -> Tensor:
    """The operation that a monoid folds."""
    return arithmetic(OF_MONOID[monoid], a, b)
