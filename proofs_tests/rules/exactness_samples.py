"""Samples of machine numbers for rules: a rule labelled "bits" must have sides with equal bits, whatever the elements.

Elements are zeros of both signs, subnormals, infinities, NaN, the limits of the type, powers of two that cancel, and
random numbers. Quotients follow IEEE 754, as in kernels.

python -m proofs_tests.rules.exactness_samples 100000           the rules labelled "bits"
python -m proofs_tests.rules.exactness_samples 20000 --finite   those labelled "finite", with finite elements
"""

from __future__ import annotations

import argparse
import sys
from random import Random
from typing import Any, Final

import numpy as np

from atl.core.dtypes import BOOL, FLOATS, is_integer
from atl.core.operations import BinaryOp, UnaryOp
from atl.meaning.scalars import Machine
from rewrites.rule import Equation, Rule
from rewrites.rule_checking import exhaustion, generic_arguments
from rewrites.rule_checking.choices import Choices, Seeded
from rewrites.rule_checking.exactness import Exactness
from rewrites.rule_checking.registry import exactness_of
from rewrites.rule_checking.samples import Sample, drawn_statement
from rewrites.rule_statement import ElementTypes, RuleStatement
from rewrites.rules import RULES

SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 5e-324, -1e-310, 1e-45, np.inf, -np.inf, np.nan, 1e300, -1e300, 3e38, -3e38)
MAGNITUDES: Final = (1.0, 1e-8, 1e8, 2.0**53, 2.0**-149)


DRAWS: Final = 5
"""Number of draws of elements for each instance."""


class IEEE(Machine):
    """Machine numbers whose quotients by zero follow IEEE 754, with the infinite results and NaN on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.infinite = False

    @np.errstate(all="ignore")
    def binary(self, op: BinaryOp, dtype: str, x: Any, y: Any) -> Any:
        return self._noted(np.divide(x, y) if op == "div" else super().binary(op, dtype, x, y))

    def unary(self, op: UnaryOp, dtype: str, x: Any) -> Any:
        return self._noted(super().unary(op, dtype, x))

    def _noted(self, made: Any) -> Any:
        self.infinite |= not np.isfinite(made)
        return made


class Floats(Sample):
    """Random arguments of a rule with special elements, or with `finite` only finite ones."""

    def __init__(
        self, stated: RuleStatement, choices: Choices, types: ElementTypes, random: Random, *, finite: bool
    ) -> None:
        super().__init__(stated, choices, types)
        self.random = random
        self.finite = finite

    def elements(self, _: str, extents: tuple[int, ...], dtype: str, /) -> generic_arguments.Lazy:
        scalar = np.dtype(dtype).type

        @np.errstate(all="ignore")
        def element(_: tuple[int, ...]) -> Any:
            if dtype == BOOL or is_integer(dtype):
                return scalar(self.random.randrange(2) if dtype == BOOL else self.random.randint(-9, 9))
            return scalar(self._float())

        return generic_arguments.Lazy(extents, element)

    def _float(self) -> float:
        if self.random.random() < 0.4:
            special = self.random.choice(SPECIAL)
            return special if np.isfinite(special) or not self.finite else 0.5
        return self.random.uniform(-1, 1) * self.random.choice(MAGNITUDES)


def differing_bits(x: Any, y: Any) -> bool:
    """Return whether two machine numbers differ in a bit; all NaN are equal."""
    return differing(x, y) or bool(np.signbit(x) != np.signbit(y) and not np.isnan(x))


def differing(x: Any, y: Any) -> bool:
    """Return whether two machine numbers differ; zeros of both signs are equal, and so are all NaN."""
    return bool(x != y and not (np.isnan(x) and np.isnan(y)))


def has_floats(rule: Rule) -> bool:
    """Return whether the operations of a rule are those of floats. Operations on integers are exact."""
    return any(generic_arguments.a_type_of(stated) == generic_arguments.FLOAT for stated in rule.statements.values())


def broken(rule: Rule, wanted: int, seed: str = "", *, finite: bool = False) -> tuple[int, str | None]:
    """Return the number of samples in which the sides of a rule were compared, and a counterexample as text.

    Each instance is compared with `DRAWS` draws of elements.
    """
    choices, random = Seeded.by(f"{rule.name} {seed}"), Random(f"{rule.name} {seed}")
    compared = 0
    for _ in range(4 * wanted):
        stated = drawn_statement(rule, choices)
        types = dict.fromkeys(stated.type_variables, random.choice(FLOATS))
        generic = Floats(stated, choices, types, random, finite=finite)
        made = exhaustion.instance(stated, generic)
        if made is None:
            continue
        for _ in range(DRAWS):
            for array in generic.arrays.values():
                array.known.clear()
            found = _found(made, generic, finite=finite)
            compared += 1
            if found is not None:
                return compared, f"{rule.name}: {found}"
        if compared >= wanted:
            break
    return compared, None


def _found(made: Equation, generic: Floats, *, finite: bool) -> exhaustion.Counterexample | None:
    scalars = IEEE()
    left, right = (exhaustion.meant(side, generic, scalars) for side in (made.lhs, made.rhs))
    if scalars.undefined or (finite and scalars.infinite):
        return None
    return exhaustion.counterexample(generic, left, right, differing if finite else differing_bits)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("samples", type=int)
    parser.add_argument("--finite", action="store_true")
    parser.add_argument("--seed", default="")
    parser.add_argument("names", nargs="*")
    given = parser.parse_args(arguments)
    label = Exactness.FINITE if given.finite else Exactness.BITS
    rules = [RULES[name] for name in given.names] or [rule for rule in RULES.values() if exactness_of(rule) == label]
    rules = [rule for rule in rules if has_floats(rule)]
    total, wrong = 0, 0
    for rule in rules:
        compared, found = broken(rule, -(-given.samples // len(rules)), given.seed, finite=given.finite)
        total += compared
        wrong += found is not None
        if found is not None or not compared:
            print(f"{rule.name}: {found or 'never compared'}", flush=True)
    print(f"{len(rules)} rules labelled {label}, {total} samples compared, {wrong} refuted")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
