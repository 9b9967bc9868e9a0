"""A session and what is asked of it line by line; whoever reads the lines, a terminal or a pipe, gets texts back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Final

from atl.cli.foundation.terminal import ascii_only
from atl.cli.interactive.scripts import script
from atl.cli.interactive.words import CALLS, ORDERS, arguments_in, call_in
from atl.core.program import Program
from atl.errors import ATLError, InvalidArgument
from atl.files.whole import write_text
from atl.text.printing import place_of, show_program
from rewrites import DoesNotApply, Handle, Session, reschedule, rules
from rewrites.cursors.targets import Target
from rewrites.session import catalogue
from rewrites.session.display import Diff, described
from rewrites.session.suggestions.search import SECONDS
from rewrites.session.suggestions.suggestion import Suggestion, Suggestions

SHOWN: Final = 20
"""So many offers are listed by `?`."""
LONGER: Final = 15.0
"""How many seconds `??` computes; `?` so many as `s.applicable()`."""
_GREEN: Final = "\x1b[32m"
_PLAIN: Final = "\x1b[0m"


class Desk:
    """A session that is asked by lines. `busy` is shown around what may take a second."""

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
        """How many calls the file has that was written last."""
        self.place: Handle | None = None
        self._colour = colour
        self._busy = busy
        self._found: tuple[Program, Handle | None, Suggestions] | None = None

    # -- asking -------------------------------------------------------------------------------------------------------

    def opening(self) -> str:
        """What is said first."""
        return f"{self._goal()}\n\n? lists what applies here, ? WORD helps, help says what else can be said"

    def prompt(self) -> str:
        """What stands before a line: the program, and the place that is looked at."""
        return f"{self.session.goal.name}{'' if self.place is None else f' at {self.place.label}'}> "

    def answer(self, line: str) -> str:
        """What there is to say to a line. Raises `ATLError` for what is refused; then the goal is as it was."""
        line = line.strip()
        word, _, rest = line.partition(" ")
        rest = rest.strip()
        if not line:
            return self._goal()
        if line.startswith("?"):
            return self._asked(line.lstrip("?").strip(), everything=line.startswith("??"))
        if word.isdecimal():
            return self._taken(int(word) if len(word) < 6 else -1, rest)
        order = self._orders().get(word)
        if order is not None:
            return order(rest)
        return self._called(line)

    def _orders(self) -> dict[str, Callable[[str], str]]:
        s = self.session
        return {
            "at": self._at,
            "goal": lambda _: self._goal(),
            "undo": lambda count: self._moved(lambda: s.undo(_count(count))),
            "redo": lambda count: self._moved(lambda: s.redo(_count(count))),
            "steps": lambda _: repr(s.steps),
            "diff": lambda _: s.diff().text(colour=self._colour),
            "explain": lambda number: str(s.explain(_number(number))),
            "check": lambda _: str(s.check()),
            "save": lambda file: self.save(Path(file)),
            "help": lambda _: _help(),
            "quit": lambda _: self._quit(),
            "exit": lambda _: self._quit(),
        }

    # -- what applies -------------------------------------------------------------------------------------------------

    def _asked(self, word: str, *, everything: bool) -> str:
        if word and (said := _help_on(word)):
            return said
        at = self.looked_at() if not word else self.session.find(_unquoted(word))
        offers = self._offers(at, LONGER if everything else SECONDS)
        return _listed(offers, len(offers) if everything else SHOWN)

    def _offers(self, at: Handle | None, seconds: float) -> Suggestions:
        with self._busy("trying what applies"):
            offers = self.session.applicable(None if at is None else self._written(at), seconds=seconds)
        named = replace(offers, where=offers.where if at is None else f"at {at.label}")
        self._found = self.session.goal, at, named
        return named

    def known_offers(self) -> tuple[Suggestion, ...]:
        """What has been listed of this goal."""
        if self._found is None or self._found[0] is not self.session.goal:
            return ()
        return self._found[2].items

    def _taken(self, number: int, rest: str) -> str:
        offers = self.known_offers()
        if not 0 <= number < len(offers):
            listed = f"the numbers listed: 0 to {len(offers) - 1}" if offers else "?, which lists what applies here"
            raise InvalidArgument(f"no call of number {number} has been listed for this goal", required=listed)
        offer = offers[number]
        arguments, options = arguments_in(rest.split())
        if arguments:
            raise InvalidArgument(
                f"{number} {rest}", required="the number, and parameters by their names", suggestions=(f"{number} k=8",)
            )
        if missing := [name for name in offer.missing if name not in options]:
            written = " ".join(f"{name}=8" for name in missing)
            raise InvalidArgument(
                f"{offer.name} asks for {', '.join(missing)}", required="a value for each",
                suggestions=(f"{number} {written}",),
            )  # fmt: skip
        return self._called(offer.called(options))

    # -- changing the goal --------------------------------------------------------------------------------------------

    def _called(self, line: str) -> str:
        call = call_in(line)
        place = self.looked_at()
        if call.method == "rw" and place is not None and not {"at", "around"} & set(call.options):
            call = replace(call, options={**call.options, "at": self._written(place)})
        before = self.session.goal
        with self._busy(call.method):
            call.made(self.session)
        last = self.session.steps[-1]
        notes = [f"-- {note}" for note in last.notes]
        return "\n".join([self._goal(before), *notes, *self._lost()])

    def _moved(self, move: Callable[[], object]) -> str:
        before = self.session.goal
        move()
        self.saved = min(self.saved, len(self.session.steps))
        return "\n".join([self._goal(before), *self._lost()])

    def _at(self, text: str) -> str:
        self.place = self.session.find(_unquoted(text)) if text else None
        return self._goal() if self.place is None else str(place_of(self.session.goal, self.place.path))

    def looked_at(self) -> Handle | None:
        """The place that is looked at, if it is still there."""
        self._lost()
        return self.place

    def _written(self, place: Handle) -> Target:
        """A place as a call has it: by the name that it was found by, while that means the same; by its path."""
        try:
            return place.label if self.session.find(place.label).path == place.path else place.path
        except DoesNotApply:
            return place.path

    def _lost(self) -> list[str]:
        """Forgets the place that is looked at, if the goal has it no more, and says so."""
        try:
            if self.place is not None:
                _ = self.place.path
        except DoesNotApply as error:
            self.place = None
            return [f"-- {error.summary}: now everywhere is looked at"]
        return []

    # -- showing ------------------------------------------------------------------------------------------------------

    def _goal(self, before: Program | None = None) -> str:
        """The goal; beside the lines that were not there before stands +, and carets below the part that changed."""
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
                yield f"{_GREEN}{shown}{_PLAIN}" if self._colour and mark != " " else shown
            above = mark

    # -- keeping ------------------------------------------------------------------------------------------------------

    @property
    def unsaved(self) -> bool:
        """Whether there are calls that no file has."""
        return len(self.session.steps) != self.saved

    def save(self, path: Path) -> str:
        """Writes the session as a script, or as a certificate, by the ending of the name."""
        theorem = self.session.done()
        if path.suffix == ".json":
            theorem.save(path)
            said = f"a certificate of {len(theorem.steps)} steps; atl check {path} replays it"
        elif path.suffix == ".py":
            write_text(path, script(self.session))
            said = f"a script of {len(self.session.steps)} calls, which ends with the theorem"
        else:
            raise InvalidArgument(
                f"nothing is saved as {path.name or 'a file without a name'}",
                required="a name that ends in .py for a script, or in .atl.json for a certificate",
                suggestions=(f"save {path.stem or self.session.goal.name}.atl.json",),
            )
        self.saved = len(self.session.steps)
        return f"{path}: {said}"

    def _quit(self) -> str:
        self.finished = True
        return ""


def refusal(error: ATLError) -> str:
    """An error without the line of Python that it came through, which is ours here."""
    if error.place is not None:
        error.place = replace(error.place, source=None)
    return str(error)


def _listed(offers: Suggestions, most: int) -> str:
    shown = replace(offers, items=offers.items[:most])
    more = len(offers) - most
    lines = [repr(shown)]
    lines += [f"… and {more} more: ?? lists all"] if more > 0 else []
    lines += ["a number makes that call, such as 0"] if offers.items else []
    return "\n".join(lines)


def _help() -> str:
    said = [f"  {word:8} {text}" for word, text in ORDERS.items()]
    calls = "  a call    tile i 8, stage A at=io, get_gen at=i, or as Python: s.tile(['i', 'j'], [8, 8])"
    taken = "  NUMBER   makes the call of that number in the list of ?; 23 k=8 gives parameters"
    return "\n".join([*said, taken, calls])


def _help_on(word: str) -> str:
    name = word.rstrip("-")
    if name in CALLS:
        return next(catalogue.described(entry) for entry in catalogue.entries() if entry.name == name)
    if name in rules:
        return described(rules[name])
    return f"{word}: {ORDERS[word]}" if word in ORDERS else ""


def _unquoted(text: str) -> str:
    return text[1:-1] if re.fullmatch(r"(['\"]).*\1", text) and len(text) > 1 else text


def _count(text: str) -> int:
    return _number(text or "1")


def _number(text: str) -> int:
    if not re.fullmatch(r"-?\d{1,9}", text or "-1"):
        raise InvalidArgument(f"{text} is no number", required="a number of calls: undo 2, explain 0")
    return int(text or "-1")
