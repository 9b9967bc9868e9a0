"""The table of scalar operations: one row for each, with all its properties that are data.

A property that is code is elsewhere, in one place for each representation: the public function in
`atl.surface.operators`, the C text in `lowering.c.scalars`, its law over symbols in `atl.meaning.polynomials`.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias, get_args

from atl.core import dtypes
from atl.core.dtypes import Kind
from atl.errors import NotExact

UnaryOp: TypeAlias = Literal[
    "neg",
    "abs",
    "sqrt",
    "exp",
    "log",
    "tanh",
    "erf",
    "sin",
    "cos",
    "log1p",
    "expm1",
    "floor",
    "round",
    "stop",
    "invert",
]
Arithmetic: TypeAlias = Literal["add", "sub", "mul", "div", "min", "max"]
Comparison: TypeAlias = Literal["lt", "le", "eq"]
IntegerOp: TypeAlias = Literal["and", "or", "xor", "floordiv", "mod", "shl", "shr"]
BinaryOp: TypeAlias = Literal[Arithmetic, Comparison, IntegerOp]

UNARY: Final[tuple[UnaryOp, ...]] = get_args(UnaryOp)
ARITHMETIC: Final[tuple[Arithmetic, ...]] = get_args(Arithmetic)
COMPARISONS: Final[tuple[Comparison, ...]] = get_args(Comparison)
BINARY: Final[tuple[BinaryOp, ...]] = get_args(BinaryOp)

_NUMBERS: Final[tuple[Kind, ...]] = ("float", "integer")
_BITS: Final[tuple[Kind, ...]] = ("integer", "bool")
_ALL: Final[tuple[Kind, ...]] = dtypes.KINDS


@dataclass(frozen=True, slots=True)
class Operation:
    """The properties of a scalar operation.

    `numpy` are the functions of NumPy with its meaning, of which the first one defines the machine numbers. `exact`
    computes with rational numbers, given the element type and the operands. `kinds` are the element types of the
    operands; the result has the same type, except that comparisons are Boolean. `sign` is the infix operator of the
    notation; other operations print as calls. `at_zero` is true if operands of zero yield zero, and `commutative` if
    the operands may be exchanged. `tangent` is the derivative of a smooth function along d, at x, where its value is y;
    its last argument applies a function by name. `error` are the bounds of `error_bound`; None where the result is
    correctly rounded.
    """

    numpy: tuple[str, ...]
    exact: Callable[..., Fraction]
    rocq: str
    latex: str
    kinds: tuple[Kind, ...] = _NUMBERS
    sign: str = ""
    at_zero: bool = True
    commutative: bool = False
    tangent: Callable[[Any, Any, Any, Callable[[UnaryOp, Any], Any]], Any] | None = None
    error: tuple[float, float, float, float] | None = None


# -- exact values -----------------------------------------------------------------------------------------------------


def _known_at(name: str, point: int, value: int) -> Callable[[str, Fraction], Fraction]:
    """Return a function with one rational point that has a rational value (Lindemann and Weierstrass)."""

    def function(_: str, x: Fraction) -> Fraction:
        if x != point:
            raise not_exact(f"{name}({x}) is not a rational number")
        return Fraction(value)

    return function


def _root(_: str, x: Fraction) -> Fraction:
    if x >= 0:
        root = Fraction(math.isqrt(x.numerator), math.isqrt(x.denominator))
        if root * root == x:
            return root
    raise not_exact(f"sqrt({x}) is not a rational number")


def not_exact(summary: str) -> NotExact:
    """Return the error for a value that is not rational."""
    return NotExact(
        summary,
        required="a rational value at each step of an exact evaluation",
        suggestions=("leave out exact=True to compute in floating point",),
    )


def _rational(function: Callable[..., object]) -> Callable[..., Fraction]:
    return lambda _, *operands: Fraction(function(*operands))  # type: ignore[call-overload]


def _of_integers(function: Callable[..., int]) -> Callable[..., Fraction]:
    return lambda _, *operands: Fraction(function(*map(int, operands)))


def _not(dtype: str, x: Fraction) -> Fraction:
    return 1 - x if dtype == dtypes.BOOL else -x - 1


def _shifted_left(dtype: str, x: Fraction, by: Fraction) -> Fraction:
    return x * 2 ** int(by) if 0 <= by < dtypes.bits(dtype) else Fraction(0)


def _shifted_right(dtype: str, x: Fraction, by: Fraction) -> Fraction:
    return Fraction(int(x) >> int(by)) if 0 <= by < dtypes.bits(dtype) else Fraction(-1 if x < 0 else 0)


# -- the table --------------------------------------------------------------------------------------------------------


def _function(
    name: str, rocq: str, latex: str, tangent: Callable[[Any, Any, Any, Callable[[UnaryOp, Any], Any]], Any],
    error: tuple[float, float, float, float], point: int = 0, value: int = 0,
) -> Operation:  # fmt: skip
    """Return the row of a transcendental function."""
    exact = _known_at(name, point, value)
    return Operation(
        (name,), exact, rocq, latex, ("float",), at_zero=(point, value) == (0, 0), tangent=tangent, error=error
    )


OPERATIONS: Final[dict[UnaryOp | BinaryOp, Operation]] = {
    "neg": Operation(("negative",), _rational(operator.neg), "neg", "-{}"),
    "abs": Operation(("absolute", "fabs"), _rational(operator.abs), "absolute", r"\left|{}\right|"),
    "sqrt": Operation(
        ("sqrt",), _root, "root", r"\sqrt{{{}}}", ("float",), tangent=lambda d, x, y, _: d / (y + y)
    ),
    "exp": _function("exp", "exponential", r"\exp", lambda d, x, y, _: d * y, (1.1, 1.1, 0.6, 0.6), value=1),
    "log": _function("log", "logarithm", r"\log", lambda d, x, y, _: d / x, (1, 1, 0.9, 0.6), point=1),
    "tanh": _function("tanh", "tangent", r"\tanh", lambda d, x, y, _: d * (1 - y * y), (1.5, 1.5, 2.3, 2.3)),
    "erf": _function(
        "erf", "error_function", r"\operatorname{erf}",
        lambda d, x, y, of: d * (2 / math.sqrt(math.pi) * of("exp", -(x * x))), (1.1, 1.5, 1, 1.5),
    ),
    "sin": _function("sin", "sine", r"\sin", lambda d, x, y, of: d * of("cos", x), (0.51, 0.6, 0.6, 0.6)),
    "cos": _function("cos", "cosine", r"\cos", lambda d, x, y, of: -d * of("sin", x), (0.51, 0.6, 0.6, 0.6), value=1),
    "log1p": _function(
        "log1p", "logarithm_1p", r"\operatorname{log1p}", lambda d, x, y, _: d / (1 + x), (0.7, 1, 0.7, 1)
    ),
    "expm1": _function(
        "expm1", "exponential_m1", r"\operatorname{expm1}", lambda d, x, y, _: d * (1 + y), (0.7, 1, 0.7, 1)
    ),
    "floor": Operation(("floor",), _rational(math.floor), "rounded_down", r"\left\lfloor{}\right\rfloor", ("float",)),
    "round": Operation(("rint",), _rational(round), "rounded", r"\operatorname{round}", ("float",)),
    "stop": Operation(("positive",), _rational(operator.pos), "stopped", r"\operatorname{stop}"),
    "invert": Operation(("invert", "logical_not"), _not, "complement", r"\lnot {}", _BITS, at_zero=False),
    "add": Operation(("add",), _rational(operator.add), "add", "+", sign="+", commutative=True),
    "sub": Operation(("subtract",), _rational(operator.sub), "sub", "-", sign="-"),
    "mul": Operation(("multiply",), _rational(operator.mul), "mul", r"\cdot", sign="*", commutative=True),
    "div": Operation(
        ("divide",), _rational(lambda x, y: x / y if y else 0), "over", r"\frac{{{}}}{{{}}}", ("float",), sign="/"
    ),
    "min": Operation(("minimum",), _rational(min), "least", r"\min", _ALL, commutative=True),
    "max": Operation(("maximum",), _rational(max), "greatest", r"\max", _ALL, commutative=True),
    "lt": Operation(("less",), _rational(operator.lt), "is_less", "<", _ALL, "<"),
    "le": Operation(("less_equal",), _rational(operator.le), "is_at_most", r"\le", _ALL, "<=", at_zero=False),
    "eq": Operation(("equal",), _rational(operator.eq), "is_equal", "=", _ALL, "==", at_zero=False, commutative=True),
    "and": Operation(
        ("bitwise_and", "logical_and"), _of_integers(operator.and_), "bits_and", r"\mathbin{\&}", _BITS, "&",
        commutative=True,
    ),
    "or": Operation(
        ("bitwise_or", "logical_or"), _of_integers(operator.or_), "bits_or", r"\mathbin{|}", _BITS, "|",
        commutative=True,
    ),
    "xor": Operation(
        ("bitwise_xor", "logical_xor"), _of_integers(operator.xor), "bits_xor", r"\veebar", _BITS, "^",
        commutative=True,
    ),
    "floordiv": Operation(
        ("floor_divide",), _of_integers(lambda x, y: x // y if y else 0), "quotient", r"\mathbin{//}", ("integer",),
        "//",
    ),
    "mod": Operation(
        ("remainder", "mod"), _of_integers(lambda x, y: x % y if y else 0), "remainder", r"\bmod", ("integer",), "%"
    ),
    "shl": Operation(("left_shift",), _shifted_left, "shifted_left", r"\ll", ("integer",), "<<"),
    "shr": Operation(("right_shift",), _shifted_right, "shifted_right", r"\gg", ("integer",), ">>"),
}  # fmt: skip
"""All scalar operations of one and two operands."""

FLOAT_ONLY: Final[frozenset[str]] = frozenset(op for op in OPERATIONS if OPERATIONS[op].kinds == ("float",))
"""Operations that are defined on floating-point numbers only."""
ZERO_AT_ZERO: Final[tuple[UnaryOp, ...]] = tuple(op for op in UNARY if OPERATIONS[op].at_zero)
"""Functions that map zero to zero, and so padding to what reads as padding."""
ZERO_AT_ZEROS: Final[tuple[BinaryOp, ...]] = tuple(op for op in BINARY if OPERATIONS[op].at_zero)
"""Operations that map two zeros to zero."""
NOT_ZERO_AT_ZERO: Final[tuple[UnaryOp, ...]] = tuple(op for op in UNARY if not OPERATIONS[op].at_zero)
"""Functions that do not map zero to zero."""
NOT_ZERO_AT_ZEROS: Final[tuple[BinaryOp, ...]] = tuple(op for op in BINARY if not OPERATIONS[op].at_zero)
"""Operations that do not map two zeros to zero."""
COMMUTATIVE: Final[tuple[BinaryOp, ...]] = tuple(op for op in BINARY if OPERATIONS[op].commutative)
"""Operations whose operands may be exchanged."""
INFIX: Final[dict[BinaryOp, str]] = {op: OPERATIONS[op].sign for op in BINARY if OPERATIONS[op].sign}
"""Infix operators; other operations print as calls."""


def error_bound(op: UnaryOp, dtype: Literal["float32", "float64"], *, fma: bool) -> float:
    """Return the bound on the error of a function in C, in units in the last place.

    `fma` is true if the processor has fused multiply-adds. Otherwise, the C library's functions are called; the bound
    holds for GNU's library, whose largest errors are known (Innocente and Zimmermann, Accuracy of Mathematical
    Functions in Single, Double, Double Extended, and Quadruple Precision).

    >>> error_bound("tanh", "float32", fma=True), error_bound("tanh", "float32", fma=False)
    (1.5, 2.3)
    """
    bounds = OPERATIONS[op].error or (0.5,) * 4
    return bounds[2 * (not fma) + (dtype == "float64")]


def accepts(op: UnaryOp | BinaryOp, dtype: str | None) -> bool:
    """Return whether an operation is defined on elements of this type; any type if it is not determined yet.

    Elements that are only stored are not computed with; integers are compared, as they may be indices.
    """
    if dtype is None or dtypes.is_variable(dtype):
        return True
    if dtype in dtypes.STORED:
        return op in COMPARISONS and dtypes.is_integer(dtype)
    return dtypes.kind_of(dtype) in OPERATIONS[op].kinds


def result_type(op: BinaryOp, dtype: str | None) -> str | None:
    """Return the element type of the result for operands of this type."""
    return dtypes.BOOL if op in COMPARISONS else dtype
