"""The read-eval-print loop of a session, for a terminal or for lines from a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

from atl.cli.command import FAILED
from atl.cli.interactive.completion import completions
from atl.cli.interactive.shell import Shell, error_text
from atl.cli.terminal import supports_colour
from atl.core.program import Program
from atl.errors import ATLError

if TYPE_CHECKING:
    from prompt_toolkit.completion import CompleteEvent, Completer
    from prompt_toolkit.document import Document

TOOLBAR = " ? calls that apply · ? WORD help · Tab completes · undo · save FILE · quit"


def run_session(program: Program, out: Path | None) -> int:
    """Run a session on a program, save its certificate to `out` at the end, and return the exit code.

    If standard input is not a terminal, its lines are executed, and the code is 1 if any of them failed.
    """
    if sys.stdin.isatty():
        shell = Shell(program, colour=supports_colour(sys.stdout), busy=_busy)
        run_terminal(shell)
        failed = 0
    else:
        shell = Shell(program)
        failed = run_lines(shell, sys.stdin, sys.stdout)
    if out is not None:
        print(shell.save(out))
    return FAILED if failed else 0


def run_lines(shell: Shell, lines: Iterable[str], out: IO[str]) -> int:
    """Execute lines, print each with its answer, and return the number of lines that failed."""
    failed = 0
    print(shell.opening(), file=out)
    for line in lines:
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        print(f"\n{shell.prompt()}{line.strip()}", file=out)
        try:
            answer = shell.execute(line)
        except ATLError as error:
            failed += 1
            answer = error_text(error)
        print(answer, file=out, flush=True)
        if shell.finished:
            break
    return failed


def run_terminal(shell: Shell) -> None:
    """Prompt for lines until the end of input or `quit`. Ctrl-C cancels the call in progress, or the typed line."""
    from prompt_toolkit import PromptSession

    terminal: PromptSession[str] = PromptSession(
        completer=_completer(shell), complete_while_typing=False, bottom_toolbar=TOOLBAR, enable_history_search=True
    )
    print(shell.opening())
    warned = False
    while not shell.finished:
        try:
            line = terminal.prompt(shell.prompt())
        except KeyboardInterrupt:
            continue
        except EOFError:
            line = "quit"
        if (answer := _execute(shell, line)) and not shell.finished:
            print(answer)
        if shell.finished and shell.unsaved and not warned:
            print("there are unsaved calls: save NAME.atl.json or save NAME.py; quit again discards them")
            shell.finished, warned = False, True


def _execute(shell: Shell, line: str) -> str:
    try:
        return shell.execute(line)
    except ATLError as error:
        return error_text(error)
    except KeyboardInterrupt:
        return "interrupted: the goal has not changed"


@contextmanager
def _busy(what: str) -> Iterator[None]:
    """Show a spinner on a terminal."""
    from rich.console import Console

    console = Console(file=sys.stderr)
    if not console.is_terminal:
        yield
        return
    with console.status(what):
        yield


def _completer(shell: Shell) -> Completer:
    from prompt_toolkit.completion import Completer, Completion

    class ShellCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
            del complete_event
            line = document.text_before_cursor
            word = line.rpartition(" ")[2]
            for found in completions(shell, line):
                yield Completion(found.text, -len(word), display_meta=found.meaning)

    return ShellCompleter()
