"""Memory limit of a test process: memos are cleared between files, and a process that exceeds the limit fails."""

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
"""Maximum memory of a test process, in bytes."""
STEP: Final = 1 << 26
"""Growth, in bytes, after which memos are cleared."""
OF_COMPILERS: Final = "lowering."
"""Package whose memos are kept: they hold small, expensive answers of compilers."""


def peak() -> int:
    """Return the peak memory of this process in bytes, or 0 where the platform does not report it."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux: `getrusage` includes the parent process
        lines = (line.split() for line in status.read_text(encoding="ascii").splitlines())
        return next((1024 * int(words[1]) for words in lines if words[:1] == ["VmHWM:"]), 0)
    try:
        import resource
    except ImportError:
        return 0
    usage = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return usage if sys.platform == "darwin" else 1024 * usage


@dataclass(slots=True, eq=False)
class Memory:
    """Plugin of pytest that limits the memory of its process."""

    peak: Callable[[], int] = peak
    emptied_at: int = 0
    allowed: int = MOST
    """Limit for the next file: the peak that was reported for an earlier file is allowed."""

    def pytest_collection_finish(self) -> None:
        """Exclude collected tests from garbage collection."""
        gc.collect()
        gc.freeze()
        self.emptied_at = self.peak()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        """Check the memory after the last test of each file."""
        yield
        if nextitem is None or nextitem.path != item.path:
            self.after(str(item.path))

    def after(self, file: str) -> None:
        """Clear memos if the process has grown by `STEP`. Raise `AssertionError` if it exceeds the limit."""
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
