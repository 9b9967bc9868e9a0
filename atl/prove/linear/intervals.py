"""Bounds of columns, by propagation through rows and products."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from atl.prove.linear.rows import Row, Table

PASSES: Final = 4
"""Maximum number of passes, as propagation may not terminate (i < j and j < i)."""
LARGEST: Final = 2**64
"""Larger bounds are dropped, which keeps numbers small."""


@dataclass(slots=True)
class Intervals:
    """Known integer bounds of columns."""

    table: Table
    low: dict[int, int] = field(default_factory=dict)
    high: dict[int, int] = field(default_factory=dict)
    changed: bool = False

    def raise_low(self, column: int, value: int) -> None:
        old = self.low.get(column)
        if (old is None or value > old) and abs(value) < LARGEST:
            self.low[column] = value
            self.changed = True

    def lower_high(self, column: int, value: int) -> None:
        old = self.high.get(column)
        if (old is None or value < old) and abs(value) < LARGEST:
            self.high[column] = value
            self.changed = True

    def least(self, row: Row) -> int | None:
        """Return a lower bound of the row's value, or None."""
        total = 0
        for column, value in row.items():
            bound = 1 if not column else self.low.get(column) if value > 0 else self.high.get(column)
            if bound is None:
                return None
            total += value * bound
        return total

    def empty(self) -> bool:
        """Return True if some column has no possible value."""
        high = self.high
        return any(high.get(column, value) < value for column, value in self.low.items())


def propagate(intervals: Intervals, rows: list[Row], equalities: list[Row]) -> bool:
    """Narrow the intervals by rows >= 0 and equalities = 0; return True if they are contradictory."""
    both = [*rows, *equalities, *({c: -v for c, v in row.items()} for row in equalities)]
    products = [column for column, monomial in enumerate(intervals.table.monomials) if len(monomial) > 1]
    for _ in range(PASSES):
        intervals.changed = False
        for row in both:
            if _narrow(intervals, row):
                return True
        for column in products:
            _narrow_product(intervals, column)
        if intervals.empty():
            return True
        if not intervals.changed:
            return False
    return False


def _narrow(intervals: Intervals, row: Row) -> bool:
    """Narrow by one row: each term is at least minus the maximum of the others."""
    low, high = intervals.low, intervals.high
    total, open_column = 0, 0
    for column, value in row.items():
        bound = 1 if not column else high.get(column) if value > 0 else low.get(column)
        if bound is not None:
            total += value * bound
        elif open_column:
            return False
        else:
            open_column = column
    if open_column:
        _bound_term(intervals, open_column, row[open_column], total)
        return False
    if total < 0:
        return True
    for column, value in row.items():
        if column:
            own = value * (high[column] if value > 0 else low[column])
            _bound_term(intervals, column, value, total - own)
    return False


def _bound_term(intervals: Intervals, column: int, value: int, others: int) -> None:
    """Use value * column + others >= 0."""
    if value > 0:
        intervals.raise_low(column, -(others // value))
    else:
        intervals.lower_high(column, others // -value)


def _narrow_product(intervals: Intervals, column: int) -> None:
    """Bound a product by its factors. If a product is >= 1 and its factors are >= 0, they are >= 1."""
    factors = intervals.table.monomials[column]
    low: int | None = 1
    high: int | None = 1
    for factor in factors:
        low, high = _interval_product(low, high, intervals.low.get(factor), intervals.high.get(factor))
    square = len(factors) == 2 and factors[0] == factors[1]
    if square and (low is None or low < 0):
        low = 0
    if low is not None:
        intervals.raise_low(column, low)
    if high is not None:
        intervals.lower_high(column, high)
    if intervals.low.get(column, 0) >= 1 and all(intervals.low.get(factor, -1) >= 0 for factor in factors):
        for factor in factors:
            intervals.raise_low(factor, 1)


def _interval_product(a: int | None, b: int | None, c: int | None, d: int | None) -> tuple[int | None, int | None]:
    """Multiply the intervals [a, b] and [c, d]; None means an unknown end."""
    if (a == 0 and b == 0) or (c == 0 and d == 0):
        return 0, 0
    if a is not None and c is not None and a >= 0 and c >= 0:
        return a * c, None if b is None or d is None else b * d
    if a is not None and b is not None and c is not None and d is not None:
        ends = (a * c, a * d, b * c, b * d)
        return min(ends), max(ends)
    if a is not None and a >= 0 and d is not None and d <= 0:
        return None, a * d
    if c is not None and c >= 0 and b is not None and b <= 0:
        return None, b * c
    if b is not None and b <= 0 and d is not None and d <= 0:
        return b * d, None
    return None, None
