"""Element types: which there are, and what the arithmetic on them is."""

from __future__ import annotations

from typing import Final

from atl.errors import DtypeError, brief

FLOATS: Final = ("float32", "float64")
INTEGERS: Final = ("int32", "int64")
DTYPES: Final = FLOATS + INTEGERS
RESERVED: Final = ("float16", "bfloat16")
BOOL: Final = "bool"
"""The element type of truth values, which are read in conditions only.

An input of truth values has the elements 0 and 1, which its declaration says; 1 is true. Arrays without bounds stand
for the conditions of rules: of those, true is an element that is not negative.
"""
INPUTS: Final = (*DTYPES, BOOL)
"""What the elements of an input may be."""
KNOWN: Final = (*DTYPES, BOOL)
ANY_DTYPE: Final = "?"
"""The element type of the metavariables of a rule. With a number ("?0", "?1", …) it is a type variable."""
DEFAULT: Final = "float32"
"""What a tensor declared without a dtype, and a literal that meets no tensor, has."""


def checked_dtype(dtype: object) -> str:
    """The name of the element type, or a `DtypeError` that lists those there are."""
    return _checked(dtype, DTYPES)


def checked_input(dtype: object) -> str:
    """The same of an input, whose elements may be truth values too."""
    return _checked(dtype, INPUTS)


def _checked(dtype: object, among: tuple[str, ...]) -> str:
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or brief(dtype)
    if name in among:
        return name
    reserved = " (reserved, not supported yet)" if name in RESERVED else ""
    reserved = " of a value (truth values are elements of inputs)" if name == BOOL else reserved
    raise DtypeError(f"there is no element type {brief(name)}{reserved}", required=f"one of {', '.join(among)}")


def is_variable(dtype: str) -> bool:
    """Return whether this stands for an element type in a rule's statement."""
    return dtype.startswith(ANY_DTYPE)


def written(dtype: str | None) -> str:
    """Return an element type as it is printed: nothing for one that is not known, or that a rule leaves open."""
    return "" if dtype is None or is_variable(dtype) else dtype


def is_integer(dtype: str | None) -> bool:
    return dtype in INTEGERS


def bits(dtype: str) -> int:
    return 8 if dtype == BOOL else int(dtype.lstrip("floatin"))


def bytes_of(count: int | None, dtype: str) -> int | None:
    """How many bytes so many elements take, None being a number that is not known."""
    return None if count is None else count * bits(dtype) // 8


def range_of(dtype: str) -> tuple[int, int]:
    """The least and the greatest integer of an integer type, or of truth values.

    >>> range_of("int32") == (-(2**31), 2**31 - 1)
    True
    """
    if dtype == BOOL:
        return 0, 1
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
