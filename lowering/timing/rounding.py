"""Bounds on rounding errors, for all comparisons of kernel results."""

from __future__ import annotations

import math
from dataclasses import replace
from time import monotonic
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import terms as tm
from atl.core.dtypes import TYPES, is_float, is_integer
from atl.core.index import Array
from atl.core.operations import OPERATIONS, BinaryOp, UnaryOp
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.traversal import children
from atl.errors import InvalidArgument, brief
from atl.meaning.scalars import Machine, Scalars


def tolerance(dtype: npt.DTypeLike, terms: int) -> float:
    """Return the tolerance of a float element with this number of terms, relative to its and the average magnitude.

    It is eight unit roundoffs of `dtype`, and one of the type that sums are computed in for each term.

    >>> tolerance("float32", 1000) == float(np.finfo("float32").eps) * 1008
    True
    """
    if type(terms) is not int or terms < 0:
        raise InvalidArgument(f"terms={brief(terms)}", required="the number of terms of an element, 0 or more")
    try:
        name = np.dtype(dtype).name
    except TypeError:
        name = ""
    if dtype is None or not is_float(name):
        known = ", ".join(filter(is_float, TYPES))
        raise InvalidArgument(f"dtype={brief(dtype)}", required=f"a floating-point type: {known}")
    return 8 * TYPES[name].epsilon + terms * TYPES[TYPES[name].computed_as].epsilon


def in_double(program: Program) -> Program:
    """Return the program with float64 in place of float32.

    >>> import atl
    >>> in_double(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"))
    f (x : float64[n]) : float64[n] :=
      ⊞[i < n] 2 * x[i]
    """
    arrays: dict[Array, Array] = {array: replace(array, dtype=_wide(array.dtype)) for array in program.inputs}
    known: dict[int, tm.Expr] = {}

    def visit(e: tm.Expr) -> tm.Expr:
        if id(e) not in known:
            known[id(e)] = widened(with_children(e, tuple(visit(child.expr) for child in children(e))))
        return known[id(e)]

    def widened(e: tm.Expr) -> tm.Expr:
        match e:
            case tm.Input(array):
                return tm.Input(arrays[array])
            case tm.Local(of=of) | tm.Padding(of=of):
                return replace(e, of=tm.Type(_wide(of.dtype), of.shape))
            case tm.Constant(dtype=dtype) | tm.Value(dtype=dtype) | tm.Cast(dtype=dtype):
                return replace(e, dtype=_wide(dtype))
            case (
                tm.TensorVar()
                | tm.Metavariable()
                | tm.Gen()
                | tm.Reduce()
                | tm.Rec()
                | tm.Guard()
                | tm.Let()
                | tm.Access()
                | tm.Unary()
                | tm.Binary()
            ):
                return e
            case tm.Select() | tm.Where() | tm.Concat() | tm.Reshape():
                return e
            case _:
                assert_never(e)

    return replace(program, inputs=tuple(arrays.values()), body=visit(program.body), packed=())


Measured: TypeAlias = tuple[Any, Any, int]
"""A number in double precision, the magnitude that its rounding error is relative to, and its number of roundings."""


class InDouble(Scalars[Measured]):
    """Arithmetic in double precision with bounds on rounding: the magnitude of a + b is |a| + |b|, even if they cancel.

    To first order, each operation on the way to a number contributes an error of at most the unit roundoff of its type
    times the magnitude. So `tolerance(dtype, roundings)` times the magnitude bounds the error.

    >>> scalars = InDouble()
    >>> a, b = scalars.constant(3, "float32"), scalars.constant(1, "float32")
    >>> value, magnitude, roundings = scalars.binary("sub", "float32", a, b)
    >>> float(value), float(magnitude), roundings
    (2.0, 4.0, 1)
    """

    def __init__(self, until: float = math.inf) -> None:
        """Make the arithmetic. A binary operation after `until`, a value of `monotonic()`, raises `TimeoutError`."""
        self._until = until
        self._machine = Machine()
        self.divisions_by_zero = self.undefined = 0

    def constant(self, value: float, dtype: str) -> Measured:
        return _alone(self._machine.constant(value, _wide(dtype)))

    def from_index(self, value: int, dtype: str) -> Measured:
        return _alone(self._machine.from_index(value, _wide(dtype)))

    def element(self, raw: Any, dtype: str) -> Measured:
        return _alone(self._machine.element(raw, _wide(dtype)))

    def unary(self, op: UnaryOp, dtype: str, x: Measured) -> Measured:
        value = self._machine.unary(op, _wide(dtype), x[0])
        return value, _magnitude_of_unary(op, value, x), x[2] + 1

    def binary(self, op: BinaryOp, dtype: str, x: Measured, y: Measured) -> Measured:
        if monotonic() > self._until:
            raise TimeoutError
        value = self._machine.binary(op, _wide(dtype), x[0], y[0])
        return value, _magnitude_of_binary(op, value, x, y), max(x[2], y[2]) + 1

    def where(self, test: Measured, x: Measured, y: Measured) -> Measured:
        return x if test[0] else y

    def cast(self, target: str, source: str, x: Measured) -> Measured:
        value = self._machine.cast(_wide(target), _wide(source), x[0])
        return _alone(value) if is_integer(target) else (value, x[1], x[2] + 1)

    def neutral(self, monoid: tm.Monoid, dtype: str) -> Measured | None:
        return _alone(self._machine.neutral(monoid, _wide(dtype))) if monoid in ("sum", "product") else None


@np.errstate(all="ignore")
def _magnitude_of_unary(op: UnaryOp, value: Any, x: Measured) -> Any:
    a, size, _ = x
    row = OPERATIONS[op]
    if row.tangent is None or (op == "sqrt" and not value):
        return size if row.tangent is None else abs(value)
    slope = row.tangent(1.0, a, value, lambda name, at: Machine().unary(name, "float64", at))
    return abs(value) * max(1.0, *(row.error or ())) + size * abs(slope)


@np.errstate(all="ignore")
def _magnitude_of_binary(op: BinaryOp, value: Any, x: Measured, y: Measured) -> Any:
    (a, first, _), (b, second, _) = x, y
    match op:
        case "add" | "sub":
            return first + second
        case "mul":
            return first * abs(b) + abs(a) * second
        case "div":
            return (first + abs(value) * second) / abs(b) if b else abs(value)
        case "min" | "max":
            return max(first, second)
        case "lt" | "le" | "eq" | "and" | "or" | "xor" | "floordiv" | "mod" | "shl" | "shr":
            return abs(float(value))  # exact, unless a rounding error decides a comparison


def _wide(dtype: str | None) -> str:
    return "float64" if dtype in ("float32", None) else dtype


def _alone(value: Any) -> Measured:
    return value, abs(float(value)), 0
