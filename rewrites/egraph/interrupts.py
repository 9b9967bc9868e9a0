"""Deferral of KeyboardInterrupt to a consistent state.

`KeyboardInterrupt` may be raised between any two instructions. In the middle of a union it would leave egglog and the
proof forest inconsistent. So a search records the interrupt, and checks for it between candidates.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """A context manager that records the first interrupt; a second one is raised, in case the search hangs.

    It is active in the main thread only, and does not replace a user's own handler.
    """

    def __init__(self) -> None:
        self.requested = False
        self._holds = False

    def __enter__(self) -> Self:
        is_main = threading.current_thread() is threading.main_thread()
        if is_main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._note)
            self._holds = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._holds:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            self._holds = False

    def _note(self, _: int, __: FrameType | None) -> None:
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
