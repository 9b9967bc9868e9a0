"""Terminal output: colours, line breaks and progress bars."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill
from typing import IO, Final, TypeVar

T = TypeVar("T")

WIDTH: Final = 100
PROGRESS_DELAY: Final = 1.0
"""Seconds before a progress bar appears."""


def supports_colour(stream: IO[str]) -> bool:
    """Return True for a terminal with colours, unless NO_COLOR is set (https://no-color.org)."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def bold(title: str) -> str:
    """Return a heading: coloured on a terminal, underlined elsewhere."""
    return f"\033[1;36m{title}\033[0m" if supports_colour(sys.stdout) else f"{title}\n{'-' * len(title)}"


def wrapped(text: str) -> str:
    """Break each line of `text`, which is a paragraph, at the page width."""
    lines = text.split("\n")
    return "\n".join(fill(line, WIDTH, break_on_hyphens=False, break_long_words=False) for line in lines)


def ascii_only() -> bool:
    """Return True if standard output cannot encode mathematical symbols."""
    try:
        "⊞Σ∧≠⌈".encode(sys.stdout.encoding or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def with_progress(items: Sequence[T], title: str) -> Iterator[T]:
    """Yield the items. On a terminal, show a progress bar on standard error after `PROGRESS_DELAY`."""
    if not sys.stderr.isatty():
        yield from items
        return
    started = time.monotonic()
    for done, item in enumerate(items):
        if time.monotonic() - started > PROGRESS_DELAY:
            yield from _with_bar(items, done, title)
            return
        yield item


def _with_bar(items: Sequence[T], done: int, title: str) -> Iterable[T]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    # rich ignores an empty NO_COLOR, as the convention requires.
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.stderr), transient=True) as progress:
        task = progress.add_task(title, total=len(items), completed=done)
        for item in items[done:]:
            yield item
            progress.advance(task)
