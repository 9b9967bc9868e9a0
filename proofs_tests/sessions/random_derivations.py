"""Random derivations: rules and tactics at random places; each step must keep the values on random arrays.

Each derivation starts either from a program of the schedules or from an instance of one rule within some context, so
that every rule has its turn. After each call the goal is well-formed, computes what the start does, and is read back
from its own text. At the end undo and redo lead back and forth, the certificate is replayed and, of every fourth, the
script is run; all of them keep the names and marks that were given on the way.

`python -m proofs_tests.sessions.random_derivations --n 2000 --seed 1` prints how many steps were made, by which rules
and tactics, and every failure with the number that makes it again (`--only`).
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

import atl
from atl import Program
from atl.checks.wellformed import check_wellformed, make_program
from atl.core.dtypes import BOOL
from atl.core.index import leaf_values, value_at
from atl.core.predicate import holds
from atl.core.traversal import Path
from atl.errors import ATLError, NotExact, TooLarge
from atl.meaning.interpret import denote
from atl.meaning.polynomials import Polynomials, symbol
from atl.meaning.scalars import Exact, Scalars
from atl.surface.values import IndexExpr, Tensor
from examples import derivations
from examples.schedules import blur, convolution, matmul, tensor_addition
from proofs_tests.fuzzing import Progress, Tally, command, try_all
from proofs_tests.programs.choices import Seeded
from proofs_tests.sessions.random_tactics import TACTICS
from rewrites import Session, reschedule, rules
from rewrites.certificates.certificate import dumps, loads
from rewrites.cursors.cursor import cursors
from rewrites.rule import Rule
from rewrites.rule_arguments import Argument
from rewrites.rule_checking.exhaustion import instance
from rewrites.rule_checking.samples import Sample, drawn_statement


def spread() -> Program:
    """Return a program whose guard must be solved for the index of the sum."""
    n, m = atl.sizes("n m")
    c = atl.tensor("c", m)
    body = atl.gen(n, lambda i: atl.sum(m, lambda j: atl.guard(i == 3 * j + 1, c[j])))
    return atl.program("spread", [c], body)


def solved() -> Program:
    """Return a recurrence whose rows read all earlier rows."""
    n = atl.sizes("n")
    x, matrix = atl.tensor("x", n), atl.tensor("A", n, n)
    return atl.program("solved", [x, matrix], atl.rec(n, lambda p, y: x[p] - atl.sum(p, lambda k: matrix[p, k] * y[k])))


def stepped() -> Program:
    """Return the state after some steps of a stencil."""
    n, steps = atl.sizes("n steps")
    x = atl.tensor("x", n)

    def step(_: IndexExpr, u: Tensor) -> Tensor:
        return atl.gen(n, lambda i: u[i] + atl.guard(i >= 1, u[i - 1]) * 2)

    return atl.program("stepped", [x], atl.iterate(steps, x, step))


STARTS: Final = (
    spread,
    solved,
    stepped,
    derivations.pipeline,
    derivations.shifting_convolution,
    matmul.naive,
    matmul.tiled,
    blur.two_stage,
    blur.fused,
    convolution.gather,
    convolution.scatter,
    convolution.im2col,
    tensor_addition.nested,
)
LARGEST: Final = 260
"""Maximum number of nodes of a program that is rewritten further."""
TRIES: Final = 160
SAMPLES: Final = 400
"""Number of random instances of a rule until one is well-formed."""
TACTIC_SHARE: Final = 0.3


@dataclass(slots=True)
class Report(Tally[str]):
    """Counts and findings of a run."""

    steps: int = 0
    compared: int = 0
    lengths: Counter[int] = field(default_factory=Counter)
    by_rule: Counter[str] = field(default_factory=Counter)
    by_tactic: Counter[str] = field(default_factory=Counter)
    kernel_steps: int = 0

    def __str__(self) -> str:
        unused = [name for name in rules if name not in self.by_rule]
        idle = [name for name in TACTICS if name not in self.by_tactic]
        short = sum(count for length, count in self.lengths.items() if length < 5)
        return self.report(
            [
                self.opening("derivations"),
                f"  {self.steps} calls, {self.kernel_steps} steps of the kernel",
                f"  of {min(self.lengths, default=0)} to {max(self.lengths, default=0)} calls, {short} of less than 5",
                f"  by {len(self.by_rule)} of {len(rules)} rules, {len(self.by_tactic)} of {len(TACTICS)} tactics",
                f"  {self.compared} programs compared with their start on random arrays",
                f"  rules not used: {', '.join(unused) or 'none'}; tactics not used: {', '.join(idle) or 'none'}",
                f"  calls of tactics: {', '.join(f'{name} {self.by_tactic[name]}' for name in TACTICS)}",
            ]
        )


@dataclass(frozen=True, slots=True)
class Inputs:
    """Return sizes that satisfy the assumptions, and arrays of rationals, or of symbols for irrational functions."""

    sizes: dict[str, int]
    arrays: dict[str, npt.NDArray[Any]]
    scalars: Scalars[Any]

    @staticmethod
    def drawn(program: Program, random: Random) -> Inputs:
        sizes = sizes_for(program, random)
        numbers = np.random.default_rng(random.randrange(1 << 30))
        arrays: dict[str, npt.NDArray[Any]] = {}
        for array in program.inputs:
            shape = tuple(value_at(extent, sizes) for extent in array.shape)
            low, high = (0, 2) if array.dtype == BOOL else (-9, 10)
            arrays[array.name] = numbers.integers(low, high, shape).astype(object)
        exact = Inputs(sizes, arrays, Exact())
        try:
            exact.values(program)
        except NotExact:
            for array in (each for each in program.inputs if each.dtype != BOOL):
                held = arrays[array.name]
                for at in np.ndindex(*held.shape):
                    held[at] = symbol(f"{array.name}{list(at)}")
            return Inputs(sizes, arrays, Polynomials())
        return exact

    def values(self, program: Program) -> npt.NDArray[Any]:
        """Return the result of the program."""
        return denote(program, self.sizes, self.arrays, self.scalars).to_numpy(object)


def sizes_for(program: Program, random: Random) -> dict[str, int]:
    """Return small sizes that satisfy the assumptions."""
    while True:
        chosen = {name: random.randint(0, 3) for name in program.sizes}
        if all(holds(assumption, leaf_values(chosen), lambda array, at: 0) for assumption in program.assumptions):
            return chosen


@dataclass(frozen=True, slots=True)
class Start:
    """A program, and a rule that must be among the steps, with direction, place and arguments."""

    program: Program
    rule: Rule | None = None
    reverse: bool = False
    path: Path = ()
    arguments: dict[str, Argument] = field(default_factory=dict)


def start_of(number: int, random: Random, *, inside: bool = False) -> Start:
    """Return a start: every third time a schedule's program, else an instance of the next rule.

    With `inside`, it is always an instance of a rule, in the step of a recurrence.
    """
    turn, kind = divmod(number, 3)
    if kind == 0 and not inside:
        return Start(STARTS[turn % len(STARTS)]())
    names = list(rules)
    rule = rules[names[(number * 7 if inside else 2 * turn + kind - 1) % len(names)]]
    reverse = random.random() < 0.4
    for _ in range(SAMPLES):
        sample = Sample(drawn_statement(rule, Seeded(random)), Seeded(random))
        try:
            drawn = sample.arguments()
        except TooLarge:  # an index at the limit of int64, which a constant cannot have
            continue
        stated = instance(sample.stated, _Same(sample, drawn))
        if stated is None:
            continue
        side = stated.rhs if reverse else stated.lhs
        try:
            program, path = _within_context(side, sample, random, inside=inside)
        except ATLError:
            continue
        return Start(program, rule, reverse, path, drawn)
    return Start(STARTS[turn % len(STARTS)]())


class _Same(Sample):
    """Return a sample with random arguments."""

    def __init__(self, sample: Sample, drawn: dict[str, Argument]) -> None:
        vars(self).update(vars(sample))
        self.given = drawn

    def argument(self, name: str, kind: Any) -> Argument:
        del kind
        return self.given[name]


def _within_context(side: Any, sample: Sample, random: Random, *, inside: bool) -> tuple[Program, Path]:
    """Return a program that contains this closed term, and its position, in the step of a recurrence if `inside`."""
    e = Tensor(side)
    n = atl.sizes("n")
    body: Tensor
    path: Path
    match random.randint(5, 6) if inside else random.randint(0, 7):
        case 0:
            body, path = atl.gen(n, lambda i: e), (0,)
        case 1:
            body, path = atl.let(e, lambda x: x + x), (0,)
        case 2:
            body, path = atl.gen(n, lambda i: atl.guard(i >= 1, e)), (0, 0)
        case 3:
            body, path = e + e, (1,)
        case 4:
            body, path = atl.sum(n, lambda i: e), (0,)
        case 5:
            first = atl.gen(1, lambda i: e)
            body, path = atl.rec(first, n + 1, lambda p, y: y[p - 1] + e), (1, 1)
        case 6:
            started = atl.gen(1, lambda i: e * 0)
            body, path = atl.rec(started, n + 2, lambda p, y: atl.select(p >= 2, y[p - 2], e))[n], (0, 1, 1)
        case _:
            body, path = e, ()
    return make_program("start", tuple(sample.inputs), body.node), path


def step_of_rule(s: Session, random: Random) -> str | None:
    """Apply a random rule at a random place; return its name, or None."""
    names = list(rules)
    for _ in range(TRIES):
        rule, reverse = rules[random.choice(names)], random.random() < 0.3
        found = list(cursors(s.goal))
        random.shuffle(found)
        for cursor in found[:6]:
            work = s.begin()
            if work.attempted(rule, cursor.path, {}, reverse=reverse) and _may_go_on(s, work.goal):
                s.record(f"rw({rule.name!r}, around={cursor.path!r}, reverse={reverse})", work)
                return rule.name
    return None


def step_of_tactic(s: Session, random: Random) -> str | None:
    """Apply a random tactic; return its name, or None."""
    for name in random.sample(list(TACTICS), 4):
        trial = s.branch()
        try:
            made = TACTICS[name](trial, random)
        except ATLError:
            continue
        if made is not None and _may_go_on(s, made.goal):
            call = made.steps[-1]
            work = s.begin()
            work.theorems[:] = call.theorems
            s.record(call.text, work)
            return name
    return None


def _may_go_on(s: Session, goal: Program) -> bool:
    return goal.body.size <= LARGEST and (goal != s.goal or str(goal) != str(s.goal))


def derive(number: int, seed: int, report: Report, *, inside: bool = False) -> None:
    """Run a derivation of 5 to 30 calls, comparing each goal with the start."""
    random = Random(f"derivation {seed} {number}")
    start = start_of(number, random, inside=inside)
    s = reschedule(start.program)
    inputs = [Inputs.drawn(start.program, random) for _ in range(2)]
    expected = [one.values(start.program) for one in inputs]
    wanted = random.randint(5, 30)
    for made in range(wanted):
        name = _next(s, start if made == 0 else None, random)
        if name is None:
            break
        report.steps += 1
        for step in s.steps[-1].steps:
            report.by_rule[step.rule.name] += 1
            report.kernel_steps += 1
        report.by_tactic.update([name] if name in TACTICS else [])
        wrong = _wrong(s, inputs, expected)
        report.compared += 1
        if wrong is not None:
            report.findings.append(f"derivation {number} of seed {seed}, after {s.steps[-1].text}: {wrong}\n{s.goal}")
            return
    report.lengths[len(s.steps)] += 1
    wrong = _back_and_forth(s, random) or _replayed(s) or (_written(s) if number % 4 == 0 else None)
    if wrong is not None:
        report.findings.append(f"derivation {number} of seed {seed}: {wrong}\n{s.goal}")


def _next(s: Session, start: Start | None, random: Random) -> str | None:
    if start is not None and start.rule is not None:
        work = s.begin()
        work.apply(start.rule, start.path, start.arguments, reverse=start.reverse)
        s.record(f"apply({start.rule.name!r})", work)
        return start.rule.name
    choices = [step_of_tactic, step_of_rule] if random.random() < TACTIC_SHARE else [step_of_rule, step_of_tactic]
    return choices[0](s, random) or choices[1](s, random)


def _wrong(s: Session, inputs: Sequence[Inputs], expected: Sequence[npt.NDArray[Any]]) -> str | None:
    """Return a difference between goal and start, or None."""
    try:
        check_wellformed(s.goal)
        if atl.parse(str(s.goal)) != s.goal:
            return "it is not read back from its text"
        for one, before in zip(inputs, expected, strict=True):
            found = one.values(s.goal)
            if found.shape != before.shape or not bool(np.all(found == before)):
                return f"other values, at {one.sizes}"
    except NotExact:
        return None  # the start has no value of this function that is irrational
    except ATLError as error:
        return str(error)
    return None


def _back_and_forth(s: Session, random: Random) -> str | None:
    """Check that undo and redo restore theorems and text."""
    before = [(call.theorem, str(call.theorem.rhs)) for call in s.steps]
    count = random.randint(0, len(s.steps))
    s.undo(count)
    at = len(before) - count
    if s.goal is not (before[at - 1][0].rhs if at else s.begin().theorem.lhs) or len(s.steps) != at:
        return f"undo({count}) led elsewhere"
    s.redo(count)
    if [(call.theorem, str(call.theorem.rhs)) for call in s.steps] != before:
        return f"undo({count}) and redo({count}) are not an identity"
    return None


def _replayed(s: Session) -> str | None:
    """Check that the certificate replays to the same theorem."""
    theorem = s.done()
    try:
        again = loads(dumps(theorem))
    except ATLError as error:
        return f"its certificate: {error}"
    if (again.lhs, again.rhs) != (theorem.lhs, theorem.rhs):
        return "its certificate proves something else"
    return None if str(again.rhs) == str(theorem.rhs) else "its certificate has lost names or marks"


def _written(s: Session) -> str | None:
    """Check that the script derives the theorem again, with names and marks."""
    theorem = s.done()
    names: dict[str, Any] = {}
    try:
        exec(theorem.as_python(), names)
    except ATLError as error:
        return f"its script: {error}"
    again = names["theorem"]
    same = (str(again.lhs), str(again.rhs)) == (str(theorem.lhs), str(theorem.rhs))
    return None if same and again.rhs == theorem.rhs else "its script derives something else"


def run(numbers: Sequence[int], seed: int, progress: Progress[str] | None = None, *, inside: bool = False) -> Report:
    """Run random derivations, with `inside` in steps of recurrences; return those finished if interrupted."""
    report = Report(seed, len(numbers))
    try_all(report, numbers, lambda number: derive(number, seed, report, inside=inside), progress)
    return report


def _declare(parser: ArgumentParser) -> None:
    parser.add_argument("--inside", action="store_true", help="derive in steps of recurrences only")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Return 0 without findings, 1 with findings, 130 when interrupted."""
    return command(arguments, run, what="derivations", description=__doc__, n=200, seed=1, declare=_declare)


if __name__ == "__main__":
    raise SystemExit(main())
