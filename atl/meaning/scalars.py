"""Domains of scalars, in which the meaning of programs is parametric.

`Exact` computes with rational numbers, and `Machine` like C, operation by operation. Operations that are undefined in C
and divisions by zero have a value here, so that rules are total; the domain counts them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, Final, Protocol, TypeVar

import numpy as np

from atl.core import dtypes
from atl.core.operations import OPERATIONS, BinaryOp, UnaryOp, not_exact
from atl.core.terms import Monoid

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

    def where(self, test: E, x: E, y: E) -> E:
        """Return x if the test, a truth value, is true, else y."""

    def cast(self, target: str, source: str, x: E) -> E: ...

    def neutral(self, monoid: Monoid, dtype: str) -> E | None:
        """Return the initial value of a fold; None if a fold starts with its first operand."""


def wrapped(value: int, dtype: str) -> int:
    """Wrap an integer to the type's two's complement range, like C with -fwrapv."""
    low, high = dtypes.range_of(dtype)
    return (value - low) % (high - low + 1) + low


# -- rational numbers -------------------------------------------------------------------------------------------------


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
        return _wrap_if_integer(OPERATIONS[op].exact(dtype, x), dtype)

    def binary(self, op: BinaryOp, dtype: str, x: Fraction, y: Fraction) -> Fraction:
        self.divisions_by_zero += op == "div" and not y
        return _wrap_if_integer(OPERATIONS[op].exact(dtype, x, y), dtype)

    def where(self, test: Fraction, x: Fraction, y: Fraction) -> Fraction:
        return x if test else y

    def cast(self, target: str, source: str, x: Fraction) -> Fraction:
        if target == dtypes.BOOL:
            return Fraction(x != 0)
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
        raise not_exact(f"{value} is not a rational number")
    return Fraction(value)


def _wrap_if_integer(x: Fraction, dtype: str) -> Fraction:
    return Fraction(wrapped(x.numerator, dtype)) if dtypes.is_integer(dtype) else x


# -- machine numbers --------------------------------------------------------------------------------------------------


_ERF: Final = np.vectorize(math.erf, otypes=[np.float64])


def _error_function(x: Any) -> Any:
    """Return the error function of a scalar or of an array, which NumPy lacks, rounded to its type."""
    return _ERF(x)[()].astype(x.dtype)


_SCALAR: Final[dict[str, Callable[[Any], Any]]] = {
    name: np.dtype(name).type for name in dtypes.ELEMENTS if dtypes.has_arrays(name)
}
_MACHINE: Final[dict[UnaryOp | BinaryOp, Callable[..., Any]]] = {
    op: _error_function if op == "erf" else getattr(np, of.numpy[0]) for op, of in OPERATIONS.items()
}


def converted(x: Any, target: str) -> Any:
    """Convert a scalar or an array to an element type. Floats are rounded to nearest, ties to even.

    The package ml_dtypes rounds to bfloat16 by way of float32, so twice. Here the first rounding is to an odd last bit,
    which is never a tie of the second. Integers are converted to float64 first.
    """
    if target != "bfloat16" or x.dtype.itemsize < 4 or x.dtype == np.float32:
        return x.astype(target)
    wide = x.astype(np.float64)
    near = wide.astype(np.float32)
    inexact = (near != wide) & np.isfinite(near)
    bits = near.view(np.int32) - (inexact & (np.abs(near) > np.abs(wide)))
    return (bits | inexact).astype(np.int32).view(np.float32).astype(target)


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
        return _MACHINE[op](x)

    @np.errstate(all="ignore")
    def binary(self, op: BinaryOp, dtype: str, x: Any, y: Any) -> Any:
        if op == "div" and y == 0:
            self.divisions_by_zero += 1
            return _SCALAR[dtype](0)
        made = _MACHINE[op](x, y)
        # Of two zeros the first, as in kernels; the result of NumPy may depend on the processor.
        return np.where(x == y, x, made)[()] if op in ("min", "max") else made

    def where(self, test: Any, x: Any, y: Any) -> Any:
        return x if test else y

    @np.errstate(all="ignore")
    def cast(self, target: str, source: str, x: Any) -> Any:
        if dtypes.is_integer(target) and not dtypes.is_integer(source):
            whole = int(x) if np.isfinite(x) else 0
            wrapped_value = wrapped(whole, target)
            self.undefined += wrapped_value != whole or not np.isfinite(x)
            return _SCALAR[target](wrapped_value)
        return converted(x, target)

    def neutral(self, monoid: Monoid, dtype: str) -> Any:
        kind = _SCALAR[dtype]
        match monoid:
            case "sum":
                return kind(0)
            case "product":
                return kind(1)
            case "max":
                return kind(-np.inf if dtype in dtypes.FLOATS else dtypes.range_of(dtype)[0])
            case "min":
                return kind(np.inf if dtype in dtypes.FLOATS else dtypes.range_of(dtype)[1])
