"""What rules say and a person seldom writes: padding of a shape, literals of an element type, operations by name."""

from __future__ import annotations

from typing import Final

from atl.core.index import Index
from atl.core.terms import (
    OF_MONOID,
    OPERATORS_BY_WORD,
    BinaryOp,
    Constant,
    Monoid,
    Padding,
    Reshape,
    Unary,
    UnaryOp,
)
from atl.surface.values import IndexExpr, Tensor, arithmetic


def padding(like: Tensor) -> Tensor:
    """The node that stores nothing, of the type of a tensor."""
    return Tensor(Padding(like.node.type))


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


def moved(op: str, v: Tensor) -> Tensor:
    """The reshape operator of this name that takes no amount."""
    return _reshaped(op, (), v)


def moved_by(op: str, k: IndexExpr, v: Tensor) -> Tensor:
    """The reshape operator of this name with its amount."""
    return _reshaped(op, (k.node,), v)


def _reshaped(op: str, amounts: tuple[Index, ...], v: Tensor) -> Tensor:
    return Tensor(Reshape(OPERATORS_BY_WORD[op](*amounts), v.node))


EXCHANGES: Final = ("transpose", "flatten")
"""The reshape operators of two dimensions, which take no amount; they are linear."""
AMOUNTS: Final = ("split", "padl", "padr", "truncl", "truncr")
"""The reshape operators of one dimension, with one amount; they are linear."""
PADS_AND_TRUNCATIONS: Final = ("padl", "padr", "truncl", "truncr")
"""Those of them that keep the rank."""
