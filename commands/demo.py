"""`atl demo`: a photograph blurred, every step shown."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from textwrap import indent

from commands.foundation.command import FAILED, INTERRUPTED, Command
from commands.foundation.terminal import ascii_only, bold, filled


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--image", type=Path, metavar="PATH", help="a picture of your own (default: one of scikit-image's)"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", default=Path("out"), help="where the pictures go (default: out)"
    )


def _run(arguments: argparse.Namespace) -> int:
    from lowering.demo.photograph import demonstrate

    done: list[str] = []
    try:
        for number, section in enumerate(demonstrate(arguments.image, arguments.out, ascii=ascii_only()), 1):
            print(bold(f"{number}. {section.title}"))
            print(filled(section.said))
            if section.shown:
                print(f"\n{indent(section.shown.rstrip(), '    ')}")
            print(flush=True)
            done.append(section.title)
            if not section.passed:
                print("A check failed, so no picture was written.", file=sys.stderr)
                return FAILED
    except KeyboardInterrupt:
        print(f"atl: interrupted; done so far: {', '.join(done) or 'nothing'}", file=sys.stderr)
        return INTERRUPTED
    return 0


DEMO = Command(
    "demo", "Blurs a photograph and shows every step, with the checks", _declare, _run, ("atl demo --out pictures",),
    long=True,
)  # fmt: skip
