"""Verdicts on certificates: the replayed theorem or the reason of refusal, and the use of z3."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass

from atl.errors import ATLError
from atl.prove import forget, statistics
from rewrites.certificates.certificate import describe, replay
from rewrites.certificates.operands import Formats, unknown
from rewrites.kernel import Theorem
from rewrites.rule import Rule
from rewrites.rule_checking.registry import status_text


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of checking a certificate: a theorem, or the error for which it is refused."""

    file: str
    result: Theorem | ATLError
    decided_by_z3: int
    """Number of questions that z3 decided, including those about the start program."""

    @property
    def theorem(self) -> Theorem | None:
        """The replayed theorem, or None if the certificate is refused."""
        return self.result if isinstance(self.result, Theorem) else None

    @property
    def rule_status(self) -> Mapping[str, str]:
        """The proof status of each rule used, in words."""
        used = self.result.steps if isinstance(self.result, Theorem) else ()
        return {step.rule.name: status_text(step.rule) for step in used}

    def __str__(self) -> str:
        if isinstance(self.result, ATLError):
            return f"{self.file}: refused\n{self.result}"
        return f"{self.file}: {describe(self.result, rule_status=self.rule_status)}"


def verify(
    path: str | os.PathLike[str],
    *,
    rules: Mapping[str, Rule] | None = None,
    smt: bool = True,
    formats: Formats = unknown,
) -> Verdict:
    """Check a certificate like `replay`, with the prover's caches cleared, as in a fresh process."""
    forget()
    before = statistics.snapshot()
    try:
        result: Theorem | ATLError = replay(path, rules=rules, smt=smt, formats=formats)
    except ATLError as error:
        result = error
    return Verdict(str(path), result, statistics.since(before).z3)
