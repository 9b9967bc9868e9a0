"""Element types and their properties."""

from __future__ import annotations

from typing import Final

from atl.errors import DtypeError, brief

FLOATS: Final = ("float32", "float64")
INTEGERS: Final = ("int32", "int64")
DTYPES: Final = FLOATS + INTEGERS
RESERVED: Final = ("float16", "bfloat16")
BOOL: Final = "bool"
"""Element type of truth values: results of comparisons, and inputs, which may also be read in conditions.

The elements are 0 (false) or 1 (true). A Boolean array without bounds represents a condition of a rule, which is true
where its element is non-negative.
"""
ELEMENTS: Final = (*DTYPES, BOOL)
"""Element types of tensors: numbers and truth values."""
ANY_DTYPE: Final = "?"
"""Element type of the metavariables of a rule; with a number ("?0", "?1", …), a type variable."""
DEFAULT: Final = "float32"
"""Element type of tensors declared without one, and of literals in programs without other types."""


def checked_dtype(dtype: object) -> str:
    """Return the name of an element type. Raises `DtypeError`."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or brief(dtype)
    if name in ELEMENTS:
        return name
    reserved = " (reserved)" if name in RESERVED else ""
    raise DtypeError(f"unsupported element type {brief(name)}{reserved}", required=f"one of {', '.join(ELEMENTS)}")


def is_variable(dtype: str) -> bool:
    """Return whether this is a type variable of a rule."""
    return dtype.startswith(ANY_DTYPE)


def show_dtype(dtype: str | None) -> str:
    """Return the printed form of an element type: empty if it is unknown or a type variable."""
    return "" if dtype is None or is_variable(dtype) else dtype


def is_integer(dtype: str | None) -> bool:
    """Check for an integer type."""
    return dtype in INTEGERS


def bits(dtype: str) -> int:
    """Return the size of an element in bits."""
    return 8 if dtype == BOOL else int(dtype.lstrip("floatin"))


def bytes_of(count: int | None, dtype: str) -> int | None:
    """Return the size in bytes of `count` elements; None if `count` is unknown."""
    return None if count is None else count * bits(dtype) // 8


def range_of(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type or of `BOOL`.

    >>> range_of("int32") == (-(2**31), 2**31 - 1)
    True
    """
    if dtype == BOOL:
        return 0, 1
    half = 1 << (bits(dtype) - 1)
    return -half, half - 1


def holds_literal(dtype: str, value: float) -> bool:
    """Return whether a type can hold a literal: other types than floats need a whole number in their range."""
    if dtype in FLOATS or is_variable(dtype):
        return True
    if isinstance(value, float) and not value.is_integer():
        return False
    low, high = range_of(dtype)
    return low <= value <= high
