"""Term constructors used in rules: padding of a shape, literals of an element type, operations by name."""

from __future__ import annotations

from typing import Final

from atl.core import terms
from atl.core.dtypes import BOOL, ELEMENTS
from atl.core.index import Index
from atl.core.operations import UNARY, ZERO_AT_ZERO, BinaryOp
from atl.surface.operators import sum  # noqa: A004 (the name in formulas)
from atl.surface.values import IndexExpr, Tensor, arithmetic, as_index


def padding(like: Tensor) -> Tensor:
    """Return padding of the type of `like`: a node that stores nothing."""
    return Tensor(terms.Padding(like.node.type))


def literal(value: int, like: Tensor) -> Tensor:
    """Return a literal of the element type of `like`."""
    return Tensor(terms.Constant(value, like.dtype))


def truth(*, value: bool) -> Tensor:
    """Return a Boolean literal."""
    return Tensor(terms.Constant(int(value), BOOL))


def count(number: IndexExpr | int) -> Tensor:
    """Return a number of terms as an integer scalar, which holds every number that a sum of ones reaches."""
    return Tensor(terms.Value(as_index(number), "int64"))


_CASTS: Final = {f"cast_{dtype}": dtype for dtype in ELEMENTS}
FUNCTIONS: Final[tuple[str, ...]] = (*UNARY, *_CASTS)
"""Names of functions of one element: the unary operations, and conversions to each element type."""
FUNCTIONS_ZERO_AT_ZERO: Final[tuple[str, ...]] = (*ZERO_AT_ZERO, *_CASTS)
"""Names of the functions of one element that map zero to zero. All conversions do."""


def unary(op: str, a: Tensor) -> Tensor:
    """Apply the function of this name in `FUNCTIONS` to each element."""
    if op in _CASTS:
        return Tensor(terms.Cast(_CASTS[op], a.node))
    return Tensor(terms.Unary(next(each for each in UNARY if each == op), a.node))


def operation_name(e: terms.Unary | terms.Binary | terms.Cast) -> str:
    """Return the name of an operation in the names of rules."""
    return f"cast_{e.dtype}" if isinstance(e, terms.Cast) else e.op


def binary(op: BinaryOp, a: Tensor, b: Tensor) -> Tensor:
    """Apply the operation of this name to each pair of elements."""
    return arithmetic(op, a, b)


def folded(monoid: terms.Monoid, a: Tensor, b: Tensor) -> Tensor:
    """Combine two tensors by the operation of a monoid."""
    return arithmetic(terms.OF_MONOID[monoid], a, b)


def pairing(y: Tensor, v: Tensor) -> Tensor:
    """Return the sum of y * v over the elements of v: the pairing of two tensors of one shape."""
    if not v.rank:
        return y * v
    return sum(*v.shape, lambda *at: y[at] * v[at])


def reshaped(op: str, v: Tensor) -> Tensor:
    """Apply the reshape operator of this name, which takes no amount."""
    return _reshape(op, (), v)


def reshaped_by(op: str, k: IndexExpr, v: Tensor) -> Tensor:
    """Apply the reshape operator of this name with an amount."""
    return _reshape(op, (k.node,), v)


def _reshape(op: str, amounts: tuple[Index, ...], v: Tensor) -> Tensor:
    return Tensor(terms.Reshape(terms.OPERATORS_BY_WORD[op](*amounts), v.node))


MATRIX_OPERATORS: Final = ("transpose", "flatten")
"""Reshape operators on two dimensions, without an amount. They are linear."""
AMOUNTS: Final = ("split", "padl", "padr", "truncl", "truncr")
"""Reshape operators on one dimension, with one amount. They are linear."""
PADS_AND_TRUNCATIONS: Final = ("padl", "padr", "truncl", "truncr")
"""The operators of `AMOUNTS` that keep the rank."""
