"""Facts that say nothing of a goal, and are left out where there are many of them.

A condition such as i % 4 < 3 says something of i // 4; of i alone, no elimination learns anything from it. Of forty of
them, each with a quotient of its own, a question about one quotient needs one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, product
from typing import Final, TypeAlias

from atl.core.index import AnyAtom, Bound, Extremum, Quotient, Read, Size, Var, Xor, atoms
from atl.core.predicate import Predicate, expressions
from atl.prove.facts import Facts
from atl.prove.linear.elimination import Budget, leaves_nothing
from atl.prove.linear.rows import Row, System, Table, combined, plus, read_predicate

MANY: Final = 6
"""Fewer facts than this are all looked at."""
GROUP_EFFORT: Final = 200
CHOICES: Final = 8
"""In how many ways the cases of a group of facts are decided."""

_Group: TypeAlias = tuple[Predicate, ...]
"""Facts that are tied to each other by common quotients."""


def relevant(facts: Facts, goal: Predicate) -> Facts:
    """The facts without those that are only about quotients of their own, if there are many of these.

    What follows from them follows from all. Lost may be what needs such a fact for a whole number that others pin down.
    """
    if len(facts.predicates) < MANY:
        return facts
    asked = _quotients(goal)
    alone = {fact for group, quotients in _independent(facts) if asked.isdisjoint(quotients) for fact in group}
    return facts.only(lambda fact: fact not in alone) if len(alone) >= MANY else facts


@lru_cache(maxsize=256)
def _independent(facts: Facts) -> tuple[tuple[_Group, frozenset[Quotient]], ...]:
    """The groups of facts that say nothing of what is not in their quotients, with these quotients."""
    groups: list[tuple[_Group, frozenset[Quotient]]] = []
    for fact in facts.predicates:
        if own := _quotients(fact):
            tied = [group for group in groups if not own.isdisjoint(group[1])]
            groups = [group for group in groups if own.isdisjoint(group[1])]
            together = (*(other for group, _ in tied for other in group), fact)
            groups.append((together, own.union(*(quotients for _, quotients in tied))))
    return tuple(group for group in groups if _says_nothing_else(group[0]))


@lru_cache(maxsize=4096)
def _quotients(predicate: Predicate) -> frozenset[Quotient]:
    return frozenset(atom for atom in _atoms(predicate) if isinstance(atom, Quotient))


def _atoms(predicate: Predicate) -> Iterator[AnyAtom]:
    for expression in expressions(predicate):
        yield from atoms(expression)


@lru_cache(maxsize=4096)
def _says_nothing_else(group: _Group) -> bool:
    """Whether real quotients by constants could meet the facts, whatever the values of the variables are."""
    table, system = Table(), System()
    for fact in group:
        if any(isinstance(atom, Read | Extremum | Xor) for atom in _atoms(fact)):
            return False
        read_predicate(table, fact, system)
    rows = [*_meant(table), *system.rows]
    if system.equalities or any(len(monomial) > 1 for monomial in table.monomials):
        return False
    kept = frozenset(column for column, atom in table.atoms.items() if isinstance(atom, Size | Bound | Var))
    return any(_leave_free(rows, chosen, kept) for chosen in islice(product(*system.cases), CHOICES))


def _leave_free(rows: list[Row], chosen: Iterable[System], kept: frozenset[int]) -> bool:
    """Whether the rows and those of the alternatives say nothing of the kept columns."""
    more: list[Row] = []
    for alternative in chosen:
        if alternative.equalities or alternative.cases:
            return False
        more += alternative.rows
    return leaves_nothing([*rows, *more], kept, Budget(GROUP_EFFORT))


def _meant(table: Table) -> list[Row]:
    """Euclid's facts for the quotients; one that is not by a constant makes a product."""
    rows: list[Row] = []
    for column, atom in table.atoms.items():
        if isinstance(atom, Quotient):
            numerator, divisor = table.parts[column]
            rest = combined(numerator, 1, table.product(divisor, {column: 1}), -1)
            rows += [rest, plus(combined(divisor, 1, rest, -1), -1)]
    return rows
