"""Waiting until the threads of this process sleep: those of a library spin for a while after their work.

OpenBLAS's look for more of it for some 100 ms, those of OpenMP for some 8. Of contestants that take turns, the next
would share its cores with the threads of the one before.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

TASKS: Final = Path("/proc/self/task")
LOOKS_APART: Final = 0.0005
LONGEST: Final = 0.3
"""So many seconds it waits at most: what runs for longer does not spin."""


def settle(longest: float = LONGEST) -> bool:
    """Waits until no thread of this process but the one that asks wants a core; whether that came about in time.

    Where the system does not tell what threads do it waits for nothing, and that is false.
    """
    own, until = str(threading.get_native_id()), time.monotonic() + longest
    while (wanting := wanting_a_core(own)) and time.monotonic() < until:
        time.sleep(LOOKS_APART)
    return wanting == 0


def wanting_a_core(but: str) -> int | None:
    """How many other threads run or wait for a core; nothing where that is not told."""
    found = 0
    try:
        for task in TASKS.iterdir():
            if task.name == but:
                continue
            try:
                told = (task / "stat").read_text(encoding="ascii", errors="replace")
            except OSError:  # it has ended
                continue
            # The name stands in brackets, and may have any in it.
            found += told.rpartition(")")[2].split()[:1] == ["R"]
    except OSError:
        return None
    return found
