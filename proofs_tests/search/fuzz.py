"""Random programs through the search: results are proved, safe and equal in value.

`python -m proofs_tests.search.fuzz --n 1000 --seed 1` prints how many came back, and every failure with its number
(`--only`). A chain that the kernel refuses is a failure too: the search has believed something that does not hold.
"""

from __future__ import annotations

import time
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np

from atl.errors import ATLError, NotExact, UnsafeTruncation
from atl.meaning.interpret import denote
from atl.meaning.scalars import Exact
from examples import derivations
from examples.schedules import blur, convolution, matmul, tensor_addition
from proofs_tests.fuzzing import Progress, Tally, command, counted, try_all
from proofs_tests.programs.generate import Case, case_by_seed
from rewrites import reschedule
from rewrites.certificates.certificate import dumps, loads
from rewrites.cursors.cursor import cursors
from rewrites.egraph import Limit, saturate
from rewrites.egraph.schedules import Choice
from rewrites.rules import RULES
from rewrites.session.session import Session

LIMIT: Final = Limit(nodes=400, rounds=4, seconds=10.0)
LARGEST: Final = 120
CHOICES: Final = 3


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts and findings of a run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    times: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        spent = sorted(self.times) or [0.0]
        times = f"median {spent[len(spent) // 2]:.2f} s, worst {spent[-1]:.2f} s"
        return self.report([self.opening("programs"), f"  {counted(self.outcomes)}", f"  {times}"])


def run(numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, back: bool = False) -> Report:
    """Search for schedules of the programs with these numbers; with `back`, for those of expensive programs."""
    report = Report(seed, len(numbers))
    if back:
        report.outcomes["recovered"], report.findings = recovered(len(numbers), seed)
        return report

    def one(number: int) -> None:
        made = case_by_seed(seed, number)
        if not isinstance(made, Case) or made.program.body.size > LARGEST:
            report.outcomes["no small program"] += 1
            return
        begun = time.process_time()
        _search(made, number, report)
        report.times.append(time.process_time() - begun)

    try_all(report, numbers, one, progress)
    return report


def _search(made: Case, number: int, report: Report) -> None:
    s = reschedule(made.program)
    found = saturate(made.program, limit=LIMIT)
    choices = found.best(k=CHOICES)
    if not choices:
        report.outcomes["nothing safe"] += 1
    for choice in choices:
        try:
            choice.unchecked(s.begin)
        except ATLError as error:
            report.findings.append(f"{number}: the kernel refuses a chain: {error.summary}")
            report.outcomes["refused"] += 1
            return
    _compare(made, s, choices, number, report)


def _compare(made: Case, s: Session, choices: Sequence[Choice], number: int, report: Report) -> None:
    for choice in choices:
        try:
            s.take(choice)
        except UnsafeTruncation:
            continue  # its truncations are not proved safe
        except ATLError as error:
            report.findings.append(f"{number}: a schedule is refused: {error.summary}")
            return
        theorem = s.done()
        if theorem.rhs.body != choice.body:
            report.findings.append(f"{number}: the goal is not the schedule that was chosen")
        if loads(dumps(theorem)).rhs != theorem.rhs:
            report.findings.append(f"{number}: the certificate has another theorem")
        try:
            same = _values(made, theorem.lhs.body) == _values(made, theorem.rhs.body)
        except NotExact:
            report.outcomes["not compared: not exact"] += 1
            same = True
        if not same:
            report.findings.append(f"{number}: the values differ")
        report.outcomes["proved" if theorem.steps else "as it was"] += 1
        return
    report.outcomes["none safe to lower"] += bool(choices)


def _values(made: Case, body: Any) -> list[Any]:
    program = type(made.program)(made.program.name, made.program.inputs, body, made.program.assumptions)
    values = denote(program, dict(made.sizes), dict(made.arrays), Exact()).to_numpy(object)
    return list(np.asarray(values).ravel())


STARTS: Final = (
    blur.fused,
    matmul.naive,
    convolution.gather,
    convolution.direct,
    tensor_addition.nested,
    lambda: derivations.pipeline_fused().goal,
    lambda: derivations.convolution_shift().goal,
)
STEPS: Final = (
    ("gen_interchange", False), ("sum_swap", False), ("sum_gen_swap", False), ("sum_gen_swap", True),
    ("gen_bounds", False), ("access_guard", False), ("guard_twice", False), ("transpose_transpose", True),
    ("add_nothing", True), ("mul_one", True), ("add_zero", True), ("neg_neg", True), ("guard_gen", True),
    ("guard_mul_left", True), ("ll_gen_indep", True), ("ll_guard", True),
)  # fmt: skip
"""Rules that make programs more expensive; buffers are bound too."""


def recovered(count: int, seed: int) -> tuple[int, list[str]]:
    """Count the programs that a search returns to their cost after two to five random steps.

    What the normal form alone brings back is not counted. Each result is proved.
    """
    random, back, lost = Random(seed), 0, list[str]()
    least = {start: _least(reschedule(start())) for start in STARTS}
    number = 0
    while number < count:
        start = random.choice(STARTS)
        s = reschedule(start())
        for _ in range(random.randint(2, 5)):
            _step(s, random)
        if _least(s, rounds=0) <= least[start] * 1.001:
            continue
        number += 1
        reached = _least(s)
        if reached <= least[start] * 1.001:
            back += 1
        else:
            lost.append(f"{number}: {reached:g} for {least[start]:g}: {[call.text for call in s.steps]}")
    return back, lost


def _least(s: Session, rounds: int = 8) -> float:
    found = saturate(s.goal, limit=Limit(nodes=1_500, rounds=rounds, seconds=20.0), tile=False)
    best = found.best(cost="code size")[0]
    best.unchecked(s.begin)
    return best.cost


def _step(s: Session, random: Random) -> None:
    """Make a random step that applies."""
    for _ in range(60):
        cursor = random.choice(list(cursors(s.goal)))
        work = s.begin()
        if random.random() < 0.1:
            try:
                s.lbind(cursor.path, "v")
            except ATLError:
                continue
            return
        name, reverse = random.choice(STEPS)
        if work.attempted(RULES[name], cursor.path, {}, reverse=reverse):
            s.record(f"{name}{'-' if reverse else ''} at {cursor.path}", work)
            return


def _declare(parser: ArgumentParser) -> None:
    parser.add_argument("--back", action="store_true", help="make programs expensive, and count those recovered")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    return command(arguments, run, what="programs", description=__doc__, n=100, declare=_declare)


if __name__ == "__main__":
    raise SystemExit(main())
