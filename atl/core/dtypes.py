"""Element types and their properties."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal, TypeAlias, get_args

from atl.errors import DtypeError, brief

_HAS_ML_DTYPES: Final = find_spec("ml_dtypes") is not None
if _HAS_ML_DTYPES:
    import ml_dtypes  # noqa: F401 (adds bfloat16 to NumPy)

Kind: TypeAlias = Literal["float", "integer", "bool"]
"""The kind of an element type."""
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)


@dataclass(frozen=True, slots=True)
class ElementType:
    """The properties of an element type: its kind, its size, its type in C and CUDA, and where it is computed with.

    `computed_as` is the type of arithmetic on the elements. Where it is another type, elements are only stored: they
    are read, moved, guarded and cast. `epsilon` is the distance from 1 to the next number of a floating-point type.
    `signed` is false for integers that are not negative. `extra` is the installation extra with the NumPy type, if
    NumPy lacks it.
    """

    kind: Kind
    bits: int
    c: str
    computed_as: str
    epsilon: float = 0.0
    signed: bool = True
    extra: str = ""


TYPES: Final = {
    "float32": ElementType("float", 32, "float", "float32", epsilon=2.0**-23),
    "float64": ElementType("float", 64, "double", "float64", epsilon=2.0**-52),
    "int32": ElementType("integer", 32, "int32_t", "int32"),
    "int64": ElementType("integer", 64, "int64_t", "int64"),
    "float16": ElementType("float", 16, "uint16_t", "float32", epsilon=2.0**-10),
    "bfloat16": ElementType("float", 16, "uint16_t", "float32", epsilon=2.0**-7, extra="half"),
    "int8": ElementType("integer", 8, "int8_t", "int32"),
    "uint8": ElementType("integer", 8, "uint8_t", "int32", signed=False),
    "bool": ElementType("bool", 8, "uint8_t", "bool"),
}
"""All element types by name."""
FLOATS: Final = tuple(name for name, of in TYPES.items() if of.kind == "float" and of.computed_as == name)
INTEGERS: Final = tuple(name for name, of in TYPES.items() if of.kind == "integer" and of.computed_as == name)
DTYPES: Final = FLOATS + INTEGERS
"""Element types of numbers that are computed with."""
STORED: Final = tuple(name for name, of in TYPES.items() if of.computed_as != name)
"""Element types that are only stored: they are read, moved, guarded, padded and cast, but not computed with."""
BOOL: Final = "bool"
"""Element type of truth values: results of comparisons, and inputs, which may also be read in conditions.

The elements are 0 (false) or 1 (true). A Boolean array without bounds represents a condition of a rule, which is true
where its element is non-negative.
"""
ELEMENTS: Final = tuple(TYPES)
"""Element types of tensors."""
ANY_DTYPE: Final = "?"
"""Element type of the metavariables of a rule; with a number ("?0", "?1", …), a type variable."""
DEFAULT: Final = "float32"
"""Element type of tensors declared without one, and of literals in programs without other types."""


def checked_dtype(dtype: object) -> str:
    """Return the name of an element type that has arrays. Raises `DtypeError`."""
    name = named_dtype(dtype)
    if not has_arrays(name):
        raise DtypeError(
            f"the element type {name} needs the package ml_dtypes",
            required="an installation with it",
            suggestions=(f"pip install 'atl-tensor[{TYPES[name].extra}]'",),
        )
    return name


def named_dtype(dtype: object) -> str:
    """Return the name of an element type. Raises `DtypeError`."""
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or brief(dtype)
    if name not in TYPES:
        raise DtypeError(f"unsupported element type {brief(name)}", required=f"one of {', '.join(ELEMENTS)}")
    return name


def has_arrays(dtype: str) -> bool:
    """Return whether NumPy has arrays of this element type: bfloat16 needs the package ml_dtypes."""
    return not TYPES[dtype].extra or _HAS_ML_DTYPES


def kind_of(dtype: str) -> Kind:
    """Return the kind of an element type."""
    return TYPES[dtype].kind


def is_variable(dtype: str) -> bool:
    """Return whether this is a type variable of a rule."""
    return dtype.startswith(ANY_DTYPE)


def show_dtype(dtype: str | None) -> str:
    """Return the printed form of an element type: empty if it is unknown or a type variable."""
    return "" if dtype is None or is_variable(dtype) else dtype


def is_integer(dtype: str | None) -> bool:
    """Return whether this is an integer type."""
    return dtype in TYPES and TYPES[dtype].kind == "integer"


def is_float(dtype: str | None) -> bool:
    """Return whether this is a floating-point type."""
    return dtype in TYPES and TYPES[dtype].kind == "float"


def bits(dtype: str) -> int:
    """Return the size of an element in bits."""
    return TYPES[dtype].bits


def bytes_of(count: int | None, dtype: str) -> int | None:
    """Return the size in bytes of `count` elements; None if `count` is unknown."""
    return None if count is None else count * bits(dtype) // 8


def range_of(dtype: str) -> tuple[int, int]:
    """Return the least and the greatest value of an integer type or of `BOOL`.

    >>> range_of("int32") == (-(2**31), 2**31 - 1), range_of("uint8")
    (True, (0, 255))
    """
    if dtype == BOOL:
        return 0, 1
    if not TYPES[dtype].signed:
        return 0, (1 << bits(dtype)) - 1
    half = 1 << (bits(dtype) - 1)
    return -half, half - 1


def holds_literal(dtype: str, value: float) -> bool:
    """Return whether a type can hold a literal: other types than floats need a whole number in their range."""
    if is_float(dtype) or is_variable(dtype):
        return True
    if isinstance(value, float) and not value.is_integer():
        return False
    low, high = range_of(dtype)
    return low <= value <= high


def common_dtype(kinds: Iterable[str]) -> str | None:
    """Return the smallest element type that is computed with and holds all values of these types; None if none does.

    >>> common_dtype(["float32", "int32"]), common_dtype(["bool", "int8"]), common_dtype(["float32", "int64"])
    ('float64', 'int32', None)
    """
    wanted = set(kinds)
    return next(
        (name for name in ("int32", "int64", "float32", "float64") if all(_holds(name, e) for e in wanted)), None
    )


def results_dtype(kinds: Iterable[str]) -> str | None:
    """Return the element type in which results of these types are joined; None for type variables.

    It holds all of their values exactly, except for int64 together with floats, which are joined as float64. Such
    results are accepted by `lowering` if each is computed and stored in its own type, and by `evaluate` below 2^53,
    where none is rounded.

    >>> results_dtype(["float32", "int32"]), results_dtype(["float32", "int64"])
    ('float64', 'float64')
    """
    wanted = set(kinds)
    return common_dtype(wanted) or ("float64" if wanted <= set(TYPES) else None)


def _holds(dtype: str, other: str) -> bool:
    """Return whether each value of another type is one of this type."""
    wide, narrow = TYPES[dtype], TYPES.get(other)
    if narrow is None:
        return False
    if wide.kind == narrow.kind:
        return wide.bits >= narrow.bits
    if wide.kind == "integer":
        return narrow.kind == "bool"
    return narrow.kind == "bool" or narrow.bits < (1 - int(math.log2(wide.epsilon)))
