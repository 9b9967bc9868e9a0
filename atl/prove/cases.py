"""Case splits for queries that are open as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from atl.core import index as ix
from atl.core.predicate import All, Any, NonNegative, Predicate, atoms_of, negation, non_negative, substitute
from atl.prove.facts import Facts

Case: TypeAlias = tuple[Facts, Predicate]

LARGEST_DIVISOR: Final = 4
"""Largest divisor for which each remainder becomes a case."""
_WHOLE: Final = 1 << 56


def split_alternatives(facts: Facts, goal: Predicate) -> Case | None:
    """Prove p or (q and r) as (q and r) under the assumption not p. None for goals of another form."""
    if not isinstance(goal, Any):
        return None
    compound = [part for part in goal.parts if isinstance(part, All)]
    if len(compound) != 1:
        return None
    others = [negation(part) for part in goal.parts if part is not compound[0]]
    return facts.assume(*others), compound[0]


def split_remainders(facts: Facts, goal: Predicate) -> list[Case]:
    """Split on the remainder of a variable by a small divisor: i = d*q, i = d*q + 1, …, with a new variable q.

    The cases contain no such quotient. Return an empty list if the goal has none.
    """
    for variable, divisor in _divided(goal):
        whole = ix.index(ix.Var(_WHOLE + variable.uid, variable.name))
        return [_substituted(facts, goal, variable, whole * divisor + ix.constant(rest)) for rest in range(divisor)]
    return []


def _divided(goal: Predicate) -> Iterator[tuple[ix.Var, int]]:
    """Yield (variable, divisor) for each quotient by a small number in the goal."""
    for atom in atoms_of(goal):
        if isinstance(atom, ix.Quotient) and 1 < (divisor := atom.denominator.constant or 0) <= LARGEST_DIVISOR:
            for variable in dict.fromkeys(each for each in ix.atoms(atom.numerator) if isinstance(each, ix.Var)):
                factor = ix.factor_of(atom.numerator, variable)
                if factor is not None and factor.constant is not None and abs(factor.constant) == 1:
                    yield variable, divisor


def with_plain_limits(facts: Facts) -> Facts:
    """Return the facts with k < max(0, n) replaced by k < n if k >= 0."""
    least = dict(_least(facts))
    found = [_plain(fact, least) for fact in facts.predicates]
    return facts if all(new is old for new, old in zip(found, facts.predicates, strict=True)) else Facts(tuple(found))


def _least(facts: Facts) -> Iterator[tuple[ix.Monomial, int]]:
    """Yield leaves with constant lower bounds."""
    for fact in facts.predicates:
        if isinstance(fact, NonNegative) and len(fact.expression.terms) <= 2:
            leaf = next((monomial[0] for monomial, _ in fact.expression.terms if len(monomial) == 1), None)
            rest = None if leaf is None else (fact.expression - ix.index(leaf)).constant
            if rest is not None and isinstance(leaf, ix.Size | ix.Bound | ix.Var):
                yield (leaf,), -rest


def _plain(fact: Predicate, known: Mapping[ix.Monomial, int]) -> Predicate:
    if not isinstance(fact, NonNegative):
        return fact
    for monomial, factor in fact.expression.terms:
        if factor != 1 or len(monomial) != 1 or not isinstance(monomial[0], ix.Extremum) or monomial[0].kind != "max":
            continue
        rest = fact.expression - ix.index(monomial[0])
        most = [factor * known[at] for at, factor in rest.terms if factor < 0 and at in known]
        if len(most) < sum(1 for at, _ in rest.terms if at):
            continue
        reach = rest.offset + sum(most)
        possible = [choice for choice in monomial[0].choices if choice.constant is None or choice.constant + reach >= 0]
        if 0 < len(possible) < len(monomial[0].choices):
            return non_negative(ix.extremum("max", *possible) + rest)
    return fact


def _substituted(facts: Facts, goal: Predicate, variable: ix.Var, value: ix.Index) -> Case:
    def leaf(at: ix.Leaf) -> ix.Index:
        return value if at == variable else ix.index(at)

    return Facts().assume(*(substitute(fact, leaf) for fact in facts.predicates)), substitute(goal, leaf)
