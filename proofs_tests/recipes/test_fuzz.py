"""Random programs keep their meaning under `s.optimize()`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from proofs_tests.recipes.fuzz import optimized_cases
from proofs_tests.sampling import few_and_rest

PROGRAMS = 100


@pytest.mark.parametrize("numbers", few_and_rest(PROGRAMS))
def test_optimized_random_programs_keep_their_meaning(numbers: Sequence[int]) -> None:
    report = optimized_cases(numbers, seed=0)
    assert not report.findings, str(report)
    assert report.compared > len(numbers) // 4
    assert report.changed > len(numbers) // 4
