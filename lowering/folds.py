"""Reductions: initial values and names of result variables."""

from __future__ import annotations

from math import inf
from typing import Final

from atl.core.dtypes import is_integer, range_of
from atl.core.terms import Monoid
from lowering.nest.loopnest import Number

RESULT_NAMES: Final[dict[Monoid, str]] = {"sum": "total", "product": "product", "max": "greatest", "min": "least"}


def neutral(monoid: Monoid, dtype: str) -> Number:
    """Return the initial value of a reduction."""
    match monoid:
        case "sum":
            return Number(0, dtype)
        case "product":
            return Number(1, dtype)
        case "max":
            return Number(range_of(dtype)[0] if is_integer(dtype) else -inf, dtype)
        case "min":
            return Number(range_of(dtype)[1] if is_integer(dtype) else inf, dtype)
