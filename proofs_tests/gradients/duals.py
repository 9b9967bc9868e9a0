"""Dual numbers as scalars of the reference interpreter: an implementation of derivatives apart from `gradients`.

Floats are computed in float64. `ties` counts values at which a derivative depends on a choice: equal operands of an
extremum with different derivatives, and arguments 0 of `abs` and `sqrt`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from atl.core import dtypes
from atl.core.operations import BinaryOp, UnaryOp
from atl.core.program import Program
from atl.core.terms import Monoid
from atl.meaning.interpret import denote
from atl.meaning.scalars import Machine, Scalars
from proofs_tests.programs.generate import AnyArray


class Dual(NamedTuple):
    """A number and its derivative."""

    value: Any
    along: float = 0.0

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def _wide(dtype: str) -> str:
    return "float64" if dtypes.is_float(dtype) else dtype


class Duals(Scalars[Dual]):
    """The numbers of `Machine` in float64, with derivatives."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.divisions_by_zero = self.undefined = self.ties = 0

    def constant(self, value: float, dtype: str) -> Dual:
        return Dual(self.machine.constant(value, _wide(dtype)))

    def from_index(self, value: int, dtype: str) -> Dual:
        return Dual(self.machine.from_index(value, _wide(dtype)))

    def element(self, raw: Any, dtype: str) -> Dual:
        value, along = raw if isinstance(raw, tuple) else (raw, 0.0)
        return Dual(self.machine.element(value, _wide(dtype)), along)

    def unary(self, op: UnaryOp, dtype: str, x: Dual) -> Dual:
        value = self.machine.unary(op, _wide(dtype), x.value)
        slope = 0.0
        if x.along and dtypes.is_float(dtype):
            self.ties += op in ("abs", "sqrt") and not x.value
            with np.errstate(all="ignore"):
                slope = _SLOPES[op](np.float64(x.value))
        return Dual(value, x.along * slope if x.along else 0.0)

    def binary(self, op: BinaryOp, dtype: str, x: Dual, y: Dual) -> Dual:
        a, b = x.value, y.value
        before = self.machine.divisions_by_zero
        value = self.machine.binary(op, _wide(dtype), a, b)
        self.divisions_by_zero += self.machine.divisions_by_zero - before
        if not (x.along or y.along):
            return Dual(value)
        match op:
            case "add":
                return Dual(value, x.along + y.along)
            case "sub":
                return Dual(value, x.along - y.along)
            case "mul":
                return Dual(value, x.along * b + a * y.along)
            case "div":
                return Dual(value, (x.along * b - a * y.along) / (b * b) if b else 0.0)
            case "min" | "max":
                self.ties += a == b and x.along != y.along
                chosen = x if (a < b) == (op == "min") else y
                return Dual(value, (x.along + y.along) / 2 if a == b else chosen.along)
            case _:
                return Dual(value)

    def where(self, test: Dual, x: Dual, y: Dual) -> Dual:
        return x if test.value else y

    def cast(self, target: str, source: str, x: Dual) -> Dual:
        value = self.machine.cast(_wide(target), _wide(source), x.value)
        self.undefined = self.machine.undefined
        return Dual(value, x.along if dtypes.is_float(target) and dtypes.is_float(source) else 0.0)

    def neutral(self, monoid: Monoid, dtype: str) -> Dual | None:
        return Dual(self.machine.neutral(monoid, _wide(dtype))) if monoid in ("sum", "product") else None


_SLOPES: Final[dict[UnaryOp, Callable[[Any], Any]]] = {
    "neg": lambda x: -1.0,
    "abs": np.sign,
    "sqrt": lambda x: 0.5 * x**-0.5 if x else 0.0,
    "exp": np.exp,
    "log": lambda x: x**-1,
    "tanh": lambda x: np.cosh(x) ** -2,
    "erf": lambda x: math.exp(-(x**2)) / (math.pi**0.5 / 2),
    "sin": np.cos,
    "cos": lambda x: np.sin(-x),
    "log1p": lambda x: (x + 1) ** -1,
    "expm1": np.exp,
    "floor": lambda x: 0.0,
    "round": lambda x: 0.0,
    "stop": lambda x: 0.0,
}


def duals(array: AnyArray, along: AnyArray) -> AnyArray:
    """Return an array of numbers with derivatives, for inputs of `values`."""
    made = np.empty(array.shape, object)
    for at in np.ndindex(array.shape):
        made[at] = (float(array[at]), float(along[at]))
    return made


def values(
    program: Program, sizes: Mapping[str, int], arrays: Mapping[str, AnyArray]
) -> tuple[AnyArray, AnyArray, Duals]:
    """Evaluate a program in dual numbers. Return the values, their derivatives, and the domain with its counts."""
    domain = Duals()
    meaning = denote(program, sizes, arrays, domain)
    found, along = np.zeros(meaning.shape), np.zeros(meaning.shape)
    for at in np.ndindex(meaning.shape):
        each = meaning.at(at)
        if isinstance(each, Dual):
            found[at], along[at] = float(each.value), float(each.along)
    return found, along, domain
