"""The memory of a test process: it is given back between files, and a process that needs too much fails."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from proofs_tests.mutation.planting import clear_memos

MOST: Final = 1 << 30
"""The bytes that a test process may have in memory."""
STEP: Final = 1 << 26
"""The growth, in bytes, after which memos are emptied."""
OF_COMPILERS: Final = "lowering."
"""The package whose memos hold answers of compilers: they are small, and asking again takes long."""


def peak() -> int:
    """Return the most bytes that this process has had in memory; 0 where the platform does not say."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux: `getrusage` tells of the process that started this one, too
        lines = (line.split() for line in status.read_text(encoding="ascii").splitlines())
        return next((1024 * int(words[1]) for words in lines if words[:1] == ["VmHWM:"]), 0)
    try:
        import resource
    except ImportError:
        return 0
    told = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return told if sys.platform == "darwin" else 1024 * told


@dataclass(slots=True, eq=False)
class Memory:
    """A plugin of pytest that bounds the memory of its process."""

    peak: Callable[[], int] = peak
    emptied_at: int = 0
    allowed: int = MOST
    """The most bytes that are not reported: those that were reported for an earlier file are allowed."""

    def pytest_collection_finish(self) -> None:
        """Set aside what was collected: the search for cycles need not look at it."""
        gc.collect()
        gc.freeze()
        self.emptied_at = self.peak()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        """Look at the memory after the last test of each file."""
        yield
        if nextitem is None or nextitem.path != item.path:
            self.after(str(item.path))

    def after(self, file: str) -> None:
        """Empty the memos where the process has grown. Raise `AssertionError` where it has grown too much."""
        if self.peak() > self.emptied_at + STEP:
            self.emptied_at = self.peak()
            clear_memos(without=OF_COMPILERS)
            gc.collect()
        if (most := self.peak()) > self.allowed:
            self.allowed = most
            raise AssertionError(
                f"this process had {most >> 20} MB in memory when it was done with {file}; "
                f"{MOST >> 20} MB are allowed for all files together"
            )
