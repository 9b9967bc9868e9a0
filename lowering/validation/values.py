"""Values of C expressions, and arithmetic on them that is parametric in the elements.

An integer that no element determines is a Python int. Other values are elements of a domain:

| type in C | value |
|---|---|
| float, double | an element of the domain; infinity and NaN are a `Special` in domains that lack them |
| an integer type | an int, or a `Symbol`: an element of the domain with its element type |
| an integer with the bits of a float | an int, or `Bits` |
| a vector | a tuple of values |
| a pointer | an `Address`, or None for a null pointer |
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from atl.core.dtypes import BOOL, is_float
from atl.core.operations import BinaryOp, UnaryOp
from atl.errors import NotInSubset
from atl.meaning.polynomials import Polynomial
from atl.meaning.scalars import Machine, Scalars
from lowering.validation.domains import TextTerms
from lowering.validation.errors import ElementBranch, TextTrap
from lowering.validation.memory import UNSET, ZERO
from lowering.validation.types import DOUBLE, FLOAT, Number, wrap

HALVES: Final = ("float16", "bfloat16")
_PATTERNS: Final = {("float32", 4): ("<f", "<i"), ("float64", 8): ("<d", "<q")}
_ARITHMETIC: Final[dict[str, BinaryOp]] = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "div",
    "&": "and",
    "|": "or",
    "^": "xor",
}
Form: TypeAlias = Literal["bits", "key", "signs of bits", "signs of key", "masked bits", "masked key"]


class Symbol:
    """An element of an integer type or a truth value. If it is a `mask`, it is 0 or -1."""

    __slots__ = ("dtype", "mask", "value")

    def __init__(self, value: Any, dtype: str, *, mask: bool = False) -> None:
        self.value = value
        self.dtype = dtype
        self.mask = mask

    def __repr__(self) -> str:
        return f"{self.value}:{self.dtype}"


@dataclass(frozen=True, slots=True)
class Bits:
    """An integer made of the bits of a float by copying, shifts and exclusive or.

    A key is `bits ^ ((bits >> (w - 1)) & MAX)`. Keys have the order of the floats, and the key of a key is the bits.
    """

    value: Any
    form: Form = "bits"


@dataclass(frozen=True, slots=True)
class Picked:
    """A value where a mask is set, else zero."""

    test: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Special:
    """An infinity, or a number that is not known."""

    sign: int


INFINITE: Final = Special(1)
MINUS_INFINITE: Final = Special(-1)
UNKNOWN: Final = Special(0)


class Values:
    """Arithmetic of C on the elements of a domain."""

    def __init__(self, scalars: Scalars[Any]) -> None:
        self.scalars = scalars
        self.is_machine = isinstance(scalars, Machine)

    # -- tests

    def truth(self, x: Any) -> bool | None:
        """Return whether a truth value of the domain is true; None if that depends on the elements."""
        if isinstance(x, Polynomial):
            known = x.constant
            return None if known is None else bool(known)
        return bool(x)

    def test(self, x: Any) -> Any:
        """Return the value in C of a truth value of the domain."""
        known = self.truth(x)
        return Symbol(x, BOOL) if known is None else int(known)

    def is_true(self, x: Any) -> bool:
        """Return whether a value is not zero. Raises `ElementBranch`."""
        if type(x) is int:
            return x != 0
        if isinstance(x, Symbol):
            known = self.truth(x.value if x.dtype == BOOL else self.scalars.cast(BOOL, x.dtype, x.value))
        else:
            known = self.truth(x) if not isinstance(x, Special | Bits | Picked) else None
        if known is None:
            raise ElementBranch
        return known

    def as_test(self, x: Any, of: Number) -> Any:
        """Return whether a value is not zero, as an int or a `Symbol` of a truth value."""
        if type(x) is int:
            return int(x != 0)
        if isinstance(x, Symbol):
            return x if x.dtype == BOOL else self.test(self.scalars.cast(BOOL, x.dtype, x.value))
        if isinstance(x, Special | Bits | Picked):
            raise NotInSubset(f"a test of {x}", required="a test of a number")
        return self.test(self.scalars.cast(BOOL, of.dtype, x))

    def negated(self, x: Any) -> Any:
        """Return the negation of a test."""
        return int(not x) if type(x) is int else self.test(self.scalars.unary("invert", BOOL, x.value))

    def both(self, op: BinaryOp, x: Any, y: Any) -> Any:
        """Combine two tests."""
        if type(x) is int and type(y) is int:
            return x & y if op == "and" else x | y if op == "or" else x ^ y
        a, b = self.element(x, BOOL), self.element(y, BOOL)
        return self.test(self.scalars.binary(op, BOOL, a, b))

    def compared(self, op: str, of: Number, x: Any, y: Any) -> Any:
        """Compare two values of one type."""
        if type(x) is int and type(y) is int and not of.is_float:
            return int(_COMPARISONS[op](x, y))
        if op in (">", ">="):
            return self.compared("<" if op == ">" else "<=", of, y, x)
        if op == "!=":
            return self.negated(self.compared("==", of, x, y))
        if isinstance(x, Special) or isinstance(y, Special):
            return self._compared_special(op, x, y)
        if isinstance(x, Bits) and isinstance(y, Bits) and x.form == y.form == "key":
            dtype = "float32" if of.size == 4 else "float64"
            if isinstance(x.value, Special) or isinstance(y.value, Special):
                return self._compared_special(op, x.value, y.value)
            a, b = x.value, y.value
        elif isinstance(x, Bits | Picked) or isinstance(y, Bits | Picked):
            raise NotInSubset("a comparison of the bits of floats", required="a comparison of numbers or keys")
        elif of.is_float:
            dtype, a, b = of.dtype, x, y
        else:
            if (
                op == "=="
                and BOOL in (getattr(x, "dtype", ""), getattr(y, "dtype", ""))
                and (0 in (x, y) or 1 in (x, y))
            ):
                test, value = (x, y) if isinstance(x, Symbol) else (y, x)
                return test if value == 1 else self.negated(test)
            dtype, a, b = of.dtype, self.element(x, of.dtype), self.element(y, of.dtype)
        names: dict[str, BinaryOp] = {"<": "lt", "<=": "le", "==": "eq"}
        return self.test(self.scalars.binary(names[op], dtype, a, b))

    def _compared_special(self, op: str, x: Any, y: Any) -> int:
        if UNKNOWN in (x, y):
            if x == y and x is y:
                return int(op in ("==", "<="))
            raise NotInSubset("a comparison with a number that is not known", required="finite numbers")
        a, b = (each.sign if isinstance(each, Special) else 0 for each in (x, y))
        return int(_COMPARISONS[op](a, b))

    def select(self, test: Any, x: Any, y: Any, of: Any) -> Any:
        """Return `test ? x : y` for a test that may depend on elements."""
        if type(test) is int:
            return x if test else y
        if isinstance(x, Bits) and isinstance(y, Bits) and x.form == y.form:
            return Bits(self.select(test, x.value, y.value, FLOAT if of.size == 4 else DOUBLE), x.form)
        if isinstance(x, tuple):
            return tuple(self.select(test, a, b, of) for a, b in zip(x, y, strict=True))
        if x is y or (type(x) is int and x == y):
            return x
        for each in (x, y):
            if isinstance(each, Special | Bits | Picked) or each is None or each is UNSET:
                raise ElementBranch
        if isinstance(of, Number) and of.is_float:
            return self.scalars.where(test.value, x, y)
        if not isinstance(of, Number):
            raise ElementBranch
        dtypes = {each.dtype for each in (x, y) if isinstance(each, Symbol)}
        dtype = dtypes.pop() if len(dtypes) == 1 else of.dtype
        if dtype == BOOL and any(type(each) is int and each not in (0, 1) for each in (x, y)):
            dtype = of.dtype
        made = self.scalars.where(test.value, self.element(x, dtype), self.element(y, dtype))
        return self.test(made) if dtype == BOOL else Symbol(made, dtype)

    # -- elements

    def element(self, x: Any, dtype: str) -> Any:
        """Return a value of an integer type, or a cell, as an element of the domain."""
        scalars = self.scalars
        if x is ZERO:
            return scalars.constant(0, dtype)
        if is_float(dtype) and dtype not in HALVES:
            return x  # in some domains an element is an int
        if type(x) is int:
            if dtype in HALVES:
                return scalars.constant(half_of_bits(x, dtype), dtype)
            return scalars.constant(x, dtype)
        if isinstance(x, Symbol):
            return x.value if x.dtype == dtype else scalars.cast(dtype, x.dtype, x.value)
        return x

    def literal(self, value: float, of: Number) -> Any:
        """Return a literal of a float type."""
        if math.isinf(value) and not self.is_machine:
            return INFINITE if value > 0 else MINUS_INFINITE
        if math.isnan(value) and not self.is_machine:
            return UNKNOWN
        return self.scalars.constant(value, of.dtype)

    def converted(self, x: Any, source: Number, target: Number, *, explicit: bool = False) -> Any:
        """Convert a value between arithmetic types."""
        if source is target or x is UNSET:
            return x
        if x is ZERO:
            x = self.scalars.constant(0, source.dtype) if source.is_float else 0
        if target.is_float:
            if source.is_float:
                return x if isinstance(x, Special) else self.scalars.cast(target.dtype, source.dtype, x)
            if type(x) is int:
                return (
                    self.scalars.from_index(x, target.dtype)
                    if abs(x) < 2**63
                    else self.scalars.constant(x, target.dtype)
                )
            if isinstance(x, Symbol):
                return self.scalars.cast(target.dtype, x.dtype, x.value)
            raise NotInSubset("bits of a float as a number", required="conversions of numbers")
        if source.is_float:
            if isinstance(x, Special):
                raise TextTrap("conversion", f"{x} to {target.name}")
            if self.is_machine:
                return self._to_integer(x, target)
            return Symbol(self.scalars.cast(target.dtype, source.dtype, x), target.dtype)
        if type(x) is int:
            return wrap(x, target)
        if isinstance(x, Symbol):
            if x.dtype == target.dtype or (not explicit and (x.dtype == BOOL or target.size > source.size)):
                return x
            if target.dtype == "uint16" or x.dtype in HALVES:
                return x
            if target.signed != source.signed and target.size == source.size:
                return x
            return Symbol(self.scalars.cast(target.dtype, x.dtype, x.value), target.dtype)
        return x

    def _to_integer(self, x: Any, target: Number) -> int:
        value = float(x)
        if not math.isfinite(value) or not target.low <= math.trunc(value) <= target.high:
            raise TextTrap("conversion", f"{value} to {target.name}")
        return math.trunc(value)

    # -- arithmetic

    def unary(self, op: UnaryOp, of: Number, x: Any) -> Any:
        """Apply a function to a float."""
        if isinstance(x, Special):
            return Special(-x.sign) if op == "neg" else INFINITE if op == "abs" and x.sign else UNKNOWN
        return self.scalars.unary(op, of.dtype, x)

    def floats(self, op: str, of: Number, x: Any, y: Any) -> Any:
        """Compute with two floats of one type."""
        if isinstance(x, Special) or isinstance(y, Special):
            return UNKNOWN
        return self.scalars.binary(_ARITHMETIC[op], of.dtype, x, y)

    def fused(self, of: Number, x: Any, y: Any, z: Any) -> Any:
        """Return x * y + z with one rounding: exact for real numbers, and a term of its own in free terms."""
        if any(isinstance(each, Special) for each in (x, y, z)):
            return UNKNOWN
        if isinstance(self.scalars, TextTerms):
            return self.scalars.fused(of.dtype, x, y, z)
        if self.is_machine:
            return fused(of.dtype, x, y, z)
        return self.floats("+", of, self.floats("*", of, x, y), z)

    def integers(self, op: str, of: Number, x: Any, y: Any, line: int) -> Any:
        """Compute with two integers of one type."""
        if type(x) is int and type(y) is int:
            return wrap(_on_ints(op, of, x, y, line), of)
        if isinstance(x, Bits | Picked) or isinstance(y, Bits | Picked):
            return self._on_bits(op, of, x, y)
        if (isinstance(x, Symbol) and x.mask) or (isinstance(y, Symbol) and y.mask):
            return self._on_masks(op, x, y)
        if op in "&|^" and all(each in (0, 1) if type(each) is int else each.dtype == BOOL for each in (x, y)):
            return self.both(_ARITHMETIC[op], x, y)
        names: dict[str, BinaryOp] = {**_ARITHMETIC, "<<": "shl", ">>": "shr"}
        if op not in names or op == "/":
            raise NotInSubset(f"the operator {op} on elements", required="+, -, *, &, |, ^, << or >>")
        a, b = self.element(x, of.dtype), self.element(y, of.dtype)
        return Symbol(self.scalars.binary(names[op], of.dtype, a, b), of.dtype)

    def complement(self, of: Number, x: Any) -> Any:
        """Return ~x."""
        if type(x) is int:
            return wrap(~x, of)
        if isinstance(x, Symbol):
            if x.mask:
                inverse = self.scalars.unary("invert", BOOL, x.value)
                return Symbol(inverse, BOOL, mask=True)
            return Symbol(self.scalars.unary("invert", of.dtype, self.element(x, of.dtype)), of.dtype)
        raise NotInSubset("~ of the bits of a float", required="~ of an integer")

    def minus(self, of: Number, x: Any) -> Any:
        """Return -x for an integer."""
        if type(x) is int:
            return wrap(-x, of)
        if isinstance(x, Symbol):
            return Symbol(self.scalars.unary("neg", of.dtype, self.element(x, of.dtype)), of.dtype)
        raise NotInSubset("- of the bits of a float", required="- of a number")

    def _on_masks(self, op: str, x: Any, y: Any) -> Any:
        masks = [each for each in (x, y) if isinstance(each, Symbol) and each.mask]
        if len(masks) == 2 and op in "&|^":
            made = self.scalars.binary(_ARITHMETIC[op], BOOL, masks[0].value, masks[1].value)
            return Symbol(made, BOOL, mask=True)
        value = y if masks[0] is x else x
        if op == "&":
            if type(value) is int:
                return 0 if not value else masks[0] if value == -1 else Picked(masks[0].value, value)
            return Picked(masks[0].value, value)
        if op == "|" and type(value) is int and value in (0, -1):
            return masks[0] if not value else -1
        raise NotInSubset(f"{op} of a mask and a number", required="a choice by a mask")

    def _on_bits(self, op: str, of: Number, x: Any, y: Any) -> Any:
        if isinstance(y, Bits | Picked) and type(x) is int and op in "&|^":
            x, y = y, x
        if op == "&" and isinstance(y, Symbol) and y.mask:
            x, y = y, x
        if op == "&" and isinstance(x, Symbol) and x.mask:
            return Picked(x.value, y)
        if isinstance(x, Picked) and isinstance(y, Picked) and op == "|":
            inverse = self.scalars.unary("invert", BOOL, y.test)
            if x.test == inverse:
                return self.select(Symbol(x.test, BOOL), x.value, y.value, of)
        if type(y) is int and op in "&|^":
            if not y:
                return 0 if op == "&" else x
            if y == -1 and op == "&":
                return x
        if isinstance(x, Bits) and x.form in ("bits", "key") and op == ">>" and y == 8 * of.size - 1:
            return Bits(x.value, "signs of bits" if x.form == "bits" else "signs of key")
        if isinstance(x, Bits) and x.form in ("signs of bits", "signs of key") and op == "&" and y == of.high:
            return Bits(x.value, "masked bits" if x.form == "signs of bits" else "masked key")
        if op == "^" and isinstance(x, Bits) and isinstance(y, Bits):
            for plain, masked in ((x, y), (y, x)):
                if masked.form == f"masked {plain.form}" and masked.value == plain.value:
                    return Bits(plain.value, "key" if plain.form == "bits" else "bits")
        raise NotInSubset(f"{op} of the bits of a float", required="the order of floats as integers")

    # -- bits

    def copied(self, x: Any, source: Number, target: Number) -> Any:
        """Return the value of one type with the bits of another."""
        if source.is_float == target.is_float or x is UNSET or x is ZERO:
            return x
        if source.is_float:
            if self.is_machine:
                number, integer = _PATTERNS[source.dtype, source.size]
                made: int = struct.unpack(integer, struct.pack(number, float(x)))[0]
                return wrap(made, target)
            return Bits(x)
        if isinstance(x, Bits) and x.form == "bits":
            return x.value
        if type(x) is int:
            number, integer = _PATTERNS[target.dtype, target.size]
            signed = wrap(x, Number("", target.size, ""))
            return self.literal(struct.unpack(number, struct.pack(integer, signed))[0], target)
        raise NotInSubset("an integer as the bits of a float", required="the bits of a float")


_COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
}


def _on_ints(op: str, of: Number, x: int, y: int, line: int) -> int:
    match op:
        case "+":
            return x + y
        case "-":
            return x - y
        case "*":
            return x * y
        case "/" | "%":
            if not y:
                raise TextTrap("division by zero", f"{x} {op} 0", line)
            if y == -1 and of.signed and x == of.low:
                raise TextTrap("undefined", f"{x} {op} -1 of {of.name}", line)
            quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
            return quotient if op == "/" else x - y * quotient
        case "&":
            return x & y
        case "|":
            return x | y
        case "^":
            return x ^ y
        case "<<" | ">>":
            if not 0 <= y < 8 * of.size:
                raise TextTrap("shift", f"{x} {op} {y}", line)
            return x << y if op == "<<" else x >> y
        case _:
            raise NotInSubset(f"the operator {op}", required="an operator on integers")


def fused(dtype: str, x: Any, y: Any, z: Any) -> Any:
    """Return x * y + z of floats, rounded once.

    >>> import numpy as np
    >>> a = np.float32(1 + 2**-12)
    >>> float(fused("float32", a, a, np.float32(-1 - 2**-11))) == 2.0**-24, float(a * a - np.float32(1 + 2**-11))
    (True, 0.0)
    """
    kind = np.dtype(dtype).type
    a, b, c = float(x), float(y), float(z)
    if not (math.isfinite(a) and math.isfinite(b) and math.isfinite(c)):
        return kind(a * b + c)  # no finite number is rounded
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if not exact:
        return kind(a * b + c)  # the sign of zero
    try:
        near = float(exact)
    except OverflowError:
        return kind(math.copysign(math.inf, exact))
    if dtype != "float64" and Fraction(near) != exact:
        # Rounded to odd, so that the second rounding is that of the exact number.
        if abs(Fraction(near)) > abs(exact):
            near = math.nextafter(near, 0)
        if not struct.unpack("<q", struct.pack("<d", near))[0] & 1:
            near = math.nextafter(near, math.copysign(math.inf, near))
    with np.errstate(over="ignore"):
        return kind(near)


def half_of_bits(bits: int, dtype: str) -> float:
    """Return the number of a 16-bit float.

    >>> half_of_bits(0x3C00, "float16"), half_of_bits(0x3F80, "bfloat16")
    (1.0, 1.0)
    """
    if dtype == "float16":
        return float(np.uint16(bits).view(np.float16))
    return float(np.uint32(bits << 16).view(np.float32))
