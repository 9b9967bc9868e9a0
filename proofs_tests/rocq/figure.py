"""The derivations of Fig. 8.6, and steps inside recurrences, as theorems that Rocq checks step by step."""

from __future__ import annotations

import inspect
import resource
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import atl
from atl import IndexExpr, Tensor
from examples import derivations
from rewrites import Session, reschedule
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


def in_recurrences() -> dict[str, Callable[[], Session]]:
    """Return derivations with steps in the first rows and in later rows of recurrences."""
    n, steps = atl.sizes("n", min=3), atl.sizes("steps")
    x, A = atl.tensor("x", n), atl.tensor("A", n, n)  # noqa: N806

    def solved() -> Session:
        body = atl.rec(n, lambda p, y: x[p] - atl.sum(p, lambda k: A[p, k] * y[k]))
        return reschedule(atl.program("solved", [x, A], body)).tile("k", 4)

    def first_rows() -> Session:
        first = atl.gen(1, n, lambda _, j: 2.0 * x[j])
        body = atl.rec(first, n, lambda p, y: atl.gen(n, lambda j: y[p - 1, j] + x[p]))
        return reschedule(atl.program("first_rows", [x], body)).rw("mul_comm")

    def stepped() -> Session:
        def step(_: IndexExpr, u: Tensor) -> Tensor:
            return atl.gen(n, lambda i: atl.select(i >= 1, u[i] + u[atl.imax(i - 1, 0)], u[i]))

        return reschedule(atl.program("stepped", [x], atl.iterate(steps, x, step))).tile("⊞[i < n] select(_, _, _)", 4)

    def factored() -> Session:
        def row(i: IndexExpr, above: Tensor) -> Tensor:
            return atl.rec(n, lambda j, left: A[i, j] - atl.sum(atl.imin(i, j), lambda k: left[k] * above[k, j]))

        return reschedule(atl.program("factored", [A], atl.rec(n, row, of=(n,)))).rw("mul_comm")

    def strips() -> Session:
        body = atl.rec(n, lambda p, y: x[p] + atl.sum(p, lambda k: A[p, k] * y[k]))
        return reschedule(atl.program("strips", [x, A], body)).rw("rec_strips", k=4)

    def blocks() -> Session:
        body = atl.rec(4 * n, lambda p, y: atl.value(p) + atl.select(p >= 1, y[atl.imax(p - 1, 0)], 0))
        return reschedule(atl.program("blocks", [], body)).rw("rec_blocks", n=n, k=4)

    return {make.__name__: make for make in (solved, first_rows, stepped, factored, strips, blocks)}


def check_all(
    names: Sequence[str] = (), folder: Path | None = None, made: Mapping[str, Callable[[], Session]] | None = None
) -> Report:
    """Check the derivations with these names, or all; by default those of the figure."""
    report, at = Report(), coqc.library(folder)
    for name, make in (sessions() if made is None else made).items():
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
