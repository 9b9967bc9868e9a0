"""The table of commands, the argument parser, and the entry point."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Final

import atl
from atl.cli import (
    cache,
    catalogues,
    certificates,
    certify,
    checkout,
    demo,
    derive,
    export,
    instructions,
    layout,
    machine,
    programs,
    sparse,
)
from atl.cli.command import CODES, FAILED, INTERRUPTED, REFUSED, Command, error_as_data, print_json
from atl.cli.completion import completion
from atl.errors import ATLError

COMMANDS: Final[tuple[Command, ...]] = (
    demo.DEMO,
    programs.SHOW,
    programs.RUN,
    derive.DERIVE,
    certificates.CHECK,
    certify.CERTIFY,
    export.EXPORT,
    instructions.CHECK_INSTRUCTION,
    catalogues.RULES,
    catalogues.TACTICS,
    layout.LAYOUT,
    sparse.SPARSE,
    cache.CACHE,
    machine.MACHINE,
    *checkout.COMMANDS,
    completion(lambda: parser()),  # noqa: PLW0108 (it is defined below)
)
__all__ = ["COMMANDS", "main", "parser"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code, one of `CODES`."""
    for stream in (sys.stdout, sys.stderr):
        # Print a question mark for a character that the terminal lacks, instead of failing.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    top = parser()
    chosen = top.parse_args(arguments)
    if not hasattr(chosen, "run"):
        top.print_help()
        return 0
    try:
        code: int = chosen.run(chosen)
        sys.stdout.flush()
    except ATLError as error:
        return _report(error, as_json=getattr(chosen, "json", False) is True)
    except KeyboardInterrupt:
        sys.stdout.flush()
        print("atl: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe, such as `head`, has closed it. Make the flush at exit succeed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    return code


def _report(error: ATLError, *, as_json: bool) -> int:
    if as_json:
        print_json({"error": error_as_data(error)})
    sys.stdout.flush()
    print(f"atl: {error}", file=sys.stderr)
    return REFUSED


def parser() -> argparse.ArgumentParser:
    """Return the argument parser for all commands."""
    codes = "\n".join(f"  {code:3}  {meaning}" for code, meaning in CODES.items())
    top = argparse.ArgumentParser(
        prog="atl",
        description="Write tensor programs as mathematics, rewrite them with proofs, and compile them to C or CUDA.",
        epilog=f"exit codes:\n{codes}\n\natl COMMAND --help explains a command, with examples.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"atl {atl.__version__}")
    table = top.add_subparsers(title="commands", metavar="COMMAND")
    for command in COMMANDS:
        heading = "example" if len(command.examples) == 1 else "examples"
        added = table.add_parser(
            command.name,
            help=command.summary,
            description=f"{command.summary}.",
            epilog="\n".join([f"{heading}:", *(f"  {line}" for line in command.examples)]),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.declare(added)
        added.set_defaults(run=command.run)
    return top
