"""The catalogue of rules: one module for each family."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Final

from atl.errors import InvalidName
from rewrites.rule import Rule, Schema
from rewrites.rules import (
    access,
    adjoints,
    choices,
    definitions,
    exponentials,
    guards,
    indices,
    lets,
    loops,
    normalisation,
    placement,
    recurrences,
    reshape_algebra,
    reshape_pairs,
    scalars,
    sums,
)


def stated_in(*modules: ModuleType) -> dict[str, Rule]:
    """Return the rules declared in some modules, by name, in the order of their declarations."""
    found: dict[str, Rule] = {}
    for module in modules:
        for value in vars(module).values():
            stated = value.rules if isinstance(value, Schema) else (value,) if isinstance(value, Rule) else ()
            for rule in stated:
                if rule.name in found:
                    raise InvalidName(f"two rules are called {rule.name}", required="a different name for every rule")
                found[rule.name] = rule
    return found


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    stated_in(
        access,
        choices,
        loops,
        sums,
        guards,
        lets,
        definitions,
        reshape_pairs,
        reshape_algebra,
        placement,
        recurrences,
        indices,
        scalars,
        exponentials,
        adjoints,
        normalisation,
    )
)
"""All rules by name, read-only. The kernel accepts these and registered user-defined rules."""

__all__ = ["RULES", "stated_in"]
