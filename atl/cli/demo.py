"""`atl demo`: blur a photograph with a program written as mathematics and optimised by rewrites."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING

from atl.cli.command import FAILED, INTERRUPTED, Command
from atl.cli.terminal import ascii_only, bold, wrapped

if TYPE_CHECKING:
    from atl.cli.photograph import Schedule
    from atl.core.program import Program


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image", type=Path, metavar="PATH", help="the photograph to blur (default: one from scikit-image)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("out"), help="folder for the pictures (default: out)"
    )
    parser.add_argument(
        "--verbose", action="store_true", help="also show and explain the checks, the loop nest and the C"
    )


def _run(arguments: argparse.Namespace) -> int:
    from atl.cli.photograph import demonstrate

    done: list[str] = []
    ascii_symbols = ascii_only()
    try:
        for section in demonstrate(arguments.image, arguments.out, ascii=ascii_symbols, scheduled=_scheduled):
            if arguments.verbose:
                print(bold(f"{len(done) + 1}. {section.title}"))
                print(wrapped(section.explanation))
                print(f"\n{indent(section.shown.rstrip(), '    ')}\n" if section.shown else "", flush=True)
            elif section.brief or not section.passed:
                print(f"{section.title}\n{indent(section.shown.rstrip(), '    ')}", flush=True)
            done.append(section.title)
            if not section.passed:
                print("A check failed, so no picture was written.", file=sys.stderr)
                return FAILED
    except KeyboardInterrupt:
        print(f"atl: interrupted; finished steps: {', '.join(done) or 'nothing'}", file=sys.stderr)
        return INTERRUPTED
    if not arguments.verbose:
        print("--verbose also shows the checks, the loop nest and the C.")
    return 0


def _scheduled(program: Program) -> Schedule:
    """Keep three rows of the buffer, computed as they are read, and peel the first and the last column."""
    from atl.cli.photograph import Schedule
    from rewrites import reschedule

    s = reschedule(program).mark("buf", "ring").tails("x")
    theorem = s.done()
    calls = [f"s.{call.text}" for call in s.steps]
    return Schedule("\n".join([*calls, f"theorem: {theorem!r}"]), theorem.rhs)


DEMO = Command(
    "demo", "Blur a photograph: the program, its schedule, the speed and the pictures", _declare, _run,
    ("atl demo --out pictures", "atl demo --verbose"), long=True,
)  # fmt: skip
