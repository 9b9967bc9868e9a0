"""What the declaration of an input says of its elements: the prover believes it, and each call checks it.

Both read it from `facts_of`, and nothing else of a declaration: so nothing is believed that is not checked.
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
    """Along the last dimension no element is below the one before it; if `strict`, each is above it.

    Where there is `between`, that holds of two neighbours at p and p + 1 if, of some two neighbouring elements of
    `between`, the first is at most p and the second above p + 1.
    """

    strict: bool
    between: Array | None = None


MONOTONIC_NOTATION: Final[dict[Monotonicity, str]] = {"nondecreasing": "rising", "increasing": "strict"}
"""Keywords that declare an order in the printed notation."""

Fact: TypeAlias = AtLeast | Below | Monotonic


def facts_of(array: Array) -> tuple[Fact, ...]:
    """All that is declared of the elements of an array, the bounds first."""
    low = () if array.low is None else (AtLeast(array.low),)
    high = () if array.high is None else (Below(array.high),)
    return (*low, *high, *((Monotonic(array.monotonic == "increasing", array.between),) if array.monotonic else ()))


def bounds_of(array: Array) -> tuple[AtLeast | Below, ...]:
    """The bounds that are declared of each element by itself."""
    return tuple(fact for fact in facts_of(array) if not isinstance(fact, Monotonic))


def bool_array(name: str, shape: tuple[Index, ...]) -> Array:
    """An input of truth values."""
    return Array(name, shape, BOOL, ZERO, constant(2))


def is_bool_array(array: Array) -> bool:
    """Whether it is an input of truth values, which is read in conditions only."""
    return array.dtype == BOOL and array.low is not None


def order_of(array: Array) -> Monotonic | None:
    """The order that is declared of the elements, if one is."""
    return next((fact for fact in facts_of(array) if isinstance(fact, Monotonic)), None)


def is_increasing(array: Array) -> bool:
    """Whether all elements are declared to increase along the last dimension."""
    return order_of(array) == Monotonic(strict=True)
