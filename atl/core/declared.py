"""Declared facts about the elements of inputs, which the prover assumes and every call checks.

The prover and the call both read the facts from `facts_of` alone, so that no unchecked fact is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from atl.core.dtypes import BOOL
from atl.core.index import ZERO, Array, Index, Monotonicity, constant


@dataclass(frozen=True, slots=True)
class AtLeast:
    """bound <= element, for every element."""

    bound: Index


@dataclass(frozen=True, slots=True)
class Below:
    """element < bound, for every element."""

    bound: Index


@dataclass(frozen=True, slots=True)
class Monotonic:
    """Elements are nondecreasing along the last dimension, or increasing if `strict`.

    With `between`, the order holds only within segments: it relates the elements at p and p + 1 if there is an r with
    between[r] <= p and p + 1 < between[r + 1].
    """

    strict: bool
    between: Array | None = None


MONOTONIC_NOTATION: Final[dict[Monotonicity, str]] = {"nondecreasing": "rising", "increasing": "strict"}
"""Keywords that declare an order in the printed notation."""

Fact: TypeAlias = AtLeast | Below | Monotonic


def facts_of(array: Array) -> tuple[Fact, ...]:
    """Return all declared facts about the elements of an array, bounds first."""
    low = () if array.low is None else (AtLeast(array.low),)
    high = () if array.high is None else (Below(array.high),)
    return (*low, *high, *((Monotonic(array.monotonic == "increasing", array.between),) if array.monotonic else ()))


def bounds_of(array: Array) -> tuple[AtLeast | Below, ...]:
    """Return the declared bounds of the elements."""
    return tuple(fact for fact in facts_of(array) if not isinstance(fact, Monotonic))


def bool_array(name: str, shape: tuple[Index, ...]) -> Array:
    """Return the declaration of an input of Boolean values."""
    return Array(name, shape, BOOL, ZERO, constant(2))


def is_bool_array(array: Array) -> bool:
    """Return whether this is an input of Boolean values, which is read only in conditions."""
    return array.dtype == BOOL and array.low is not None


def order_of(array: Array) -> Monotonic | None:
    """Return the declared order of the elements, if any."""
    return next((fact for fact in facts_of(array) if isinstance(fact, Monotonic)), None)


def is_increasing(array: Array) -> bool:
    """Return whether all elements are declared to increase along the last dimension."""
    return order_of(array) == Monotonic(strict=True)
