"""Rules in numbers: where a rule is about roots, extrema or quotients, symbols do not tell whether its sides differ.

Over polynomials (`exhaustion`) `max(a, b)` is a symbol of which little is known, so that sides which are equal by the
order of numbers seem to differ. Numbers decide: exact ones, or floating point where there are no exact ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import isfinite
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import Array, constant
from atl.core.program import Program
from atl.core.terms import Expr, Input
from atl.errors import NotExact
from atl.meaning.interpret import denote
from atl.meaning.polynomials import Polynomials
from atl.meaning.scalars import Exact, Machine, Scalars
from atl.surface.values import Tensor
from rewrites.grading.exhaustion import (
    UNIT,
    Counterexample,
    Generic,
    choices,
    compared,
    instance,
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

    def array(self, name: str, extents: list[int]) -> Tensor:
        if name not in self.arrays:
            made = np.empty(extents, dtype=object)
            for at in np.ndindex(*extents):
                made[at] = self.random.randint(-4, 4)
            self.arrays[name] = made
            self.inputs.append(Array(name, tuple(constant(extent) for extent in extents), "float64"))
        return Tensor(Input(next(array for array in self.inputs if array.name == name)))


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
            (shape, left), (other, right) = found
            differing = [at for at in np.ndindex(*shape) if _differ(left[at], right[at])] if shape == other else []
            if shape == other and not differing:
                equal += 1
                continue
            first = (differing[0], left[differing[0]], right[differing[0]]) if differing else None
            return Counterexample(
                str(choice),
                f"{shape} {left.tolist()}"[:400],
                f"{other} {right.tolist()}"[:400],
                dict(choice),
                first,
                dict(_read(rule, ranks, choice, generic)),
            )
    return equal


Side = tuple[tuple[int, ...], npt.NDArray[Any]]


def _sides(lhs: Expr, rhs: Expr, generic: Generic) -> tuple[Side, Side] | None:
    """Both sides exactly, or in floating point; None where a value is none, or an infinite one."""
    try:
        return _meant(lhs, generic, Exact()), _meant(rhs, generic, Exact())
    except NotExact:
        machine = Machine()
        found = _meant(lhs, generic, machine), _meant(rhs, generic, machine)
        whole = all(isfinite(value) for _, values in found for value in values.ravel())
        return found if whole and not machine.divisions_by_zero and not machine.undefined else None


def _meant(term: Expr, generic: Generic, scalars: Scalars[Any]) -> Side:
    meaning = denote(Program("side", tuple(generic.inputs), term), {UNIT: 1}, generic.arrays, scalars)
    return meaning.shape, meaning.to_numpy(object)


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
