"""Bounds of an expression over loops, without the loop variables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from atl.core import index as ix
from atl.core.predicate import at_most, less, within
from atl.core.program import AtLeast, Below, bounds_of
from atl.prove.facts import Facts
from atl.prove.prover import holds, simplify
from atl.prove.reduction import exact_multiple


def upper_bound(
    facts: Facts, expression: ix.Index, ranges: Sequence[tuple[ix.Var, ix.Index, ix.Index]]
) -> ix.Index | None:
    """Return an upper bound of `expression` for all variables low <= v < high; None if none was found.

    `ranges` lists (variable, low, high), innermost last. A range may contain earlier variables; the bound contains no
    variable of `ranges`. Each variable is replaced by the end of its range that monotonicity selects.
    """
    return _bound(facts, expression, ranges, up=True)


def lower_bound(
    facts: Facts, expression: ix.Index, ranges: Sequence[tuple[ix.Var, ix.Index, ix.Index]]
) -> ix.Index | None:
    """Return a lower bound of `expression`, as in `upper_bound`."""
    return _bound(facts, expression, ranges, up=False)


def _bound(
    facts: Facts, expression: ix.Index, ranges: Sequence[tuple[ix.Var, ix.Index, ix.Index]], *, up: bool
) -> ix.Index | None:
    outside = facts
    for variable, low, high in ranges:
        facts = facts.assume(within(low, ix.index(variable), high))
    bound: ix.Index | None = simplify(facts, expression)
    for variable, low, high in reversed(ranges):
        if bound is None:
            return None
        bound = _Elimination(facts, variable, low, high - 1).extreme(bound, up)
    return None if bound is None else simplify(outside, bound)


@dataclass(frozen=True, slots=True)
class _Elimination:
    """Eliminates one variable with range first <= v <= last."""

    facts: Facts
    variable: ix.Var
    first: ix.Index
    last: ix.Index

    def extreme(self, expression: ix.Index, up: bool) -> ix.Index | None:
        """Return a bound of the expression without the variable."""
        if self.absent(expression):
            return expression
        if (bound := self._by_remainder(expression, up)) is not None:
            return bound
        total = ix.ZERO
        for varying, coefficient in self._grouped(expression).items():
            bound = self._term(varying, coefficient, up)
            if bound is None:
                return None
            total = total + bound
        return total

    def absent(self, part: ix.Index | ix.AnyAtom) -> bool:
        return self.variable.uid not in part.free

    def _grouped(self, expression: ix.Index) -> dict[ix.Monomial, ix.Index]:
        """Group the terms: map each product of atoms with the variable to its coefficient without the variable."""
        groups: dict[ix.Monomial, dict[ix.Monomial, int]] = {}
        for monomial, value in expression.terms:
            varying = tuple(atom for atom in monomial if not self.absent(atom))
            fixed = tuple(atom for atom in monomial if self.absent(atom))
            groups.setdefault(varying, {})[fixed] = value
        return {varying: ix.polynomial(part) for varying, part in groups.items()}

    def _term(self, varying: ix.Monomial, coefficient: ix.Index, up: bool) -> ix.Index | None:
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
        return ix.extremum("max" if up else "min", coefficient * low, coefficient * high)

    def _sign(self, coefficient: ix.Index) -> int:
        """Return 1 for >= 0, -1 for <= 0, 0 for unknown."""
        if holds(self.facts, at_most(ix.ZERO, coefficient)):
            return 1
        return -1 if holds(self.facts, at_most(coefficient, ix.ZERO)) else 0

    def _positive(self, divisor: ix.Index) -> bool:
        """Return True if a divisor is positive. Constants are checked even under contradictory facts."""
        return divisor.constant > 0 if divisor.constant is not None else holds(self.facts, less(ix.ZERO, divisor))

    def _product(self, varying: ix.Monomial, up: bool) -> ix.Index | None:
        if len(varying) == 1:
            return self._atom(varying[0], up)
        product = ix.ONE
        for atom in varying:
            bound = self._atom(atom, up)
            if bound is None or not holds(self.facts, at_most(ix.ZERO, ix.index(atom))):
                return None
            product = product * (bound if up else ix.imax(ix.ZERO, bound))
        return product

    def _atom(self, atom: ix.AnyAtom, up: bool) -> ix.Index | None:
        match atom:
            case ix.Var():
                return self.last if up else self.first
            case ix.Quotient(numerator, denominator):
                if not self.absent(denominator) or not self._positive(denominator):
                    return None
                bound = self.extreme(numerator, up)
                return None if bound is None else ix.floordiv(bound, denominator, positive=True)
            case ix.Extremum(kind, choices):
                bounds = [self.extreme(choice, up) for choice in choices]
                found = [bound for bound in bounds if bound is not None]
                enough = found if up == (kind == "min") else found if len(found) == len(bounds) else []
                return ix.extremum(kind, *enough) if enough else None
            case ix.Xor(parts):
                return self._exclusive_or(parts, up)
            case ix.Read():
                return self._element(atom, up)
            case ix.Size() | ix.Bound():
                return ix.index(atom)
        assert_never(atom)

    def _exclusive_or(self, parts: Sequence[ix.Index], up: bool) -> ix.Index | None:
        """Bound an exclusive or of non-negative parts by 0 and the largest number with as many bits."""
        if not all(holds(self.facts, at_most(ix.ZERO, part)) for part in parts):
            return None
        if not up:
            return ix.ZERO
        most = [bound.constant for part in parts if (bound := self.extreme(part, True)) is not None]
        numbers = [value for value in most if value is not None]
        return ix.constant((1 << max(numbers).bit_length()) - 1) if len(numbers) == len(parts) else None

    def _element(self, read: ix.Read, up: bool) -> ix.Index | None:
        """Return the declared bound of an element, extended to include 0 if it may be outside the array."""
        wanted = Below if up else AtLeast
        limit = next((fact.bound for fact in bounds_of(read.array) if isinstance(fact, wanted)), None)
        if limit is None:
            return None
        pairs = zip(read.indices, read.array.shape, strict=False)
        if all(holds(self.facts, within(ix.ZERO, position, extent)) for position, extent in pairs):
            return limit - 1 if up else limit
        return ix.imax(limit - 1, ix.ZERO) if up else ix.imin(limit, ix.ZERO)

    def _by_remainder(self, expression: ix.Index, up: bool) -> ix.Index | None:
        """Use 0 <= a % b <= b - 1 if the expression contains a multiple of a - b * (a // b)."""
        for varying, coefficient in self._grouped(expression).items():
            if len(varying) != 1 or not isinstance(varying[0], ix.Quotient):
                continue
            a, b = varying[0].numerator, varying[0].denominator
            times = exact_multiple(-coefficient, b)
            if times is None or not self.absent(b) or not (sign := self._sign(times)):
                continue
            if not self._positive(b):
                continue
            remainder = a - b * ix.index(varying[0])
            others = self.extreme(expression - times * remainder, up)
            if others is not None:
                return others + times * (b - 1) if up == (sign > 0) else others
        return None
