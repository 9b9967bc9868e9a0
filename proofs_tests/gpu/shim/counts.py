"""How the lanes of a warp access memory together, counted for each place of a printed kernel that does."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from proofs_tests.gpu.shim.run import build

COUNTED: Final = "-g"
"""What a build needs, so that places are lines of the text."""


@dataclass(frozen=True, slots=True)
class Count:
    """The accesses by warps at one place of the text.

    `cost` is how many rounds of the banks they take in shared memory, or how many sectors of 32 bytes they touch in
    global memory; `fewest` is what as many accesses take at least, `worst` by how much the worst of them takes more.
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
        """Whether an access takes more than it has to."""
        return self.cost > self.fewest


def counts(source: str, folder: Path, run: Callable[[Any], object], name: str = "counted") -> tuple[Count, ...]:
    """The counts of all that happens in `run`, which is given the loaded library of a text."""
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
    """The lines of the text from which calls return at these places of a library."""
    command = ["addr2line", "-e", str(library), *(hex(place - 1) for place in places)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [int(line.rpartition(":")[2].split()[0]) for line in said.splitlines()]
