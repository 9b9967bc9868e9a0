"""Lowering of the scalar leaves of normalised programs to scalar expressions of loop nests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from atl.checks.scope import Scope
from atl.core.dtypes import DEFAULT
from atl.core.index import Index
from atl.core.predicate import FALSE, TRUE, negation
from atl.core.terms import (
    Access,
    Binary,
    Cast,
    Concat,
    Constant,
    Expr,
    Gen,
    Guard,
    Input,
    Let,
    Local,
    Metavariable,
    Padding,
    Reduce,
    Reshape,
    Select,
    TensorVar,
    Unary,
    Value,
)
from atl.prove import simplify_predicate
from lowering.nest.loopnest import Apply, Buffer, Cell, Choose, Convert, FromIndex, Load, Number, Scalar, ScalarExpr

Storage: TypeAlias = Buffer | Scalar
"""Storage of a tensor: a buffer, or a variable for a let-bound scalar."""


def is_scalar_leaf(e: Expr) -> bool:
    """Return whether a normalised term is arithmetic over reads and literals, without statements."""
    return not e.type.rank and isinstance(e, Constant | Value | Access | Input | Local | Unary | Binary | Cast | Select)


def scalar(e: Expr, scope: Scope, tensors: tuple[Storage, ...], inputs: Mapping[str, Buffer]) -> ScalarExpr:
    """Return the scalar expression of a leaf. `tensors` is the storage of the let-bound tensors, the innermost last.

    A selection whose condition is decided in this scope becomes that branch, so the reads of the other one vanish.
    """

    def visit(at: Expr, here: Scope) -> ScalarExpr:
        dtype = at.type.dtype or DEFAULT
        match at:
            case Constant(value):
                return Number(value, dtype)
            case Value(position):
                return FromIndex(here.index(position), dtype)
            case Input() | Local() | Access():
                return _load(at, here, tensors, inputs)
            case Unary(op, operand):
                return Apply(op, (visit(operand, here),), dtype)
            case Binary(op, left, right):
                return Apply(op, (visit(left, here), visit(right, here)), dtype)
            case Cast(_, operand):
                return Convert(visit(operand, here), dtype)
            case Select(predicate, left, right):
                condition = simplify_predicate(here.facts, here.predicate(predicate))
                if condition == TRUE:
                    return visit(left, here)
                if condition == FALSE:
                    return visit(right, here)
                return Choose(
                    condition, visit(left, here.assume(condition)), visit(right, here.assume(negation(condition)))
                )
            case Gen() | Reduce() | Guard() | Let() | Concat() | Reshape() | Padding() | TensorVar() | Metavariable():
                raise AssertionError(f"{type(at).__name__} is not a leaf of a normalised program")
            case _:
                assert_never(at)

    return visit(e, scope)


def _load(e: Expr, scope: Scope, tensors: tuple[Storage, ...], inputs: Mapping[str, Buffer]) -> Load:
    positions: list[Index] = []
    while isinstance(e, Access):
        positions.append(scope.index(e.index))
        e = e.tensor
    match e:
        case Input(array):
            storage: Storage = inputs[array.name]
        case Local(position):
            storage = tensors[-1 - position]
        case TensorVar() | Metavariable() | Constant() | Value() | Unary() | Binary() | Cast() | Select() | Padding():
            raise AssertionError("a normalised access is to a named tensor")
        case Gen() | Reduce() | Guard() | Let() | Concat() | Reshape() | Access():
            raise AssertionError("a normalised access is to a named tensor")
        case _:
            assert_never(e)
    if isinstance(storage, Scalar):
        return Load(storage)
    return Load(Cell(storage, tuple(zip(reversed(positions), storage.extents, strict=True))))
