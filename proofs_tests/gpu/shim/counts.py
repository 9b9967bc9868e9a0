"""Counts of memory accesses by warps, for each place in a printed kernel."""

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from proofs_tests.gpu.shim.run import build

COUNTED: Final = "-g"
"""Flag of a build that maps places to lines of the text."""


@dataclass(frozen=True, slots=True)
class Count:
    """The accesses by warps at one place of the text.

    `cost` is the number of bank rounds in shared memory, or of 32-byte sectors touched in global memory. `fewest` is
    the least possible cost of as many accesses, and `worst` the largest excess of a single access.
    """

    line: str
    memory: Literal["shared", "global"]
    how: Literal["read", "write"]
    accesses: int
    cost: int
    fewest: int
    worst: int

    @property
    def conflicts(self) -> bool:
        """True if an access costs more than necessary."""
        return self.cost > self.fewest


def counts(source: str, folder: Path, run: Callable[[Any], object], name: str = "counted") -> tuple[Count, ...]:
    """Count the accesses during `run`, which takes the loaded library of a text."""
    library = build([source], folder, name, COUNTED)
    library.shim_counts.restype = ctypes.c_char_p
    library.shim_count()
    run(library)
    rows = [line.split() for line in library.shim_counts().decode().splitlines()]
    lines = _lines([int(row[0]) for row in rows], folder / f"{name}.so")
    text = (folder / f"{name}.cpp").read_text(encoding="utf-8").splitlines()
    return tuple(
        Count(text[line - 1].strip(), memory, how, *map(int, numbers))
        for line, (_, memory, how, *numbers) in zip(lines, rows, strict=True)
    )


def _lines(places: list[int], library: Path) -> list[int]:
    """Return the lines of the text from which the calls at these places return."""
    command = ["addr2line", "-e", str(library), *(hex(place - 1) for place in places)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line.rpartition(":")[2].split()[0]) for line in answer.splitlines()]
