"""Random programs keep their meaning under `s.optimize()`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from proofs_tests.fuzzing import TooSlow, limited
from proofs_tests.recipes.fuzz import optimized_cases
from proofs_tests.sampling import few_and_rest

PROGRAMS = 12


@pytest.mark.long
@pytest.mark.parametrize("numbers", few_and_rest(PROGRAMS))
def test_optimized_random_programs_keep_their_meaning(numbers: Sequence[int]) -> None:
    report = optimized_cases(numbers, seed=0)
    assert not report.findings, str(report)
    assert report.compared > len(numbers) // 4
    assert report.changed > len(numbers) // 4


def test_a_case_is_not_stopped_inside_z3() -> None:
    code = """
import time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
    return "finished"
"""
    ours: dict[str, Any] = {"__name__": "ours"}
    of_z3: dict[str, Any] = {"__name__": "z3.z3"}
    exec(code, ours)
    exec(code, of_z3)
    done: list[str] = []

    def case() -> None:
        with limited(0.02):
            done.append(of_z3["work"](0.1))
            ours["work"](60)

    with pytest.raises(TooSlow):
        case()
    assert done == ["finished"]
