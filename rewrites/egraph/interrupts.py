"""An interrupt that waits for the next moment at which all is whole.

`KeyboardInterrupt` is raised between any two instructions: in the midst of a union it would leave a graph in which
egglog and the proof forest disagree. So while a search runs it is noted, and looked at between candidates.
"""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Self


class Interrupts:
    """While it is entered, the first interrupt is noted and the second one raised, as when nothing answers any more.

    Only the main thread is interrupted in Python; and where a person has a handler of their own, that one stays.
    """

    def __init__(self) -> None:
        self.asked = False
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
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
