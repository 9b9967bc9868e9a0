"""`atl certify`: write a certificate as a Rocq file, and check it with `coqc` if installed."""

from __future__ import annotations

import argparse
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from atl.cli.command import FAILED, GOOD, Command
from atl.errors import ATLError

if TYPE_CHECKING:
    from lowering.nest.loopnest import LoopNest
    from rewrites.rocq.certificates import Derivation
    from rewrites.rocq.coqc import Answer

LOWERED: Final = """\
additional assumptions
  the semantics of loop nests in rewrites/rocq/Nests.v
  `nest` in the Rocq file is this loop nest, and the generated C implements it"""
"""Assumptions of the theorem about a loop nest."""
ASSEMBLED: Final = """\
  `assembled` and `decompressed` in rewrites/rocq/Assembling.v define the entries, and what their arrays represent"""
"""Assumption of the theorem about an assembled result."""
REFUSED: Final = """\
Rocq accepted all earlier lemmas. The theorem may still hold: neither a proof nor a counterexample was found."""
WITHOUT_NEST: Final = "to check only the certificate, leave out --nest: atl certify"


def _declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="a certificate written by theorem.save")
    parser.add_argument("--out", type=Path, help="the Rocq file to write (default: next to the certificate)")
    parser.add_argument("--nest", action="store_true", help="also prove the loop nest of the final program")
    parser.add_argument("--strict", action="store_true", help="also prove the loop nest of a strict kernel")


def _run(arguments: argparse.Namespace) -> int:
    from atl.files.atomic import write_atomically
    from lowering import lower, print_nest
    from rewrites.certificates.certificate import describe
    from rewrites.errors import CertificateError
    from rewrites.rocq import coqc
    from rewrites.rocq.certificates import derivation, text_of
    from sparse import load

    out = _usable(arguments.out) if arguments.out else default_output(arguments.file)
    theorem = load(arguments.file)
    derived = derivation(theorem)
    nest = lower(theorem.rhs, strict=arguments.strict) if arguments.nest or arguments.strict else None

    def write(text: str) -> None:
        try:
            write_atomically({out: lambda stream: stream.write(text.encode())})
        except (OSError, ValueError) as error:  # ValueError: an invalid file name
            raise CertificateError(f"{out} cannot be written: {error}", required="a writable path") from error

    texts = iter((text_of(derived),)) if nest is None else _with_nest(derived, nest)
    text = next(texts)
    write(text)
    proved = "the theorem `certified`"
    if nest is not None:
        proved += ", the loop nest, and the theorem `lowered`"
        proved += " and, for the entries of the result, `assembles`" if nest.assembly else ""
    print(f"{out}: {len(theorem.steps)} steps as lemmas, and {proved}")
    if coqc.found() is None:
        print(coqc.HOW_TO_GET, file=sys.stderr)
        return GOOD
    folder = coqc.library()
    answer = coqc.check("Certificate", text, folder)
    while not answer.accepted and (other := next(texts, None)) is not None:
        text = other
        answer = coqc.check("Certificate", text, folder)
        write(text)
    if not answer.accepted:
        print(refusal(text, answer))
        if nest is not None:
            print(f"{WITHOUT_NEST} {shlex.quote(str(arguments.file))}")
        return FAILED
    extra = coqc.assumed(answer.text) - coqc.allowed()
    if extra:
        print(f"Rocq accepts the proof, but it depends on {', '.join(sorted(extra))}")
        return FAILED
    again = shlex.join(["coqc", "-R", str(folder), "", str(out)])
    print(f"Rocq accepted the proof in {answer.seconds:.0f} s; to check again: {again}\n")
    print(describe(theorem, checked_by_rocq=True))
    if nest is not None:
        print(f"and that this loop nest computes the first program:\n{_indented(print_nest(nest))}")
        print("every index of every load and store is in bounds, and the output is the value of the program,")
        print("for any initial contents of memory,")
        if nest.assembly is not None:
            print("and the arrays of the entries represent the output, in which each element has at most one entry,")
        print(LOWERED)
        if nest.assembly is not None:
            print(ASSEMBLED)
    return GOOD


def _with_nest(derived: Derivation, nest: LoopNest) -> Iterator[str]:
    """Yield the Rocq files that may prove the loop nest. Add a suggestion to errors."""
    from rewrites.rocq.nests import kernels

    try:
        yield from kernels.texts_of(derived, nest)
    except ATLError as error:
        error.suggestions += ("the certificate alone, without --nest",)
        raise


def refusal(text: str, answer: Answer) -> str:
    """Return the message for a file that Rocq refuses, with the lemma that failed."""
    before = "\n".join(text.split("\n")[: answer.line])
    named = re.findall(r"^(?:\(\* (.*) \*\)\n)?(?:Lemma|Theorem|Definition) ([\w']+)", before, re.MULTILINE)
    where = f" at `{named[-1][1]}`" + (f" ({named[-1][0]})" if named[-1][0] else "") if named else ""
    summary = f"Rocq refused the proof{where}, line {answer.line}, after {answer.seconds:.0f} s: {answer.reason}"
    return f"{summary}\n{REFUSED}"


def default_output(certificate: Path) -> Path:
    """Return the default Rocq file of a certificate: in the same folder, with a valid module name."""
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
            f"{out} is not a usable name for a Rocq file",
            required="a name of ASCII letters, digits and underscores that ends in .v and is not one of "
            f"{', '.join(coqc.LIBRARY)}",
            suggestions=(f"--out {shlex.quote(str(default_output(out.with_suffix(''))))}",),
        )
    return out


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.split("\n"))


CERTIFY: Final = Command(
    "certify", "Write a certificate as a Rocq proof, and check it if coqc is installed", _declare, _run,
    ("atl certify proof.atl.json --out proof.v",), long=True,
)  # fmt: skip
