"""Patterns of rules by rank, heads of patterns, and matching of one conjunct of a guard."""

from __future__ import annotations

from typing import Any, Final

import pytest

import atl
from atl.core.terms import Metavariable
from atl.core.traversal import children, static
from proofs_tests.rules.declarations import function_of, restated
from rewrites import reschedule
from rewrites import rule as rule_module
from rewrites.errors import DoesNotApply
from rewrites.matching.patterns import Head, all_patterns, few_patterns, heads, patterns
from rewrites.rule import Rule
from rewrites.rules import RULES

LARGEST: Final = 8
FEW: Final = ("get_gen", "sum_mul_left", "ll_gen", "get_max", "gen_concat", "mul_comm", "let_unused")
"""These include a rule with other nodes for vectors, and rules that do not fit scalars."""


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
def test_patterns_of_a_rank_and_heads(name: str) -> None:
    check(RULES[name])


@pytest.mark.slow
def test_patterns_of_every_rule() -> None:
    for rule in RULES.values():
        check(rule)


def test_matching_makes_patterns_of_one_rank_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule with two groups has 25 patterns. Matching a matrix needs five of them, and the smallest ones."""
    made: list[object] = []
    stated = vars(rule_module)["stated"]

    def counted(*arguments: Any) -> Any:
        made.append(arguments)
        return stated(*arguments)

    monkeypatch.setattr(rule_module, "stated", counted)
    fresh = restated(RULES["let_unused"], function_of(RULES["let_unused"]))
    found = patterns(fresh, False, 2)
    assert len(found) == 5
    assert len(made) <= 5 + 3
    assert len(few_patterns(fresh, False)) == 4


DECLARED = "f (a : int32[n] in [0, n), c : int32[n], d : int32[n], x : float32[n]) : float32[n] := "


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("k = a[i]", "0 <= a[i] < n"),
        ("c[i] = d[k] ∧ k = a[i]", "0 <= a[i] < n ∧ c[i] = d[a[i]]"),
        ("i = a[i] ∧ k = i", "0 <= i < n ∧ i = a[i]"),
        ("d[k] = 3 ∧ i = c[i] ∧ k = a[i]", "0 <= a[i] < n ∧ d[a[i]] = 3 ∧ i = c[i]"),
    ],
)
def test_delta_is_found_among_other_equations(condition: str, left: str) -> None:
    """An equation that does not determine the parameter is skipped."""
    s = reschedule(atl.parse(f"{DECLARED}⊞[i < n] Σ[k < n] [{condition}] · x[k]")).rw("sum_delta")
    assert f"[{left}] · " in str(s.goal)


@pytest.mark.long
def test_equation_without_the_index_is_not_a_delta() -> None:
    s = reschedule(atl.parse(f"{DECLARED}⊞[i < n] Σ[k < n] [c[i] = d[k] ∧ i = a[i]] · x[k]"))
    with pytest.raises(atl.ATLError, match="does not determine its parameter a"):
        s.rw("sum_delta")
    with pytest.raises(DoesNotApply):
        s.rw("sum_delta_only")
