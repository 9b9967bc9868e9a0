"""Syntax of the lines of a session in a terminal: the commands, and the parser for calls.

A call is written as words, `tile i,j 8,8` or `rw get_gen at=i`, or as Python, `s.tile(["i", "j"], [8, 8])`. The second
form allows copying the suggestions of error messages. A rule's name applies it; `name-` applies it right to left.
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
from rewrites import rules
from rewrites.errors import unknown_name
from rewrites.session import catalogue
from rewrites.session.session import Session
from rewrites.tactics import TACTICS

COMMANDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "?": "list the calls that apply here; `? io`: at io; `? tile`: help on tile; `??`: search longer, list all",
        "at": "at PLACE: focus on a name such as io, or on a pattern in quotes; `at` alone: on the whole program",
        "goal": "print the current program; so does an empty line",
        "undo": "undo [COUNT]: undo the last calls",
        "redo": "redo [COUNT]: redo undone calls",
        "steps": "list the calls made so far",
        "diff": "show what the last call changed",
        "explain": "explain [NUMBER]: show the steps of a call: each rule, its place, and how its premises were proved",
        "check": "list the known problems in compiling the goal",
        "save": "save FILE: write a Python script (.py), or a certificate for `atl check` (.atl.json)",
        "help": "print this list",
        "quit": "end the session; Ctrl-D does too",
    }
)
"""The commands besides calls, with their help."""

IN_PYTHON: Final = frozenset({"sparsify", "store", "reorder", "view"})
"""Methods whose arguments are objects, which cannot be written in a line."""
CALLS: Final = tuple(sorted({*TACTICS, "rw"} - IN_PYTHON))
"""The methods of a session that can be called from a line."""

_CALL: Final = re.compile(r"(?:s\.)?(\w+)\((.*)\)\s*;?", re.DOTALL)
_OPEN_CALL: Final = re.compile(r"\s*(?:s\.)?\w+\(")
_LIST: Final = re.compile(r"[\w.]+(?:,[\w.]+)+")
_KEYWORD: Final = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
_CONSTANTS: Final = {"true": True, "false": False, "none": None}


@dataclass(frozen=True, slots=True)
class Call:
    """A method of a session, with arguments."""

    method: str
    arguments: tuple[Any, ...]
    options: Mapping[str, Any]

    def apply(self, s: Session) -> None:
        """Make the call. Raise `InvalidArgument` if the arguments do not fit the method's signature."""
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


def parse_call(line: str) -> Call:
    """Parse a line as a call. Raise `InvalidArgument` if it is not one."""
    found = _CALL.fullmatch(line.strip())
    if found is not None and (found[1] in (*CALLS, *IN_PYTHON) or found[1] in rules):
        return _resolve(found[1], *_python_arguments(line, found[2]))
    if _OPEN_CALL.match(line):
        raise InvalidArgument(f"{brief(line)} cannot be read", required="balanced brackets: s.tile('i', 8)")
    words = _words(line) or [""]
    arguments, options = parse_arguments(words[1:])
    return _resolve(words[0], arguments, options)


def parse_arguments(words: list[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Parse arguments written as words: `8`, `i`, `i,j`, `at=io`.

    >>> parse_arguments(["i,j", "8,8", "reverse=true"])
    ((['i', 'j'], [8, 8]), {'reverse': True})
    """
    arguments: list[Any] = []
    options: dict[str, Any] = {}
    for word in words:
        keyword = _KEYWORD.fullmatch(word)
        if keyword is None:
            arguments.append(_value(word))
        else:
            options[keyword[1]] = _value(keyword[2])
    return tuple(arguments), options


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError as error:
        raise InvalidArgument(f"{brief(line)} cannot be read: {error}", required="balanced quotes") from None


def _resolve(word: str, arguments: tuple[Any, ...], options: dict[str, Any]) -> Call:
    name, backwards = (word[:-1], True) if word.endswith("-") and word[:-1] in rules else (word, False)
    if name in CALLS:
        return Call(name, arguments, options)
    if name in rules:
        return Call("rw", (name, *arguments), {**options, **({"reverse": True} if backwards else {})})
    if name in IN_PYTHON:
        raise InvalidArgument(
            f"{name} takes an object, which cannot be written in a line",
            required="a session in Python: reschedule(program)",
        )
    raise unknown_name(
        "command", word, [*COMMANDS, *CALLS, *rules], required="? for the calls that apply here, help for all commands"
    )


def _python_arguments(line: str, inside: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    try:
        found = ast.parse(f"f({inside})", mode="eval").body
        assert isinstance(found, ast.Call)
        arguments = tuple(ast.literal_eval(argument) for argument in found.args)
        options = {str(each.arg): ast.literal_eval(each.value) for each in found.keywords if each.arg is not None}
    except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
        raise InvalidArgument(
            f"{brief(line)} cannot be read", required="numbers, strings and lists: s.tile('i', [8, 4])"
        ) from None
    return arguments, options


def _value(word: str) -> Any:
    if word.lower() in _CONSTANTS:
        return _CONSTANTS[word.lower()]
    if _LIST.fullmatch(word):
        return [_value(part) for part in word.split(",")]
    if word[:1] in "[(" and word[-1:] in "])":
        try:
            return ast.literal_eval(word)
        except (SyntaxError, ValueError, TypeError, RecursionError, MemoryError):
            return word  # a pattern, such as [_] · _
    return int(word) if re.fullmatch(r"-?\d{1,18}", word) else word
