"""The rules, proved in Rocq by the common proof of `Lemmas.v`."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from rewrites.rocq import coqc
from rewrites.rocq.statements import lemma
from rewrites.rules import RULES

ROWS: Final = 60
"""Number of rules in a file."""

OPENING: Final = "Require Import Lemmas.\nModule Rules (S : SCALARS).\nModule Import L := Lemmas.Make S.\n"


@dataclass(slots=True)
class Report:
    """Results for the rules."""

    exported: int = 0
    seconds: float = 0.0
    proved: dict[str, float] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    assumed: set[str] = field(default_factory=set)

    def __str__(self) -> str:
        slowest, most = max(self.proved.items(), key=lambda of: of[1], default=("none", 0.0))
        return "\n".join((
            f"exported         {self.exported}",
            f"proved (Qed)     {len(self.proved)}",
            f"slowest          {slowest}, {most:.1f} s of processor time",
            f"all              {self.seconds:.0f} s",
            f"resting on       {len(self.assumed)} of the {len(coqc.allowed())} laws of scalars and functions",
            *(f"NOT PROVED       {name}: {why}" for name, why in self.refused.items()),
            *(f"NOT ALLOWED      {name} is assumed" for name in sorted(self.assumed - coqc.allowed())),
        ))  # fmt: skip

    @property
    def as_expected(self) -> bool:
        """True if all rules are proved, with no axiom beyond the signature."""
        return not self.refused and self.assumed <= coqc.allowed()


def prove_all(names: Sequence[str] = (), folder: Path | None = None) -> Report:
    """Prove the rules with these names, or all."""
    return prove_lemmas({name: lemma(RULES[name]) for name in names or RULES}, folder)


def prove_lemmas(lemmas: Mapping[str, str], folder: Path | None = None) -> Report:
    """Prove these lemmas by name."""
    begun = time.monotonic()
    report, at = Report(len(lemmas)), coqc.library(folder)
    listed = list(lemmas)
    parts = [listed[start : start + ROWS] for start in range(0, len(listed), ROWS)]
    with ThreadPoolExecutor(min(2, os.cpu_count() or 1)) as pool:
        tried = [
            pool.submit(_prove_part, report, f"Rules{number}", {name: lemmas[name] for name in part}, at)
            for number, part in enumerate(parts)
        ]
    for each in tried:
        each.result()
    report.seconds = time.monotonic() - begun
    return report


def _prove_part(report: Report, file: str, lemmas: dict[str, str], folder: Path) -> None:
    """Prove lemmas in one file; if one is refused, try the others without it."""
    left = dict(lemmas)
    while left:
        starts: dict[str, int] = {}
        text = OPENING
        for name, lines in left.items():
            starts[name] = text.count("\n") + 1
            text += lines
        text += f"Definition all_of_them := ({', '.join(left)}).\nPrint Assumptions all_of_them.\nEnd Rules.\n"
        answer = coqc.check(file, text, folder)
        if answer.line is None:
            spent = dict(re.findall(r"Tactic call (\S+) ran for [\d.]+ secs \(([\d.]*)u", answer.text))
            report.proved |= {name: float(spent.get(name) or 0) for name in left}
            report.assumed |= coqc.assumed(answer.text)
            return
        wrong = [name for name in left if starts[name] <= answer.line][-1:] or [next(iter(left))]
        report.refused[wrong[0]] = answer.reason
        del left[wrong[0]]
