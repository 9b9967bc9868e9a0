"""`atl certify FILE`: a certificate as a file of Rocq, which Rocq checks where it is installed.

With `--nest` the file goes on to the loop nest of the last program: it is safe, and computes the first program.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from atl.errors import WrongArgument
from atl.files.whole import write_whole
from lowering import lower
from proofs_tests.rocq import coqc
from proofs_tests.rocq.certificates import derivation, text_of
from proofs_tests.rocq.nests import kernels
from rewrites.certificates.certificate import describe
from sparse import load

MODULE: Final = re.compile(r"[A-Za-z_]\w*\.v", re.ASCII)
"""What a file of Rocq is called: `coqc` takes its name for that of a module."""
LOWERED: Final = """\
and that its loop nest computes the first program: every index of every load and store lies within its extent,
and the output holds what the program means, whatever storage held before
trusting besides
  what loop nests do, as proofs_tests/rocq/Nests.v defines it
  that this nest is printed there as it stands, and that its C does what it says"""
"""What is believed of a nest that Rocq has accepted."""


def main(arguments: Sequence[str]) -> int:
    """0 where the file is written and, with `coqc`, accepted; 1 where Rocq refuses it."""
    parser = argparse.ArgumentParser(prog="atl certify")
    parser.add_argument("file", type=Path)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--nest", action="store_true")
    options = parser.parse_args(arguments)
    out = options.out or beside(options.file)
    if not MODULE.fullmatch(out.name) or out.stem in coqc.LIBRARY:
        raise WrongArgument(
            f"{out} is no place for a file of Rocq",
            required="a name of ASCII letters, digits and underscores that ends in .v, and is none of the library's",
            suggestions=("name one: --out certificate.v",),
        )
    theorem = load(options.file)
    derived = derivation(theorem)
    text = kernels.text_of(derived, lower(theorem.rhs)) if options.nest else text_of(derived)
    written(out, text)
    proved = (
        "the theorem `certified`, the loop nest, and the theorem `lowered`"
        if options.nest
        else "the theorem `certified`"
    )
    print(f"{out}: {len(theorem.steps)} steps as lemmas, and {proved}")
    if coqc.without_coqc():
        return 0
    folder = coqc.library()
    answer = coqc.check_alone("Certificate", text, folder)
    if not answer.accepted:
        print(f"Rocq refuses it, line {answer.line}, after {answer.seconds:.0f} s: {answer.reason}")
        if lemma := open_at(text, answer.line or 0):
            print(f"the proof of `{lemma}` is not found: it is false, or needs more than the exporter's hints")
        return 1
    beyond = coqc.assumed(answer.text) - coqc.allowed()
    if beyond:
        print(f"Rocq accepts it, but it rests on {', '.join(sorted(beyond))}")
        return 1
    print(f"Rocq accepts it, after {answer.seconds:.0f} s; to see it again: coqc -R {folder} '' {out}\n")
    print(describe(theorem, checked_by_rocq=True))
    if options.nest:
        print(LOWERED)
    return 0


def written(out: Path, text: str) -> None:
    """Writes the file, or raises `WrongArgument`."""
    try:
        write_whole({out: lambda stream: stream.write(text.encode())})
    except (OSError, ValueError) as error:  # ValueError: no file has such a name
        raise WrongArgument(f"{out} cannot be written: {error}", required="a place for a file") from error


def open_at(text: str, line: int) -> str | None:
    """The lemma or theorem whose proof stands at a line."""
    begun = re.findall(r"^(?:Lemma|Theorem) (\w+)", "\n".join(text.splitlines()[:line]), re.MULTILINE)
    return begun[-1] if begun else None


def beside(certificate: Path) -> Path:
    """Where the file of a certificate goes: beside it, under a name that Rocq takes for a module."""
    stem = certificate.name.removesuffix(".json").removesuffix(".atl")
    return certificate.with_name(re.sub(r"\W", "_", f"_{stem}" if stem[:1].isdigit() else stem, flags=re.ASCII) + ".v")
