"""Numeric checks of rules about roots, extrema or quotients, which the symbolic check cannot decide.

Over polynomials (`exhaustion`) `max(a, b)` is an opaque symbol, so sides that are equal by the order of numbers seem to
differ. They are compared in exact numbers, or in floating point if there are no exact values.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import isfinite
from random import Random
from typing import Any, Final

import numpy as np

from atl.core.dtypes import is_integer
from atl.core.terms import Expr
from atl.errors import NotExact
from atl.meaning.polynomials import Polynomials
from atl.meaning.scalars import Exact, Machine
from rewrites.rule import Rule
from rewrites.rule_checking.exhaustion import (
    Counterexample,
    Generic,
    Lazy,
    Side,
    Verdict,
    choices,
    compared,
    counterexample,
    instance,
    meant,
    most_cases,
    size,
    spaces,
)
from rewrites.rule_statement import RuleStatement

_ELEMENTS: Final = re.compile(r"\w+\[[-\d, ]*\]")
DENOMINATORS: Final = (1, 1, 1, 2, 3)
_CLOSE: Final = 1e-6
"""Relative tolerance for sides in floating point."""


class InNumbers(Generic):
    """Arguments with small elements of both signs: integers, and for float types also fractions."""

    def __init__(self, stated: RuleStatement, choice: dict[str, int], random: Random, variant: int) -> None:
        super().__init__(stated, choice, variant=variant)
        self.random = random

    def elements(self, _: str, extents: tuple[int, ...], dtype: str, /) -> Lazy:
        below = (1,) if is_integer(dtype) else DENOMINATORS
        return Lazy(extents, lambda _: Fraction(self.random.randint(-4, 4), self.random.choice(below)))


def decide_in_numbers(rule: Rule, cases: int, seed: int = 0) -> Verdict:
    """Compare both sides in numbers for each statement of the rule."""
    random = Random(seed)
    verdict = Verdict(rule.name, exhaustive=False)
    repeats = max(1, cases // max(1, size(spaces(rule.metavariables))))
    for stated in rule.statements.values():
        most = most_cases(stated, cases)
        repeated = (choice for choice in choices(stated, most, seed) for _ in range(min(repeats, most)))
        for variant, choice in enumerate(repeated):
            verdict.note(stated, _compared(InNumbers(stated, choice, random, variant), variant))
            if verdict.counterexample is not None:
                return verdict
    return verdict


def _compared(generic: InNumbers, variant: int) -> Counterexample | bool | None:
    made = instance(generic.stated, generic)
    found = None if made is None else _sides(made.lhs, made.rhs, generic)
    if found is None:
        return None
    differing = counterexample(generic, *found, _differ)
    return True if differing is None else replace(differing, elements=dict(_read(generic.stated, generic, variant)))


def _sides(lhs: Expr, rhs: Expr, generic: Generic) -> tuple[Side, Side] | None:
    """Evaluate both sides exactly, or in floating point; None if a value is undefined or infinite."""
    try:
        return meant(lhs, generic, Exact()), meant(rhs, generic, Exact())
    except NotExact:
        machine = Machine()
        found = meant(lhs, generic, machine), meant(rhs, generic, machine)
        whole = all(isfinite(value) for _, values in found for value in values.ravel())
        return found if whole and not machine.divisions_by_zero and not machine.undefined else None


def _differ(left: Any, right: Any) -> bool:
    if isinstance(left, float | np.floating):
        return bool(abs(left - right) > _CLOSE * max(1.0, abs(left), abs(right)))
    return bool(left != right)


def _read(stated: RuleStatement, generic: InNumbers, variant: int) -> Iterator[tuple[str, Any]]:
    """Yield the elements that the sides read where they differ, named as in the symbolic check."""
    symbolic = compared(stated, Generic(stated, generic.choice, variant=variant), Polynomials())
    if isinstance(symbolic, Counterexample) and symbolic.first is not None:
        _, left, right = symbolic.first
        for name in sorted(set(_ELEMENTS.findall(f"{left} {right}"))):
            array, _, inside = name.rstrip("]").partition("[")
            yield name, generic.arrays[array][tuple(int(part) for part in inside.split(",") if part.strip())]
