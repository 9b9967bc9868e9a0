"""Which quotients of a loop nest round towards zero as they round down: those with natural numerators."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Index
from atl.core.predicate import non_negative
from atl.prove import Facts, holds
from lowering.nest.computed import Compared, Computed, Inside, computed
from lowering.nest.loopnest import Conditions, LoopNest, numerators, under


def with_natural_numerators(nest: LoopNest) -> LoopNest:
    """The loop nest whose `natural` has every numerator that is proved not to be negative where it stands."""
    known = _Known(initial_facts(nest.assumptions, nest.inputs))
    asked = {
        (known.conditions(occurrence.inside), numerator): occurrence.inside
        for occurrence in computed(nest)
        for numerator in numerators(_expression(occurrence))
    }
    natural = frozenset(
        (conditions, numerator)
        for (conditions, numerator), inside in asked.items()
        if holds(known.facts(inside), non_negative(numerator))
    )
    return replace(nest, natural=natural)


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
    """What is known inside of loops and branches. Most places have no quotient; then nothing is asked about them."""

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
