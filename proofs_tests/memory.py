"""Memory limit of a test process: memos are cleared between tests, and a process that exceeds the limit fails."""

from __future__ import annotations

import ctypes
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
FULL: Final = 3 * MOST // 8
"""Memory in use, in bytes, at which memos are cleared between two tests of a file."""
STEP: Final = 1 << 26
"""Growth, in bytes, after which memos are cleared between files, or again within a file."""
OF_COMPILERS: Final = "lowering."
"""Package whose memos are kept: they hold small, expensive answers of compilers."""


STATUS: Final = Path("/proc/self/status")
"""Where Linux reports the memory of this process."""


def resident() -> int:
    """Return the memory in use by this process in bytes, or 0 where the platform is not Linux."""
    return _status("VmRSS:") if STATUS.exists() else 0


def _status(key: str) -> int:
    lines = (line.split() for line in STATUS.read_text(encoding="ascii").splitlines())
    return next((1024 * int(words[1]) for words in lines if words[:1] == [key]), 0)


def peak() -> int:
    """Return the peak memory of this process in bytes, or 0 where the platform does not report it."""
    if STATUS.exists():  # `getrusage` includes the parent process
        return _status("VmHWM:")
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
    resident: Callable[[], int] = resident
    emptied_at: int = 0
    """Peak when memos were cleared after a file."""
    left: int = 0
    """Memory in use after memos were cleared within a file."""
    allowed: int = MOST
    """Limit for the next file: the peak that was reported for an earlier file is allowed."""

    def pytest_collection_finish(self) -> None:
        """Exclude collected tests from garbage collection."""
        gc.collect()
        gc.freeze()
        self.emptied_at = self.peak()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None, None, None]:
        """Clear memos if much memory is in use, and check the memory after the last test of each file."""
        yield
        self.between_tests()
        if nextitem is None or nextitem.path != item.path:
            self.after(str(item.path))

    def between_tests(self) -> None:
        """Clear memos if more than `FULL` bytes are in use, and `STEP` more than were left after the last time."""
        if self.resident() > max(FULL, self.left + STEP):
            _clear()
            self.left = self.resident()

    def after(self, file: str) -> None:
        """Clear memos if the process has grown by `STEP`. Raise `AssertionError` if it exceeds the limit."""
        if self.peak() > self.emptied_at + STEP:
            self.emptied_at = self.peak()
            _clear()
        if (most := self.peak()) > self.allowed:
            self.allowed = most
            raise AssertionError(
                f"this process had {most >> 20} MB in memory when it was done with {file}; "
                f"{MOST >> 20} MB are allowed for all files together"
            )


def _clear() -> None:
    """Clear memos, and return the freed memory to the system if the C library can (glibc)."""
    clear_memos(without=OF_COMPILERS)
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)
