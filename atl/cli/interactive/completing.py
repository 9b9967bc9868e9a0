"""What Tab completes in a session: words, the calls and rules for what stands at this place, and its names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import dataclass

from atl.cli.interactive.desk import Desk
from atl.cli.interactive.words import CALLS, ORDERS
from rewrites import Session, rules
from rewrites.cursors.cursor import Cursor, binders
from rewrites.cursors.targets import places
from rewrites.egraph.phases import ANY_TERM
from rewrites.matching.patterns import outermost
from rewrites.session import catalogue


@dataclass(frozen=True, slots=True)
class Completion:
    """What a word may become, and what it means."""

    text: str
    meaning: str


def completions(desk: Desk, line: str) -> list[Completion]:
    """What the last word of a line may become, where the cursor stands behind it."""
    before, _, word = line.rpartition(" ")
    first = before.strip()
    if first in ("", "?", "??"):
        found = [*_orders(), *_calls(), *_rules(desk)]
        found += _names(desk) if first else []
    elif first == "save":
        found = [Completion(f"{desk.session.goal.name}{end}", "") for end in (".py", ".atl.json")]
    else:
        found = [*_names(desk), *_options(first.split()[0])]
    key, equals, value = word.rpartition("=")
    if equals:
        return [Completion(f"{key}={each.text}", each.meaning) for each in _names(desk) if each.text.startswith(value)]
    listed, comma, last = word.rpartition(",")
    if comma:
        return [
            Completion(f"{listed},{each.text}", each.meaning) for each in _names(desk) if each.text.startswith(last)
        ]
    return [each for each in dict.fromkeys(found) if each.text.startswith(word)]


def _orders() -> Iterator[Completion]:
    return (Completion(word, said) for word, said in ORDERS.items() if word.isalpha())


def _calls() -> Iterator[Completion]:
    for entry in catalogue.entries():
        if entry.name in CALLS:
            yield Completion(entry.name, entry.law)


def _rules(desk: Desk) -> Iterator[Completion]:
    """The rules of which a side is made by what stands at this place; those that `?` has tried first."""
    for offer in desk.known_offers():
        if offer.kind == "rule":
            yield Completion(f"{offer.name}{'-' if offer.options.get('reverse') else ''}", offer.law)
    standing = {type(cursor.term) for cursor in _cursors(desk)}
    for rule in rules.values():
        for sign, reverse in (("", False), ("-", True)):
            if f"{rule.name}{sign or '+'}" not in ANY_TERM and outermost(rule, reverse) in standing:
                yield Completion(f"{rule.name}{sign}", rule.law)


def _cursors(desk: Desk) -> list[Cursor]:
    at = desk.looked_at()
    return list(places(desk.session.goal, None if at is None else at.path, None))


def _names(desk: Desk) -> Iterator[Completion]:
    """The loops and lets at this place, and the inputs."""
    within = {cursor.path for cursor in _cursors(desk)}
    for cursor in binders(desk.session.goal):
        if cursor.path in within:
            yield Completion(cursor.called[0], cursor.term.form.phrase)
    for array in desk.session.goal.inputs:
        yield Completion(array.name, "an input")


def _options(call: str) -> Iterator[Completion]:
    """The parameters of a call, or of a rule."""
    name = call.rstrip("-")
    method = getattr(Session, name if name in CALLS else "rw", None)
    keywords = [] if method is None else list(inspect.signature(method).parameters.values())[1:]
    for parameter in keywords:
        if parameter.kind is parameter.KEYWORD_ONLY:
            yield Completion(f"{parameter.name}=", "")
    if name in rules:
        yield from (Completion(f"{parameter}=", f"a parameter of {name}") for parameter in rules[name].metavariables)
