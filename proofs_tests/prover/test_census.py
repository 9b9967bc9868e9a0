"""Regression test: the prover answers a fixed set of queries with the same layers, numbers and bounds."""

from __future__ import annotations

import pytest

from atl.prove import forget
from proofs_tests.prover.census import FILE, KINDS, answered, stored


@pytest.mark.sampled
@pytest.mark.parametrize("kind", KINDS)
def test_answers_match_the_baseline(kind: str) -> None:
    """If the prover has improved, run `python -m proofs_tests.prover.census --write`."""
    forget()
    before = [line for line in stored() if line.partition(":")[0].rpartition(" ")[0] == kind]
    assert list(answered(kind)) == before


def test_baseline_covers_all_kinds() -> None:
    lines = stored()
    assert len(lines) == sum(count for count, _ in KINDS.values())
    answers = [line.partition(": ")[2] for line in lines]
    for answer in ("linear", "linear, vacuous", "trivial", "unknown"):
        assert answers.count(answer) > 10, answer
    assert sum("=" in answer for answer in answers) > 100
    assert FILE.stat().st_size < 150_000
