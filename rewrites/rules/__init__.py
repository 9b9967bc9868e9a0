"""The rules, each stated once: a file for each family, which is named after it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType, ModuleType
from typing import Final

from atl.errors import InvalidName
from rewrites.rule import Rule, Schema
from rewrites.rules import (
    access,
    definitions,
    guards,
    indices,
    lets,
    loops,
    normalisation,
    placement,
    reshape_algebra,
    reshape_pairs,
    scalars,
    sums,
)


def stated_in(*modules: ModuleType) -> dict[str, Rule]:
    """The rules of some modules, in the order in which they are stated, by name."""
    found: dict[str, Rule] = {}
    for module in modules:
        for value in vars(module).values():
            stated = value.rules if isinstance(value, Schema) else (value,) if isinstance(value, Rule) else ()
            for rule in stated:
                if rule.name in found:
                    raise InvalidName(f"two rules are called {rule.name}", required="a name of its own for every rule")
                found[rule.name] = rule
    return found


RULES: Final[Mapping[str, Rule]] = MappingProxyType(
    stated_in(
        access,
        loops,
        sums,
        guards,
        lets,
        definitions,
        reshape_pairs,
        reshape_algebra,
        placement,
        indices,
        scalars,
        normalisation,
    )
)
"""Every rule by its name, to be read only: the kernel knows these and no others."""

__all__ = ["RULES", "stated_in"]
