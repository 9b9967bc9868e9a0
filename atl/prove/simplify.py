"""Index expressions and predicates, made smaller by what is known of their leaves.

Every step is an equation that holds under the facts; what only the deeper layers of the prover would see stays.
"""

from __future__ import annotations

from typing import assert_never

from atl.core.index import Index
from atl.core.predicate import (
    FALSE,
    TRUE,
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    conjunction,
    disjunction,
    map_indices,
    negation,
)
from atl.prove.facts import Facts
from atl.prove.prover import proves
from atl.prove.reduction import reduced


def simplify(facts: Facts, expression: Index) -> Index:
    """An expression equal to the given one wherever the facts hold.

    Quotients: 0 <= a < b gives a // b = 0; multiples of the divisor and factors common to both sides leave the
    quotient; (a // b) // c = a // (b * c). All of it for divisors proved positive only, constant or symbolic. Of a
    minimum or maximum the choices that another one beats are dropped.
    """
    return reduced(expression, lambda predicate: holds(facts, predicate))


def simplify_predicate(facts: Facts, predicate: Predicate) -> Predicate:
    """A predicate equivalent to the given one wherever the facts hold.

    What the facts decide is dropped. A part of a conjunction counts as a fact for the later parts, and its negation
    for the later parts of a disjunction: both are tested from left to right.
    """
    match predicate:
        case All(parts):
            kept: list[Predicate] = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == FALSE:
                    return FALSE
                kept.append(simpler)
                facts = facts.assume(simpler)
            return conjunction(kept)
        case Any(parts):
            kept = []
            for part in parts:
                simpler = simplify_predicate(facts, part)
                if simpler == TRUE:
                    return TRUE
                kept.append(simpler)
                facts = facts.assume(negation(simpler))
            return disjunction(kept)
        case NonNegative() | Zero() | NonZero():
            simpler = map_indices(predicate, lambda expression: simplify(facts, expression))
            if holds(facts, simpler):
                return TRUE
            return FALSE if holds(facts, negation(simpler)) else simpler
    assert_never(predicate)


def holds(facts: Facts, goal: Predicate) -> bool:
    """Whether the quick layers of the prover see that the goal follows."""
    return proves(facts, goal, thorough=False)
