"""Rocq refuses certificates and definitions with planted faults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from pathlib import Path
from typing import Final

from atl.core.index import Index
from atl.errors import ATLError
from examples.derivations import pipeline_split, pipeline_tiled
from proofs_tests.rocq import levels
from proofs_tests.rocq.evaluation import compare
from proofs_tests.rocq.rules import OPENING
from rewrites.rocq import coqc
from rewrites.rocq.certificates import Derivation, derivation, text_of
from rewrites.rocq.statements import SECONDS_EACH as SECONDS
from rewrites.rocq.statements import lemma
from rewrites.rule_arguments import Arguments
from rewrites.rules import RULES

SECONDS_EACH: Final = 20
"""Limit for the proof of a wrong step."""
SECONDS_OF_A_RULE: Final = 4
"""Limit for the proof of a false rule about recurrences; the true one takes less than a second."""
OTHER_MEANINGS: Final = (
    ("padl ", "padr "), ("truncl ", "padl "), ("transpose ", "truncr "), ("0 <=?", "1 <=?"), ("greatest ", "least "),
)  # fmt: skip
"""Faults in printing: text, and its replacement."""


@dataclass(slots=True)
class Report:
    """Number of planted faults, and those that Rocq accepted."""

    planted: int = 0
    unseen: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        seen = self.planted - len(self.unseen)
        lines = [f"faults           {seen} of {self.planted} in certificates and definitions are seen"]
        return "\n".join([*lines, *(f"NOT SEEN         {fault}" for fault in self.unseen)])


def swapped(derived: Derivation) -> Iterator[tuple[str, str]]:
    """Yield certificates with two steps exchanged, if both paths are still valid."""
    for k in range(len(derived.steps) - 1):
        steps = list(derived.steps)
        steps[k], steps[k + 1] = steps[k + 1], steps[k]
        try:
            yield f"steps {k} and {k + 1} swapped", text_of(replace(derived, steps=tuple(steps)), SECONDS_EACH)
        except (ATLError, IndexError):
            continue


def with_arguments(derived: Derivation, k: int, arguments: Arguments) -> Derivation:
    """Yield certificates with other arguments of a step."""
    steps = list(derived.steps)
    steps[k] = replace(steps[k], arguments=arguments)
    return replace(derived, steps=tuple(steps))


def exchanged(derived: Derivation) -> Iterator[tuple[str, Derivation]]:
    """Yield steps with two index arguments exchanged."""
    for k, step in enumerate(derived.steps):
        indices = [name for name, value in step.arguments.items() if isinstance(value, Index)]
        for a, b in pairwise(indices):
            if step.arguments[a] != step.arguments[b]:
                turned = {**step.arguments, a: step.arguments[b], b: step.arguments[a]}
                yield f"{a} and {b} exchanged in step {k}, {step.rule.name}", with_arguments(derived, k, turned)


def edited(text: str, program: int, pattern: str, other: str) -> str | None:
    """Return the file with one change in a printed program, or None."""
    begun = text.index(f"Definition program_{program} ")
    ended = text.index("\n\n", begun)
    changed, times = re.subn(pattern, other, text[begun:ended], count=1)
    return text[:begun] + changed + text[ended:] if times else None


PROOF_FAILED: Final = re.compile("[Tt]actic|unify|Cannot|No (such|applicable)|matching")
EDITS: Final = (
    ("another coefficient", r"8 \* ", "9 * "),
    ("an index moved by one", r"\(access n' f' ([\w']+)\)", r"(access n' f' (\1 + 1))"),
    ("a guard dropped", r"guard \((?:[^()]|\([^()]*\))*\)", "guard true"),
    ("another bound", r"gen 0 ", "gen 1 "),
)
"""Changes of the text of a program by name."""


def wrong_certificates() -> Iterator[tuple[str, str]]:
    """Yield certificates with a fault, and its description."""
    for session in (pipeline_tiled(), pipeline_split()):
        derived = derivation(session.done())
        name, last = derived.programs[0].name, len(derived.steps)
        text = text_of(derived, SECONDS_EACH)
        for what, pattern, other in EDITS:
            for program in (last, last - 1):
                changed = edited(text, program, pattern, other)
                if changed is not None:
                    yield f"{name}: {what} in program {program}", changed
        for what, wrong in islice(swapped(derived), 2):
            yield f"{name}: {what}", wrong
        for what, other_steps in exchanged(derived):
            yield f"{name}: {what}", text_of(other_steps, SECONDS_EACH)


RECURRENCES: Final = ("rec_column", "rec_strips")
WRONG_READS: Final = (
    ("a body may read any row", r"  \(forall [^\n]*reads_before [^\n]*\n", ""),
    ("a body may read its own row", r"reads_before (i''0)", r"reads_before (\1 + 1)"),
    ("a row is computed as the next one", r"\(e' (p'1|\(b'3 \* k' \+ r'5\))", r"(e' (\1 + 1)"),
    ("first rows are moved", r"gen 0 \(fun (\w+'8) => (.*?)\1", r"gen 0 (fun \1 => \2(\1 + 1)"),
)
"""Changes of the statements of rules about recurrences, by name."""


def wrong_rules() -> Iterator[tuple[str, str]]:
    """Yield rules about recurrences with a fault that makes them false, and its description."""
    for name in RECURRENCES:
        for what, pattern, other in WRONG_READS:
            text = lemma(RULES[name]).replace(f"timeout {SECONDS}", f"timeout {SECONDS_OF_A_RULE}")
            changed, times = re.subn(pattern, other, text, count=1)
            if times and not (what == "first rows are moved" and name != "rec_column"):  # they have no first rows
                yield f"{name}: {what}", f"{OPENING}{changed}End Rules.\n"


def all_faults(folder: Path | None = None) -> Report:
    """Plant every fault."""
    report, at = Report(), coqc.library(folder)
    for what, text in (*wrong_certificates(), *wrong_rules()):
        report.planted += 1
        answer = coqc.check("Wrong", text, at)
        # A proof must fail; an unknown word does not count.
        if answer.line is None or not PROOF_FAILED.search(answer.reason):
            report.unseen.append(f"{what}: {answer.reason}")
    for changed in OTHER_MEANINGS:
        report.planted += 1
        if not compare(60, seed=5, folder=at, changed=[changed]).wrong:
            report.unseen.append(f"{changed[0]} printed as {changed[1]}")
    for of, printed, other in levels.FAULTS:
        report.planted += 1
        found = levels.compare(3, folder=at, changed=(printed, other))
        if not any(each.startswith(of) for each in found.wrong):
            report.unseen.append(f"levels: {printed} printed as {other}")
    return report
