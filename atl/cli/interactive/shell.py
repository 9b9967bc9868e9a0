"""A rewriting session driven by lines of text; the caller reads the lines and prints the answers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from atl.cli.interactive.syntax import CALLS, COMMANDS, parse_arguments, parse_call
from atl.cli.terminal import ascii_only
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument
from atl.files.atomic import write_text
from atl.parsing.parse import parse
from atl.text.printing import place_of, show_program
from rewrites import DoesNotApply, Handle, Session, Theorem, reschedule, rules
from rewrites.cursors.targets import Target
from rewrites.session import catalogue
from rewrites.session.display import Diff, described
from rewrites.session.suggestions.search import SECONDS
from rewrites.session.suggestions.suggestion import Suggestion, Suggestions

MAX_LISTED: Final = 20
"""Number of offers that `?` lists."""
LONG_SECONDS: Final = 15.0
"""Time limit of `??`. `?` has the limit of `s.applicable()`."""
_GREEN: Final = "\x1b[32m"
_RESET: Final = "\x1b[0m"


class Shell:
    """A session that executes lines of text. `busy` is entered around calls that may take a second."""

    def __init__(
        self,
        program: Program,
        *,
        colour: bool = False,
        busy: Callable[[str], AbstractContextManager[object]] = lambda _: nullcontext(),
    ) -> None:
        self.session: Session = reschedule(program)
        self.finished = False
        self.saved = 0
        """Number of calls in the file that was saved last."""
        self.focus: Handle | None = None
        """The subterm chosen with `at`."""
        self._colour = colour
        self._busy = busy
        self._found: tuple[Program, Suggestions] | None = None

    def opening(self) -> str:
        """Return the text that is printed before the first prompt."""
        return f"{self._goal()}\n\n? lists the calls that apply, ? WORD explains a word, help lists all commands"

    def prompt(self) -> str:
        """Return the prompt: the program's name and the focus."""
        return f"{self.session.goal.name}{'' if self.focus is None else f' at {self.focus.label}'}> "

    def execute(self, line: str) -> str:
        """Execute a line and return the text to print. If it raises `ATLError`, the goal has not changed."""
        line = line.strip()
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if not line:
            return self._goal()
        if line.startswith("?"):
            return self._list_or_explain(line.lstrip("?").strip(), everything=line.startswith("??"))
        if word.isdecimal():
            return self._take_offer(int(word) if len(word) < 6 else -1, rest)
        command = self._commands().get(word)
        return self._call(line) if command is None else command(rest)

    def _commands(self) -> dict[str, Callable[[str], str]]:
        s = self.session
        return {
            "at": self._at,
            "goal": lambda _: self._goal(),
            "undo": lambda count: self._undo_or_redo(lambda: s.undo(_number(count or "1"))),
            "redo": lambda count: self._undo_or_redo(lambda: s.redo(_number(count or "1"))),
            "steps": lambda _: repr(s.steps),
            "diff": lambda _: s.diff().text(colour=self._colour),
            "explain": lambda number: str(s.explain(_number(number or "-1"))),
            "check": lambda _: str(s.check()),
            "save": lambda file: self.save(Path(file)),
            "help": lambda _: _help(),
            "quit": lambda _: self._quit(),
            "exit": lambda _: self._quit(),
        }

    # -- offers -------------------------------------------------------------------------------------------------------

    def _list_or_explain(self, word: str, *, everything: bool) -> str:
        if word and (text := _help_on(word)):
            return text
        at = self.session.find(_unquoted(word)) if word else self.current_focus()
        with self._busy("finding calls that apply"):
            offers = self.session.applicable(
                None if at is None else self._target(at), seconds=LONG_SECONDS if everything else SECONDS
            )
        if at is not None:
            offers = replace(offers, where=f"at {at.label}")
        self._found = self.session.goal, offers
        return _listed(offers, len(offers) if everything else MAX_LISTED)

    def known_offers(self) -> tuple[Suggestion, ...]:
        """Return the offers that were listed for the current goal."""
        if self._found is None or self._found[0] is not self.session.goal:
            return ()
        return self._found[1].items

    def _take_offer(self, number: int, rest: str) -> str:
        offers = self.known_offers()
        if not 0 <= number < len(offers):
            listed = f"a number from 0 to {len(offers) - 1}" if offers else "a list of calls: type ? first"
            raise InvalidArgument(f"no call of number {number} has been listed for this goal", required=listed)
        offer = offers[number]
        arguments, options = parse_arguments(rest.split())
        if arguments:
            raise InvalidArgument(
                f"{number} {rest}", required="the number, and parameters by their names", suggestions=(f"{number} k=8",)
            )
        if missing := [name for name in offer.missing if name not in options]:
            written = " ".join(f"{name}=8" for name in missing)
            raise InvalidArgument(
                f"{offer.name} needs {', '.join(missing)}", required="a value for each parameter",
                suggestions=(f"{number} {written}",),
            )  # fmt: skip
        return self._call(offer.called(options))

    # -- changing the goal --------------------------------------------------------------------------------------------

    def _call(self, line: str) -> str:
        call = parse_call(line)
        focus = self.current_focus()
        if call.method == "rw" and focus is not None and not {"at", "around"} & set(call.options):
            call = replace(call, options={**call.options, "at": self._target(focus)})
        before = self.session.goal
        with self._busy(call.method):
            call.apply(self.session)
        notes = [f"-- {note}" for note in self.session.steps[-1].notes]
        return "\n".join([self._goal(before), *notes, *self._drop_lost_focus()])

    def _undo_or_redo(self, move: Callable[[], object]) -> str:
        before = self.session.goal
        move()
        self.saved = min(self.saved, len(self.session.steps))
        return "\n".join([self._goal(before), *self._drop_lost_focus()])

    def _at(self, text: str) -> str:
        self.focus = self.session.find(_unquoted(text)) if text else None
        return self._goal() if self.focus is None else str(place_of(self.session.goal, self.focus.path))

    def current_focus(self) -> Handle | None:
        """Return the focus, or None if the goal no longer contains it."""
        self._drop_lost_focus()
        return self.focus

    def _target(self, focus: Handle) -> Target:
        """Return the label of `focus` if it still denotes the same subterm, and its path otherwise."""
        try:
            return focus.label if self.session.find(focus.label).path == focus.path else focus.path
        except DoesNotApply:
            return focus.path

    def _drop_lost_focus(self) -> list[str]:
        """Clear the focus if the goal no longer contains it, and return a note about that."""
        try:
            if self.focus is not None:
                _ = self.focus.path
        except DoesNotApply as error:
            self.focus = None
            return [f"-- {error.summary}: the focus is the whole program again"]
        return []

    # -- output -------------------------------------------------------------------------------------------------------

    def _goal(self, before: Program | None = None) -> str:
        """Return the goal as text. New lines since `before` are marked with +, changed parts with carets."""
        goal = self.session.goal
        if ascii_only():
            return show_program(goal, ascii=True)
        if before is None or str(before) == str(goal):
            return "\n".join(f"  {line}".rstrip() for line in str(goal).split("\n"))
        return "\n".join(self._marked(before, goal))

    def _marked(self, before: Program, goal: Program) -> Iterator[str]:
        above = ""
        for mark, line in Diff(before, goal).lines:
            if mark in " +" or (mark == "^" and above == "+"):
                shown = f"{' ' if mark == '^' else mark} {line}".rstrip()
                yield f"{_GREEN}{shown}{_RESET}" if self._colour and mark != " " else shown
            above = mark

    @property
    def unsaved(self) -> bool:
        """True if some calls were not saved to a file."""
        return len(self.session.steps) != self.saved

    def save(self, path: Path) -> str:
        """Write the session as a script (`.py`) or a certificate (`.json`), and return a line about the file."""
        theorem = self.session.done()
        if path.suffix == ".json":
            theorem.save(path)
            written = f"a certificate of {len(theorem.steps)} steps; atl check {path} replays it"
        elif path.suffix == ".py":
            write_text(path, script(self.session))
            written = f"a script of {len(self.session.steps)} calls that proves the theorem again"
        else:
            raise InvalidArgument(
                f"{path.name or 'a file without a name'}: a session cannot be saved with this suffix",
                required="a name that ends in .py for a script, or in .atl.json for a certificate",
                suggestions=(f"save {path.stem or self.session.goal.name}.atl.json",),
            )
        self.saved = len(self.session.steps)
        return f"{path}: {written}"

    def _quit(self) -> str:
        self.finished = True
        return ""


def script(s: Session) -> str:
    """Return a Python script that derives the theorem again and ends with `theorem = s.done()`.

    The script contains the calls of the session if they lead from the printed program to the same goal. Otherwise the
    script contains the single steps of the kernel.
    """
    theorem = s.done()
    calls = [call.text for call in s.steps]
    again = _replayed(theorem, calls)
    if again is None or show_program(again) != show_program(theorem.rhs) or again.body != theorem.rhs.body:
        return theorem.as_python()
    program = show_program(theorem.lhs)
    literal = repr(program) if "\\" in program or '"""' in program else f'"""\n{program}\n"""'
    lines = [
        "import atl",
        "from rewrites import reschedule",
        "",
        f"start = atl.parse({literal})",
        "s = reschedule(start)",
    ]
    return "\n".join([*lines, *(f"s.{call}" for call in calls), "theorem = s.done()", ""])


def _replayed(theorem: Theorem, calls: list[str]) -> Program | None:
    """Parse the printed program and the calls, and return the goal after them; None if one is refused."""
    try:
        again = reschedule(parse(show_program(theorem.lhs)))
        for call in calls:
            parse_call(f"s.{call}").apply(again)
    except ATLError:
        return None
    return again.goal


def error_text(error: ATLError) -> str:
    """Return the message of an error without its source line, which would be a line of this package."""
    if error.place is not None:
        error.place = replace(error.place, source=None)
    return str(error)


def _listed(offers: Suggestions, most: int) -> str:
    more = len(offers) - most
    lines = [repr(replace(offers, items=offers.items[:most]))]
    lines += [f"… and {more} more: ?? lists all"] if more > 0 else []
    lines += ["type a number to make that call, such as 0"] if offers.items else []
    return "\n".join(lines)


def _help() -> str:
    lines = [f"  {word:8} {text}" for word, text in COMMANDS.items()]
    number = "  NUMBER   make the call of that number in the list of ?; 23 k=8 passes parameters"
    call = "  a call   tile i 8, stage A at=io, get_gen at=i, or as Python: s.tile(['i', 'j'], [8, 8])"
    return "\n".join([*lines, number, call])


def _help_on(word: str) -> str:
    name = word.rstrip("-")
    if name in CALLS:
        return next(catalogue.described(entry) for entry in catalogue.entries() if entry.name == name)
    if name in rules:
        return described(rules[name])
    return f"{word}: {COMMANDS[word]}" if word in COMMANDS else ""


def _unquoted(text: str) -> str:
    return text[1:-1] if re.fullmatch(r"(['\"]).*\1", text) and len(text) > 1 else text


def _number(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", text):
        raise InvalidArgument(f"{text} is not a number", required="an integer, as in undo 2 or explain 0")
    return int(text)
