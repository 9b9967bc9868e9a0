"""`atl check`: certificates replayed by the kernel."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atl.cli.foundation.command import (
    FAILED,
    UNPROVED,
    Command,
    declare_json,
    error_as_data,
    print_json,
)
from atl.cli.foundation.terminal import watched
from atl.errors import ATLError

if TYPE_CHECKING:
    from rewrites.certificates.verdict import Verdict
    from sparse import Format


def _declare_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="certificates, as theorem.save writes them")
    parser.add_argument("--no-smt", action="store_true", help="do not ask z3: refuse what only z3 decides")
    declare_json(parser)


def _check(arguments: argparse.Namespace) -> int:
    from rewrites.certificates.verdict import verify

    judged = []
    for file in watched(arguments.files, "checking"):
        verdict = verify(file, smt=not arguments.no_smt, formats=_format)
        judged.append(verdict)
        if not arguments.json:
            _say(verdict, asked=not arguments.no_smt)
    accepted = all(verdict.theorem is not None for verdict in judged)
    if arguments.json:
        print_json({"accepted": accepted, "certificates": [_as_data(verdict) for verdict in judged]})
    rests = any(verdict.theorem is not None and verdict.theorem.unproved for verdict in judged)
    return FAILED if not accepted else UNPROVED if rests else 0


def _format(text: str) -> Format | None:
    """The formats of packed operands, which few certificates have."""
    from sparse import format_named

    return format_named(text)


def _say(verdict: Verdict, *, asked: bool) -> None:
    if verdict.theorem is None:
        print(verdict, file=sys.stderr)
        if not asked:
            print("  (z3 was not asked: --no-smt)", file=sys.stderr)
        return
    print(verdict)
    if decided := verdict.decided_by_z3:
        questions = f"{decided} question{'' if decided == 1 else 's'}"
        print(f"  z3 decided {questions}; --no-smt refuses what only z3 decides")


def _as_data(verdict: Verdict) -> dict[str, Any]:
    from atl.text.printing import show_program

    if isinstance(verdict.result, ATLError):
        return {"file": verdict.file, "accepted": False, "error": error_as_data(verdict.result)}
    theorem = verdict.result
    return {
        "file": verdict.file,
        "accepted": True,
        "start": show_program(theorem.lhs),
        "end": show_program(theorem.rhs),
        "steps": [
            {"rule": step.rule.name, "direction": "reverse" if step.reverse else "forward", "path": list(step.path)}
            for step in theorem.steps
        ],
        "status": dict(verdict.rule_status),
        "unproved": [rule.name for rule in theorem.unproved],
        "decided_by_z3": verdict.decided_by_z3,
    }


CHECK = Command(
    "check", "Replays certificates with the kernel, and says what they prove", _declare_check, _check,
    ("atl check proof.atl.json", "atl check proof.atl.json --no-smt --json"),
)  # fmt: skip
