"""Division of hypotheses by a common factor of their terms: the inverse of `products`."""

from __future__ import annotations

from typing import Final

from atl.prove.linear.elimination import Budget, projected
from atl.prove.linear.intervals import Intervals
from atl.prove.linear.rows import Row, System, Table, opposite, plus

MAX_CONSEQUENCES: Final = 40


def factor(system: System, intervals: Intervals) -> None:
    """Add the rows that follow by dividing out common factors repeatedly; x*r = 0 with x != 0 gives r = 0."""
    for row in list(system.rows):
        system.rows.extend(_quotients(row, intervals))
    for row in list(system.equalities):
        x = None if 0 in row else _common_factor(intervals.table, row)
        if x is not None and (intervals.low.get(x, 0) > 0 or intervals.high.get(x, 0) < 0):
            system.equalities.append(_over(intervals.table, row, x))


def consequences(system: System, intervals: Intervals, budget: Budget) -> list[Row]:
    """For each atom x in several products, eliminate all terms but the multiples of x, and divide by x.

    Only this proves p < q from k*p <= e < k*q, where e is not a product.
    """
    monomials = intervals.table.monomials
    columns = {column: None for row in (*system.rows, *system.equalities) for column in row}
    products = [column for column in columns if len(monomials[column]) > 1]
    rows = [*system.rows, *system.equalities, *(opposite(row) for row in system.equalities)]
    out: list[Row] = []
    for x in dict.fromkeys(atom for column in products for atom in monomials[column]):
        if intervals.low.get(x, -1) < 0 or sum(x in monomials[column] for column in products) < 2:
            continue
        kept = frozenset(column for column in columns if x in monomials[column])
        for row in projected(rows, kept, budget):
            if len(out) < MAX_CONSEQUENCES:
                out.extend(_quotients(row, intervals))
    return out


def _quotients(row: Row, intervals: Intervals) -> list[Row]:
    """Divide by common factors: x*r + c >= 0 gives r >= 1 if c < 0 <= x.

    It gives r + c // low >= 0 if c >= 0 and x >= low > 0.
    """
    out: list[Row] = []
    rest = row
    while (x := _common_factor(intervals.table, rest)) is not None:
        low, constant = intervals.low.get(x, -1), rest.get(0, 0)
        if low < 0 or (low == 0 and constant >= 0):
            break
        rest = _over(intervals.table, rest, x)
        rest = plus(rest, -1 if constant < 0 else constant // low)
        out.append(rest)
    return out


def _common_factor(table: Table, row: Row) -> int | None:
    """Return an atom that divides every term of the row except the constant, if some term is a product."""
    columns = [table.monomials[column] for column in row if column]
    if not columns or max(map(len, columns)) < 2:
        return None
    return next((atom for atom in columns[0] if all(atom in other for other in columns)), None)


def _over(table: Table, row: Row, factor: int) -> Row:
    """Divide the row without its constant by the factor."""
    out: Row = {}
    for column, value in row.items():
        if column:
            monomial = list(table.monomials[column])
            monomial.remove(factor)
            out[table.column(tuple(monomial))] = value
    return out
