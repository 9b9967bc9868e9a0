"""What a command is, with which code it ends, and what several of them need."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any, Final

from atl.errors import ATLError

GOOD: Final = 0
FAILED: Final = 1
"""A check failed, or two results that must agree do not."""
REFUSED: Final = 2
"""Something was wrong with what was asked; the message says what to do."""
UNPROVED: Final = 3
"""All is accepted, and something rests on a rule of the user's own that is not proved for all sizes."""
INTERRUPTED: Final = 130

CODES: Final[Mapping[int, str]] = MappingProxyType(
    {
        GOOD: "done; what was judged is as it should be",
        FAILED: "judged, and found wrong: a certificate refused, results that differ, a finding of a fuzzer",
        REFUSED: "not done: what was asked for is wrong or refused, and the message says what to do",
        UNPROVED: "accepted, but it rests on a rule of the user's own that is not proved for all sizes",
        INTERRUPTED: "interrupted by Ctrl-C; nothing is left half-written",
    }
)
"""The exit codes of every command."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: what it does in a line, its arguments, the function that runs it and gives the exit code.

    `examples` are command lines that can be run where the repository lies; its help shows them, and a test runs them,
    except those of a command that is `long`.
    """

    name: str
    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]
    long: bool = False


def in_checkout(module: str = "proofs_tests") -> bool:
    """Return whether a package that is not installed can be imported, as it can from a checkout of the repository."""
    return find_spec(module) is not None


def declare_program(parser: argparse.ArgumentParser) -> None:
    """The argument that names a program."""
    parser.add_argument(
        "program", metavar="FILE:NAME", help="path/to/file.py:name or package.module:name; a lone program needs no name"
    )


def declare_json(parser: argparse.ArgumentParser) -> None:
    """The flag for an answer that programs read."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")


def print_json(data: Any) -> None:
    """One document of JSON on the output; where that cannot show a sign, its escape stands for it."""
    encoding = sys.stdout.encoding or "utf-8"
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = json.dumps(data, indent=2)
    print(text)


def error_as_data(error: ATLError) -> dict[str, Any]:
    """The parts of an error, for programs."""
    numbers = error.numbers
    return {
        "code": error.code,
        "summary": error.summary,
        "place": None if error.place is None else str(error.place),
        "required": error.required,
        "numbers": {k: str(v) for k, v in numbers.items()} if isinstance(numbers, Mapping) else numbers,
        "suggestions": list(error.suggestions),
    }
