"""Domains of scalars, in which the meaning of programs is parametric.

`Exact` computes with rational numbers, and `Machine` like C, operation by operation. Operations that are undefined in C
and divisions by zero have a value here, so that rules are total; the domain counts them.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from atl.core import dtypes
from atl.core.terms import BinaryOp, Monoid, UnaryOp
from atl.errors import NotExact

E = TypeVar("E")
"""An element of a domain."""


class Scalars(Protocol[E]):
    """The operations of `atl.core.terms` for each element type.

    `divisions_by_zero` counts divisions x / 0, whose value is 0. `undefined` counts operations that are undefined in C:
    casts of floats to integer types that cannot represent them, and indices beyond 64 bits.
    """

    divisions_by_zero: int
    undefined: int

    def constant(self, value: float, dtype: str) -> E:
        """Return a literal."""

    def from_index(self, value: int, dtype: str) -> E:
        """Return the value of an index expression; integer types wrap."""

    def element(self, raw: Any, dtype: str) -> E:
        """Convert an element of an input array."""

    def unary(self, op: UnaryOp, dtype: str, x: E) -> E: ...

    def binary(self, op: BinaryOp, dtype: str, x: E, y: E) -> E: ...

    def cast(self, target: str, source: str, x: E) -> E: ...

    def neutral(self, monoid: Monoid, dtype: str) -> E | None:
        """Return the initial value of a fold; None if a fold starts with its first operand."""


def wrapped(value: int, dtype: str) -> int:
    """Wrap an integer to the type's two's complement range, like C with -fwrapv."""
    half = 1 << (dtypes.bits(dtype) - 1)
    return (value + half) % (2 * half) - half


# -- rational numbers -------------------------------------------------------------------------------------------------

_EXACT_BINARY: Final[dict[BinaryOp, Callable[[Fraction, Fraction], Fraction]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": lambda x, y: x / y if y else Fraction(0),
    "min": min,
    "max": max,
}
_EXACT_AT: Final[dict[UnaryOp, tuple[Fraction, Fraction]]] = {
    "exp": (Fraction(0), Fraction(1)),
    "log": (Fraction(1), Fraction(0)),
    "tanh": (Fraction(0), Fraction(0)),
    "erf": (Fraction(0), Fraction(0)),
    "sin": (Fraction(0), Fraction(0)),
    "cos": (Fraction(0), Fraction(1)),
}
"""The one rational point at which each function is known to have a rational value (Lindemann and Weierstrass)."""


class Exact(Scalars[Fraction]):
    """Rational numbers for float types, and wrapping integers for integer types."""

    def __init__(self) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0

    def constant(self, value: float, dtype: str) -> Fraction:  # noqa: ARG002 (other domains need the type)
        return _rational(value)

    def from_index(self, value: int, dtype: str) -> Fraction:
        return _wrap_if_integer(Fraction(value), dtype)

    def element(self, raw: Any, dtype: str) -> Fraction:  # noqa: ARG002
        return raw if isinstance(raw, Fraction) else _rational(raw)

    def unary(self, op: UnaryOp, dtype: str, x: Fraction) -> Fraction:
        match op:
            case "neg":
                return _wrap_if_integer(-x, dtype)
            case "abs":
                return _wrap_if_integer(abs(x), dtype)
            case "sqrt":
                return _root(x)
            case "exp" | "log" | "tanh" | "erf" | "sin" | "cos":
                at, value = _EXACT_AT[op]
                if x != at:
                    raise _not_exact(f"{op}({x}) is not a rational number")
                return value

    def binary(self, op: BinaryOp, dtype: str, x: Fraction, y: Fraction) -> Fraction:
        self.divisions_by_zero += op == "div" and not y
        return _wrap_if_integer(_EXACT_BINARY[op](x, y), dtype)

    def cast(self, target: str, source: str, x: Fraction) -> Fraction:
        if not dtypes.is_integer(target):
            return x
        kept = Fraction(wrapped(math.trunc(x), target))
        self.undefined += not dtypes.is_integer(source) and kept != math.trunc(x)
        return kept

    def neutral(self, monoid: Monoid, dtype: str) -> Fraction | None:  # noqa: ARG002
        match monoid:
            case "sum":
                return Fraction(0)
            case "product":
                return Fraction(1)
            case "max" | "min":
                return None


def _rational(value: Any) -> Fraction:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        raise _not_exact(f"{value} is not a rational number")
    return Fraction(value)


def _wrap_if_integer(x: Fraction, dtype: str) -> Fraction:
    return Fraction(wrapped(x.numerator, dtype)) if dtypes.is_integer(dtype) else x


def _root(x: Fraction) -> Fraction:
    if x >= 0:
        root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if root * root == x:
            return root
    raise _not_exact(f"sqrt({x}) is not a rational number")


def _not_exact(summary: str) -> NotExact:
    return NotExact(
        summary,
        required="a rational value at each step of an exact evaluation",
        suggestions=("leave out exact=True to compute in floating point",),
    )


# -- machine numbers --------------------------------------------------------------------------------------------------


def _least(x: Any, y: Any) -> Any:
    return x if x <= y or x != x else y  # noqa: PLR0124 (x != x says that x is NaN)


def _greatest(x: Any, y: Any) -> Any:
    return x if x >= y or x != x else y  # noqa: PLR0124


_ERF: Final = np.vectorize(math.erf, otypes=[np.float64])


def _error_function(x: Any) -> Any:
    """Return the error function of a scalar or of an array, which NumPy lacks, rounded to its type."""
    return _ERF(x)[()].astype(x.dtype)


_SCALAR: Final[dict[str, Callable[[Any], Any]]] = {
    "float32": np.float32,
    "float64": np.float64,
    "int32": np.int32,
    "int64": np.int64,
}
_MACHINE_UNARY: Final[dict[UnaryOp, Callable[[Any], Any]]] = {
    "neg": operator.neg,
    "abs": operator.abs,
    "sqrt": np.sqrt,
    "exp": np.exp,
    "log": np.log,
    "tanh": np.tanh,
    "erf": _error_function,
    "sin": np.sin,
    "cos": np.cos,
}
_MACHINE_BINARY: Final[dict[BinaryOp, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.truediv,
    "min": _least,
    "max": _greatest,
}


class Machine(Scalars[Any]):
    """NumPy scalars. Each operation rounds to its element type (FLT_EVAL_METHOD 0); integers wrap silently.

    NaN and infinity follow IEEE, except that x / 0 is 0. The minimum or maximum with NaN is NaN.
    """

    def __init__(self) -> None:
        self.divisions_by_zero = 0
        self.undefined = 0

    @np.errstate(all="ignore")
    def constant(self, value: float, dtype: str) -> Any:
        return _SCALAR[dtype](value)

    def from_index(self, value: int, dtype: str) -> Any:
        wrapped_value = np.int64(wrapped(value, "int64"))
        self.undefined += int(wrapped_value) != value
        return wrapped_value.astype(dtype)

    def element(self, raw: Any, dtype: str) -> Any:
        kind = _SCALAR[dtype]
        return raw if type(raw) is kind else kind(raw)

    @np.errstate(all="ignore")
    def unary(self, op: UnaryOp, dtype: str, x: Any) -> Any:  # noqa: ARG002 (the scalar knows its type)
        return _MACHINE_UNARY[op](x)

    @np.errstate(all="ignore")
    def binary(self, op: BinaryOp, dtype: str, x: Any, y: Any) -> Any:
        if op == "div" and y == 0:
            self.divisions_by_zero += 1
            return _SCALAR[dtype](0)
        return _MACHINE_BINARY[op](x, y)

    @np.errstate(all="ignore")
    def cast(self, target: str, source: str, x: Any) -> Any:
        if dtypes.is_integer(target) and not dtypes.is_integer(source):
            whole = int(x) if np.isfinite(x) else 0
            wrapped_value = wrapped(whole, target)
            self.undefined += wrapped_value != whole or not np.isfinite(x)
            return _SCALAR[target](wrapped_value)
        return x.astype(target)

    def neutral(self, monoid: Monoid, dtype: str) -> Any:
        kind = _SCALAR[dtype]
        match monoid:
            case "sum":
                return kind(0)
            case "product":
                return kind(1)
            case "max":
                return kind(np.iinfo(dtype).min if dtypes.is_integer(dtype) else -np.inf)
            case "min":
                return kind(np.iinfo(dtype).max if dtypes.is_integer(dtype) else np.inf)
