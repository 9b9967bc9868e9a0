"""Rules in numbers: where a rule is about roots, extrema or quotients, symbols do not tell whether its sides differ.

Over polynomials (`exhaustion`) `max(a, b)` is a symbol of which little is known, so that sides which are equal by the
order of numbers seem to differ. Numbers decide: exact ones, or floating point where there are no exact ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from math import isfinite
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.terms import Expr
from atl.errors import NotExact
from atl.meaning.polynomials import Polynomials
from atl.meaning.scalars import Exact, Machine
from rewrites.grading.exhaustion import (
    Counterexample,
    Generic,
    Side,
    choices,
    compared,
    counterexample,
    filled,
    instance,
    meant,
    ranks_of,
    size,
    spaces,
)
from rewrites.rule import Rule

_ELEMENTS: Final = re.compile(r"\w+\[[-\d, ]*\]")
_CLOSE: Final = 1e-6
"""Sides in floating point that are closer than this, by their size, may be equal."""


class InNumbers(Generic):
    """Arguments whose elements are small integers, of both signs."""

    def __init__(self, ranks: dict[str, int], choice: dict[str, int], random: Random) -> None:
        super().__init__(ranks, choice)
        self.random = random

    def elements(self, _: str, extents: tuple[int, ...], /) -> npt.NDArray[Any]:
        return filled(extents, lambda: self.random.randint(-4, 4))


def broken_in_numbers(rule: Rule, cases: int, seed: int = 0) -> Counterexample | int:
    """Numbers for which the sides differ, or for how many choices they were equal."""
    random = Random(f"{rule.name} {seed}")
    equal = 0
    again = max(1, cases // max(1, size(spaces(rule))))
    for ranks in ranks_of(rule):
        for choice in (choice for choice in choices(rule, cases, seed) for _ in range(again)):
            generic = InNumbers(ranks, choice, random)
            stated = instance(rule, generic)
            if stated is None:
                continue
            found = _sides(stated.lhs, stated.rhs, generic)
            if found is None:
                continue
            differing = counterexample(generic, *found, _differ)
            if differing is not None:
                return replace(differing, elements=dict(_read(rule, ranks, choice, generic)))
            equal += 1
    return equal


def _sides(lhs: Expr, rhs: Expr, generic: Generic) -> tuple[Side, Side] | None:
    """Both sides exactly, or in floating point; None where a value is none, or an infinite one."""
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


def _read(rule: Rule, ranks: dict[str, int], choice: dict[str, int], generic: InNumbers) -> Iterator[tuple[str, Any]]:
    """The elements that the sides read where they differ, as the run over symbols names them."""
    symbolic = compared(rule, Generic(ranks, choice), Polynomials())
    if isinstance(symbolic, Counterexample) and symbolic.first is not None:
        _, left, right = symbolic.first
        for name in sorted(set(_ELEMENTS.findall(f"{left} {right}"))):
            array, _, inside = name.rstrip("]").partition("[")
            yield name, generic.arrays[array][tuple(int(part) for part in inside.split(",") if part.strip())]
