"""Numeric checks of rules about roots, extrema, quotients or casts, which the symbolic check cannot decide.

Over polynomials (`exhaustion`) `max(a, b)` is an opaque symbol, so sides that are equal by the order of numbers seem to
differ. They are compared in exact numbers, or in floating point if there are no exact values. If the rule has casts,
they are also compared where casts round.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import product
from math import isfinite, isinf, isnan, isqrt
from random import Random
from typing import Any, Final

import numpy as np

from atl.core.dtypes import BOOL, INTEGERS, TYPES, is_integer, range_of
from atl.core.operations import BinaryOp, UnaryOp
from atl.errors import NotExact
from atl.meaning.scalars import Exact, Machine
from rewrites.rule import Equation, Rule
from rewrites.rule_checking import exhaustion, generic_arguments, small_choices
from rewrites.rule_checking.choices import Seeded, chance, choose
from rewrites.rule_checking.literals import NEAR, as_element, literals, near
from rewrites.rule_statement import ElementTypes, RuleStatement

DENOMINATORS: Final = (1, 1, 1, 2, 3)
MOVES: Final = 4
"""Number of elements that are moved, one after the other, to where the result of a test changes."""
_SIGNED: Final = ("lt", "le", "eq", "min", "max", "div")
_LARGEST_DENOMINATOR: Final = 1 << 20
NEAR_LITERALS: Final = (0, 50, 90)
"""Percentages of elements near literals, one of which is chosen for all elements of a comparison."""
VARIED: Final = 3
"""One choice in three has numbers near literals, and another one operands of different extents."""
_CLOSE: Final = 1e-6
"""Relative tolerance for sides in floating point."""
_WHOLE: Final = ((1 << 24) + 1, (1 << 53) + 1)
"""The smallest positive integers that float32 and float64 do not represent."""


@cache
def extremes(dtype: str) -> tuple[Fraction, ...]:
    """Return elements at which a type wraps, rounds, or does not fit into another type.

    For an integer type, they are its limits, half of them, roots whose squares are out of range, and integers that a
    float type does not represent. For a float type, they are the nearest elements to those of the integer types, and
    fractions near them. For both, they are elements next to midpoints of smaller float types.
    """
    if not is_integer(dtype):
        near = [value * part for of in INTEGERS for value in extremes(of) for part in (1, Fraction(1, 1024))]
        return tuple(dict.fromkeys((*(nearest(value, dtype) for value in near), *_next_to_midpoints(dtype))))
    low, high = range_of(dtype)
    whole = [sign * value for value in _WHOLE if value <= high for sign in (1, -1)]
    limits = map(Fraction, (low, high, low // 2, high // 2 + 1, isqrt(high) + 1, -isqrt(high) - 1, *whole))
    return tuple(dict.fromkeys((*limits, *_next_to_midpoints(dtype))))


def _next_to_midpoints(dtype: str) -> Iterator[Fraction]:
    """Yield elements next to the midpoint of two elements of a smaller float type, where rounding twice differs.

    A float type with bits between the two rounds such an element to the midpoint, and the smaller type rounds that to
    the even element on its other side.
    """
    floats = [Fraction(of.epsilon) for of in TYPES.values() if of.kind == "float"]
    for step, between in product(floats, floats):
        if is_integer(dtype):
            one, least = 4 / between, Fraction(1)  # the step of the type between is 4 from here on
            fits = between < step and 2 * one <= range_of(dtype)[1]
        else:
            one, least = Fraction(1), Fraction(TYPES[dtype].epsilon)
            fits = least < between < step
        if fits:
            yield from (one + one * step / 2 + least, one + 3 * one * step / 2 - least)


@np.errstate(all="ignore")
def nearest(value: Fraction, dtype: str) -> Fraction:
    """Return the element of a float type that is nearest to a number. Raises `NotExact` if it is infinite."""
    machine = Machine()
    if value.denominator == 1 and -(1 << 63) <= value < 1 << 63:
        return Exact().element(machine.cast(dtype, "int64", np.int64(int(value))), dtype)
    try:
        return Exact().element(machine.constant(float(value), dtype), dtype)
    except OverflowError:
        raise _not_represented(value, dtype) from None


class Rounding(Exact):
    """Exact numbers that their element types represent; only casts round.

    A kernel computes these values bit for bit, in any order of its sums. An operation with another result, such as
    1 / 3, raises `NotExact`.
    """

    def constant(self, value: float, dtype: str) -> Fraction:
        return _represented(super().constant(value, dtype), dtype)

    def from_index(self, value: int, dtype: str) -> Fraction:
        return _represented(super().from_index(value, dtype), dtype)

    def element(self, raw: Any, dtype: str) -> Fraction:
        return _represented(super().element(raw, dtype), dtype)

    def unary(self, op: UnaryOp, dtype: str, x: Fraction) -> Fraction:
        return _represented(super().unary(op, dtype, x), dtype)

    def binary(self, op: BinaryOp, dtype: str, x: Fraction, y: Fraction) -> Fraction:
        return _represented(super().binary(op, dtype, x, y), dtype)

    def cast(self, target: str, source: str, x: Fraction) -> Fraction:
        made = super().cast(target, source, x)
        return made if is_integer(target) else nearest(made, target)


def _represented(value: Fraction, dtype: str) -> Fraction:
    if not is_integer(dtype) and nearest(value, dtype) != value:
        raise _not_represented(value, dtype)
    return value


def _not_represented(value: Fraction, dtype: str) -> NotExact:
    return NotExact(f"{value} is not an element of {dtype}", required="values that the element types represent")


class _Machine(Machine):
    """Machine numbers, with the number of infinite results on the way."""

    def __init__(self) -> None:
        super().__init__()
        self.infinities = 0

    def unary(self, op: UnaryOp, dtype: str, x: Any) -> Any:
        return self._noted(super().unary(op, dtype, x))

    def binary(self, op: BinaryOp, dtype: str, x: Any, y: Any) -> Any:
        return self._noted(super().binary(op, dtype, x, y))

    def _noted(self, made: Any) -> Any:
        self.infinities += isinf(made)
        return made


class Watching(Exact):
    """Exact numbers, with the differences of which tests, extrema and quotients depend on the sign."""

    def __init__(self) -> None:
        super().__init__()
        self.differences: list[Fraction] = []

    def unary(self, op: UnaryOp, dtype: str, x: Fraction) -> Fraction:
        if op == "abs":
            self.differences.append(x)
        return super().unary(op, dtype, x)

    def binary(self, op: BinaryOp, dtype: str, x: Fraction, y: Fraction) -> Fraction:
        if op in _SIGNED:
            self.differences.append(y if op == "div" else x - y)
        return super().binary(op, dtype, x, y)


class InNumbers(generic_arguments.Generic):
    """Arguments with elements of both signs: integers, and for float types also fractions.

    They are small, or with `extreme` half of them are extremes of their type. If the rule has literals, many elements
    are these or numbers near them.
    """

    def __init__(
        self, stated: RuleStatement, choice: dict[str, int], random: Random, variant: int,
        types: ElementTypes | None = None, *, extreme: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(stated, choice, types, variant)
        self.random = random
        self.extreme = extreme
        self.source = Seeded(random)
        self.literals = literals(stated)
        self.near_literals = random.choice(NEAR_LITERALS)
        self.earlier: list[Fraction] = []

    def elements(self, _: str, extents: tuple[int, ...], dtype: str, /) -> generic_arguments.Lazy:
        return generic_arguments.Lazy(extents, lambda _: self._element(dtype))

    def _element(self, dtype: str) -> Fraction:
        if dtype == BOOL:
            return Fraction(self.random.randrange(2))
        made = self._number(dtype)
        self.earlier.append(made)
        return made

    def _number(self, dtype: str) -> Fraction:
        if self.literals and chance(self.source, self.near_literals):
            return as_element(near(self.source, self.literals, self.earlier[-4:]), dtype)
        if self.extreme and self.random.randrange(2):
            return choose(self.source, extremes(dtype))
        return Fraction(self.random.randint(-4, 4), 1 if is_integer(dtype) else self.random.choice(DENOMINATORS))


def decide_in_numbers(rule: Rule, cases: int, *, integers: bool = False) -> exhaustion.Verdict:
    """Compare both sides in numbers for each statement of the rule. `integers` is as in `samples.sample`."""
    random = Random(0)
    verdict, budget = exhaustion.Verdict(rule.name, exhaustive=False), exhaustion.Budget()
    repeats = max(1, cases // max(1, small_choices.size(small_choices.spaces(rule.metavariables))))
    for stated in rule.statements.values():
        most = exhaustion.most_cases(stated, cases)
        # Only casts and integers depend on element types.
        typed: Sequence[ElementTypes | None] = (
            exhaustion.ways(stated, integers=integers) if integers or exhaustion.has_casts(stated) else (None,)
        )
        repeated = (choice for choice in small_choices.choices(stated, most) for _ in range(min(repeats, most)))
        for variant, choice in enumerate(repeated if typed else ()):
            types = typed[variant // 2 % len(typed)]
            chosen = dict(choice) if random.randrange(VARIED) else small_choices.varied(stated, choice, Seeded(random))
            generic = InNumbers(stated, chosen, random, variant, types, extreme=bool(variant % 2))
            if not random.randrange(VARIED):
                generic_arguments.mix_extents(generic, variant, random)
            elif not random.randrange(VARIED):
                generic_arguments.vary_extents(generic, generic.source)
            budget.limit(generic)
            verdict.note(stated, _compared(generic))
            budget.spend(generic)
            if verdict.counterexample is not None:
                return verdict
    return verdict


def compared_exactly(made: Equation, generic: generic_arguments.Generic) -> exhaustion.Counterexample | None:
    """Compare the sides in exact numbers, and if the rule has casts also where they round. Raises `NotExact`."""
    found = _differing(made, generic, Exact())
    if found is None and exhaustion.has_casts(generic.stated):
        with suppress(NotExact):
            return _differing(made, generic, Rounding())
    return found


def _differing(made: Equation, generic: generic_arguments.Generic, scalars: Exact) -> exhaustion.Counterexample | None:
    return exhaustion.counterexample(
        generic, exhaustion.meant(made.lhs, generic, scalars), exhaustion.meant(made.rhs, generic, scalars), operator.ne
    )


def _compared(generic: InNumbers) -> exhaustion.Counterexample | bool | None:
    made = exhaustion.instance(generic.stated, generic)
    if made is None:
        return None
    try:
        differing = compared_exactly(made, generic) or (None if generic.extreme else _compared_at_tests(made, generic))
    except NotExact:
        machine = _Machine()
        sides = exhaustion.meant(made.lhs, generic, machine), exhaustion.meant(made.rhs, generic, machine)
        # Rounding errors of large numbers exceed any tolerance.
        if generic.extreme or machine.infinities or machine.divisions_by_zero or machine.undefined:
            return None
        differing = exhaustion.counterexample(generic, *sides, _differ)
    return True if differing is None else replace(differing, elements=_read(made, generic, differing))


def _compared_at_tests(made: Equation, generic: InNumbers) -> exhaustion.Counterexample | None:
    """Compare the sides after moving elements to where a test changes its result, as for `2 * a + b == 99`.

    A difference that is linear in an element has its root where the line through two values is zero.
    """
    random, found = generic.random, None
    types = {array.name: array.dtype for array in generic.inputs if array.dtype != BOOL}
    for _ in range(MOVES):
        elements = [(name, at) for name in types for at in generic.arrays[name].known]
        before = _differences(made, generic)
        if not elements or not before or found is not None:
            return found
        name, at = random.choice(elements)
        known = generic.arrays[name].known
        value = known[at]
        known[at] = as_element(value + 1, types[name])
        pairs = zip(before, _differences(made, generic), strict=False)
        roots = [value - x / (y - x) for x, y in pairs if x != y]
        known[at] = value
        if roots:
            root = choose(generic.source, roots)
            moved = Fraction(round(root)) if random.randrange(3) == 0 else root.limit_denominator(_LARGEST_DENOMINATOR)
            moved += choose(generic.source, (*[Fraction(0)] * len(NEAR), *NEAR))
            known[at] = as_element(moved, types[name])
            found = compared_exactly(made, generic)
    return found


def _differences(made: Equation, generic: InNumbers) -> list[Fraction]:
    watching = Watching()
    for side in (made.lhs, made.rhs):
        exhaustion.meant(side, generic, watching)
    return watching.differences


def _differ(left: Any, right: Any) -> bool:
    if isinstance(left, float | np.floating):
        # The root or the logarithm of a negative number is NaN.
        if not (isfinite(left) and isfinite(right)):
            return isnan(left) != isnan(right)
        return bool(abs(left - right) > _CLOSE * max(1.0, abs(left), abs(right)))
    return bool(left != right)


def _read(made: Equation, generic: InNumbers, differing: exhaustion.Counterexample) -> dict[str, Any]:
    """Return the elements that the sides read at the place where they differ, named as in the symbolic check."""
    if differing.first is None:
        return {}
    sides = (exhaustion.elements_read(side, generic, differing.first[0]) for side in (made.lhs, made.rhs))
    found = {each: value for side in sides for each, value in side.items()}
    return {f"{name}{list(place)}": value for (name, place), value in sorted(found.items())}
