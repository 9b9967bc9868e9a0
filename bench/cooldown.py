"""Cooldown: waiting until the threads of this process sleep.

The threads of OpenBLAS spin for about 100 ms after their work, those of OpenMP for about 8 ms. Without the wait, the
next candidate would share its cores with them.
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Final

TASKS: Final = Path("/proc/self/task")
POLL_INTERVAL: Final = 0.0005
MAX_WAIT: Final = 0.3
"""Maximum wait in seconds. A thread that runs longer is not spinning."""


def wait_until_idle(longest: float = MAX_WAIT) -> bool:
    """Wait until no other thread of this process is runnable. Return False after a timeout.

    Where the system has no thread states in /proc, return False at once.
    """
    own, until = str(threading.get_native_id()), time.monotonic() + longest
    while (running := running_threads(own)) and time.monotonic() < until:
        time.sleep(POLL_INTERVAL)
    return running == 0


def running_threads(but: str) -> int | None:
    """Count the runnable threads other than `but`; None if the system has no thread states."""
    found = 0
    try:
        for task in TASKS.iterdir():
            if task.name == but:
                continue
            try:
                stat = (task / "stat").read_text(encoding="ascii", errors="replace")
            except OSError:  # the thread has ended
                continue
            # The name is in brackets, and may contain brackets.
            found += stat.rpartition(")")[2].split()[:1] == ["R"]
    except OSError:
        return None
    return found
