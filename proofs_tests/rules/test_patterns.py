"""The patterns of rules: those of one rank, and the heads that are told from few of them, are those of all ranks."""

from __future__ import annotations

from typing import Final

import pytest

from atl.core.terms import Metavariable
from atl.core.traversal import children, static
from rewrites.matching import patterns as patterns_module
from rewrites.matching.patterns import all_patterns, few_patterns, patterns
from rewrites.matching.rule_index import Head, heads
from rewrites.rule import Rule
from rewrites.rules import RULES

LARGEST: Final = 8
FEW: Final = ("get_gen", "sum_mul_left", "ll_gen", "get_max", "gen_concat", "mul_comm", "let_unused")
"""Among them one that has other nodes for vectors, and those that fit no scalars."""


def heads_of_all(rule: Rule, reverse: bool) -> frozenset[Head] | None:
    found = set()
    for pattern in all_patterns(rule, reverse):
        if isinstance(pattern.term, Metavariable):
            return None
        below = (child.expr for child in children(pattern.term))
        parts = (None if isinstance(e, Metavariable) else (type(e), static(e)) for e in below)
        found.add(Head((type(pattern.term), static(pattern.term)), tuple(parts)))
    return frozenset(found)


def check(rule: Rule) -> None:
    for reverse in (False, True):
        assert heads(rule, reverse) == heads_of_all(rule, reverse), (rule.name, reverse)
        everything = all_patterns(rule, reverse)
        for rank in range(LARGEST):
            wanted = tuple(pattern for pattern in everything if pattern.term.type.rank == rank)
            assert patterns(rule, reverse, rank) == wanted, (rule.name, reverse, rank)


@pytest.mark.parametrize("name", FEW)
def test_patterns_of_a_rank_and_heads_are_those_of_all_ranks(name: str) -> None:
    check(RULES[name])


@pytest.mark.slow
def test_the_patterns_of_every_rule_are_those_of_all_ranks() -> None:
    for rule in RULES.values():
        check(rule)


def test_a_term_is_matched_with_the_patterns_of_its_own_rank_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule on elements of two groups has 25 patterns: to match a matrix it takes five, and the least ones."""
    made = []
    variables_of = patterns_module.variables_of

    def counted(rule: Rule, ranks: dict[str, int]) -> object:
        made.append(ranks)
        return variables_of(rule, ranks)

    monkeypatch.setattr(patterns_module, "variables_of", counted)
    for kept in (patterns, patterns_module._at_ranks, patterns_module._up_to):
        kept.cache_clear()
    patterns_module._rank_of_side.cache_clear()
    found = patterns(RULES["let_unused"], False, 2)
    assert len(found) == 5
    assert len(made) <= 5 + 3
    assert len(few_patterns(RULES["let_unused"], False)) == 4
