"""Random distributed programs and redistributions agree with the interpreter."""

from __future__ import annotations

import pytest

from proofs_tests.ranks import fuzz


def test_some_random_programs() -> None:
    counts = fuzz.run(range(12), 0)
    assert not counts.findings
    assert counts.forms["run"] >= 6


@pytest.mark.long
def test_every_form_and_refusal_occurs() -> None:
    counts = fuzz.run(range(70), 1)
    assert not counts.findings, counts
    forms = {"all-gather", "all-reduce", "broadcast", "copy", "exchange by counts", "reduce-scatter", "shift"}
    assert forms | {"refused: IllegalExchange", "run"} <= counts.forms.keys()


@pytest.mark.slow
def test_many_random_programs() -> None:
    counts = fuzz.run(range(10_000), 2)
    assert not counts.findings, counts
