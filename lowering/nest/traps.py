"""What the loop-nest interpreter watches for: what no lowered program may do."""

from __future__ import annotations

from typing import ClassVar, Final, Literal, TypeAlias

from atl.errors import ATLError

TrapKind: TypeAlias = Literal[
    "out of bounds",  # an index outside of its extent, or an address outside of its buffer
    "shape",  # extents in a cell that are not those of its buffer
    "capacity",  # a buffer with less room than its elements need
    "uninitialised",  # a read of, or an addition to, a cell that holds nothing
    "overwritten",  # an assignment to a cell that holds a value
    "read-only",  # a store to an input
    "no storage",  # a buffer that is not allocated, or not any more
    "double free",
    "leak",
    "undeclared",  # a scalar or a loop variable that is not in scope
    "redeclared",
    "incomplete",  # an element of an output said to be complete that was not stored
    "register",  # an element of a tile in registers at an index that is not constant, or of no vector
    "divisor",  # an index divided by zero or less
    "numerator",  # one that is said not to be negative, and is
    "aliased",  # a read of, or an addition to, a cell where another tensor in the same storage stands, or is left
    "ring",  # a row of a ring that is not the one in its place: not there yet, or there no more
    "marked loop",  # loops marked merge or runs that are none, or keys of a merge that fall, or do not rise as is said
    "data race",  # two iterations that run at once touch one cell, and one of them changes it
    "alignment",  # elements that a thread of a GPU reads or stores at once, from a place that is no multiple of them
]


class Trap(ATLError, RuntimeError):
    """A loop nest does what no lowered program may do; `kind` says which of the things that are watched for."""

    code: ClassVar[str] = "ATL601"

    def __init__(self, kind: TrapKind, summary: str) -> None:
        super().__init__(f"{kind}: {summary}")
        self.kind: Final = kind
