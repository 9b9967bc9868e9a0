"""Storage of a tensor: level formats, outermost first, applied to a view of the tensor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from atl.core.dtypes import INTEGERS
from atl.errors import brief
from sparse.errors import FormatError
from sparse.levels import Level
from sparse.levels.level import Number
from sparse.views import Identity, View

LevelsOf: TypeAlias = Callable[[int], tuple[Level, ...]]


@dataclass(frozen=True)
class Storage:
    """The levels of a format, as a tuple or as a function of the rank, and the view of the tensor that they store.

    If `ordered` is true, the coordinate arrays are declared to be sorted.
    """

    name: str
    levels: tuple[Level, ...] | LevelsOf
    view: View = field(default_factory=Identity)
    index_dtype: str = "int32"
    ordered: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise FormatError(f"{brief(self.name)} is not a name for a format", required="a non-empty string")
        if not callable(self.levels) and not (
            isinstance(self.levels, tuple) and all(isinstance(level, Level) for level in self.levels)
        ):
            raise FormatError(
                f"invalid levels for the format {self.name}: {brief(self.levels)}", required="a tuple of level formats"
            )
        if not isinstance(self.index_dtype, str) or self.index_dtype not in INTEGERS:
            raise FormatError(
                f"invalid index dtype {brief(self.index_dtype)}", required=f"one of {', '.join(INTEGERS)}"
            )

    def levels_of(self, extents: tuple[Number, ...]) -> list[tuple[Level, tuple[Number, ...]]]:
        """Return the levels for a tensor with these extents, each with the extents of the view dimensions it stores.

        Raises `FormatError` if the format does not support the rank.
        """
        stored = self.view.extents(extents)
        levels = self.levels(len(stored)) if callable(self.levels) else self.levels
        held = sum(level.dims for level in levels)
        if held != len(stored):
            given = "" if len(stored) == len(extents) else f" after applying its view (the tensor has {len(extents)})"
            raise FormatError(
                f"the format {self.name} stores {held} dimensions, not {len(stored)}{given}",
                required=f"levels for {len(stored)} dimensions",
            )
        out, at = [], 0
        for level in levels:
            held_here = stored[at : at + level.dims]
            out.append((level.sorted() if self.ordered else level, held_here))
            at += level.dims
        return out
