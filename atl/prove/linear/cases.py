"""Deciding cases by comparison with single rows, before splitting."""

from __future__ import annotations

from typing import TypeAlias

from atl.prove.linear.rows import Disjunction, Row, System

Known: TypeAlias = dict[frozenset[tuple[int, int]], int]
"""A map from coefficients to the least constant of a known row with these coefficients."""


def decide_cases(system: System) -> bool:
    """Drop alternatives that a row contradicts and cases that a row implies; return True if a case becomes empty.

    A single remaining alternative is added to the system.
    """
    if not system.cases:
        return False
    known: Known = {}
    _add_rows(known, system.rows)
    changed = True
    while changed:
        changed = False
        cases, system.cases = system.cases, []
        for case in cases:
            left = tuple(part for part in case if not _contradicted(known, part))
            if not left:
                return True
            if len(left) == 1:
                system.add(left[0])
                _add_rows(known, left[0].rows)
                changed = True
            elif not any(_implied(known, part) for part in left):
                system.cases.append(_kept(case, left))
    return False


def _kept(case: Disjunction, left: Disjunction) -> Disjunction:
    return case if len(left) == len(case) else left


def _key(row: Row, sign: int) -> frozenset[tuple[int, int]]:
    return frozenset((column, sign * value) for column, value in row.items() if column)


def _add_rows(known: Known, rows: list[Row]) -> None:
    for row in rows:
        key, constant = _key(row, 1), row.get(0, 0)
        known[key] = min(constant, known.get(key, constant))


def _contradicted(known: Known, part: System) -> bool:
    """Return True if a row of the alternative contradicts a single known row."""
    for row in part.rows:
        other = known.get(_key(row, -1))
        if other is not None and row.get(0, 0) + other < 0:
            return True
    for row in part.equalities:
        constant = row.get(0, 0)
        above, below = known.get(_key(row, 1)), known.get(_key(row, -1))
        if (above is not None and above < constant) or (below is not None and below + constant < 0):
            return True
    return False


def _implied(known: Known, part: System) -> bool:
    """Return True if the alternative is one row that a known row implies."""
    if len(part.rows) != 1 or part.equalities or part.cases:
        return False
    other = known.get(_key(part.rows[0], 1))
    return other is not None and other <= part.rows[0].get(0, 0)
