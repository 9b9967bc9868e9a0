"""`atl certify`: a certificate as a file of Rocq, which `coqc` checks where it is installed."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from atl.cli.foundation.command import FAILED, GOOD, Command
from atl.errors import ATLError

if TYPE_CHECKING:
    from lowering.nest.loopnest import LoopNest
    from rewrites.rocq.certificates import Derivation
    from rewrites.rocq.coqc import Answer

LOWERED: Final = """\
trusting besides
  what loop nests do, as rewrites/rocq/Nests.v defines it
  that `nest` in the file of Rocq is this loop nest, and that its C does the same"""
"""Assumptions of the theorem about a loop nest."""
REFUSED: Final = """\
Rocq has accepted all lemmas before this one. The theorem may still hold: no proof was found, and no counterexample."""
WITHOUT_NEST: Final = "without --nest the certificate is checked alone: atl certify"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a certificate, as theorem.save writes it")
    parser.add_argument("--out", type=Path, help="the file of Rocq to write (default: next to the certificate)")
    parser.add_argument("--nest", action="store_true", help="also prove the loop nest of the last program")


def _run(arguments: argparse.Namespace) -> int:
    from atl.files.whole import write_whole
    from lowering import lower, print_nest
    from rewrites.certificates.certificate import describe
    from rewrites.errors import CertificateError
    from rewrites.rocq import coqc
    from rewrites.rocq.certificates import derivation, text_of
    from sparse import load

    out = _usable(arguments.out) if arguments.out else default_output(arguments.file)
    theorem = load(arguments.file)
    derived = derivation(theorem)
    nest = lower(theorem.rhs) if arguments.nest else None
    text = text_of(derived) if nest is None else _with_nest(derived, nest)
    try:
        write_whole({out: lambda stream: stream.write(text.encode())})
    except (OSError, ValueError) as error:  # ValueError: the name of a file cannot contain this
        raise CertificateError(f"{out} cannot be written: {error}", required="a writable path") from error
    proved = "the theorem `certified`" + ("" if nest is None else ", the loop nest, and the theorem `lowered`")
    print(f"{out}: {len(theorem.steps)} steps as lemmas, and {proved}")
    if coqc.found() is None:
        print(coqc.HOW_TO_GET, file=sys.stderr)
        return GOOD
    folder = coqc.library()
    answer = coqc.check("Certificate", text, folder)
    if not answer.accepted:
        print(refusal(text, answer))
        if nest is not None:
            print(f"{WITHOUT_NEST} {shlex.quote(str(arguments.file))}")
        return FAILED
    beyond = coqc.assumed(answer.text) - coqc.allowed()
    if beyond:
        print(f"Rocq accepts it, but it rests on {', '.join(sorted(beyond))}")
        return FAILED
    again = shlex.join(["coqc", "-R", str(folder), "", str(out)])
    print(f"Rocq accepts it, after {answer.seconds:.0f} s; to check it again: {again}\n")
    print(describe(theorem, checked_by_rocq=True))
    if nest is not None:
        print(f"and that this loop nest computes the first program:\n{_indented(print_nest(nest))}")
        print("every index of every load and store is in bounds, and the output is the value of the program,")
        print("whatever its memory held before,")
        print(LOWERED)
    return GOOD


def _with_nest(derived: Derivation, nest: LoopNest) -> str:
    """Return the file with the proof of the loop nest; raise with a suggestion where that cannot be printed."""
    from rewrites.rocq.nests import kernels

    try:
        return kernels.text_of(derived, nest)
    except ATLError as error:
        error.suggestions += ("the certificate alone, without --nest",)
        raise


def refusal(text: str, answer: Answer) -> str:
    """Return the message for a file that Rocq refuses: the lemma at which it stopped, and what this means."""
    before = "\n".join(text.split("\n")[: answer.line])
    named = re.findall(r"^(?:\(\* (.*) \*\)\n)?(?:Lemma|Theorem|Definition) ([\w']+)", before, re.MULTILINE)
    where = f" at `{named[-1][1]}`" + (f" ({named[-1][0]})" if named[-1][0] else "") if named else ""
    said = f"Rocq refuses it{where}, line {answer.line}, after {answer.seconds:.0f} s: {answer.reason}"
    return f"{said}\n{REFUSED}"


def default_output(certificate: Path) -> Path:
    """Return the file of Rocq for a certificate: in its folder, under a name that Rocq accepts for a module."""
    stem = re.sub(r"\W", "_", certificate.name.removesuffix(".json").removesuffix(".atl"), flags=re.ASCII)
    return certificate.with_name(f"{stem if _is_module_name(stem) else f'_{stem}'}.v")


def _is_module_name(name: str) -> bool:
    from rewrites.rocq import coqc

    return re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None and name not in coqc.LIBRARY


def _usable(out: Path) -> Path:
    from rewrites.errors import CertificateError
    from rewrites.rocq import coqc

    if out.suffix != ".v" or not _is_module_name(out.stem):
        raise CertificateError(
            f"{out} is not a usable name for a file of Rocq",
            required="a name of ASCII letters, digits and underscores that ends in .v and is not one of "
            f"{', '.join(coqc.LIBRARY)}",
            suggestions=(f"--out {shlex.quote(str(default_output(out.with_suffix(''))))}",),
        )
    return out


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


CERTIFY: Final = Command(
    "certify", "Writes a certificate as a proof for Rocq, and checks it where coqc is installed", _declare, _run,
    ("atl certify proof.atl.json --out proof.v",), long=True,
)  # fmt: skip
