"""Loop nests in Rocq: each computes its program, and nests with planted faults are refused.

`python -m proofs_tests.rocq nests` checks those of `NESTS`, of which each has a certificate before it that leads from
the program as written to the one that is lowered; with names, those only.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import atl
from examples import derivations
from examples.schedules import blur, matmul
from lowering import lower
from proofs_tests.rocq.nests.assembled import ASSEMBLED
from proofs_tests.rocq.nests.faults import wrong_nests
from proofs_tests.rocq.refusals import PROOF_FAILED
from proofs_tests.sampling import in_part
from rewrites.kernel import Theorem, reflexivity
from rewrites.rocq import coqc
from rewrites.rocq.certificates import derivation
from rewrites.rocq.nests.kernels import texts_of

n, m = atl.sizes("n m")
x, a = atl.tensor("x", n), atl.tensor("A", n, m)


def _row(i: atl.IndexExpr) -> atl.Tensor:
    """Return a row that is computed from a let of the row's length."""
    return atl.let(atl.gen(m, lambda j: a[i, j] * 2), lambda t: atl.gen(m, lambda j: t[j] + t[m - 1 - j]), name="t")


def _of_sparse_matrix(form: atl.Format) -> Theorem:
    """Return the derivation of the product of a sparse matrix and a vector."""
    y = atl.tensor("y", m)
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * y[j]))
    return atl.reschedule(atl.program("product", [a, y], body)).sparsify("A", form).done()


NESTS: Final[dict[str, Callable[[], Theorem]]] = {
    "product": lambda: reflexivity(matmul.naive()),
    "product in tiles": lambda: derivations.matmul_tiled().done(),
    "product in tiles with tails": lambda: derivations.matmul_tiled_with_tails().done(),
    "pipeline": lambda: reflexivity(derivations.pipeline()),
    "pipeline fused": lambda: derivations.pipeline_fused().done(),
    "pipeline in tiles": lambda: derivations.pipeline_tiled().done(),
    "blur": lambda: reflexivity(blur.two_stage()),
    "blur fused": lambda: derivations.blur_fused().done(),
    "scatter to gather": lambda: derivations.scatter_to_gather().done(),
    "strict product": lambda: reflexivity(matmul.naive(), strict=True),
    "strict nested sums": lambda: reflexivity(derivations.scatter_to_gather().done().rhs, strict=True),
    "shift": lambda: reflexivity(atl.program("shift", [x], atl.gen(n, lambda i: atl.guard(i >= 2, x[i - 2])))),
    "let in a loop": lambda: reflexivity(atl.program("twice", [a], atl.gen(n, _row))),
    "flattened transpose": lambda: reflexivity(
        atl.program("columns", [a], atl.flatten(atl.transpose(atl.gen(n, m, lambda i, j: a[i, j] * 2))))
    ),
    "sum of tensors": lambda: reflexivity(
        atl.program("total", [a], atl.sum(n, lambda i: atl.gen(m, lambda j: a[i, j])))
    ),
    "parts": lambda: reflexivity(
        atl.program("parts", [x], atl.concat(atl.gen(n, lambda i: x[i]), atl.gen(n, lambda i: x[i] + 1)))
    ),
    "rows of a hash table": lambda: _of_sparse_matrix(atl.HASH),
    "sparse blocks": lambda: _of_sparse_matrix(atl.CSB(4)),
    **ASSEMBLED,
}
"""Derivations of the lowered programs. A nest is strict if its derivation is."""


BY_THEOREM: Final = "Require Import Lowering."
"""A line of the files that use the theorem about lowering."""


THEOREMS: Final = ("lower_correct", "lower_safe", "padding_is_zero", "lowered_nest")
"""The theorems of `Lowering.v`, which hold for all terms."""


@dataclass(slots=True)
class Report:
    """Accepted nests (some by the theorem about lowering), number of planted faults, and those that Rocq accepted."""

    accepted: list[str] = field(default_factory=list)
    by_theorem: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    planted: int = 0
    unseen: list[str] = field(default_factory=list)
    seconds: float = 0.0

    def __str__(self) -> str:
        lines = [
            f"loop nests       {len(self.accepted)} of {len(self.accepted) + len(self.refused)} compute their programs",
            f"by the theorem   {len(self.by_theorem)} of them",
        ]
        if self.planted:
            lines += [f"faults           {self.planted - len(self.unseen)} of {self.planted} in loop nests are seen"]
        lines += [f"all              {self.seconds:.0f} s"]
        lines += [f"REFUSED          {name}: {why}" for name, why in self.refused.items()]
        return "\n".join([*lines, *(f"NOT SEEN         {fault}" for fault in self.unseen)])

    @property
    def as_expected(self) -> bool:
        return not self.refused and not self.unseen


def check_all(names: Sequence[str] = (), folder: Path | None = None, part: str = "1/1") -> Report:
    """Check the nests with these names; or all of a part, and plant every fault of the part."""
    begun, report, at = time.monotonic(), Report(), coqc.library(folder)
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        theorems = {name: NESTS[name]() for name in names or NESTS if names or in_part(name, part)}
        planted = [] if names else [each for each in wrong_nests() if in_part(each.name, part)]
        wrong = {each.name: each.text for each in planted}
        of_lowering = pool.submit(coqc.check, "Theorems", assumptions(), at)
        proofs = {name: pool.submit(_proved, name, theorem, at) for name, theorem in theorems.items()}
        answers = {name: pool.submit(coqc.check, _file(name), text, at) for name, text in wrong.items()}
    answer = of_lowering.result()
    if not answer.accepted or (beyond := coqc.assumed(answer.text) - coqc.allowed()):
        report.refused["the theorems about lowering"] = answer.reason if not answer.accepted else f"rest on {beyond}"
    for name in theorems:
        answer, by_theorem = proofs[name].result()
        beyond = coqc.assumed(answer.text) - coqc.allowed()
        if answer.accepted and not beyond:
            report.accepted.append(name)
            report.by_theorem += [name] * by_theorem
        else:
            report.refused[name] = f"rests on {sorted(beyond)}" if beyond else f"line {answer.line}: {answer.reason}"
    for name in wrong:
        report.planted += 1
        answer = answers[name].result()
        # A proof must fail; an unknown word does not count.
        if answer.line is None or not PROOF_FAILED.search(answer.reason):
            report.unseen.append(f"{name}: {answer.reason}")
    report.seconds = time.monotonic() - begun
    return report


def assumptions() -> str:
    """Return a file that prints the assumptions of each theorem about lowering."""
    printed = "\n".join(f"Print Assumptions {name}." for name in THEOREMS)
    return (
        f"{BY_THEOREM}\nModule Theorems (S : SCALARS).\nModule Import L := Lowering.Make S.\n{printed}\nEnd Theorems.\n"
    )


def _proved(name: str, theorem: Theorem, at: Path) -> tuple[coqc.Answer, bool]:
    """Return the answer to the first accepted file, or to the last one, and whether it uses the theorem."""
    answer, by_theorem = coqc.Answer("", 0, 0), False
    for text in texts_of(derivation(theorem), lower(theorem.rhs, strict=theorem.strict)):
        answer, by_theorem = coqc.check(_file(name), text, at), BY_THEOREM in text
        if answer.accepted:
            break
    return answer, by_theorem


def _file(name: str) -> str:
    return "Nest_" + re.sub(r"\W", "_", name)
