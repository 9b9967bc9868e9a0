"""Strict derivations compiled strictly: the bits of the kernel must be those of the reference interpreter.

Each random program is rescheduled with `strict=True` by random rules and tactics, lowered with `strict=True`, and run
with zeros of both signs, subnormals, large numbers and sometimes infinities and NaN. Compared are

- the kernel, built by each compiler, optimisation level and target, with the goal in machine numbers: every bit;
- the goal with the start: every bit if the theorem says so, else every bit of finite numbers but the sign of zeros.

Where a program has functions such as exp, only the builds for one target are compared, with each other. At the end of
each derivation, steps that round are put in by hand: a strict session must refuse them.

    python -m proofs_tests.programs.strict --n 600 --seed 37
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from atl.core.dtypes import FLOATS
from atl.core.operations import OPERATIONS
from atl.core.program import Program
from atl.core.terms import Binary, Reduce, Unary
from atl.core.traversal import subterms
from atl.errors import ATLError, IllegalMark
from atl.meaning.arguments import bind
from atl.meaning.interpret import denote
from atl.surface.values import Tensor
from lowering.builds import IN_ORDER, build_shared, load
from lowering.c.printer import declaration, function_names, print_unit
from lowering.c_compiler import find_compiler
from lowering.kernel import Kernel
from lowering.kernel_text import Code
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower
from lowering.targets.legality import check_nest, check_storage
from proofs_tests.compilers import installed, with_targets
from proofs_tests.programs.choices import Seeded, choose
from proofs_tests.programs.generate import Case, Maker, Option, case
from proofs_tests.programs.generate_index import Scope, Shape
from proofs_tests.rules.exactness_samples import IEEE, SPECIAL, differing, differing_bits
from proofs_tests.sessions.random_derivations import step_of_rule, step_of_tactic
from rewrites import Session, reschedule, rules
from rewrites.cursors.cursor import cursors
from rewrites.derivation import Derivation
from rewrites.errors import RoundingStep
from rewrites.kernel import reflexivity
from rewrites.rule_checking.exactness import Exactness
from rewrites.rules.bounded import ROUNDING

AnyArray = npt.NDArray[Any]
BLOCK: Final = 40
"""Number of kernels in a C file."""
LEVELS: Final = ("-O0", "-O3")
CALLS: Final = 2
"""Number of calls of each kernel."""


@dataclass(slots=True)
class Report:
    """Counts and findings of a run."""

    derivations: int = 0
    steps: int = 0
    exactness: Counter[Exactness] = field(default_factory=Counter)
    discarded: Counter[str] = field(default_factory=Counter)
    compared: int = 0
    """Number of results of kernels that were compared with the interpreter."""
    builds: int = 0
    with_functions: int = 0
    sums: int = 0
    refused: int = 0
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        labels = ", ".join(f"{count} {label}" for label, count in self.exactness.items())
        return "\n".join(
            (
                f"{self.derivations} strict derivations of {self.steps} steps ({labels})",
                f"  discarded: {dict(self.discarded)}",
                f"  {self.compared} results compared, {self.builds} builds; {self.sums} programs with sums",
                f"  {self.with_functions} programs with functions, of which only the builds are compared",
                f"  {self.refused} steps that round were put in by hand and refused",
                f"  {len(self.findings)} findings",
                *self.findings,
            )
        )


@dataclass(frozen=True, slots=True)
class Derived:
    """A derivation with its nest, the arguments of its calls and the results of the interpreter."""

    number: int
    session: Session
    nest: LoopNest
    calls: Sequence[tuple[dict[str, Any], AnyArray | None]]


class OfFloats(Maker):
    """Generator of programs of floats that have many sums, also within sums."""

    def whole(self) -> Tensor:
        self.fuel += 6
        return self.tensor(Scope(), self.ground.shape(Scope()), choose(self.choices, FLOATS))

    def _common(self, scope: Scope, shape: Shape, dtype: str) -> list[Option]:
        sums = [(9, lambda: self._reduction("sum", scope, shape, dtype))] if dtype in FLOATS else []
        return [*super()._common(scope, shape, dtype), *sums]


def has_functions(program: Program) -> bool:
    """Return whether a program has operations that are not correctly rounded."""
    parts = (part for part in subterms(program.body) if isinstance(part, Unary | Binary))
    return any(OPERATIONS[part.op].error is not None for part in parts)


def _elements(array: AnyArray, random: Random, *, special: bool) -> AnyArray:
    """Return an array of the shape and type of another with numbers whose sums round."""
    if str(array.dtype) not in FLOATS:
        return array
    made = np.empty(array.shape, array.dtype)
    for at in np.ndindex(array.shape):
        chosen = random.random()
        value = random.uniform(-1, 1) * random.choice((1.0, 1.0, 3e-3, 7e4, 1e-40))
        if chosen < 0.15:
            value = random.choice(SPECIAL if special else (0.0, -0.0, 1e-45, 1.0, -1.0))
        with np.errstate(all="ignore"):
            made[at] = value
    return made


def value(program: Program, arguments: dict[str, Any], scalars: IEEE) -> AnyArray:
    """Return the result of a program in machine numbers."""
    bound = bind(program, (), arguments)
    return denote(program, bound.sizes, bound.arrays, scalars).to_numpy(program.dtype)


def first_difference(x: AnyArray, y: AnyArray, *, bits: bool) -> str | None:
    """Return the first element in which two results differ, as text."""
    differ = differing_bits if bits else differing
    for at in np.ndindex(x.shape):
        if differ(x[at], y[at]):
            return f"at {list(at)}: {x[at]!r} ({float(x[at]).hex()}) and {y[at]!r} ({float(y[at]).hex()})"
    return None


def derived(number: int, seed: int, report: Report) -> Derived | None:
    """Return a strict derivation from a random program, after comparing its goal with its start."""
    made = case(Seeded.by(f"{seed}:{number}"), OfFloats)
    if not isinstance(made, Case):
        report.discarded["no program"] += 1
        return None
    random = Random(f"strict {seed} {number}")
    if made.program.dtype not in FLOATS:
        report.discarded["not of floats"] += 1
        return None
    s = reschedule(made.program, strict=True)
    try:
        for _ in range(random.randint(1, 6)):
            choices = [step_of_tactic, step_of_rule] if random.random() < 0.5 else [step_of_rule, step_of_tactic]
            if choices[0](s, random) is None and choices[1](s, random) is None:
                break
        nest = lower(s.goal, strict=True)
        check_nest(nest, "c")
        check_storage(s.goal)
    except IllegalMark as error:
        kind = "fold" if "another order" in error.summary else "mark"
        report.discarded[f"illegal {kind}"] += 1
        return None
    except ATLError as error:
        report.discarded[type(error).__name__] += 1
        return None
    theorem = s.done()
    calls = []
    functions = has_functions(s.goal)
    for number_of_call in range(CALLS):
        arrays = {name: _elements(array, random, special=number_of_call == 1) for name, array in made.arrays.items()}
        arguments = {**arrays, **{name: made.sizes[name] for name in s.goal.sizes}}
        scalars, of_start = IEEE(), IEEE()
        try:
            goal = value(s.goal, arguments, scalars)
            start = value(made.program, arguments, of_start)
        except ATLError as error:
            report.discarded[type(error).__name__] += 1
            return None
        if scalars.undefined or of_start.undefined:
            continue
        bits = theorem.exactness == Exactness.BITS
        found = None
        if bits or not (scalars.infinite or of_start.infinite):
            found = first_difference(start, goal, bits=bits)
        if found is not None:
            report.findings.append(f"{number}: goal and start differ {found}\n{made.program}\n{s.goal}\n{arguments}")
            return None
        calls.append((arguments, None if functions else goal))
    report.derivations += 1
    report.steps += len(theorem.steps)
    report.exactness[theorem.exactness] += 1
    report.with_functions += functions
    report.sums += any(isinstance(part, Reduce) and part.monoid == "sum" for part in subterms(s.goal.body))
    _put_in_by_hand(s, random, report)
    return Derived(number, s, nest, calls)


def _put_in_by_hand(s: Session, random: Random, report: Report) -> None:
    """Take a step that rounds where one applies, by the strict session and by its derivation."""
    names = random.sample(sorted(ROUNDING), 8)
    for name in names:
        for cursor in list(cursors(s.goal))[:30]:
            for reverse in (False, True):
                loose = Derivation(reflexivity(s.goal), rules)
                if not loose.attempted(rules[name], cursor.path, {}, reverse=reverse):
                    continue
                step = loose.theorem.steps[-1]
                try:
                    s.begin().apply(step.rule, step.path, step.arguments, reverse=step.reverse)
                except RoundingStep:
                    report.refused += 1
                else:
                    report.findings.append(f"{name} was not refused at {cursor.path} of\n{s.goal}")


def targets() -> Iterator[tuple[str, str]]:
    """Yield values of CC, for each target, with levels of optimisation."""
    newest = {("clang" in each, each.split()[0]): each for each in reversed(installed())}
    compilers = {path for _, path in newest}
    for chosen in with_targets():
        if chosen.split()[0] in compilers:
            yield from ((chosen, level) for level in LEVELS)


def built(nests: Sequence[LoopNest], programs: Sequence[Program], chosen: str, flags: Sequence[str]) -> list[Kernel]:
    """Return the kernels of some nests in one object, by a compiler with these flags at the end."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", chosen)
        compiler = find_compiler()
        source, names = print_unit(nests), function_names(nests)
        path = build_shared(source, name="strict", compiler=compiler, extra_flags=tuple(flags))
    ffi, library = load(path, "\n".join(map(declaration, nests, names)))
    made = zip(programs, nests, names, strict=True)
    return [Kernel(program, nest, Code(source, path, name, ffi, library)) for program, nest, name in made]


def compare(block: Sequence[Derived], report: Report, flags: Sequence[str] = IN_ORDER) -> None:
    """Build the kernels of a block for each target, and compare the bits of their results."""
    # Functions such as exp have other algorithms on processors without fused multiply-add.
    known: dict[tuple[str, int, int], AnyArray] = {}
    for chosen, level in targets():
        kernels = built([each.nest for each in block], [each.session.goal for each in block], chosen, (*flags, level))
        report.builds += 1
        for each, kernel in zip(block, kernels, strict=True):
            for number, (arguments, expected) in enumerate(each.calls):
                wanted = known.get((chosen, each.number, number)) if expected is None else expected
                result = kernel(**arguments)
                if wanted is None:
                    known[chosen, each.number, number] = result
                    continue
                report.compared += 1
                found = first_difference(wanted, result, bits=True)
                if found is not None:
                    where = f"{chosen} {level}, derivation {each.number}, call {number}"
                    report.findings.append(f"{where}: interpreter and kernel differ {found}\n{each.session.goal}")
                    break


def run(numbers: Sequence[int], seed: int, flags: Sequence[str] = IN_ORDER) -> Report:
    """Run the derivations with these numbers."""
    report = Report()
    block: list[Derived] = []
    for number in numbers:
        made = derived(number, seed, report)
        if made is not None and made.calls:
            block.append(made)
        if block and (len(block) == BLOCK or number == numbers[-1]):
            compare(block, report, flags)
            block = []
            print(f"... {number}: {report.derivations} derivations, {len(report.findings)} findings", flush=True)
    return report


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser()
    parser.add_argument("--n", type=int, default=100)
    parser.add_argument("--seed", type=int, default=37)
    parser.add_argument("--only", type=int)
    parser.add_argument("--flags", default=" ".join(IN_ORDER), help="the flags of strict kernels, to plant faults")
    given = parser.parse_args(arguments)
    report = run([given.only] if given.only is not None else range(given.n), given.seed, given.flags.split())
    print(report)
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
