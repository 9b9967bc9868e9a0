"""Proofs of non-negative numerators, for which division may round towards zero instead of down."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index
from atl.core.predicate import non_negative
from atl.prove import Facts, holds
from lowering.nest.index_expressions import Compared, Computed, Inside, index_expressions
from lowering.nest.loopnest import Conditions, LoopNest, numerators, under


def with_nonnegative_numerators(nest: LoopNest) -> LoopNest:
    """Return the loop nest with every numerator that is proved non-negative in `nonnegative_numerators`."""
    known = _Known(initial_facts(nest.assumptions, nest.inputs))
    candidates = {
        (known.conditions(occurrence.inside), numerator): occurrence.inside
        for occurrence in index_expressions(nest)
        for numerator in numerators(_expression(occurrence))
    }
    nonnegative_numerators = frozenset(
        (conditions, numerator)
        for (conditions, numerator), inside in candidates.items()
        if holds(known.facts(inside), non_negative(numerator))
    )
    return replace(nest, nonnegative_numerators=nonnegative_numerators)


def _expression(occurrence: Computed | Compared) -> Index:
    match occurrence:
        case Computed(_, _, expression):
            return expression
        case Compared(_, condition):
            return condition.expression
        case _:
            assert_never(occurrence)


@dataclass(slots=True)
class _Known:
    """The facts and conditions inside of loops and branches, computed on demand."""

    start: Facts
    _conditions: dict[Inside, Conditions] = field(default_factory=dict)
    _facts: dict[Inside, Facts] = field(default_factory=dict)

    def conditions(self, inside: Inside) -> Conditions:
        if inside.outside is None or inside.predicate is None:
            return frozenset()
        if inside not in self._conditions:
            self._conditions[inside] = under(self.conditions(inside.outside), inside.predicate)
        return self._conditions[inside]

    def facts(self, inside: Inside) -> Facts:
        if inside.outside is None or inside.predicate is None:
            return self.start
        if inside not in self._facts:
            self._facts[inside] = self.facts(inside.outside).assume(inside.predicate)
        return self._facts[inside]
