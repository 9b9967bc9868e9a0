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


def holds_literal(dtype: str, value: float) -> bool:
    """Whether a literal keeps its meaning in this type: integers must be whole and in range."""
    if not is_integer(dtype):
        return True
    if isinstance(value, float) and not value.is_integer():
        return False
    half = 1 << (bits(dtype) - 1)
    return -half <= value < half
