"""What is shown on a terminal only: colour, and how far something has come."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import IO, Final, TypeVar

T = TypeVar("T")

WIDTH: Final = 100
PATIENCE: Final = 1.0
"""What takes longer than so many seconds shows how far it has come."""


def coloured(stream: IO[str]) -> bool:
    """Whether colours are seen there, and wanted: https://no-color.org."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(title: str) -> str:
    """A heading: in colour on a terminal, underlined elsewhere."""
    return f"\033[1;36m{title}\033[0m" if coloured(sys.stdout) else f"{title}\n{'-' * len(title)}"


def filled(text: str) -> str:
    """Paragraphs, one a line, broken at the width of a page."""
    lines = text.split("\n")
    return "\n".join(fill(line, WIDTH, break_on_hyphens=False, break_long_words=False) for line in lines)


def ascii_only() -> bool:
    """Whether what is printed goes where the signs of mathematics cannot."""
    try:
        "⊞Σ∧≠⌈".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def watched(items: Sequence[T], what: str) -> Iterator[T]:
    """The items; on a terminal, once they have taken a second, a bar on the error stream says how far they are."""
    if not sys.stderr.isatty():
        yield from items
        return
    begun = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - begun > PATIENCE:
            yield from _with_bar(items, done, what)
            return
        yield item


def _with_bar(items: Sequence[T], done: int, what: str) -> Iterable[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # rich passes over NO_COLOR where it is empty, as the convention says.
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(what, total=len(items), completed=done)
        for item in items[done:]:
            yield item
            progress.advance(task)
