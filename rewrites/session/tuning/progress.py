"""What is told while candidates are tried: a line on a terminal, which is written over."""

from __future__ import annotations

import sys
import time
from typing import Final

WIDE: Final = 118


class Progress:
    """Tells on the error stream how far it has come, where that is a terminal."""

    def __init__(self, total: int, budget: float) -> None:
        self._begun = time.monotonic()
        self._total = total
        self._budget = budget
        self._done = 0
        self.best = ""
        self._on_terminal = sys.stderr.isatty()

    @property
    def seconds(self) -> float:
        """How long it has taken so far."""
        return time.monotonic() - self._begun

    @property
    def is_over(self) -> bool:
        """Whether the seconds are used up."""
        return self.seconds >= self._budget

    def says(self, what: str) -> None:
        """What is going on now."""
        if self._on_terminal:
            best = f"; best: {self.best}" if self.best else ""
            at = f"{self._done} of {self._total}, {self.seconds:.0f} of {self._budget:g} s"
            self._write(f"{at}: {what}{best}")

    def done(self) -> None:
        """One candidate more."""
        self._done += 1

    def ends(self) -> None:
        """Takes the line away."""
        if self._on_terminal:
            self._write("")

    def _write(self, line: str) -> None:
        sys.stderr.write(f"\r\033[K{line[:WIDE]}")
        sys.stderr.flush()
