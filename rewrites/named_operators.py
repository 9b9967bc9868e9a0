"""What rules say and a person seldom writes: padding of a shape, literals of an element type, operations by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from atl.core.terms import OF_MONOID, BinaryOp, Constant, Monoid, Padding, Unary, UnaryOp
from atl.surface.operators import flatten, padl, padr, split, transpose, truncl, truncr
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
    return _OF_NAME[op](v)


def moved_by(op: str, k: IndexExpr, v: Tensor) -> Tensor:
    """The reshape operator of this name with its amount."""
    return _BY_AMOUNT[op](k, v)


_OF_NAME: Final[dict[str, Callable[[Tensor], Tensor]]] = {"transpose": transpose, "flatten": flatten}
_BY_AMOUNT: Final[dict[str, Callable[[IndexExpr, Tensor], Tensor]]] = {
    "split": split,
    "padl": padl,
    "padr": padr,
    "truncl": truncl,
    "truncr": truncr,
}
EXCHANGES: Final = tuple(_OF_NAME)
"""The reshape operators that take no amount, of a tensor of rank 2 or more."""
AMOUNTS: Final = tuple(_BY_AMOUNT)
"""The reshape operators with an amount, of a tensor of rank 1 or more."""
PADS_AND_TRUNCATIONS: Final = ("padl", "padr", "truncl", "truncr")
"""Those of them that keep the rank."""
