"""Simplification of index expressions and predicates under facts, with the quick layers of the prover."""

from __future__ import annotations

from typing import assert_never

from atl.core import predicate as pred
from atl.core.index import Index
from atl.prove.facts import Facts
from atl.prove.prover import proves
from atl.prove.reduction import reduced


def simplify(facts: Facts, expression: Index) -> Index:
    """Return an expression equal to `expression` wherever the facts hold.

    Quotients by positive divisors: a // b = 0 for 0 <= a < b; multiples of the divisor and common factors are taken
    out; (a // b) // c = a // (b * c). Redundant choices of a minimum or maximum are dropped.
    """
    return reduced(expression, lambda predicate: holds(facts, predicate))


def simplify_predicate(facts: Facts, predicate: pred.Predicate) -> pred.Predicate:
    """Return a predicate equivalent to `predicate` wherever the facts hold.

    Decided parts are dropped. Parts are processed left to right: each part of a conjunction is a fact for the later
    parts, and so is the negation of each part of a disjunction.
    """
    match predicate:
        case pred.All(parts):
            kept: list[pred.Predicate] = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == pred.FALSE:
                    return pred.FALSE
                kept.append(simpler)
                facts = facts.assume(simpler)
            return pred.conjunction(kept)
        case pred.Any(parts):
            kept = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == pred.TRUE:
                    return pred.TRUE
                kept.append(simpler)
                facts = facts.assume(pred.negation(simpler))
            return pred.disjunction(kept)
        case pred.NonNegative() | pred.Zero() | pred.NonZero():
            simpler = pred.map_indices(predicate, lambda expression: simplify(facts, expression))
            if holds(facts, simpler):
                return pred.TRUE
            return pred.FALSE if holds(facts, pred.negation(simpler)) else simpler
    assert_never(predicate)


def holds(facts: Facts, goal: pred.Predicate) -> bool:
    """Return True if the quick layers of the prover prove the goal."""
    return proves(facts, goal, thorough=False)
