"""Where the lines of a session come from: a person at a terminal, or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from atl.cli.foundation.command import FAILED
from atl.cli.foundation.terminal import coloured
from atl.cli.interactive.completing import completions
from atl.cli.interactive.desk import Desk, refusal
from atl.core.program import Program
from atl.errors import ATLError

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completer
    from prompt_toolkit.document import Document

TOOLBAR = " ? what applies · ? WORD help · Tab completes · undo · save FILE · quit"


def held(program: Program, out: Path | None) -> int:
    """A session about a program, to its end; `out` is where its certificate goes then. Gives the exit code.

    Lines that come from a pipe are answered one by one; 1 if any was refused.
    """
    if sys.stdin.isatty():
        desk = Desk(program, colour=coloured(sys.stdout), busy=_busy)
        in_terminal(desk)
        refused = 0
    else:
        desk = Desk(program)
        refused = by_lines(desk, sys.stdin, sys.stdout)
    if out is not None:
        print(desk.save(out))
    return FAILED if refused else 0


def by_lines(desk: Desk, lines: Iterable[str], out: IO[str]) -> int:
    """Answers lines one after the other, each shown with its answer, and gives how many were refused."""
    refused = 0
    print(desk.opening(), file=out)
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        print(f"\n{desk.prompt()}{line.strip()}", file=out)
        try:
            answer = desk.answer(line)
        except ATLError as error:
            refused += 1
            answer = refusal(error)
        print(answer, file=out, flush=True)
        if desk.finished:
            break
    return refused


def in_terminal(desk: Desk) -> None:
    """Asks a person for lines until there are no more. Ctrl-C ends a call, which then was not made, or drops a line."""
    from prompt_toolkit import PromptSession

    asking: PromptSession[str] = PromptSession(
        completer=_completer(desk), complete_while_typing=False, bottom_toolbar=TOOLBAR, enable_history_search=True
    )
    print(desk.opening())
    warned = False
    while not desk.finished:
        try:
            line = asking.prompt(desk.prompt())
        except KeyboardInterrupt:
            continue
        except EOFError:
            line = "quit"
        if (said := _answered(desk, line)) and not desk.finished:
            print(said)
        if desk.finished and desk.unsaved and not warned:
            print("there are calls that no file has: save NAME.atl.json or save NAME.py; quit once more leaves")
            desk.finished, warned = False, True


def _answered(desk: Desk, line: str) -> str:
    try:
        return desk.answer(line)
    except ATLError as error:
        return refusal(error)
    except KeyboardInterrupt:
        return "interrupted: the goal is as it was"


@contextmanager
def _busy(what: str) -> Iterator[None]:
    """A sign on a terminal that something is being worked on."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def _completer(desk: Desk) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class Here(Completer):
        """What is said at this place."""

        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            del complete_event
            line = document.text_before_cursor
            word = line.rpartition(" ")[2]
            for found in completions(desk, line):
                yield Completion(found.text, -len(word), display_meta=found.meaning)

    return Here()
