"""Which tensors are stored in full, so that their buffers need not be cleared first."""

from __future__ import annotations

from atl.index import ZERO
from atl.predicate import TRUE, equal, less
from atl.prove import Proved, prove, simplify_predicate
from atl.scope import Scope
from atl.terms import (
    Concat,
    Expr,
    Flatten,
    Gen,
    Guard,
    Let,
    PadLeft,
    Padding,
    PadRight,
    Reduce,
    Reshape,
    Split,
    Transpose,
    TruncateLeft,
    TruncateRight,
)


def fills(e: Expr, scope: Scope) -> bool:
    """Whether lowering this normalised term is proved to assign every element of its destination (rather than to add)."""
    match e:
        case Gen(low, high, body, name):
            return fills(body, scope.bind(name, scope.index(low), scope.index(high))[1])
        case Reduce(monoid, low, high):
            if e.type.rank:
                return False
            return monoid == "sum" or _proved(scope, less(scope.index(low), scope.index(high)))
        case Guard(predicate, body):
            opened = scope.predicate(predicate)
            return simplify_predicate(scope.facts, opened) == TRUE and fills(body, scope)
        case Let(_, body):
            return fills(body, scope)
        case Concat(left, right):
            return fills(left, scope) and fills(right, scope)
        case Padding():
            return False
        case Reshape(op, operand):
            return _keeps_all(op, operand, scope) and fills(operand, scope)
        case _:
            return True


def _keeps_all(op: object, operand: Expr, scope: Scope) -> bool:
    """Whether the operator adds no padding of its own."""
    match op:
        case Transpose() | Flatten() | TruncateLeft() | TruncateRight():
            return True
        case Split(by):
            return _proved(scope, equal(scope.index(operand.type.shape[0]) % scope.index(by), ZERO))
        case PadLeft(by) | PadRight(by):
            return _proved(scope, equal(scope.index(by), ZERO))
        case _:
            return False


def _proved(scope: Scope, goal: object) -> bool:
    return isinstance(prove(scope.facts, goal), Proved)  # type: ignore[arg-type]
