"""The functions by which the rules of the catalogue are stated, and rules stated by other functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from rewrites.rule import Equation, Rule, Statements


def function_of(rule: Rule) -> Callable[..., Equation]:
    """Return the function that states a rule of the catalogue, with its operation if it is one of a schema."""
    assert isinstance(rule.statements, Statements)
    return rule.statements.function


def declaration(rule: Rule) -> Callable[..., Equation]:
    """Return the function as it is written."""
    function = function_of(rule)
    return function.func if isinstance(function, partial) else function


def restated(rule: Rule, function: Callable[..., Any], name: str | None = None) -> Rule:
    """Return the rule as another function states it."""
    return replace(rule, name=name or rule.name, statements=Statements(function, rule.metavariables))
