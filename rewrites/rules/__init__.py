"""The rules, each stated once, grouped by what they are about."""

from __future__ import annotations

from types import ModuleType
from typing import Final

from rewrites.rule import Rule
from rewrites.rules import access, guards, indices, lets, loops, reshapes, simplification, sums


def stated_in(*modules: ModuleType) -> dict[str, Rule]:
    """The rules of some modules, in the order in which they are stated, by name."""
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Rule)]
    return {rule.name: rule for rule in found}


RULES: Final[dict[str, Rule]] = stated_in(access, loops, sums, guards, lets, reshapes, indices, simplification)
"""Every rule by its name."""

__all__ = ["RULES", "stated_in"]
