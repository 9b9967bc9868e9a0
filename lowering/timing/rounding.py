"""A tolerance for comparisons of results, and programs and numbers in double precision."""

from __future__ import annotations

import math
from dataclasses import replace
from time import monotonic
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import terms as tm
from atl.core.dtypes import TYPES, is_float
from atl.core.index import Array
from atl.core.operations import BinaryOp, UnaryOp
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.traversal import children
from atl.errors import InvalidArgument, brief
from atl.meaning.scalars import Machine


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
                tm.TensorVar() | tm.Metavariable() | tm.Gen() | tm.Reduce() | tm.Rec() | tm.Guard() | tm.Let()
                | tm.Access() | tm.Unary() | tm.Binary()
            ):  # fmt: skip
                return e
            case tm.Select() | tm.Where() | tm.Concat() | tm.Reshape():
                return e
            case _:
                assert_never(e)

    results = tuple(replace(each, dtype=each.dtype and _wide(each.dtype)) for each in program.results)
    return replace(program, inputs=tuple(arrays.values()), body=visit(program.body), packed=(), results=results)


class InDouble(Machine):
    """Machine numbers with float64 in place of float32.

    >>> float(InDouble().constant(0.1, "float32"))
    0.1
    """

    def __init__(self, until: float = math.inf) -> None:
        """Make the arithmetic. A binary operation after `until`, a value of `monotonic()`, raises `TimeoutError`."""
        super().__init__()
        self._until = until

    def constant(self, value: float, dtype: str) -> Any:
        return super().constant(value, _wide(dtype))

    def from_index(self, value: int, dtype: str) -> Any:
        return super().from_index(value, _wide(dtype))

    def element(self, raw: Any, dtype: str) -> Any:
        return super().element(raw, _wide(dtype))

    def unary(self, op: UnaryOp, dtype: str, x: Any) -> Any:
        return super().unary(op, _wide(dtype), x)

    def binary(self, op: BinaryOp, dtype: str, x: Any, y: Any) -> Any:
        if monotonic() > self._until:
            raise TimeoutError
        return super().binary(op, _wide(dtype), x, y)

    def cast(self, target: str, source: str, x: Any) -> Any:
        return super().cast(_wide(target), _wide(source), x)

    def neutral(self, monoid: tm.Monoid, dtype: str) -> Any:
        return super().neutral(monoid, _wide(dtype))


def _wide(dtype: str | None) -> str:
    return "float64" if dtype in ("float32", None) else dtype
