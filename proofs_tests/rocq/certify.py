"""`atl certify FILE`: a certificate as a file of Rocq, which Rocq checks where it is installed.

With `--nest` the file goes on to the loop nest of the last program: it is safe, and computes the first program.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from atl.files.whole import write_whole
from lowering import lower
from proofs_tests.rocq import coqc
from proofs_tests.rocq.certificates import derivation, text_of
from proofs_tests.rocq.nests import kernels
from rewrites.certificates.certificate import describe
from sparse import load

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
    theorem = load(options.file)
    derived = derivation(theorem)
    text = kernels.text_of(derived, lower(theorem.rhs)) if options.nest else text_of(derived)
    out = options.out or beside(options.file)
    write_whole({out: lambda stream: stream.write(text.encode())})
    proved = (
        "the theorem `certified`, the loop nest, and the theorem `lowered`"
        if options.nest
        else "the theorem `certified`"
    )
    print(f"{out}: {len(theorem.steps)} steps as lemmas, and {proved}")
    if coqc.without_coqc():
        return 0
    folder = coqc.library()
    answer = coqc.check("Certificate", text, folder)
    if not answer.accepted:
        print(f"Rocq refuses it, line {answer.line}, after {answer.seconds:.0f} s: {answer.reason}")
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


def beside(certificate: Path) -> Path:
    """Where the file of a certificate goes: beside it, under a name that Rocq takes for a module."""
    stem = certificate.name.removesuffix(".json").removesuffix(".atl")
    return certificate.with_name(re.sub(r"\W", "_", f"_{stem}" if stem[:1].isdigit() else stem, flags=re.ASCII) + ".v")
