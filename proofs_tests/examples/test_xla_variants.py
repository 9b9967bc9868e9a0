# mypy: disallow-any-generics=False
"""No changed rule of XLA that is false is proved."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

import atl
from examples import xla_rules
from examples.xla_rules import full
from proofs_tests.examples.xla_variants import LIMITED, Law, drawn, is_refuted, judged, variants
from proofs_tests.user_rules.false_at_high_ranks import one_more_at_5
from rewrites.elaboration import stated
from rewrites.rule_statement import Ranks, RuleStatement
from rewrites.user_rules import Elem, Equation, Scalar, equation, rule

FIRST, *REST = LIMITED
SEED, COUNT, LEAST_FALSE = 0, 230, 150


@pytest.mark.parametrize("law", [FIRST, *(pytest.param(law, marks=pytest.mark.slow) for law in REST)])
def test_law_of_few_axes_or_small_extents_is_false(law: Law) -> None:
    assert judged(law) == "false"


@pytest.mark.slow
def test_no_wrong_variant_is_proved() -> None:
    found = Counter(judged(each.law) for each in drawn(SEED, COUNT))
    assert not found["wrongly proved"], found
    assert found["false"] >= LEAST_FALSE, found


def test_false_statement_of_rank_5_is_refuted() -> None:
    def doubled(v: Elem) -> Equation:
        """A sum of equal terms is their double."""
        return equation(v + v, 2 * v)

    made = rule(doubled)
    assert not is_refuted(made)
    wrong = stated(one_more_at_5, made.metavariables, (5,))
    assert is_refuted(replace(made, statements={**made.statements, (5,): wrong}))


@pytest.mark.long
def test_strides_of_other_axes_are_refuted_at_larger_extents() -> None:
    change = "slice_10: step[::-1] in *step"
    (confused,) = [each for each in variants(xla_rules.slice_10) if each.change == change]
    assert judged(confused.law) == "false"


@pytest.mark.long
def test_rule_whose_sides_differ_as_symbols_only_is_not_refuted() -> None:
    def stronger(a: Elem, low: Scalar) -> Equation:
        """A number below an element is neutral in its maximum."""
        return equation(atl.where(full(a.shape, low) < a, atl.maximum(a, full(a.shape, low)), a), a)

    def weaker(a: Elem, low: Scalar) -> Equation:
        """A number above an element is neutral in its maximum."""
        return equation(atl.where(full(a.shape, low) > a, atl.maximum(a, full(a.shape, low)), a), a)

    assert judged(stronger) == "proved"
    made = rule(stronger)
    wrong: dict[Ranks, RuleStatement] = {ranks: stated(weaker, made.metavariables, ranks) for ranks in ((0,), (1,))}
    assert is_refuted(replace(made, statements=wrong))


def test_untyped_error_of_a_declaration_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Law) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("proofs_tests.examples.xla_variants.rule", fails)
    with pytest.raises(ZeroDivisionError):
        judged(FIRST)


@pytest.mark.long
def test_variants_are_drawn_again_from_their_seed() -> None:
    assert [each.change for each in drawn(3, 20)] == [each.change for each in drawn(3, 20)]
    assert [each.change for each in drawn(3, 20)] != [each.change for each in drawn(4, 20)]
