"""Fourier–Motzkin elimination over the integers, with a bounded amount of work."""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Final, TypeAlias

from atl.prove.linear.rows import Row

MAX_ROWS: Final = 160
"""An elimination that needs more rows at once is given up."""

_Line: TypeAlias = tuple[dict[int, int], int, int]
"""Coefficients, constant, and the set of first rows that it was made of, as bits."""


@dataclass(slots=True)
class Budget:
    """The combinations of rows that a query may still make: its measure of work, the same on every machine."""

    left: int


def contradict(rows: list[Row], equalities: list[Row], budget: Budget) -> bool:
    """Whether rows >= 0 and equalities = 0 are seen to have no solution in the integers, columns being unrelated."""
    budget.left -= len(rows) + len(equalities)
    if equalities:
        solved = _without_equalities(rows, equalities)
        if solved is None:
            return True
        rows = solved
    lines: dict[frozenset[tuple[int, int]], _Line] = {}
    for position, row in enumerate(rows):
        coefficients = dict(row)
        if _keep(lines, coefficients, coefficients.pop(0, 0), 1 << position):
            return True
    steps = 0
    current = list(lines.values())
    while current:
        column, current = _next_column(current)
        if column == 0:
            return False
        eliminated = _eliminate(current, column, steps, budget)
        if eliminated is None:
            return True
        if budget.left <= 0 or len(eliminated) > MAX_ROWS:
            return False
        current = eliminated
        steps += 1
    return False


def projected(rows: list[Row], kept: frozenset[int], budget: Budget) -> list[Row]:
    """Rows that speak of kept columns only and follow from the given ones by eliminating the others."""
    lines: dict[frozenset[tuple[int, int]], _Line] = {}
    for position, row in enumerate(rows):
        coefficients = dict(row)
        _keep(lines, coefficients, coefficients.pop(0, 0), 1 << position)
    current = list(lines.values())
    for steps in range(len(rows)):
        column, current = _next_column(current, kept)
        if column == 0:
            return [
                {**coefficients, 0: constant} if constant else coefficients for coefficients, constant, _ in current
            ]
        eliminated = _eliminate(current, column, steps, budget)
        if eliminated is None or budget.left <= 0 or len(eliminated) > MAX_ROWS:
            return []
        current = eliminated
    return []


def _keep(
    lines: dict[frozenset[tuple[int, int]], _Line], coefficients: dict[int, int], constant: int, made_of: int
) -> bool:
    """Adds a line unless a stronger one is there; true when the line is a contradiction."""
    if not coefficients:
        return constant < 0
    common = gcd(*coefficients.values())
    if common > 1:
        coefficients = {column: value // common for column, value in coefficients.items()}
        constant //= common
    key = frozenset(coefficients.items())
    other = lines.get(key)
    if other is None or constant < other[1]:
        lines[key] = (coefficients, constant, made_of)
    return False


def _next_column(lines: list[_Line], kept: frozenset[int] = frozenset()) -> tuple[int, list[_Line]]:
    """The column that is cheapest to eliminate, and the lines without those that hold a column of one sign only.

    Kept columns are passed over; 0 when no other is left.
    """
    while True:
        above: dict[int, int] = {}
        below: dict[int, int] = {}
        for coefficients, _, _ in lines:
            for column, value in coefficients.items():
                if value > 0:
                    above[column] = above.get(column, 0) + 1
                else:
                    below[column] = below.get(column, 0) + 1
        one_sided = (above.keys() ^ below.keys()) - kept
        if not one_sided:
            break
        lines = [line for line in lines if one_sided.isdisjoint(line[0])]
    best, cost = 0, 0
    for column, count in above.items():
        if column in kept:
            continue
        other = below[column]
        price = count * other - count - other
        if not best or price < cost or (price == cost and column < best):
            best, cost = column, price
    return best, lines


def _eliminate(lines: list[_Line], column: int, steps: int, budget: Budget) -> list[_Line] | None:
    """The lines that follow without the column; None when a contradiction does."""
    above: list[_Line] = []
    below: list[_Line] = []
    out: dict[frozenset[tuple[int, int]], _Line] = {}
    for line in lines:
        value = line[0].get(column)
        if value is None:
            if _keep(out, *line):
                return None
        elif value > 0:
            above.append(line)
        else:
            below.append(line)
    budget.left -= len(above) * len(below)
    for upper, upper_constant, upper_origin in above:
        a = upper[column]
        for lower, lower_constant, lower_origin in below:
            made_of = upper_origin | lower_origin
            # Chernikov's rule: a line made of more first rows than steps done, plus two, follows from others.
            if made_of.bit_count() > steps + 2:
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
            if _keep(out, coefficients, x * upper_constant + y * lower_constant, made_of):
                return None
    return list(out.values())


def _without_equalities(rows: list[Row], equalities: list[Row]) -> list[Row] | None:
    """The rows after one column per equality is replaced; None when the equalities contradict each other."""
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
    """x*row + y*equality, in which the pivot cancels; x is positive, so that an inequality keeps its direction."""
    out = {column: x * value for column, value in row.items()}
    for column, value in equality.items():
        total = out.get(column, 0) + y * value
        if total:
            out[column] = total
        else:
            out.pop(column, None)
    return out
