"""Bounds of an expression over loops, without the loop variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from atl.core.declared import AtLeast, Below, bounds_of
from atl.core.index import (
    ONE,
    ZERO,
    AnyAtom,
    Bound,
    Extremum,
    Index,
    Monomial,
    Quotient,
    Read,
    Size,
    Var,
    Xor,
    constant,
    extremum,
    floordiv,
    imax,
    imin,
    index,
    polynomial,
)
from atl.core.predicate import at_most, less, within
from atl.prove.facts import Facts
from atl.prove.reduction import exact_multiple
from atl.prove.simplify import holds, simplify


def upper_bound(facts: Facts, expression: Index, ranges: Sequence[tuple[Var, Index, Index]]) -> Index | None:
    """Return an upper bound of `expression` for all variables low <= v < high; None if none was found.

    `ranges` lists (variable, low, high), innermost last. A range may contain earlier variables; the bound contains no
    variable of `ranges`. Each variable is replaced by the end of its range that monotonicity selects.
    """
    return _bound(facts, expression, ranges, up=True)


def lower_bound(facts: Facts, expression: Index, ranges: Sequence[tuple[Var, Index, Index]]) -> Index | None:
    """Return a lower bound of `expression`, as in `upper_bound`."""
    return _bound(facts, expression, ranges, up=False)


def _bound(facts: Facts, expression: Index, ranges: Sequence[tuple[Var, Index, Index]], *, up: bool) -> Index | None:
    outside = facts
    for variable, low, high in ranges:
        facts = facts.assume(within(low, index(variable), high))
    bound: Index | None = simplify(facts, expression)
    for variable, low, high in reversed(ranges):
        if bound is None:
            return None
        bound = _Elimination(facts, variable, low, high - 1).extreme(bound, up)
    return None if bound is None else simplify(outside, bound)


@dataclass(frozen=True, slots=True)
class _Elimination:
    """Eliminates one variable with range first <= v <= last."""

    facts: Facts
    variable: Var
    first: Index
    last: Index

    def extreme(self, expression: Index, up: bool) -> Index | None:
        """Return a bound of the expression without the variable."""
        if self.absent(expression):
            return expression
        if (bound := self._by_remainder(expression, up)) is not None:
            return bound
        total = ZERO
        for varying, coefficient in self._grouped(expression).items():
            bound = self._term(varying, coefficient, up)
            if bound is None:
                return None
            total = total + bound
        return total

    def absent(self, part: Index | AnyAtom) -> bool:
        return self.variable.uid not in part.free

    def _grouped(self, expression: Index) -> dict[Monomial, Index]:
        """Group the terms: map each product of atoms with the variable to its coefficient without the variable."""
        groups: dict[Monomial, dict[Monomial, int]] = {}
        for monomial, value in expression.terms:
            varying = tuple(atom for atom in monomial if not self.absent(atom))
            fixed = tuple(atom for atom in monomial if self.absent(atom))
            groups.setdefault(varying, {})[fixed] = value
        return {varying: polynomial(part) for varying, part in groups.items()}

    def _term(self, varying: Monomial, coefficient: Index, up: bool) -> Index | None:
        """Return a bound of coefficient times the product of the varying atoms."""
        if not varying:
            return coefficient
        sign = self._sign(coefficient)
        if sign:
            product = self._product(varying, up == (sign > 0))
            return None if product is None else coefficient * product
        low, high = self._product(varying, False), self._product(varying, True)
        if low is None or high is None:
            return None
        return extremum("max" if up else "min", coefficient * low, coefficient * high)

    def _sign(self, coefficient: Index) -> int:
        """Return 1 for >= 0, -1 for <= 0, 0 for unknown."""
        if holds(self.facts, at_most(ZERO, coefficient)):
            return 1
        return -1 if holds(self.facts, at_most(coefficient, ZERO)) else 0

    def _positive(self, divisor: Index) -> bool:
        """Return True if a divisor is positive. Constants are checked even under contradictory facts."""
        return divisor.constant > 0 if divisor.constant is not None else holds(self.facts, less(ZERO, divisor))

    def _product(self, varying: Monomial, up: bool) -> Index | None:
        if len(varying) == 1:
            return self._atom(varying[0], up)
        product = ONE
        for atom in varying:
            bound = self._atom(atom, up)
            if bound is None or not holds(self.facts, at_most(ZERO, index(atom))):
                return None
            product = product * (bound if up else imax(ZERO, bound))
        return product

    def _atom(self, atom: AnyAtom, up: bool) -> Index | None:
        match atom:
            case Var():
                return self.last if up else self.first
            case Quotient(numerator, denominator):
                if not self.absent(denominator) or not self._positive(denominator):
                    return None
                bound = self.extreme(numerator, up)
                return None if bound is None else floordiv(bound, denominator, positive=True)
            case Extremum(kind, choices):
                bounds = [self.extreme(choice, up) for choice in choices]
                found = [bound for bound in bounds if bound is not None]
                enough = found if up == (kind == "min") else found if len(found) == len(bounds) else []
                return extremum(kind, *enough) if enough else None
            case Xor(parts):
                return self._exclusive_or(parts, up)
            case Read():
                return self._element(atom, up)
            case Size() | Bound():
                return index(atom)
        assert_never(atom)

    def _exclusive_or(self, parts: Sequence[Index], up: bool) -> Index | None:
        """Bound an exclusive or of non-negative parts by 0 and the largest number with as many bits."""
        if not all(holds(self.facts, at_most(ZERO, part)) for part in parts):
            return None
        if not up:
            return ZERO
        most = [bound.constant for part in parts if (bound := self.extreme(part, True)) is not None]
        numbers = [value for value in most if value is not None]
        return constant((1 << max(numbers).bit_length()) - 1) if len(numbers) == len(parts) else None

    def _element(self, read: Read, up: bool) -> Index | None:
        """Return the declared bound of an element, extended to include 0 if it may be outside the array."""
        wanted = Below if up else AtLeast
        limit = next((fact.bound for fact in bounds_of(read.array) if isinstance(fact, wanted)), None)
        if limit is None:
            return None
        pairs = zip(read.indices, read.array.shape, strict=False)
        if all(holds(self.facts, within(ZERO, position, extent)) for position, extent in pairs):
            return limit - 1 if up else limit
        return imax(limit - 1, ZERO) if up else imin(limit, ZERO)

    def _by_remainder(self, expression: Index, up: bool) -> Index | None:
        """Use 0 <= a % b <= b - 1 if the expression contains a multiple of a - b * (a // b)."""
        for varying, coefficient in self._grouped(expression).items():
            if len(varying) != 1 or not isinstance(varying[0], Quotient):
                continue
            a, b = varying[0].numerator, varying[0].denominator
            times = exact_multiple(-coefficient, b)
            if times is None or not self.absent(b) or not (sign := self._sign(times)):
                continue
            if not self._positive(b):
                continue
            remainder = a - b * index(varying[0])
            others = self.extreme(expression - times * remainder, up)
            if others is not None:
                return others + times * (b - 1) if up == (sign > 0) else others
        return None
