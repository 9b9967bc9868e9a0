"""The progress line on the error stream, which shows what a long call is doing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

WIDTH: Final = 118
"""Maximum width of the progress line, so that it fits most terminals: a wrapped line could not be erased."""


def write_line(line: str) -> None:
    """Replace the progress line."""
    sys.stderr.write(f"\r\033[K{line[:WIDTH]}")
    sys.stderr.flush()


@contextmanager
def activity(what: str) -> Iterator[None]:
    """Show what is being done on the progress line, if the error stream is a terminal, and erase it at the end."""
    shown = sys.stderr.isatty()
    if shown:
        write_line(f"{what} …")
    try:
        yield
    finally:
        if shown:
            write_line("")
