"""Errors that the loop-nest interpreter detects."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

from atl.errors import ATLError

TrapKind: TypeAlias = Literal[
    "out of bounds",  # an index outside of its extent, or an address outside of its buffer
    "shape",  # the extents of a cell differ from those of its buffer
    "capacity",  # a buffer is smaller than its elements need
    "uninitialised",  # a read of, or an addition to, a cell without a value
    "overwritten",  # an assignment to a cell with a value
    "read-only",  # a store to an input
    "no storage",  # a buffer that is not allocated, or already freed
    "double free",
    "leak",
    "undeclared",  # a scalar or loop variable that is not in scope
    "redeclared",
    "incomplete",  # an element of an output marked complete was not stored
    "register",  # an element of a tile in registers at an index that is not constant, or not in one vector
    "divisor",  # a division of an index by zero or less
    "numerator",  # a negative numerator that is listed as non-negative
    "aliased",  # a read of, or an addition to, a cell with a value of another tensor in the same storage
    "ring",  # a row of a circular buffer that is not started yet, or replaced already
    "marked loop",  # an invalid merge or `runs` loop, or keys that decrease or repeat where they must not
    "data race",  # two concurrent iterations access one cell, and one of them changes it
    "alignment",  # a misaligned wide load or store of a GPU thread
]


class Trap(ATLError, RuntimeError):
    """An error in a run of a loop nest that a correctly lowered program cannot have; `kind` classifies it."""

    code: ClassVar[str] = "ATL601"

    def __init__(self, kind: TrapKind, summary: str) -> None:
        super().__init__(f"{kind}: {summary}")
        self.kind: Final = kind
