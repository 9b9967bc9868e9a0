"""What the kernel says of a certificate: the theorem that it replays, or why it is refused, and what z3 was asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from atl.errors import ATLError
from atl.prove import forget, statistics
from rewrites.certificates.certificate import describe, load
from rewrites.certificates.operands import Formats, unknown
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_text


@dataclass(frozen=True, slots=True)
class Verdict:
    """A certificate judged: what it proves, or else the error that says why it is refused."""

    file: str
    judged: Theorem | ATLError
    decided_by_z3: int
    """How many questions z3 has decided, those about the start program too."""

    @property
    def theorem(self) -> Theorem | None:
        """What was replayed."""
        return self.judged if isinstance(self.judged, Theorem) else None

    @property
    def rule_status(self) -> Mapping[str, str]:
        """How far each rule that was used is known to be true, in words."""
        used = self.judged.steps if isinstance(self.judged, Theorem) else ()
        return {step.rule.name: status_text(step.rule) for step in used}

    def __str__(self) -> str:
        if isinstance(self.judged, ATLError):
            return f"{self.file}: refused\n{self.judged}"
        return f"{self.file}: {describe(self.judged, rule_status=self.rule_status)}"


def judge(
    path: str | os.PathLike[str],
    *,
    rules: Mapping[str, Rule] | None = None,
    smt: bool = True,
    formats: Formats = unknown,
) -> Verdict:
    """Replays a certificate by the kernel, as `load` does, judged as by a process of its own: nothing is remembered."""
    forget()
    before = statistics.snapshot()
    try:
        judged: Theorem | ATLError = load(path, rules=rules, smt=smt, formats=formats)
    except ATLError as error:
        judged = error
    return Verdict(str(path), judged, statistics.since(before).z3)
