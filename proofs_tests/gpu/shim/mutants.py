"""Faults planted in printed kernels: one token changed at a time, at every place."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text with one fault: the kind of change and the changed line."""

    what: str
    line: str
    text: str


CHANGES: Final[tuple[tuple[str, str, str], ...]] = (
    ("a barrier is left out", r"__syncthreads\(\);", ";"),
    ("a bound is one too far", r" < ", " <= "),
    ("axes are exchanged", r"threadIdx\.x", "threadIdx.y"),
    ("axes are exchanged", r"threadIdx\.y", "threadIdx.x"),
    ("axes are exchanged", r"blockIdx\.x", "blockIdx.y"),
    ("an index is one off", r"(?<=\[)", "1 + "),
    ("a stride is changed", r"(?<=\* )(8|6|4|2)\b", "7"),
    ("a mask is narrowed", r"0xffffffffu", "0x7fffffffu"),
    ("a sum is a difference", r" \+= ", " -= "),
)


def mutants(source: str) -> Iterator[Mutant]:
    """Yield each change at each place in the kernels of a file and the functions that they call."""
    start, end = 0, source.rindex("/*", 0, source.index('extern "C"'))
    for what, pattern, by in CHANGES:
        for found in re.finditer(pattern, source[start:end]):
            at, until = start + found.start(), start + found.end()
            line = source[source.rfind("\n", 0, at) + 1 : source.find("\n", until)].strip()
            if _is_declaration(line):
                continue
            yield Mutant(what, line, source[:at] + by + source[until:])


def _is_declaration(line: str) -> bool:
    """Return whether the line declares an array; a larger extent is not a fault."""
    return line.startswith(("__shared__", "float acc", "static"))
