"""The rules of XLA in `examples/xla_rules.py` are proved for all sizes."""

from __future__ import annotations

import pytest

from examples import xla_rules
from rewrites.user_rules import proof_status, rule

FIRST, *QUICK = ("slice_01", "concat_01", "divmod_03", "dyslice_02", "reduce_02", "reverse_02")


@pytest.mark.parametrize("name", [FIRST, *(pytest.param(name, marks=pytest.mark.long) for name in QUICK)])
def test_some_rules_are_proved(name: str) -> None:
    function = next(each for each in xla_rules.LAWS if each.__name__ == name)
    assert str(proof_status(rule(function))) == "proved for all sizes"


@pytest.mark.slow
def test_all_rules_are_proved() -> None:
    found = {name: str(proof_status(each)) for name, each in xla_rules.rules().items()}
    assert len(found) == 117
    assert {name: status for name, status in found.items() if not status.startswith("proved")} == {}
