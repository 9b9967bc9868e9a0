"""Fresh internal variables for proof obligations about layouts; they cannot clash with the user's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atl.core.index import ZERO, Index, Var, index
from atl.core.predicate import within
from layouts.foundation.facts import Known
from layouts.foundation.tuples import Extent

_DIGITS: Final = 1 << 58
_KEYS: Final = _DIGITS + (1 << 20)
_RELATED: Final = _DIGITS + (2 << 20)
_WITNESSES: Final = _DIGITS + (3 << 20)
_APART: Final = 1 << 10
"""Largest number of digits of a witness under each name."""


def digit_variable(position: int, name: str) -> Var:
    """Return the variable for the digit in this position of a coordinate."""
    return Var(_DIGITS + position, name)


def digit_variables(count: int) -> list[Index]:
    """Return variables for the digits of a coordinate: i0, i1, …, or i for a single digit."""
    return [index(digit_variable(k, f"i{k}" if count > 1 else "i")) for k in range(count)]


def any_digits(extents: Sequence[Extent], known: Known) -> tuple[list[Index], Known]:
    """Return variables for an arbitrary coordinate, and the facts with each digit bounded by its extent."""
    digits = digit_variables(len(extents))
    return digits, known.assume(*(within(ZERO, x, index(n)) for x, n in zip(digits, extents, strict=True)))


def key_variables() -> tuple[Var, Var]:
    """Return the keys of two segments, distinct from digit variables."""
    return Var(_KEYS, "a"), Var(_KEYS + 1, "b")


def related_variables(names: Sequence[str]) -> tuple[Var, ...]:
    """Return the digits of a relation, distinct from digit variables."""
    return tuple(Var(_RELATED + k, name) for k, name in enumerate(names))


def witness_variables(count: int, name: str) -> list[Var]:
    """Return the digits of a witness with a one-letter name: `i0`, `i1`, …, or `i` for a single digit."""
    first = _WITNESSES + _APART * (ord(name) - ord("a"))
    return [Var(first + k, f"{name}{k}" if count > 1 else name) for k in range(count)]
