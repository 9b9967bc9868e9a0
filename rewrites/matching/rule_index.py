"""Rule index: a filter of rules by the outermost two levels of a term, before matching."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

from atl.core.terms import Expr, Metavariable
from atl.core.traversal import children, static
from rewrites.matching.patterns import Pattern, all_patterns, few_patterns
from rewrites.rule import Rule

Node: TypeAlias = tuple[type, object]
"""The constructor of a node and its static attributes."""


@dataclass(frozen=True, slots=True)
class Head:
    """The outermost node of a side of a rule and the nodes directly below; None matches any node."""

    node: Node
    below: tuple[Node | None, ...]


@lru_cache(maxsize=1024)
def heads(rule: Rule, reverse: bool) -> frozenset[Head] | None:
    """Return the heads of a side of the rule for all ranks of elements; None if it matches any term."""
    found = _heads_of(few_patterns(rule, reverse))
    # If scalars and vectors have the same head, so do all ranks of a rule of the catalogue.
    return found if found is None or len(found) == 1 else _heads_of(all_patterns(rule, reverse))


def _heads_of(patterns: Iterable[Pattern]) -> frozenset[Head] | None:
    found: set[Head] = set()
    for pattern in patterns:
        if isinstance(pattern.term, Metavariable):
            return None
        below = tuple(_head(child.expr) for child in children(pattern.term))
        found.add(Head((type(pattern.term), static(pattern.term)), below))
    return frozenset(found)


def _head(term: Expr) -> Node | None:
    return None if isinstance(term, Metavariable) else (type(term), static(term))


def may_match(rule: Rule, reverse: bool, term: Expr) -> bool:
    """Return whether the outermost two levels of a term allow it to match a side of the rule."""
    known = heads(rule, reverse)
    return known is None or any(_fits(head, term) for head in known)


def _fits(head: Head, term: Expr) -> bool:
    if head.node[0] is not type(term) or head.node[1] != static(term):
        return False
    return all(
        wanted is None or (wanted[0] is type(child.expr) and wanted[1] == static(child.expr))
        for wanted, child in zip(head.below, children(term), strict=True)
    )


@lru_cache(maxsize=256)
def by_outermost(rules: tuple[Rule, ...], reverse: bool) -> tuple[Mapping[type, Sequence[Rule]], Sequence[Rule]]:
    """Return the rules that may apply to each type of node, in order, and those for all other types."""
    everywhere = [rule for rule in rules if heads(rule, reverse) is None]
    types = {head.node[0] for rule in rules for head in heads(rule, reverse) or ()}

    def may_stand_for(rule: Rule, of: type) -> bool:
        known = heads(rule, reverse)
        return known is None or any(head.node[0] is of for head in known)

    return {of: [rule for rule in rules if may_stand_for(rule, of)] for of in types}, everywhere
