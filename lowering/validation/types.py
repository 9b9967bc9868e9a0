"""Types of C, as far as the reader knows them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Number:
    """An arithmetic type: its size in bytes, whether it is a float, and the element type that it stores."""

    name: str
    size: int
    dtype: str
    is_float: bool = False
    signed: bool = True

    @property
    def low(self) -> int:
        """The least value of an integer type."""
        return -(1 << (8 * self.size - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        """The greatest value of an integer type."""
        return (1 << (8 * self.size - self.signed)) - 1


@dataclass(frozen=True, slots=True)
class Vector:
    """A vector type: its lanes, and the alignment of its addresses in bytes."""

    of: Number
    lanes: int
    alignment: int

    @property
    def size(self) -> int:
        return self.of.size * self.lanes


@dataclass(frozen=True, slots=True)
class Pointer:
    """A pointer; `to` is None for `void *`."""

    to: CType | None
    size: int = 8


@dataclass(frozen=True, slots=True)
class Row:
    """An array with a constant number of elements."""

    of: Number | Vector
    length: int

    @property
    def size(self) -> int:
        return self.of.size * self.length


@dataclass(frozen=True, slots=True)
class Void:
    """The type of functions without a result."""

    size: int = 1


CType: TypeAlias = Number | Vector | Pointer | Row | Void

INT: Final = Number("int", 4, "int32")
LONG: Final = Number("int64_t", 8, "int64")
UNSIGNED: Final = Number("uint32_t", 4, "uint32", signed=False)
UNSIGNED_LONG: Final = Number("uint64_t", 8, "uint64", signed=False)
FLOAT: Final = Number("float", 4, "float32", is_float=True)
DOUBLE: Final = Number("double", 8, "float64", is_float=True)
NUMBERS: Final = {
    "int": INT,
    "int32_t": INT,
    "int64_t": LONG,
    "long": LONG,
    "ptrdiff_t": LONG,
    "uint32_t": UNSIGNED,
    "unsigned": UNSIGNED,
    "uint64_t": UNSIGNED_LONG,
    "size_t": UNSIGNED_LONG,
    "uintptr_t": UNSIGNED_LONG,
    "int8_t": Number("int8_t", 1, "int8"),
    "int16_t": Number("int16_t", 2, "int16"),
    "uint8_t": Number("uint8_t", 1, "uint8", signed=False),
    "uint16_t": Number("uint16_t", 2, "uint16", signed=False),
    "float": FLOAT,
    "double": DOUBLE,
}
"""Arithmetic types by name. `long` has 64 bits."""


def promoted(of: Number) -> Number:
    """Return the type of an operand of arithmetic: small integers become `int`."""
    return INT if not of.is_float and of.size < 4 else of


def common(x: Number, y: Number) -> Number:
    """Return the type of arithmetic on two operands, by the usual arithmetic conversions.

    >>> common(NUMBERS["int8_t"], LONG).name, common(INT, UNSIGNED).name, common(LONG, FLOAT).name
    ('int64_t', 'uint32_t', 'float')
    """
    x, y = promoted(x), promoted(y)
    if x.is_float or y.is_float:
        return max((each for each in (x, y) if each.is_float), key=lambda each: each.size)
    if x.size != y.size:
        return x if x.size > y.size else y
    return y if x.signed else x


def wrap(value: int, of: Number) -> int:
    """Return the value of an integer type that is equal modulo 2 to the number of bits."""
    if of.low <= value <= of.high:
        return value
    return (value - of.low) % (of.high - of.low + 1) + of.low
