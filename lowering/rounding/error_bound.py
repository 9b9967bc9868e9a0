"""The bound on the errors of a kernel as a formula: a number of roundings, and a program with absolute values."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from textwrap import indent
from typing import Any, TypeAlias, assert_never

import numpy as np
import numpy.typing as npt

from atl.core import terms as tm
from atl.core.dtypes import is_float
from atl.core.index import ZERO, Extremum, Index, Quotient, Size, atoms
from atl.core.program import Program
from atl.core.substitution import with_children
from atl.core.traversal import children
from atl.errors import NoErrorBound
from atl.text.printing import show_index
from lowering.timing.rounding import in_double

AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class ErrorBound:
    """A bound on rounding errors: |computed - exact| <= ((1 + unit)^roundings - 1) * magnitude.

    `roundings` is a formula in the sizes. `magnitude` is a program with the inputs of the kernel in float64, which
    computes the formula with absolute values and with additions for subtractions. Underflow, overflow, and a size that
    is zero and divides, are excluded.
    """

    roundings: Index
    unit: float
    magnitude: Program

    def __str__(self) -> str:
        digits = f"2^{round(math.log2(self.unit))}"
        return (
            f"|computed - exact| <= ((1 + u)^K - 1) * magnitude\n"
            f"  K = {show_index(self.roundings)} roundings, u = {digits}\n"
            f"{indent(str(self.magnitude), '  ')}"
        )


@dataclass(frozen=True, slots=True)
class ErrorComparison:
    """The error bounds of two kernels of a formula for the same arguments, with their names."""

    names: tuple[str, str]
    bounds: tuple[AnyArray, AnyArray]

    @property
    def ratio(self) -> float:
        """The median of the second bound divided by the first one, over the elements where both are positive."""
        first, second = (np.ravel(each) for each in self.bounds)
        known = (first > 0) & (second > 0) & np.isfinite(first) & np.isfinite(second)
        return float(np.median(second[known] / first[known])) if known.any() else math.nan

    def __str__(self) -> str:
        lines = []
        for name, bound in zip(self.names, self.bounds, strict=True):
            finite = bound[np.isfinite(bound)]
            worst = f"at most {finite.max():.3g}" if finite.size else "none"
            without = bound.size - finite.size
            lines.append(f"{name}: {worst}" + (f"; {without} elements have no bound" if without else ""))
        return "\n".join([*lines, f"median ratio of the bounds: {self.ratio:.3g}"])

    __repr__ = __str__


def magnitude(program: Program) -> Program:
    """Return the program with absolute values in place of the numbers, and additions for subtractions, in float64.

    Raises `NoErrorBound` for quotients by elements, functions and choices by compared elements.

    >>> import atl
    >>> magnitude(atl.parse("f (x : float32[n]) : float32 := Σ[i < n] x[i] - 2 * x[i]"))
    f_magnitude (x : float64[n]) : float64 :=
      Σ[i < n] abs(x[i]) + 2 * abs(x[i])
    """
    known: dict[int, tm.Expr] = {}

    def visit(e: tm.Expr) -> tm.Expr:
        if id(e) not in known:
            known[id(e)] = made(e)
        return known[id(e)]

    def parts(e: tm.Expr) -> tm.Expr:
        return with_children(e, tuple(visit(child.expr) for child in children(e)))

    def made(e: tm.Expr) -> tm.Expr:
        if not is_float(e.type.dtype):
            return e
        match e:
            case tm.Access() | tm.Input():
                at: tm.Expr = e
                while isinstance(at, tm.Access):
                    at = at.tensor
                return tm.Unary("abs", e) if isinstance(at, tm.Input) else parts(e)
            case tm.Constant(value):
                return replace(e, value=abs(value))
            case tm.Value():
                return tm.Unary("abs", e)
            case tm.Cast(_, operand) if not is_float(operand.type.dtype):
                return tm.Unary("abs", e)
            case tm.Binary("add" | "sub", left, right):
                return tm.Binary("add", visit(left), visit(right))
            case tm.Binary("mul", left, right):
                return tm.Binary("mul", visit(left), visit(right))
            case tm.Binary("div", left, right) if _is_known_divisor(right):
                return tm.Binary("div", visit(left), visit(right))
            case tm.Binary("min" | "max", left, right):
                return tm.Binary("max", visit(left), visit(right))
            case tm.Unary("neg" | "abs" | "stop", operand):
                return visit(operand)
            case tm.Reduce("min", low, high, body, name, mark):
                return tm.Reduce("max", low, high, visit(body), name, mark)
            case (
                tm.Reduce() | tm.Gen() | tm.Rec() | tm.Guard() | tm.Let() | tm.Select() | tm.Concat() | tm.Reshape()
                | tm.Local() | tm.Padding() | tm.TensorVar() | tm.Metavariable() | tm.Cast()
            ):  # fmt: skip
                return parts(e)
            case tm.Binary(op) | tm.Unary(op):
                raise _no_formula(program, op)
            case tm.Where():
                raise _no_formula(program, "where")
            case _:
                assert_never(e)

    return replace(in_double(replace(program.whole, body=made(program.whole.body))), name=f"{program.name}_magnitude")


def _is_known_divisor(e: tm.Expr) -> bool:
    """Return whether an expression consists of factors that are constants and sizes, and is not the constant zero."""
    if isinstance(e, tm.Constant):
        return e.value != 0
    if isinstance(e, tm.Value):
        return e.index != ZERO and all(isinstance(each, Size | Quotient | Extremum) for each in atoms(e.index))
    if isinstance(e, tm.Cast) or (isinstance(e, tm.Unary) and e.op in ("neg", "abs")):
        return _is_known_divisor(e.operand)
    return isinstance(e, tm.Binary) and e.op == "mul" and all(map(_is_known_divisor, (e.left, e.right)))


def _no_formula(program: Program, op: str) -> NoErrorBound:
    return NoErrorBound(
        f"the error bound of {program.name} has no formula, because its slope depends on elements: {op}",
        required="a program of additions, multiplications, maxima, minima, and quotients by constants and sizes",
        suggestions=("pass arrays to get a number for each element: kernel.error_bound(…)",),
    )
