"""`atl certify FILE`: a certificate as a file of Rocq, which Rocq checks where it is installed.

With `--nest` the file goes on to the loop nest of the last program: it is safe, and computes the first program.
"""

from __future__ import annotations

import argparse
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from atl.errors import ATLError
from atl.files.whole import write_whole
from lowering import lower, print_nest
from lowering.nest.loopnest import LoopNest
from proofs_tests.rocq import coqc
from proofs_tests.rocq.certificates import Derivation, derivation, text_of
from proofs_tests.rocq.nests import kernels
from rewrites.certificates.certificate import describe
from rewrites.errors import CertificateError
from sparse import load

LOWERED: Final = """\
trusting besides
  what loop nests do, as proofs_tests/rocq/Nests.v defines it
  that `nest` of the file of Rocq is this loop nest, and that its C does what it says"""
"""What is believed of a nest that Rocq has accepted."""
REFUSED: Final = """\
Rocq has accepted what comes before that. The theorem may hold all the same: a proof was not found, which is no
counterexample."""
"""What is known where Rocq refuses a file."""
WITHOUT_NEST: Final = "without --nest the certificate is checked alone: atl certify"
"""What is left to do where a nest is refused."""


def main(arguments: Sequence[str]) -> int:
    """0 where the file is written and, with `coqc`, accepted; 1 where Rocq refuses it."""
    parser = argparse.ArgumentParser(prog="atl certify")
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--nest", action="store_true")
    options = parser.parse_args(arguments)
    out = _usable(options.out) if options.out else beside(options.file)
    theorem = load(options.file)
    derived = derivation(theorem)
    nest = lower(theorem.rhs) if options.nest else None
    text = text_of(derived) if nest is None else _with_nest(derived, nest)
    try:
        write_whole({out: lambda stream: stream.write(text.encode())})
    except (OSError, ValueError) as error:  # ValueError: no file has such a name
        raise CertificateError(f"{out} cannot be written: {error}", required="a place for the file of Rocq") from error
    proved = "the theorem `certified`" + ("" if nest is None else ", the loop nest, and the theorem `lowered`")
    print(f"{out}: {len(theorem.steps)} steps as lemmas, and {proved}")
    if coqc.without_coqc():
        return 0
    folder = coqc.library()
    answer = coqc.check("Certificate", text, folder)
    if not answer.accepted:
        print(refusal(text, answer))
        if nest is not None:
            print(f"{WITHOUT_NEST} {shlex.quote(str(options.file))}")
        return 1
    beyond = coqc.assumed(answer.text) - coqc.allowed()
    if beyond:
        print(f"Rocq accepts it, but it rests on {', '.join(sorted(beyond))}")
        return 1
    again = shlex.join(["coqc", "-R", str(folder), "", str(out)])
    print(f"Rocq accepts it, after {answer.seconds:.0f} s; to see it again: {again}\n")
    print(describe(theorem, checked_by_rocq=True))
    if nest is not None:
        print(f"and that this loop nest computes the first program:\n{_indented(print_nest(nest))}")
        print(
            "every index of every load and store lies within its extent, and the output holds what the program means,"
        )
        print("whatever storage held before,")
        print(LOWERED)
    return 0


def _with_nest(derived: Derivation, nest: LoopNest) -> str:
    """The file that goes on to the nest; what has no proof there is refused with what is left to do."""
    try:
        return kernels.text_of(derived, nest)
    except ATLError as error:
        error.suggestions += ("the certificate alone, without --nest",)
        raise


def refusal(text: str, answer: coqc.Answer) -> str:
    """What is said of a file that Rocq refuses: at which lemma, and what that means."""
    before = "\n".join(text.split("\n")[: answer.line])
    named = re.findall(r"^(?:\(\* (.*) \*\)\n)?(?:Lemma|Theorem|Definition) ([\w']+)", before, re.MULTILINE)
    where = f" at `{named[-1][1]}`" + (f" ({named[-1][0]})" if named[-1][0] else "") if named else ""
    said = f"Rocq refuses it{where}, line {answer.line}, after {answer.seconds:.0f} s: {answer.reason}"
    return f"{said}\n{REFUSED}"


def beside(certificate: Path) -> Path:
    """Where the file of a certificate goes: beside it, under a name that Rocq takes for a module of its own."""
    stem = re.sub(r"\W", "_", certificate.name.removesuffix(".json").removesuffix(".atl"), flags=re.ASCII)
    return certificate.with_name(f"{stem if _a_module(stem) else f'_{stem}'}.v")


def _a_module(name: str) -> bool:
    return re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) is not None and name not in coqc.LIBRARY


def _usable(out: Path) -> Path:
    if out.suffix != ".v" or not _a_module(out.stem):
        raise CertificateError(
            f"{out} is no place for a file of Rocq",
            required="a name of ASCII letters, digits and underscores that ends in .v, and another one than "
            f"{', '.join(coqc.LIBRARY)}",
            suggestions=(f"--out {shlex.quote(str(beside(out.with_suffix(''))))}",),
        )
    return out


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))
