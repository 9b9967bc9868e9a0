"""How a tensor is stored: level formats from the outside in, of a view of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from atl.core.dtypes import INTEGERS
from atl.errors import brief
from sparse.errors import FormatError
from sparse.levels import Level
from sparse.levels.level import Number
from sparse.views import Same, View

LevelsOf: TypeAlias = Callable[[int], tuple[Level, ...]]


@dataclass(frozen=True)
class Storage:
    """The levels of a format, as a tuple or as a function of the number of dimensions, and the view that they hold.

    If it is `ordered`, the levels are declared to be sorted.
    """

    name: str
    levels: tuple[Level, ...] | LevelsOf
    view: View = field(default_factory=Same)
    index: str = "int32"
    ordered: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise FormatError(f"a format called {brief(self.name)}", required="a name")
        if not callable(self.levels) and not (
            isinstance(self.levels, tuple) and all(isinstance(level, Level) for level in self.levels)
        ):
            raise FormatError(
                f"the levels of {self.name} are {brief(self.levels)}", required="a tuple of level formats"
            )
        if not isinstance(self.index, str) or self.index not in INTEGERS:
            raise FormatError(f"indices of type {brief(self.index)}", required=f"one of {', '.join(INTEGERS)}")

    def levels_of(self, extents: tuple[Number, ...]) -> list[tuple[Level, tuple[Number, ...]]]:
        """The levels for a tensor of these extents, each with those of the view that it holds.

        Raises `FormatError` for a rank that the format does not have.
        """
        stored = self.view.extents(extents)
        levels = self.levels(len(stored)) if callable(self.levels) else self.levels
        held = sum(level.dims for level in levels)
        if held != len(stored):
            seen = "" if len(stored) == len(extents) else f" as its view shows it, and {len(extents)} itself"
            raise FormatError(
                f"the format {self.name} holds {held} dimensions of a tensor that has {len(stored)}{seen}",
                required=f"levels for {len(stored)} dimensions",
            )
        out, at = [], 0
        for level in levels:
            held_here = stored[at : at + level.dims]
            out.append((level.in_order() if self.ordered else level, held_here))
            at += level.dims
        return out
