"""What single rows decide of cases, before anything is split."""

from __future__ import annotations

from typing import TypeAlias

from atl.prove.linear.rows import Case, Row, System

Known: TypeAlias = dict[frozenset[tuple[int, int]], int]
"""For coefficients, the least constant with which the rows of a system say that the sum is >= 0."""


def decide_cases(system: System) -> bool:
    """Drops alternatives that a row denies and cases that a row fulfils; true when a case has no alternative left.

    The only alternative of a case becomes part of the system.
    """
    if not system.cases:
        return False
    known: Known = {}
    _learn(known, system.rows)
    changed = True
    while changed:
        changed = False
        cases, system.cases = system.cases, []
        for case in cases:
            left = tuple(part for part in case if not _denied(known, part))
            if not left:
                return True
            if len(left) == 1:
                system.add(left[0])
                _learn(known, left[0].rows)
                changed = True
            elif not any(_fulfilled(known, part) for part in left):
                system.cases.append(_kept(case, left))
    return False


def _kept(case: Case, left: Case) -> Case:
    return case if len(left) == len(case) else left


def _key(row: Row, sign: int) -> frozenset[tuple[int, int]]:
    return frozenset((column, sign * value) for column, value in row.items() if column)


def _learn(known: Known, rows: list[Row]) -> None:
    for row in rows:
        key, constant = _key(row, 1), row.get(0, 0)
        known[key] = min(constant, known.get(key, constant))


def _denied(known: Known, part: System) -> bool:
    """Whether a row of the alternative contradicts a single known row."""
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


def _fulfilled(known: Known, part: System) -> bool:
    """Whether the alternative is one row, and follows from a known one."""
    if len(part.rows) != 1 or part.equalities or part.cases:
        return False
    other = known.get(_key(part.rows[0], 1))
    return other is not None and other <= part.rows[0].get(0, 0)
