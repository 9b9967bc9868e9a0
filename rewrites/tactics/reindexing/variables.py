"""Fresh internal variables for a reindexing, which cannot clash with the user's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from atl.core.index import Index, Var, index

_ELEMENTS: Final = (1 << 57) + (1 << 20)
_OTHERS: Final = _ELEMENTS + (1 << 10)
_PLACES: Final = _ELEMENTS + (2 << 10)
_KEYS: Final = _ELEMENTS + (3 << 10)


def element_variables(names: Sequence[str]) -> list[Var]:
    """Return variables for the indices of an element."""
    return [Var(_ELEMENTS + k, name) for k, name in enumerate(names)]


def other_variables(names: Sequence[str]) -> list[Var]:
    """Return variables for the indices of a second element."""
    return [Var(_OTHERS + k, f"{name}'") for k, name in enumerate(names)]


def place_variables(names: Sequence[str]) -> list[Var]:
    """Return variables for the digits of a place."""
    return [Var(_PLACES + k, name) for k, name in enumerate(names)]


def segment_variables() -> tuple[Index, Index, Index]:
    """Return variables for the keys of two segments and for a position."""
    one, other, position = (index(Var(_KEYS + k, name)) for k, name in enumerate(("key", "later", "position")))
    return one, other, position
