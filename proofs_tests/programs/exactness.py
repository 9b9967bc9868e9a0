"""Error bounds of the reference: the values on which all evaluations must agree, and how closely.

Each scalar is the result of C in the order of the formula, with a bound for other legal orders. A value computed by
+ - * from leaves is a sum of monomials. In any order and contraction of the operations, the roundings of a monomial add
up to at most K. Two results therefore differ by at most 2 m (e^K - 1), where m is the sum of the monomials' magnitudes
(Higham, Accuracy and Stability, 3.1 and 4.2). A chain of t summands has t - 1 roundings for each summand, in any
association; a product has the roundings of both factors and one more. Other operations scale the bound by their slope.

A value is *exact* if its leaves are integers, and m, which bounds all partial sums and products, is below 2^24 or 2^53:
no operation rounds then, in any order. Integers wrap, so they are always exact.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from atl.core.dtypes import ELEMENTS, FLOATS, is_float, is_integer
from atl.core.operations import COMPARISONS, BinaryOp, UnaryOp
from atl.core.terms import Monoid
from atl.meaning.scalars import Machine, Scalars

_DIGITS: Final = {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8}
UNIT: Final = {of: 2.0 ** -_DIGITS[of] if of in _DIGITS else 0.0 for of in ELEMENTS}
WHOLE: Final = {of: 2.0 ** _DIGITS[of] if of in _DIGITS else math.inf for of in ELEMENTS}
"""Limits below which floats represent integers exactly."""
_OVERFLOW: Final = {"float32": 1e30, "float64": 1e300, "float16": 3e4, "bfloat16": 1e30}
LARGEST: Final = {of: _OVERFLOW.get(of, math.inf) for of in ELEMENTS}
"""Limits beyond which another order of evaluation may overflow."""
LIBRARY: Final = 8
"""Error bounds of implementations of exp, log, tanh, erf, sin and cos, in units in the last place."""


class Bounded(NamedTuple):
    """A value, the magnitude m of its monomials, the roundings of each of `terms` summands, and exactness."""

    value: Any
    magnitude: float
    rounding: float
    terms: int
    exact: bool

    def roundings(self, unit: float) -> float:
        """K, including the additions of its chain."""
        return self.rounding + max(self.terms - 1, 0) * unit

    def error(self, unit: float) -> float:
        """Return the bound on the error of one evaluation."""
        return 0.0 if self.exact else self.magnitude * math.expm1(min(self.roundings(unit), 500.0))


@dataclass(slots=True)
class Bounds(Scalars[Bounded]):
    """Machine scalars with error bounds.

    `doubtful` counts operations whose legal evaluations may differ widely: a quotient or logarithm near zero, a float
    truncated near an integer, a value near overflow.
    """

    divisions_by_zero: int = 0
    doubtful: int = 0
    machine: Machine = field(default_factory=Machine)

    @property
    def undefined(self) -> int:  # type: ignore[override]
        return self.machine.undefined

    def constant(self, value: float, dtype: str) -> Bounded:
        return self._leaf(self.machine.constant(value, dtype), dtype)

    def from_index(self, value: int, dtype: str) -> Bounded:
        return self._leaf(self.machine.from_index(value, dtype), dtype)

    def element(self, raw: Any, dtype: str) -> Bounded:
        return self._leaf(self.machine.element(raw, dtype), dtype)

    def _leaf(self, value: Any, dtype: str) -> Bounded:
        size = abs(float(value))
        whole = not is_float(dtype) or (size.is_integer() and size < WHOLE[dtype])
        self.doubtful += LARGEST[dtype] <= size < math.inf
        return Bounded(value, max(size, 1.0), 0.0, 1, whole)

    def neutral(self, monoid: Monoid, dtype: str) -> Bounded | None:
        if monoid in ("max", "min"):
            return None
        start = self._leaf(self.machine.neutral(monoid, dtype), dtype)
        return start._replace(magnitude=0.0, terms=0) if monoid == "sum" else start

    def binary(self, op: BinaryOp, dtype: str, x: Bounded, y: Bounded) -> Bounded:
        value = self.machine.binary(op, dtype, x.value, y.value)
        if op in COMPARISONS:
            # Another order of evaluation may decide the test differently.
            error = max(x.error(UNIT[FLOATS[0]]), y.error(UNIT[FLOATS[0]]))
            near = abs(float(x.value) - float(y.value)) <= 2 * error
            self.doubtful += near and not (x.exact and y.exact)
        if dtype not in FLOATS:
            return self._leaf(value, dtype)
        unit = UNIT[dtype]
        kx, ky = x.roundings(unit), y.roundings(unit)
        exact = x.exact and y.exact
        match op:
            case "add" | "sub":
                out = Bounded(value, x.magnitude + y.magnitude, max(x.rounding, y.rounding), x.terms + y.terms, exact)
            case "mul":
                out = Bounded(value, max(x.magnitude, 1.0) * max(y.magnitude, 1.0), kx + ky + unit, 1, exact)
            case "min" | "max":
                out = Bounded(value, max(x.magnitude, y.magnitude), max(kx, ky), 1, exact)
            case _:
                out = self._quotient(value, unit, x, y)
        return self._checked(out, dtype)

    def where(self, test: Bounded, x: Bounded, y: Bounded) -> Bounded:
        return x if test.value else y

    def _quotient(self, value: Any, unit: float, x: Bounded, y: Bounded) -> Bounded:
        divisor, error = abs(float(y.value)), y.error(unit)
        if not divisor:
            self.divisions_by_zero += 1
            return Bounded(value, 1.0, 0.0, 1, False)
        if error > divisor / 2:
            self.doubtful += 1
            return Bounded(value, 1.0, 0.0, 1, False)
        even = x.exact and y.exact and float(value).is_integer() and value * y.value == x.value
        rounding = x.roundings(unit) - math.log1p(-error / divisor) + unit
        return Bounded(value, max(1.0, x.magnitude / (divisor - error)), rounding, 1, even)

    def _checked(self, out: Bounded, dtype: str) -> Bounded:
        if not out.magnitude < LARGEST[dtype]:
            self.doubtful += 1
        return out._replace(exact=False) if out.exact and out.magnitude >= WHOLE[dtype] else out

    def unary(self, op: UnaryOp, dtype: str, x: Bounded) -> Bounded:
        value = self.machine.unary(op, dtype, x.value)
        if dtype not in FLOATS:
            return self._leaf(value, dtype)
        unit = UNIT[dtype]
        if op in ("neg", "stop"):
            return x._replace(value=value)
        if op == "abs":
            return Bounded(value, x.magnitude, x.roundings(unit), 1, x.exact)
        at, error = float(x.value), x.error(unit)
        if op in ("floor", "round"):
            exact = Machine()
            ends = [exact.unary(op, "float64", np.float64(at + side * error)) for side in (1, -1)]
            self.doubtful += not x.exact and bool(ends[0] != ends[1])
            return self._leaf(value, dtype)
        size, moved, own = self._moved(op, at, error)
        even = op == "sqrt" and x.exact and float(value).is_integer() and value * value == x.value
        magnitude = max(1.0, size)
        return self._checked(Bounded(value, magnitude, math.log1p(moved / magnitude) + own * unit, 1, even), dtype)

    def _moved(self, op: UnaryOp, at: float, error: float) -> tuple[float, float, int]:
        """Return a bound on a function's magnitude, its slope, and its own error in units."""
        match op:
            case "sqrt" if at >= 0:
                return math.sqrt(at + error), min(math.sqrt(error), error / math.sqrt(at) if at else math.inf), 1
            case "exp" if at + error < 50:
                return math.exp(at + error), math.exp(at) * math.expm1(error), LIBRARY
            case "log" if error <= at / 2 and at > 0:
                moved = -math.log1p(-error / at)
                return abs(math.log(at)) + moved, moved, LIBRARY
            case "tanh" | "sin" | "cos":
                return 1.0, error, LIBRARY
            case "log1p" if at > -0.5 and error < 0.25:
                return abs(math.log1p(at)) + 2 * error, 2 * error, LIBRARY
            case "expm1" if at + error < 50:
                return math.exp(at + error), math.exp(at) * math.expm1(error), LIBRARY
            case "erf":
                return 1.0, error * 2 / math.sqrt(math.pi), LIBRARY
            case _:
                self.doubtful += 1
                return 1.0, 0.0, LIBRARY

    def cast(self, target: str, source: str, x: Bounded) -> Bounded:
        value = self.machine.cast(target, source, x.value)
        if not is_float(source):
            return self._leaf(value, target)
        if is_integer(target):
            error = x.error(UNIT[source])
            at = float(x.value)
            if not math.isfinite(at + error) or math.trunc(at - error) != math.trunc(at + error):
                self.doubtful += 1
            return self._leaf(value, target)
        rounding = x.roundings(UNIT[source]) + (UNIT[target] if UNIT[target] > UNIT[source] else 0.0)
        return self._checked(Bounded(value, x.magnitude, rounding, 1, x.exact), target)
