"""Random distributed programs and redistributions agree with the interpreter."""

from __future__ import annotations

import pytest

from proofs_tests.ranks import fuzz


def test_some_random_programs() -> None:
    counts, findings = fuzz.run(range(24))
    assert not findings
    assert counts["run"] >= 12


@pytest.mark.long
def test_every_form_and_refusal_occurs() -> None:
    counts, findings = fuzz.run(range(100, 200))
    assert not findings
    forms = {"all-gather", "all-reduce", "broadcast", "copy", "exchange by counts", "reduce-scatter", "shift"}
    assert forms | {"refused: IllegalExchange", "run"} <= counts.keys()


@pytest.mark.slow
def test_many_random_programs() -> None:
    _, findings = fuzz.run(range(1000, 11000))
    assert not findings
