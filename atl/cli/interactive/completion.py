"""Tab completion in a session: commands, calls, rules that match at the focus, and names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from atl.cli.interactive.shell import Shell
from atl.cli.interactive.syntax import CALLS, COMMANDS
from rewrites import Session, rules
from rewrites.cursors.cursor import Cursor, binders
from rewrites.cursors.targets import places
from rewrites.egraph.phases import ANY_TERM
from rewrites.matching.patterns import outermost
from rewrites.session import catalogue


@dataclass(frozen=True, slots=True)
class Completion:
    """A completion of a word, with its description."""

    text: str
    meaning: str


def completions(shell: Shell, line: str) -> list[Completion]:
    """Return the completions of the last word of a line, for a cursor at its end."""
    before, _, word = line.rpartition(" ")
    first = before.strip()
    if first in ("", "?", "??"):
        found = [*_commands(), *_calls(), *_rules(shell)]
        found += _names(shell) if first else []
    elif first == "save":
        found = [Completion(f"{shell.session.goal.name}{end}", "") for end in (".py", ".atl.json")]
    else:
        found = [*_names(shell), *_options(first.split()[0])]
    for separator in "=,":
        head, given, last = word.rpartition(separator)
        if given:
            names = [each for each in _names(shell) if each.text.startswith(last)]
            return [Completion(f"{head}{separator}{each.text}", each.meaning) for each in names]
    return [each for each in dict.fromkeys(found) if each.text.startswith(word)]


def _commands() -> Iterator[Completion]:
    return (Completion(word, meaning) for word, meaning in COMMANDS.items() if word.isalpha())


def _calls() -> Iterator[Completion]:
    for entry in catalogue.entries():
        if entry.name in CALLS:
            yield Completion(entry.name, entry.law)


def _rules(shell: Shell) -> Iterator[Completion]:
    """Yield the rules that were listed by `?`, then those whose outermost constructor occurs at the focus."""
    for offer in shell.known_offers():
        if offer.kind == "rule":
            yield Completion(f"{offer.name}{'-' if offer.options.get('reverse') else ''}", offer.law)
    constructors = {type(cursor.term) for cursor in _cursors(shell)}
    for rule in rules.values():
        for sign, reverse in (("", False), ("-", True)):
            if f"{rule.name}{sign or '+'}" not in ANY_TERM and outermost(rule, reverse) in constructors:
                yield Completion(f"{rule.name}{sign}", rule.law)


def _cursors(shell: Shell) -> list[Cursor]:
    focus = shell.current_focus()
    return list(places(shell.session.goal, None if focus is None else focus.path, None))


def _names(shell: Shell) -> Iterator[Completion]:
    """Yield the loops and lets inside the focus, and the inputs."""
    within = {cursor.path for cursor in _cursors(shell)}
    for cursor in binders(shell.session.goal):
        if cursor.path in within:
            yield Completion(cursor.called[0], cursor.term.form.phrase)
    for array in shell.session.goal.inputs:
        yield Completion(array.name, "an input")


def _options(call: str) -> Iterator[Completion]:
    """Yield the keyword parameters of a call, or the parameters of a rule."""
    name = call.rstrip("-")
    method = getattr(Session, name if name in CALLS else "rw", None)
    keywords = [] if method is None else list(inspect.signature(method).parameters.values())[1:]
    for parameter in keywords:
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield Completion(f"{parameter.name}=", "")
    if name in rules:
        yield from (Completion(f"{parameter}=", f"a parameter of {name}") for parameter in rules[name].metavariables)
