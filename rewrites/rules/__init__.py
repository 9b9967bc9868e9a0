"""The rules, each stated once, grouped by what they are about."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from rewrites.rule import Rule, Schema
from rewrites.rules import (
    access,
    bindings,
    conditions,
    elements,
    guards,
    indices,
    lets,
    loops,
    ranges,
    reductions,
    reshape_algebra,
    reshapes,
    scalars,
    simplification,
    summation,
    sums,
)


def stated_in(*modules: ModuleType) -> dict[str, Rule]:
    """The rules of some modules, in the order in which they are stated, by name."""
    found: dict[str, Rule] = {}
    for module in modules:
        for value in vars(module).values():
            stated = value.rules if isinstance(value, Schema) else (value,) if isinstance(value, Rule) else ()
            found.update((rule.name, rule) for rule in stated)
    return found


RULES: Final[dict[str, Rule]] = stated_in(
    access, elements, loops, ranges, reductions, sums, summation, guards, conditions, lets, bindings, reshapes,
    reshape_algebra, indices, scalars, simplification,
)  # fmt: skip
"""Every rule by its name."""

__all__ = ["RULES", "stated_in"]
