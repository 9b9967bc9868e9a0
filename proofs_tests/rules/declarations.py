"""Functions that state the rules of the catalogue, and rules stated by other functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from rewrites.rule import Equation, Rule, RuleStatements


def function_of(rule: Rule) -> Callable[..., Equation]:
    """Return the function that states a rule of the catalogue, with its operator if it is one of a schema."""
    assert isinstance(rule.statements, RuleStatements)
    return rule.statements.function


def declaration(rule: Rule) -> Callable[..., Equation]:
    """Return the function without its operator."""
    function = function_of(rule)
    return function.func if isinstance(function, partial) else function


def restated(rule: Rule, function: Callable[..., Any], name: str | None = None) -> Rule:
    """Return the rule with the statements of another function."""
    return replace(rule, name=name or rule.name, statements=RuleStatements(function, rule.metavariables))
