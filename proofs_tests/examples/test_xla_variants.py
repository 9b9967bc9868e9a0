"""No wrong variant of the rules of XLA is proved."""

from __future__ import annotations

from collections import Counter

import pytest

from proofs_tests.examples.xla_variants import LIMITED, Law, drawn, judged

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


@pytest.mark.long
def test_variants_are_drawn_again_from_their_seed() -> None:
    assert [each.change for each in drawn(3, 20)] == [each.change for each in drawn(3, 20)]
    assert [each.change for each in drawn(3, 20)] != [each.change for each in drawn(4, 20)]
