"""Random programs with padding: a few hundred in each run; `atl fuzz pads` runs any number."""

from __future__ import annotations

import pytest

import padtypes.padset
from atl.core.predicate import FALSE
from atl.core.reshape_definitions import Origin, origin
from atl.core.terms import OPERATORS_BY_WORD, Split
from proofs_tests.compilers import lacking
from proofs_tests.padding.fuzz import run_pads
from proofs_tests.sampling import few_and_rest


@pytest.mark.parametrize("numbers", few_and_rest(260))
def test_inference_is_sound_and_rarely_refuses_safe_programs(numbers: range) -> None:
    counts = run_pads(range(len(numbers)), seed=11 + numbers.start, sanitize_every=0)
    print(counts)
    assert not counts.findings
    assert counts.accepted >= len(numbers) / 3
    if not numbers.start:  # too few programs for the statistics below
        return
    assert counts.refused >= 15
    assert counts.counterexamples == counts.refused - counts.gave_up
    assert counts.gave_up <= 0.01 * (counts.accepted + counts.refused)
    assert counts.safe_accepted >= 0.9 * counts.safe
    assert {word for word in OPERATORS_BY_WORD if counts.operators[word] < 0.02 * counts.tried} == set()


@pytest.mark.long
@pytest.mark.skipif(bool(lacking("sanitizers")), reason=lacking("sanitizers"))
@pytest.mark.usefixtures("private_cache")
def test_accepted_programs_run_clean_under_sanitizers() -> None:
    counts = run_pads(range(60), seed=12, brute_force_every=10**9, sanitize_every=1)
    print(counts)
    assert not counts.findings
    assert counts.sanitized >= 40


@pytest.mark.long
def test_fuzzer_detects_unsound_inference(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault: a split whose elements are all inferred to be padding."""

    def wrong(op: object, shape: object, at: object) -> Origin:
        found = origin(op, shape, at)  # type: ignore[arg-type]
        return Origin(found.at, FALSE) if isinstance(op, Split) else found

    monkeypatch.setattr(padtypes.padset, "origin", wrong)
    assert run_pads(range(120), seed=11, brute_force_every=10**9, sanitize_every=0).findings
