"""Products of hypotheses, chosen by the products of atoms that occur in the query.

From a >= 0 and b >= 0 follows a*b >= 0. A product is used only if each of its monomials divides one in the query. For
example, i*m + j < n*m needs (n - 1 - i)*m >= 0, which contains only n*m and i*m.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod
from typing import Final, TypeAlias

from atl.prove.linear.intervals import Intervals
from atl.prove.linear.rows import Row, System, Table, combined

MAX_PRODUCTS: Final = 120
MAX_DIVISORS: Final = 60
MAX_WIDER: Final = 16
MAX_DEGREE: Final = 4

Monomial: TypeAlias = tuple[int, ...]
Pairs: TypeAlias = dict[int, dict[int, int]]
"""A map from two columns to the column of their product."""


def products(table: Table, system: System, intervals: Intervals, *, wide: bool) -> System:
    """Return rows and equalities that follow by multiplying two rows of the system.

    With `wide`, products may introduce one new monomial.
    """
    divisors = _divisors(table, system)
    if wide:
        _widen(table, system, divisors)
    pairs = _pairs(table, divisors)
    out = System()
    out.rows.extend(_times_factors(system.rows, _factors(intervals, pairs), pairs)[:MAX_PRODUCTS])
    for a, b in combinations([row for row in system.rows if len(row) > 1], 2):
        if len(out.rows) >= MAX_PRODUCTS:
            break
        product = _product(a, b, pairs)
        if product is not None:
            out.rows.append(product)
    for equality in system.equalities:
        for factor in pairs:
            times = _product(equality, {factor: 1}, pairs)
            if times is not None and len(out.equalities) < MAX_PRODUCTS:
                out.equalities.append(times)
    return out


def _divisors(table: Table, system: System) -> dict[Monomial, None]:
    """Return the divisors of degree 2 or more of the monomials that occur, in order."""
    divisors: dict[Monomial, None] = {}
    for row in (*system.rows, *system.equalities):
        for column in row:
            monomial = table.monomials[column]
            if monomial not in divisors and len(divisors) < MAX_DIVISORS:
                for degree in range(2, len(monomial) + 1):
                    divisors.update(dict.fromkeys(combinations(monomial, degree)))
    return divisors


def _widen(table: Table, system: System, divisors: dict[Monomial, None]) -> None:
    """Add monomials that are the only new ones in a product of a row with a monomial.

    The last rows, which are the goal and the definitions of quotients, come first, as they matter most.
    """
    left_to_add = MAX_WIDER
    known = list(divisors)
    for row in reversed(system.rows):
        columns = [table.monomials[column] for column in row if column]
        for product in known if len(columns) > 1 else ():
            for cofactor in dict.fromkeys(_cofactors(product, columns)):
                times = [tuple(sorted((*column, *cofactor))) for column in columns]
                new = [monomial for monomial in times if monomial not in divisors]
                if len(new) == 1 and len(new[0]) <= MAX_DEGREE and left_to_add > 0:
                    left_to_add -= 1
                    for degree in range(2, len(new[0]) + 1):
                        divisors.update(dict.fromkeys(combinations(new[0], degree)))


def _cofactors(product: Monomial, columns: list[Monomial]) -> Iterator[Monomial]:
    """Yield the monomials by which some column of a row must be multiplied to give `product`."""
    for column in columns:
        left = list(product)
        for atom in column:
            if atom not in left:
                break
            left.remove(atom)
        else:
            if left:
                yield tuple(left)


def _pairs(table: Table, divisors: dict[Monomial, None]) -> Pairs:
    """Return all factorisations of each divisor into two columns."""
    out: Pairs = {}
    for monomial in divisors:
        product = table.column(monomial)
        for degree in range(1, len(monomial)):
            for positions in combinations(range(len(monomial)), degree):
                a = tuple(monomial[k] for k in positions)
                b = tuple(monomial[k] for k in range(len(monomial)) if k not in positions)
                out.setdefault(table.column(a), {})[table.column(b)] = product
    return out


def _factors(intervals: Intervals, pairs: Pairs) -> list[Row]:
    """Return rows to multiply by: x - low and high - x for known bounds, and products of non-negative atoms."""
    out: list[Row] = []
    for column in pairs:
        atoms = intervals.table.monomials[column]
        lows = [intervals.low.get(atom) for atom in atoms]
        known = [low for low in lows if low is not None and (low >= 0 or len(atoms) == 1)]
        if len(known) == len(atoms):
            low = prod(known)
            out.append({column: 1, 0: -low} if low else {column: 1})
        high = intervals.high.get(column)
        if high is not None and len(atoms) == 1:
            out.append({column: -1, 0: high} if high else {column: -1})
    return out


def _times_factors(rows: list[Row], factors: list[Row], pairs: Pairs) -> list[Row]:
    out: list[Row] = []
    for row in rows:
        for factor in factors:
            product = _product(row, factor, pairs)
            if product is not None:
                out.append(product)
    return out


def _product(a: Row, b: Row, pairs: Pairs) -> Row | None:
    """Return a*b if all of its monomials are known."""
    if len(a) < len(b):
        a, b = b, a
    out: Row = {}
    for right, y in b.items():
        if right:
            known = pairs.get(right)
            if known is None:
                return None
            part: Row = {}
            for left, x in a.items():
                column = known.get(left) if left else right
                if column is None:
                    return None
                part[column] = x * y
            out = combined(out, 1, part, 1)
        else:
            out = combined(out, 1, a, y)
    return out
