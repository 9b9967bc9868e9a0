"""Random programs and schedules compiled with default and strict flags: no result may be outside of its error bound.

Each random program is rescheduled by random rules and tactics, and run on numbers of very different magnitudes, with
cancellation, subnormals and zeros. The exact result is computed with rational numbers, and functions such as exp with
60 digits. `|computed - exact|` must be at most `error_bound`, for each compiler, level of optimisation and target in
turn.

    python -m proofs_tests.programs.bounds --n 1000 --seed 3
"""

from __future__ import annotations

import math
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import cycle
from random import Random
from statistics import median
from typing import Any, Final

import mpmath
import numpy as np
import numpy.typing as npt

from atl.core.dtypes import is_float
from atl.core.index import value_at
from atl.core.operations import UnaryOp
from atl.core.program import Program
from atl.errors import ATLError, NoErrorBound, NotExact, TooLarge
from atl.meaning.arguments import bind
from atl.meaning.interpret import denote, evaluate
from atl.meaning.scalars import Exact
from lowering.builds import IN_ORDER
from lowering.c_compiler import find_compiler
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower
from lowering.rounding.bound_nest import bound_nest, roundings_of
from lowering.rounding.error_bound import magnitude
from lowering.targets.legality import check_nest, check_storage
from proofs_tests.programs.choices import Seeded
from proofs_tests.programs.generate import Case, Maker, case
from proofs_tests.programs.strict import BLOCK, OfFloats, built, targets
from proofs_tests.sessions.random_derivations import step_of_rule, step_of_tactic
from rewrites import reschedule

AnyArray = npt.NDArray[Any]
CALLS: Final = 3
"""Number of calls of each kernel."""
DIGITS: Final = 60
"""Decimal digits of the values of functions such as exp."""
MOST_BITS: Final = 20_000
"""Largest number of bits of a rational number."""


class Reals(Exact):
    """Rational numbers, and functions such as exp with 60 digits. Raises `NotExact` for what is not a real number."""

    def unary(self, op: UnaryOp, dtype: str, x: Fraction) -> Fraction:
        match op:
            case "sqrt" | "exp" | "log" | "tanh" | "erf" | "sin" | "cos" | "log1p" | "expm1":
                with mpmath.workdps(DIGITS + 340):  # a sine of 1e300
                    try:
                        made = getattr(mpmath, op)(mpmath.mpf(x.numerator) / x.denominator)
                    except (ValueError, OverflowError, ZeroDivisionError) as error:
                        raise NotExact(f"{op} has no real value") from error
                    if not isinstance(made, mpmath.mpf) or not mpmath.isfinite(made) or abs(made) > 1e300:
                        raise NotExact(f"{op} has no real value")
                    if abs(made) < mpmath.mpf("1e-400"):
                        return Fraction(0)  # the difference is far below the smallest subnormal number
                    sign, digits, power, _ = made._mpf_
                value: Fraction = Fraction(int(digits)) * Fraction(2) ** int(power)
                return -value if sign else value
            case "neg" | "abs" | "floor" | "round" | "stop" | "invert":
                return super().unary(op, dtype, x)

    def binary(self, op: Any, dtype: str, x: Fraction, y: Fraction) -> Fraction:
        made = super().binary(op, dtype, x, y)
        if made.denominator.bit_length() + made.numerator.bit_length() > MOST_BITS:
            raise TooLarge("a rational number of many digits", required="fewer digits")
        return made


@dataclass(slots=True)
class Report:
    """Counts and findings of a run."""

    kernels: int = 0
    strict: int = 0
    elements: int = 0
    formulas: int = 0
    finite: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    without_bound: Counter[str] = field(default_factory=Counter)
    ratios: list[float] = field(default_factory=list)
    """Bounds divided by errors, where both are positive."""
    findings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        middle = f"{median(self.ratios):.3g}" if self.ratios else "none"
        return "\n".join(
            (
                f"{self.kernels} kernels, {self.strict} of them strict; discarded: {dict(self.discarded)}",
                f"  without a bound: {dict(self.without_bound)}",
                f"  {self.elements} elements compared, {self.finite} with a finite bound",
                f"  {self.formulas} results compared with formulas in the sizes",
                f"  median of bound / error: {middle}",
                f"  {len(self.findings)} findings",
                *self.findings,
            )
        )


@dataclass(frozen=True, slots=True)
class Bounded:
    """A schedule with its nest, the nest of its bounds, and the arguments and exact results of its calls."""

    number: int
    program: Program
    nest: LoopNest
    bounds: LoopNest
    calls: Sequence[tuple[dict[str, Any], npt.NDArray[np.object_]]]
    formulas: Sequence[AnyArray | None]
    """For each call, the bounds by the formula: None if there is none, or if numbers may overflow or underflow."""


def extreme(array: AnyArray, random: Random) -> AnyArray:
    """Return an array of the shape and type of another with floats of very different magnitudes, zeros and ties."""
    dtype = str(array.dtype)
    if not is_float(dtype):
        return array
    made = np.empty(array.shape, array.dtype)
    scale = random.choice((1.0, 1.0, 1.0, 1e-3, 1e4, 1e-38, 1e30, 1e-44, 3e38))
    spread = random.choice((0, 0, 3, 12, 40))
    for at in np.ndindex(array.shape):
        value = random.uniform(-1, 1) * scale * 10 ** random.uniform(-spread, spread)
        chosen = random.random()
        if chosen < 0.1:
            value = random.choice((0.0, 1.0, -1.0, 1e-45, -1e-42, 0.5, 2.0, 65504.0, 16777216.0, -16777216.0))
        elif chosen < 0.2 and at and at[-1]:
            value = -float(made[(*at[:-1], at[-1] - 1)])
        with np.errstate(all="ignore"):
            made[at] = value
        if not np.isfinite(made[at]):
            made[at] = 1
    return made


def bounded(number: int, seed: int, report: Report) -> Bounded | None:
    """Return a schedule of a random program with exact results."""
    random = Random(f"bounds {seed} {number}")
    made = case(Seeded.by(f"{seed}:{number}"), random.choice((OfFloats, OfFloats, Maker)))
    if not isinstance(made, Case) or not is_float(made.program.dtype):
        report.discarded["no program of floats"] += 1
        return None
    strict = number // BLOCK % 4 == 3
    s = reschedule(made.program)
    try:
        for _ in range(random.randint(0, 4)):
            step = random.choice((step_of_tactic, step_of_rule))
            if step(s, random) is None:
                break
        nest = lower(s.goal, strict=strict)
        check_nest(nest, "c")
        check_storage(s.goal)
    except (ATLError, TypeError) as error:  # TypeError: a drawn function of a tactic does not fit
        report.discarded[type(error).__name__] += 1
        return None
    try:
        bounds = bound_nest(nest)
    except NoErrorBound as error:
        report.without_bound[error.summary.rpartition(" in ")[0]] += 1
        return None
    calls = []
    for _ in range(CALLS):
        drawn = {name: extreme(array, random) for name, array in made.arrays.items()}
        arrays = {array.name: drawn[array.name] for array in s.goal.inputs}
        scalars = Reals()
        try:
            bound = bind(made.program, (), {**drawn, **{name: made.sizes[name] for name in made.program.sizes}})
            meaning = denote(made.program, bound.sizes, bound.arrays, scalars)
            shape = meaning.shape
            exact = np.empty(shape, object)
            for at in np.ndindex(shape):
                value = meaning.at(at)
                exact[at] = value if isinstance(value, Fraction) else Fraction(0)
        except ATLError as error:
            report.discarded[f"a call: {type(error).__name__}"] += 1
            continue
        if scalars.undefined:
            continue
        calls.append(({**arrays, **{name: made.sizes[name] for name in s.goal.sizes}}, exact))
    if not calls:
        return None
    formulas = [by_formula(s.goal, nest, arguments, report) for arguments, _ in calls]
    return Bounded(number, s.goal, nest, bounds, calls, formulas)


def by_formula(program: Program, nest: LoopNest, arguments: dict[str, Any], report: Report) -> AnyArray | None:
    """Return the bounds of the elements by the formula in the sizes."""
    arrays = [each for each in arguments.values() if isinstance(each, np.ndarray) and is_float(str(each.dtype))]
    if not all(((abs(each) > 1e-3) & (abs(each) < 1e3) | (each == 0)).all() for each in arrays):
        return None
    try:
        counted, sizes = roundings_of(nest), bind(program, (), arguments).sizes
        size = magnitude(program)
        wide = {array.name: np.asarray(arguments[array.name], array.dtype) for array in size.inputs}
        found = np.asarray(evaluate(size, **{**arguments, **wide}), np.float64)
    except ATLError:
        return None
    if found.size and not (found < 1e30).all():
        return None
    report.formulas += 1
    return np.asarray(math.expm1(value_at(counted.count, sizes) * counted.unit) * found * (1 + 1e-6))


def outside(computed: AnyArray, exact: npt.NDArray[np.object_], bounds: AnyArray, report: Report) -> str | None:
    """Return the first element whose error exceeds its bound, as text."""
    for at in np.ndindex(computed.shape):
        report.elements += 1
        limit = float(bounds[at])
        if math.isnan(limit):
            return f"at {list(at)}: the bound is not a number"
        if math.isinf(limit):
            continue
        report.finite += 1
        found = float(computed[at])
        if not math.isfinite(found):
            return f"at {list(at)}: {found} is computed, {float(exact[at])!r} is exact, and the bound is {limit!r}"
        error = abs(Fraction(found) - exact[at])
        if error > Fraction(limit):
            return (
                f"at {list(at)}: {found!r} is computed, {float(exact[at])!r} is exact, "
                f"the error is {float(error)!r} and the bound {limit!r}"
            )
        if error and limit:
            report.ratios.append(limit / float(error) if float(error) else math.inf)
    return None


def compare(block: Sequence[Bounded], chosen: str, level: str, report: Report) -> None:
    """Build the kernels of a block, and compare their errors with their bounds."""
    strict = block[0].nest.in_order
    flags = (*(IN_ORDER if strict else ()), level)
    programs = [each.program for each in block]
    kernels = built([each.nest for each in block], programs, chosen, flags)
    here = " ".join(find_compiler().command)
    bounds = built([each.bounds for each in block], programs, here, (*IN_ORDER, "-O1"))
    for each, kernel, bound in zip(block, kernels, bounds, strict=True):
        report.kernels += 1
        report.strict += strict
        for (arguments, exact), formula in zip(each.calls, each.formulas, strict=True):
            computed = kernel(**arguments)
            found = outside(computed, exact, bound(**arguments), report)
            if found is None and formula is not None:
                found = outside(computed, exact, formula, Report())
                found = None if found is None else f"by the formula, {found}"
            if found is not None:
                text = f"{each.number} by {chosen} {level}, strict={strict}: {found}\n{each.program}\n{arguments}"
                report.findings.append(text)
                break


def run(numbers: Sequence[int], seed: int, *, every: int = 1) -> Report:
    """Run the schedules with these numbers, each block with the next compiler, level and target."""
    report = Report()
    builds = cycle(list(targets())[::every])
    blocks: dict[bool, list[Bounded]] = {False: [], True: []}
    for number in numbers:
        made = bounded(number, seed, report)
        if made is not None:
            blocks[made.nest.in_order].append(made)
        for kind, block in blocks.items():
            if block and (len(block) == BLOCK or number == numbers[-1]):
                compare(block, *next(builds), report)
                blocks[kind] = []
                print(f"... {number}: {report.kernels} kernels, {len(report.findings)} findings", flush=True)
    return report


def main(arguments: Sequence[str]) -> int:
    parser = ArgumentParser()
    parser.add_argument("--n", type=int, default=200)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--only", type=int)
    given = parser.parse_args(arguments)
    report = run([given.only] if given.only is not None else range(given.n), given.seed)
    print(report)
    return bool(report.findings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
