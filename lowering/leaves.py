"""Lowering of the scalar leaves of normalised programs to scalar expressions of loop nests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, assert_never

from atl.checks.scope import Scope
from atl.core import terms
from atl.core.dtypes import DEFAULT
from atl.core.index import Index
from atl.core.predicate import FALSE, TRUE, negation
from atl.prove import simplify_predicate
from lowering.nest.loopnest import Apply, Buffer, Cell, Choose, Convert, FromIndex, Load, Number, Scalar, ScalarExpr

Storage: TypeAlias = Buffer | Scalar
"""Storage of a tensor: a buffer, or a variable for a let-bound scalar."""


def is_scalar_leaf(e: terms.Expr) -> bool:
    """Return whether a normalised term is arithmetic over reads and literals, without statements."""
    return not e.type.rank and isinstance(
        e,
        terms.Constant
        | terms.Value
        | terms.Access
        | terms.Input
        | terms.Local
        | terms.Unary
        | terms.Binary
        | terms.Cast
        | terms.Select,
    )


def scalar(e: terms.Expr, scope: Scope, tensors: tuple[Storage, ...], inputs: Mapping[str, Buffer]) -> ScalarExpr:
    """Return the scalar expression of a leaf. `tensors` is the storage of the let-bound tensors, the innermost last.

    A selection whose condition is decided in this scope becomes that branch, so the reads of the other one vanish.
    """

    def visit(at: terms.Expr, here: Scope) -> ScalarExpr:
        dtype = at.type.dtype or DEFAULT
        match at:
            case terms.Constant(value):
                return Number(value, dtype)
            case terms.Value(position):
                return FromIndex(here.index(position), dtype)
            case terms.Input() | terms.Local() | terms.Access():
                return _load(at, here, tensors, inputs)
            case terms.Unary(op, operand):
                return Apply(op, (visit(operand, here),), dtype)
            case terms.Binary(op, left, right):
                return Apply(op, (visit(left, here), visit(right, here)), dtype)
            case terms.Cast(_, operand):
                return Convert(visit(operand, here), dtype)
            case terms.Select(predicate, left, right):
                condition = simplify_predicate(here.facts, here.predicate(predicate))
                if condition == TRUE:
                    return visit(left, here)
                if condition == FALSE:
                    return visit(right, here)
                return Choose(
                    condition, visit(left, here.assume(condition)), visit(right, here.assume(negation(condition)))
                )
            case (
                terms.Gen()
                | terms.Reduce()
                | terms.Guard()
                | terms.Let()
                | terms.Concat()
                | terms.Reshape()
                | terms.Padding()
                | terms.TensorVar()
                | terms.Metavariable()
            ):
                raise AssertionError(f"{type(at).__name__} is not a leaf of a normalised program")
            case _:
                assert_never(at)

    return visit(e, scope)


def _load(e: terms.Expr, scope: Scope, tensors: tuple[Storage, ...], inputs: Mapping[str, Buffer]) -> Load:
    positions: list[Index] = []
    while isinstance(e, terms.Access):
        positions.append(scope.index(e.index))
        e = e.tensor
    match e:
        case terms.Input(array):
            storage: Storage = inputs[array.name]
        case terms.Local(position):
            storage = tensors[-1 - position]
        case (
            terms.TensorVar()
            | terms.Metavariable()
            | terms.Constant()
            | terms.Value()
            | terms.Unary()
            | terms.Binary()
            | terms.Cast()
            | terms.Select()
            | terms.Padding()
        ):
            raise AssertionError("a normalised access is to a named tensor")
        case (
            terms.Gen()
            | terms.Reduce()
            | terms.Guard()
            | terms.Let()
            | terms.Concat()
            | terms.Reshape()
            | terms.Access()
        ):
            raise AssertionError("a normalised access is to a named tensor")
        case _:
            assert_never(e)
    if isinstance(storage, Scalar):
        return Load(storage)
    return Load(Cell(storage, tuple(zip(reversed(positions), storage.extents, strict=True))))
