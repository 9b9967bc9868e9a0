"""Random programs, optimized for a planted machine: each must mean what the program means, and run.

    python -m proofs_tests.recipes.fuzz --n 1500 --seed 1

The result of the optimized goal by the reference interpreter must be that of the program. The loop nests of the goal,
and its C with and without sanitizers, must agree with it (`programs.agreement`).
"""

from __future__ import annotations

import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from atl.core.dtypes import is_integer
from atl.errors import ATLError
from lowering import Machine
from proofs_tests.fuzzing import Progress, Tally, TooSlow, command, counted, limited
from proofs_tests.programs.agreement import Discarded, Expected, Fault, compiled, expected, interpreted, own_cache
from proofs_tests.programs.choices import Seeded, chance, choose
from proofs_tests.programs.generate import Broken, Case, Rejected, case
from proofs_tests.programs.reproduce import as_script
from proofs_tests.recipes.kernels import kernel
from proofs_tests.recipes.machines import AVX2, SSE, TINY
from rewrites import Session, reschedule

BLOCK: Final = 40
"""Number of programs in a C file."""
SECONDS: Final = 10.0
"""CPU time for the optimization of a program. One in 200 takes longer, because its conditions are hard to decide."""
MACHINES: Final[tuple[Machine, ...]] = (TINY, TINY, SSE, AVX2)


@dataclass(frozen=True, slots=True)
class Finding:
    """A program on which optimization fails."""

    number: int
    stage: str
    message: str
    script: str

    def __str__(self) -> str:
        return f"in program {self.number}, {self.stage}: {self.message}\n{self.script}"


@dataclass(slots=True)
class Report(Tally[Finding]):
    """The programs of a run, the discarded ones by reason, and the recipes that fitted."""

    compared: int = 0
    changed: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    recipes: Counter[str] = field(default_factory=Counter)

    def __str__(self) -> str:
        return self.report(
            [
                self.opening("programs optimized"),
                f"  {self.compared} compared, {self.changed} changed by recipes",
                f"  {self.discarded.total()} discarded: {counted(self.discarded)}",
                f"  recipes that fitted: {counted(dict(self.recipes.most_common()))}",
            ]
        )


@dataclass(frozen=True, slots=True)
class Optimized:
    """A case, its expected result, and the goal of its optimization with its expected result."""

    number: int
    case: Case
    goal: Expected


def optimized_cases(numbers: Sequence[int], seed: int, progress: Progress[Finding] | None = None) -> Report:
    """Optimize the programs with these numbers, and compare each goal with its program."""
    report = Report(seed, wanted=len(numbers))
    begun = time.monotonic()
    try:
        for first in range(0, len(numbers), BLOCK):
            block = numbers[first : first + BLOCK]
            found = [made for number in block for made in _optimized(number, report)]
            with own_cache():
                faults = compiled([each.goal for each in found]) if found else []
            for each, fault in zip(found, faults, strict=True):
                _add(report, each.number, fault, each.case)
            report.tried += len(block)
            report.seconds = time.monotonic() - begun
            if progress is not None:
                progress(report)
    except KeyboardInterrupt:
        report.interrupted = True
    return report


def _optimized(number: int, report: Report) -> Iterator[Optimized]:
    """Yield the optimized case with this number, if its interpreters agree; or add a finding, or a discarded case."""
    choices = Seeded.by(f"{report.seed}:{number}")
    made = kernel(choices) if chance(choices, 50) else case(choices)
    if isinstance(made, Rejected | Broken):
        report.discarded["not a program"] += 1
        return
    wanted = expected(made)
    if not isinstance(wanted, Expected):
        report.discarded[wanted.reason if isinstance(wanted, Discarded) else "broken without recipes"] += 1
        return
    machine = choose(choices, MACHINES)
    sizes = made.sizes if choose(choices, (True, False)) else None
    s = reschedule(made.program)
    try:
        with limited(SECONDS):
            s.optimize(sizes, machine=machine, parallel=choose(choices, (True, False)))
    except TooSlow:
        report.discarded[f"slower than {SECONDS:g} s"] += 1
        return
    except ATLError as error:
        return _add(report, number, Fault("language", f"refused: {error}"), made)
    except Exception:  # noqa: BLE001 (any other exception is a finding)
        return _add(report, number, Fault("language", traceback.format_exc(limit=-4)), made)
    assert s.report is not None
    for outcome in s.report.outcomes:
        cause = None if outcome.error is None else outcome.error.__cause__
        if cause is not None and not isinstance(cause, ATLError):
            return _add(report, number, Fault("language", str(outcome.error)), made)
    report.recipes.update(outcome.recipe.name for outcome in s.report.applied)
    report.changed += bool(s.steps)
    goal = expected(Case(s.goal, made.sizes, made.arrays, made.events))
    verdict = _fault_of(s, wanted, goal)
    if isinstance(verdict, Discarded):
        report.discarded[f"after recipes: {verdict.reason}"] += 1
    elif isinstance(verdict, Fault):
        _add(report, number, verdict, made)
    elif isinstance(goal, Expected):
        report.compared += 1
        yield Optimized(number, made, goal)


def _fault_of(s: Session, wanted: Expected, goal: Expected | Discarded | Fault) -> Fault | Discarded | None:
    if not isinstance(goal, Expected):
        # What is too close to a discontinuity, or overflows, is discarded; safety must be kept.
        lost = isinstance(goal, Discarded) and goal.reason in ("UnsafeAccess", "UnsafeTruncation", "TooLarge")
        return Fault("lowering", f"the goal is refused: {goal}\n{s.goal}") if lost else goal
    if not (check := s.check()):
        return Fault("lowering", f"{check}\n{s.goal}")
    if s.theorem.lhs != wanted.case.program:
        return Fault("language", "the theorem is not of the program")
    if difference := _difference(wanted, goal):
        return Fault("reference", f"{difference}\n{s.goal}")
    return interpreted(goal)


def _difference(wanted: Expected, goal: Expected) -> str | None:
    """Return the first element on which the program and its goal differ."""
    left, right = wanted.values, goal.values
    if left.shape != right.shape or left.dtype != right.dtype:
        return f"{right.dtype} of shape {right.shape} in place of {left.dtype} of shape {left.shape}"
    if is_integer(str(left.dtype)):
        wrong = left != right
    else:
        wrong = ~(np.abs(left.astype(np.float64) - right.astype(np.float64)) <= wanted.slack + goal.slack)
    for at in np.argwhere(wrong)[:1]:
        place = tuple(int(i) for i in at)
        return f"{right[place]!r} in place of {left[place]!r} at {place}"
    return None


def _add(report: Report, number: int, fault: Fault | None, made: Case) -> None:
    if fault is not None:
        script = as_script(made.program, made.sizes, made.arrays)
        report.findings.append(Finding(number, fault.stage, fault.message, script))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return 0 if every goal means what its program means."""
    return command(
        arguments, optimized_cases, name="recipes", what="programs", description="Optimizes random programs."
    )


if __name__ == "__main__":
    raise SystemExit(main())
