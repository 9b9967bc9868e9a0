"""`atl check`: replay certificates with the kernel."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from atl.cli import command
from atl.cli.terminal import with_progress
from atl.errors import ATLError

if TYPE_CHECKING:
    from rewrites.certificates.certificate import Verdict
    from sparse import Format


def _declare_check(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="certificates written by theorem.save")
    parser.add_argument("--no-smt", action="store_true", help="check without z3; steps that need z3 are refused")
    command.declare_json(parser)


def _check(arguments: argparse.Namespace) -> int:
    from rewrites.certificates.certificate import verify

    verdicts = []
    for file in with_progress(arguments.files, "checking"):
        verdict = verify(file, smt=not arguments.no_smt, formats=_format)
        verdicts.append(verdict)
        if not arguments.json:
            _print_verdict(verdict, with_smt=not arguments.no_smt)
    accepted = all(verdict.theorem is not None for verdict in verdicts)
    if arguments.json:
        command.print_json({"accepted": accepted, "certificates": [_as_data(verdict) for verdict in verdicts]})
    unproved = any(verdict.theorem is not None and verdict.theorem.unproved for verdict in verdicts)
    return command.FAILED if not accepted else command.UNPROVED if unproved else 0


def _format(text: str) -> Format | None:
    """Return the sparse format with this name; few certificates contain one."""
    from sparse import format_named

    return format_named(text)


def _print_verdict(verdict: Verdict, *, with_smt: bool) -> None:
    if verdict.theorem is None:
        print(verdict, file=sys.stderr)
        if not with_smt:
            print("  (z3 was not used: --no-smt)", file=sys.stderr)
        return
    print(verdict)
    if decided := verdict.decided_by_z3:
        questions = f"{decided} question{'' if decided == 1 else 's'}"
        print(f"  z3 decided {questions}; --no-smt checks without z3")


def _as_data(verdict: Verdict) -> dict[str, Any]:
    from atl.text.printing import show_program

    if isinstance(verdict.result, ATLError):
        return {"file": verdict.file, "accepted": False, "error": command.error_as_data(verdict.result)}
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


CHECK = command.Command(
    "check", "Replay certificates with the kernel, and print what they prove", _declare_check, _check,
    ("atl check proof.atl.json", "atl check proof.atl.json --no-smt --json"),
)  # fmt: skip
