"""Relevance filter: drops facts that cannot contribute to a goal, if there are many.

A condition such as i % 4 < 3 constrains i // 4, but elimination learns nothing about i alone. Of forty such conditions
with different quotients, a query about one quotient needs one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from itertools import islice, product
from typing import Final, TypeAlias

from atl.core.index import AnyAtom, Bound, Extremum, Quotient, Read, Size, Var, Xor, atoms
from atl.core.predicate import Predicate, expressions
from atl.prove.facts import Facts
from atl.prove.linear.elimination import Budget, leaves_no_rows
from atl.prove.linear.rows import Row, System, Table, combined, plus, read_predicate

MIN_FACTS: Final = 6
"""Minimum number of facts for filtering."""
GROUP_BUDGET: Final = 200
MAX_CHOICES: Final = 8
"""Maximum number of combinations of alternatives that are tried for a group."""

_Group: TypeAlias = tuple[Predicate, ...]
"""Facts that share quotients, directly or through other facts of the group."""


def relevant(facts: Facts, goal: Predicate) -> Facts:
    """Drop facts that only constrain quotients which do not occur in the goal, if there are many.

    This is sound, as fewer facts prove less. It may lose proofs that need a fact's effect on integers.
    """
    if len(facts.predicates) < MIN_FACTS:
        return facts
    needed = _quotients(goal)
    alone = {fact for group, quotients in _independent(facts) if needed.isdisjoint(quotients) for fact in group}
    return facts.only(lambda fact: fact not in alone) if len(alone) >= MIN_FACTS else facts


@lru_cache(maxsize=256)
def _independent(facts: Facts) -> tuple[tuple[_Group, frozenset[Quotient]], ...]:
    """Return the groups of facts that only constrain their own quotients, with these quotients."""
    groups: list[tuple[_Group, frozenset[Quotient]]] = []
    for fact in facts.predicates:
        if own := _quotients(fact):
            tied = [group for group in groups if not own.isdisjoint(group[1])]
            groups = [group for group in groups if own.isdisjoint(group[1])]
            together = (*(other for group, _ in tied for other in group), fact)
            groups.append((together, own.union(*(quotients for _, quotients in tied))))
    return tuple(group for group in groups if _constrains_only_quotients(group[0]))


@lru_cache(maxsize=4096)
def _quotients(predicate: Predicate) -> frozenset[Quotient]:
    return frozenset(atom for atom in _atoms(predicate) if isinstance(atom, Quotient))


def _atoms(predicate: Predicate) -> Iterator[AnyAtom]:
    for expression in expressions(predicate):
        yield from atoms(expression)


@lru_cache(maxsize=4096)
def _constrains_only_quotients(group: _Group) -> bool:
    """Return True if real values of the quotients satisfy the facts for all values of the variables."""
    table, system = Table(), System()
    for fact in group:
        if any(isinstance(atom, Read | Extremum | Xor) for atom in _atoms(fact)):
            return False
        read_predicate(table, fact, system)
    rows = [*_definitions(table), *system.rows]
    if system.equalities or any(len(monomial) > 1 for monomial in table.monomials):
        return False
    kept = frozenset(column for column, atom in table.atoms.items() if isinstance(atom, Size | Bound | Var))
    return any(_unconstrained(rows, chosen, kept) for chosen in islice(product(*system.cases), MAX_CHOICES))


def _unconstrained(rows: list[Row], chosen: Iterable[System], kept: frozenset[int]) -> bool:
    """Return True if the rows and those of the alternatives do not constrain the kept columns."""
    more: list[Row] = []
    for alternative in chosen:
        if alternative.equalities or alternative.cases:
            return False
        more += alternative.rows
    return leaves_no_rows([*rows, *more], kept, Budget(GROUP_BUDGET))


def _definitions(table: Table) -> list[Row]:
    """Return the rows b*q <= a < b*q + b of the quotients q = a // b."""
    rows: list[Row] = []
    for column, atom in table.atoms.items():
        if isinstance(atom, Quotient):
            numerator, divisor = table.parts[column]
            rest = combined(numerator, 1, table.product(divisor, {column: 1}), -1)
            rows += [rest, plus(combined(divisor, 1, rest, -1), -1)]
    return rows
