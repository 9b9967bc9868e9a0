"""Fourier–Motzkin elimination over the integers, with bounded work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import gcd
from typing import Final, TypeAlias

from atl.prove.linear.rows import Row

MAX_ROWS: Final = 160
"""Maximum number of rows; an elimination that exceeds it is abandoned."""

_Coefficients: TypeAlias = dict[int, int]
_Key: TypeAlias = frozenset[tuple[int, int]]
_Line: TypeAlias = tuple[_Coefficients, int, int]
"""Coefficients, constant, and the set of original rows that it was combined from, as bits."""


@dataclass(slots=True)
class Budget:
    """The remaining number of row combinations of a query: a machine-independent measure of work."""

    left: int


def contradict(rows: list[Row], equalities: list[Row], budget: Budget) -> bool:
    """Return True if elimination proves that rows >= 0 and equalities = 0 have no integer solution.

    Columns are treated as independent variables.
    """
    budget.left -= len(rows) + len(equalities)
    solved = _without_equalities(rows, equalities)
    if solved is None:
        return True
    lines = _Lines()
    if lines.add(solved):
        return True
    steps = 0
    while column := lines.next_column():
        if lines.eliminate(column, steps, budget):
            return True
        if budget.left <= 0 or len(lines.by_key) > MAX_ROWS:
            return False
        steps += 1
    return False


def projected(rows: list[Row], kept: frozenset[int], budget: Budget) -> list[Row]:
    """Eliminate all but the kept columns, and return the rows that remain."""
    lines = _Lines(kept)
    lines.add(rows)
    steps = 0
    while column := lines.next_column():
        if lines.eliminate(column, steps, budget) or budget.left <= 0 or len(lines.by_key) > MAX_ROWS:
            return []
        steps += 1
    return [
        {**coefficients, 0: constant} if constant else coefficients
        for coefficients, constant, _ in lines.by_key.values()
    ]


def leaves_no_rows(rows: list[Row], kept: frozenset[int], budget: Budget) -> bool:
    """Return True if eliminating all but the kept columns leaves no row, so that these are unconstrained."""
    lines = _Lines(kept)
    if lines.add(rows):
        return False
    steps = 0
    while column := lines.next_column():
        if lines.eliminate(column, steps, budget) or budget.left <= 0:
            return False
        steps += 1
    return not lines.by_key


@dataclass(slots=True)
class _Lines:
    """The rows of an elimination, indexed by column so that a step visits only the rows with its column."""

    kept: frozenset[int] = frozenset()
    """Columns that are not eliminated."""
    by_key: dict[_Key, _Line] = field(default_factory=dict)
    above: dict[int, dict[_Key, None]] = field(default_factory=dict)
    """The lines with a positive coefficient, by column; `below` has those with a negative one."""
    below: dict[int, dict[_Key, None]] = field(default_factory=dict)
    changed: dict[int, None] = field(default_factory=dict)
    """Columns whose lines changed since a column was last chosen."""
    queue: list[tuple[int, int]] = field(default_factory=list)
    """(price, column), cheapest first; some prices are outdated."""

    def add(self, rows: Iterable[Row]) -> bool:
        """Add the original rows; return True if one is a contradiction."""
        for position, row in enumerate(rows):
            coefficients = dict(row)
            if self.keep(coefficients, coefficients.pop(0, 0), 1 << position):
                return True
        return False

    def keep(self, coefficients: _Coefficients, constant: int, origin: int) -> bool:
        """Add a line unless a stronger one exists; return True if the line is a contradiction."""
        if not coefficients:
            return constant < 0
        common = gcd(*coefficients.values())
        if common > 1:
            coefficients = {column: value // common for column, value in coefficients.items()}
            constant //= common
        key = frozenset(coefficients.items())
        other = self.by_key.get(key)
        if other is None:
            for column, value in coefficients.items():
                (self.above if value > 0 else self.below).setdefault(column, {})[key] = None
                self.changed[column] = None
        if other is None or constant < other[1]:
            self.by_key[key] = (coefficients, constant, origin)
        return False

    def remove(self, key: _Key) -> _Line:
        """Remove a line."""
        line = self.by_key.pop(key)
        for column, value in line[0].items():
            del (self.above if value > 0 else self.below)[column][key]
            self.changed[column] = None
        return line

    def next_column(self) -> int:
        """Return the column that is cheapest to eliminate, or 0 if only kept columns are left.

        Lines with a column that occurs with one sign only are dropped first.
        """
        while self.changed:
            column, _ = self.changed.popitem()
            above, below = self.above.get(column, {}), self.below.get(column, {})
            if column in self.kept:
                continue
            if above and below:
                heappush(self.queue, (_price(above, below), column))
            else:
                for key in [*above, *below]:
                    self.remove(key)
        while self.queue:
            price, column = heappop(self.queue)
            above, below = self.above.get(column, {}), self.below.get(column, {})
            if above and below and price == _price(above, below):
                return column
        return 0

    def eliminate(self, column: int, steps: int, budget: Budget) -> bool:
        """Replace the lines with the column by their combinations without it; return True for a contradiction."""
        above = [self.remove(key) for key in [*self.above[column]]]
        below = [self.remove(key) for key in [*self.below[column]]]
        budget.left -= len(above) * len(below)
        for upper, upper_constant, upper_origin in above:
            a = upper[column]
            for lower, lower_constant, lower_origin in below:
                origin = upper_origin | lower_origin
                # Chernikov's rule: a line combined from more than steps + 2 original rows is redundant.
                if origin.bit_count() > steps + 2:
                    continue
                b = -lower[column]
                common = gcd(a, b)
                x, y = b // common, a // common
                coefficients = {key: value * x for key, value in upper.items()}
                for key, value in lower.items():
                    total = coefficients.get(key, 0) + value * y
                    if total:
                        coefficients[key] = total
                    else:
                        del coefficients[key]
                if self.keep(coefficients, x * upper_constant + y * lower_constant, origin):
                    return True
        return False


def _price(above: dict[_Key, None], below: dict[_Key, None]) -> int:
    return len(above) * len(below) - len(above) - len(below)


def _without_equalities(rows: list[Row], equalities: list[Row]) -> list[Row] | None:
    """Solve each equality for a column and substitute; return None if the equalities are contradictory."""
    rows = list(rows)
    left = list(equalities)
    while left:
        equality = left.pop(0)
        coefficients = [(abs(value), column) for column, value in equality.items() if column]
        constant = equality.get(0, 0)
        if not coefficients:
            if constant:
                return None
            continue
        if constant % gcd(*(size for size, _ in coefficients)):
            return None
        size, column = min(coefficients, key=lambda pair: (pair[0], -pair[1]))
        value = equality[column]
        for group in (rows, left):
            for position, row in enumerate(group):
                if other := row.get(column):
                    group[position] = _replaced(row, size, equality, -other if value > 0 else other)
    return rows


def _replaced(row: Row, x: int, equality: Row, y: int) -> Row:
    """Return x*row + y*equality, in which the pivot cancels. x > 0 keeps the direction of an inequality."""
    out = {column: x * value for column, value in row.items()}
    for column, value in equality.items():
        total = out.get(column, 0) + y * value
        if total:
            out[column] = total
        else:
            out.pop(column, None)
    return out
