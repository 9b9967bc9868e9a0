"""The lines of a session in a terminal: what may be said, and how a call is read.

A call is written by words, `tile i,j 8,8` or `rw get_gen at=i`, or as Python, `s.tile(["i", "j"], [8, 8])`, so that
what a refusal suggests can be given as it stands. A rule is called by its name; `name-` takes it from right to left.
"""

from __future__ import annotations

import ast
import inspect
import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from atl.errors import InvalidArgument, brief
from rewrites import rules, tactics
from rewrites.errors import unknown_name
from rewrites.session import catalogue
from rewrites.session.session import Session

ORDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "?": "what applies here; `? io` what applies there, `? tile` help on a word, `??` all of it, with more time",
        "at": "at PLACE: look there only, at a name such as io, or a pattern in quotes; `at` alone: everywhere again",
        "goal": "the program as it stands; an empty line prints it too",
        "undo": "undo [COUNT]: takes back the last calls",
        "redo": "redo [COUNT]: makes undone calls again",
        "steps": "the calls made so far",
        "diff": "what the last call changed",
        "explain": "explain [NUMBER]: a call step by step: the rule, the place, how each premise was proved",
        "check": "the known problems in compiling the goal",
        "save": "save FILE: a script that replays (.py), or a certificate that `atl check` accepts (.atl.json)",
        "help": "this",
        "quit": "leaves; Ctrl-D does too",
    }
)
"""What is said besides calls."""

IN_PYTHON: Final = frozenset({"sparsify", "store", "reorder", "view"})
"""Calls whose arguments are objects, which no line can hold."""
CALLS: Final = tuple(sorted({*(name for name in tactics.__all__ if hasattr(Session, name)), "rw"} - IN_PYTHON))
"""The methods of a session that a line can call."""

_CALL: Final = re.compile(r"(?:s\.)?(\w+)\((.*)\)\s*;?", re.DOTALL)
_OPENED: Final = re.compile(r"\s*(?:s\.)?\w+\(")
_LISTED: Final = re.compile(r"[\w.]+(?:,[\w.]+)+")
_NAMED: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_PLAIN: Final = {"true": True, "false": False, "none": None}


@dataclass(frozen=True, slots=True)
class Call:
    """A method of a session with its arguments."""

    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def made(self, s: Session) -> None:
        """Makes the call. Raises `InvalidArgument` where the method takes no such arguments, and what it refuses."""
        method = getattr(s, self.method)
        try:
            inspect.signature(method).bind(*self.arguments, **self.options)
        except TypeError as error:
            raise InvalidArgument(
                f"{self.method}: {error}",
                required=next(entry.call for entry in catalogue.entries() if entry.name == self.method),
                suggestions=(f"? {self.method}",),
            ) from None
        method(*self.arguments, **self.options)


def call_in(line: str) -> Call:
    """The call that a line is. Raises `InvalidArgument` for what is none."""
    found = _CALL.fullmatch(line.strip())
    if found is not None and (found[1] in (*CALLS, *IN_PYTHON) or found[1] in rules):
        return _named(found[1], *_python_arguments(line, found[2]))
    if _OPENED.match(line):
        raise InvalidArgument(f"{brief(line)} cannot be read", required="a bracket at both ends: s.tile('i', 8)")
    words = _words(line) or [""]
    arguments, options = arguments_in(words[1:])
    return _named(words[0], arguments, options)


def arguments_in(words: list[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that words stand for: `8`, `i`, `i,j`, `at=io`.

    >>> arguments_in(["i,j", "8,8", "reverse=true"])
    ((['i', 'j'], [8, 8]), {'reverse': True})
    """
    arguments: list[Any] = []
    options: dict[str, Any] = {}
    for word in words:
        named = _NAMED.fullmatch(word)
        if named is None:
            arguments.append(_value(word))
        else:
            options[named[1]] = _value(named[2])
    return tuple(arguments), options


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InvalidArgument(f"{brief(line)} cannot be read: {error}", required="a quote at both ends") from None


def _named(word: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Call:
    name, backwards = (word[:-1], True) if word.endswith("-") and word[:-1] in rules else (word, False)
    if name in CALLS:
        return Call(name, arguments, options)
    if name in rules:
        return Call("rw", (name, *arguments), {**options, **({"reverse": True} if backwards else {})})
    if name in IN_PYTHON:
        raise InvalidArgument(
            f"{name} takes an object, which a line cannot hold", required="a session in Python: reschedule(program)"
        )
    raise unknown_name(
        "word", word, [*ORDERS, *CALLS, *rules], required="? for what applies here, help for what can be said"
    )


def _python_arguments(line: str, inside: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        found = ast.parse(f"f({inside})", mode="eval").body
        assert isinstance(found, ast.Call)
        arguments = tuple(ast.literal_eval(argument) for argument in found.args)
        options = {str(each.arg): ast.literal_eval(each.value) for each in found.keywords if each.arg is not None}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise InvalidArgument(
            f"{brief(line)} cannot be read", required="numbers, texts and lists: s.tile('i', [8, 4])"
        ) from None
    return arguments, options


def _value(word: str) -> Any:
    if word.lower() in _PLAIN:
        return _PLAIN[word.lower()]
    if _LISTED.fullmatch(word):
        return [_value(part) for part in word.split(",")]
    if word[:1] in "[(" and word[-1:] in "])":
        try:
            return ast.literal_eval(word)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            return word  # a pattern, such as [_] · _
    return int(word) if re.fullmatch(r"-?\d{1,18}", word) else word
