"""The derivations of Fig. 8.6 as theorems, checked step by step by Rocq."""

from __future__ import annotations

import inspect
import resource
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from examples import derivations
from rewrites import Session
from rewrites.rocq import coqc
from rewrites.rocq.certificates import derivation, text_of


@dataclass(slots=True)
class Report:
    """Processor seconds of each derivation, and reasons of refusals."""

    accepted: dict[str, tuple[int, float]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"derivations      {len(self.accepted)} of {len(self.accepted) + len(self.refused)} are accepted"]
        lines += [f"    {name}: {steps} steps, {spent:.1f} s" for name, (steps, spent) in self.accepted.items()]
        return "\n".join([*lines, *(f"REFUSED          {name}: {why}" for name, why in self.refused.items())])


def sessions() -> dict[str, Callable[[], Session]]:
    """Return the derivations of `examples.derivations`."""
    found = inspect.getmembers(derivations, inspect.isfunction)
    return {
        name: make
        for name, make in found
        if make.__module__ == derivations.__name__ and inspect.signature(make).return_annotation == "atl.Session"
    }


def check_all(names: Sequence[str] = (), folder: Path | None = None) -> Report:
    """Check the derivations with these names, or all."""
    report, at = Report(), coqc.library(folder)
    for name, make in sessions().items():
        if names and name not in names:
            continue
        theorem = make().done()
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        answer = coqc.check("Certificate", text_of(derivation(theorem)), at, limit=3600)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        beyond = coqc.assumed(answer.text) - coqc.allowed()
        if answer.accepted and not beyond:
            report.accepted[name] = (len(theorem.steps), spent)
        else:
            report.refused[name] = f"rests on {sorted(beyond)}" if beyond else f"line {answer.line}: {answer.reason}"
    return report
