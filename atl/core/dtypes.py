"""Element types: which there are, and what the arithmetic on them is."""

from __future__ import annotations

from typing import Final

from atl.errors import DtypeError, brief

FLOATS: Final = ("float32", "float64")
INTEGERS: Final = ("int32", "int64")
DTYPES: Final = FLOATS + INTEGERS
RESERVED: Final = ("float16", "bfloat16")
TRUTH: Final = "bool"
"""The element type of the arrays that stand for the conditions of rules: true is an element that is not negative."""
KNOWN: Final = (*DTYPES, TRUTH)
DEFAULT: Final = "float32"
"""What a tensor declared without a dtype, and a literal that meets no tensor, has."""


def checked_dtype(dtype: object) -> str:
    """The name of the element type, or a `DtypeError` that lists those there are."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or brief(dtype)
    if name in DTYPES:
        return name
    reserved = " (reserved, not supported yet)" if name in RESERVED else ""
    raise DtypeError(f"there is no element type {brief(name)}{reserved}", required=f"one of {', '.join(DTYPES)}")


def is_integer(dtype: str | None) -> bool:
    return dtype in INTEGERS


def bits(dtype: str) -> int:
    return int(dtype.lstrip("floatin"))


def bytes_of(count: int | None, dtype: str) -> int | None:
    """How many bytes so many elements take, None being a number that is not known."""
    return None if count is None else count * bits(dtype) // 8


def range_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest integer of an integer type.

    >>> range_of("int32") == (-(2**31), 2**31 - 1)
    True
    """
    half = 1 << (bits(dtype) - 1)
    return -half, half - 1


def holds_literal(dtype: str, value: float) -> bool:
    """Whether a literal keeps its meaning in this type: integers must be whole and in range."""
    if not is_integer(dtype):
        return True
    if isinstance(value, float) and not value.is_integer():
        return False
    low, high = range_of(dtype)
    return low <= value <= high
