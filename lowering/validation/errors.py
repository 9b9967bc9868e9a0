"""Errors of the execution of C text."""

from __future__ import annotations

from typing import Literal, TypeAlias

TextTrapKind: TypeAlias = Literal[
    "out of bounds",  # a read or write outside of a block
    "unset",  # a read of a cell or variable that has no value
    "read-only",  # a write to an input
    "alignment",  # an address that is not a multiple of what its type requires
    "type",  # an access with another type than that of the block
    "null",  # an access through a null pointer
    "freed",  # an access to a block that is freed
    "double free",
    "leak",
    "division by zero",
    "shift",  # by a negative number, or by the number of bits or more
    "conversion",  # of a float to an integer type that cannot represent it
    "status",  # a result of the function that is not the expected one
    "undefined",  # another operation that C does not define
    "endless",  # more steps than allowed
]


class TextTrap(Exception):
    """An operation of C text that no correct kernel has, which `kind` classifies. Validation raises `TextDiffers`."""

    def __init__(self, kind: TextTrapKind, summary: str, line: int = 0) -> None:
        super().__init__(f"{kind}: {summary}" + (f", in line {line} of the C text" if line else ""))
        self.kind = kind
        self.line = line
        self.iterations = 0
        """Largest number of iterations of a loop that was running."""


class ElementBranch(Exception):
    """A branch on elements, which have no numbers in this domain."""
