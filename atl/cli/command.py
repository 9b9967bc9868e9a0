"""Commands, their exit codes, and arguments and output that several commands share."""

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
"""The input was invalid or refused; the message explains why."""
UNPROVED: Final = 3
"""Everything was accepted, but depends on a user-defined rule that is not proved for all sizes."""
INTERRUPTED: Final = 130

CODES: Final[Mapping[int, str]] = MappingProxyType(
    {
        GOOD: "success; every check passed",
        FAILED: "a check failed: a refused certificate, results that differ, a bug found by a fuzzer",
        REFUSED: "invalid or refused input; the message explains why and what to do",
        UNPROVED: "accepted, but depends on a user-defined rule that is not proved for all sizes",
        INTERRUPTED: "interrupted by Ctrl-C; no file is left half-written",
    }
)
"""The exit codes of every command."""


@dataclass(frozen=True, slots=True)
class Command:
    """A subcommand: a one-line summary, its arguments, and the function that runs it and returns the exit code.

    `examples` are command lines that run in the root of the repository. The help shows them, and a test runs them
    unless the command is `long`.
    """

    name: str
    summary: str
    declare: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
    examples: tuple[str, ...]
    long: bool = False


def in_checkout(module: str = "proofs_tests") -> bool:
    """Return True if `module` can be imported: only a checkout of the repository contains it."""
    return find_spec(module) is not None


def declare_program(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names a program."""
    parser.add_argument(
        "program",
        metavar="FILE:NAME",
        help="path/to/file.py:name or package.module:name; `:name` is optional if the file defines one program",
    )


def declare_json(parser: argparse.ArgumentParser) -> None:
    """Add the flag `--json`."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def print_json(data: Any) -> None:
    """Print `data` as JSON, with escapes if the output cannot encode some character."""
    encoding = sys.stdout.encoding or "utf-8"
    text = json.dumps(data, ensure_ascii=False, indent=2)
    try:
        text.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        text = json.dumps(data, indent=2)
    print(text)


def error_as_data(error: ATLError) -> dict[str, Any]:
    """Return the parts of an error as JSON-compatible data."""
    numbers = error.numbers
    return {
        "code": error.code,
        "summary": error.summary,
        "place": None if error.place is None else str(error.place),
        "required": error.required,
        "numbers": {k: str(v) for k, v in numbers.items()} if isinstance(numbers, Mapping) else numbers,
        "suggestions": list(error.suggestions),
    }
