"""What the declaration of an input says of its elements: the prover believes it, and each call checks it.

Both read it from `facts_of`, and nothing else of a declaration: so nothing is believed that is not checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from atl.core.index import Array, Index


@dataclass(frozen=True, slots=True)
class AtLeast:
    """bound <= element, for every element."""

    bound: Index


@dataclass(frozen=True, slots=True)
class Below:
    """element < bound, for every element."""

    bound: Index


@dataclass(frozen=True, slots=True)
class Increasing:
    """The elements increase strictly along the last dimension."""


Fact: TypeAlias = AtLeast | Below | Increasing


def facts_of(array: Array) -> tuple[Fact, ...]:
    """All that is declared of the elements of an array, the bounds first."""
    low = () if array.low is None else (AtLeast(array.low),)
    high = () if array.high is None else (Below(array.high),)
    return (*low, *high, *((Increasing(),) if array.increasing else ()))


def bounds_of(array: Array) -> tuple[AtLeast | Below, ...]:
    """The bounds that are declared of each element by itself."""
    return tuple(fact for fact in facts_of(array) if not isinstance(fact, Increasing))


def increases(array: Array) -> bool:
    """Whether the elements are declared to increase."""
    return Increasing() in facts_of(array)
