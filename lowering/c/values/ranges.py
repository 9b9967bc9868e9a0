"""Intervals of a kernel's index sums, from the ranges of its sizes and of the elements that it reads.

The prover's intervals (`atl.prove.linear.intervals`) serve a search: ends may be unknown, ends beyond 2^64 are dropped,
and rows are processed to a fixed point. Here ends are always known and exact, since those beyond 64 bits are of
interest, and remainders and places are expressions too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never

from atl.core.declared import AtLeast, Below, bounds_of
from atl.core.dtypes import range_of
from atl.core.index import AnyAtom, Array, Bound, Extremum, Index, Quotient, Read, Size, Var, Xor
from atl.core.predicate import All, Any, NonNegative, NonZero, Predicate, Zero
from lowering.c.values.index import Factor, Remainder, Terms, terms_of
from lowering.c.values.operands import Operand
from lowering.nest.index_expressions import Inside

Range: TypeAlias = tuple[int, int]
"""The least and the greatest value; the range is empty if the first is greater."""
Limits: TypeAlias = Mapping[Factor, Range]


def fits(found: Range | None) -> bool:
    """Return whether all values of the range fit in int64."""
    low, high = range_of("int64")
    return found is None or (low <= found[0] and found[1] <= high)


@dataclass(slots=True)
class Ranges:
    """Interval arithmetic over unbounded integers.

    `sizes` are the ranges of the sizes. `elements` returns the range of an array's elements, in addition to their
    declaration. The conditions around a place narrow ranges; each place is evaluated once.
    """

    sizes: Mapping[str, Range]
    elements: Callable[[Array], Range]
    _limits: dict[Inside, Limits | None] = field(default_factory=dict)

    def of(self, operand: Operand) -> Range | None:
        """Return the range of a sum at its place, or None if the place is unreachable."""
        limits = self._at(operand.inside)
        return None if limits is None else self._sum(limits, operand.terms)

    # -- places ------------------------------------------------------------------------------------------------------

    def _at(self, inside: Inside) -> Limits | None:
        if inside not in self._limits:
            self._limits[inside] = self._narrowed(inside)
        return self._limits[inside]

    def _narrowed(self, inside: Inside) -> Limits | None:
        if inside.outside is None or inside.predicate is None:
            return {}
        outside = self._at(inside.outside)
        if outside is None:
            return None
        limits = dict(outside)
        return limits if self._assume(limits, inside.predicate) else None

    def _assume(self, limits: dict[Factor, Range], predicate: Predicate) -> bool:
        """Narrow the limits by the predicate; return False if nothing remains."""
        match predicate:
            case NonNegative(expression):
                return self._bounded(limits, expression)
            case Zero(expression):
                return self._bounded(limits, expression) and self._bounded(limits, -expression)
            case All(parts):
                return all(self._assume(limits, part) for part in parts)
            case NonZero() | Any():
                return True
            case _:
                assert_never(predicate)

    def _bounded(self, limits: dict[Factor, Range], expression: Index) -> bool:
        """Use c * a + rest >= 0: a is at least -rest / c, or at most rest / -c."""
        for monomial, value in expression.terms:
            if len(monomial) != 1:
                continue
            (atom,) = monomial
            rest = {factors: other for factors, other in expression.terms if factors != monomial}
            _, most = self._sum(limits, rest)
            low, high = self._factor(limits, atom)
            low, high = (max(low, -(most // value)), high) if value > 0 else (low, min(high, most // -value))
            if low > high:
                return False
            limits[atom] = low, high
        return True

    # -- expressions -------------------------------------------------------------------------------------------------

    def _index(self, limits: Limits, e: Index) -> Range:
        return self._sum(limits, terms_of(e))

    def _sum(self, limits: Limits, terms: Mapping[tuple[AnyAtom, ...], int] | Terms) -> Range:
        low = high = 0
        for factors, value in terms.items():
            least = most = value
            for factor in factors:
                a, b = self._factor(limits, factor)
                ends = (least * a, least * b, most * a, most * b)
                least, most = min(ends), max(ends)
            low, high = low + least, high + most
        return low, high

    def _factor(self, limits: Limits, factor: Factor) -> Range:
        return limits[factor] if factor in limits else self._unbounded(limits, factor)

    def _unbounded(self, limits: Limits, factor: Factor) -> Range:
        """Return the range of a factor that no condition bounds."""
        match factor:
            case Size(name):
                return self.sizes[name]
            case Var() | Bound():
                return range_of("int64")
            case Quotient(numerator, denominator):
                low, high = self._index(limits, numerator)
                first, last = self._divisor(limits, denominator)
                ends = (low // first, low // last, high // first, high // last)
                return min(ends), max(ends)
            case Remainder(numerator, denominator):
                low, high = self._index(limits, numerator)
                _, last = self._divisor(limits, denominator)
                return 0, min(high, last - 1) if low >= 0 else last - 1
            case Extremum(kind, choices):
                ranges = [self._index(limits, choice) for choice in choices]
                pick = min if kind == "min" else max
                return pick(low for low, _ in ranges), pick(high for _, high in ranges)
            case Xor(parts):
                ranges = [self._index(limits, part) for part in parts]
                bits = max(max(high, -1 - low, 0).bit_length() for low, high in ranges)
                return (0 if all(low >= 0 for low, _ in ranges) else -(1 << bits)), (1 << bits) - 1
            case Read(array):
                return self._element(array)
        assert_never(factor)

    def _divisor(self, limits: Limits, denominator: Index) -> Range:
        """Return the range of a divisor, which is proved positive wherever the quotient is computed."""
        low, high = self._index(limits, denominator)
        return max(low, 1), max(high, 1)

    def _element(self, array: Array) -> Range:
        low, high = self.elements(array)
        for fact in bounds_of(array):
            least, most = self._index({}, fact.bound)
            match fact:
                case AtLeast():
                    low = max(low, least)
                case Below():
                    high = min(high, most - 1)
                case _:
                    assert_never(fact)
        return low, max(low, high)
