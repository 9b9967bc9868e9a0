"""A short run of the GPU fuzzer, and planted faults that it finds."""

from dataclasses import replace
from typing import Final

import pytest

from lowering.gpu import barriers
from lowering.gpu.accesses import find_race
from lowering.gpu.barriers import BarrierInsertion, Place
from lowering.gpu.kernels import Barrier, Branch, Repeat, Steps
from proofs_tests.gpu import fuzz as gpu_fuzz
from proofs_tests.gpu.fuzz import LEAST, run_gpu

NUMBERS: Final = range(24)


@pytest.mark.long
def test_random_kernels_agree_with_their_programs() -> None:
    report = run_gpu(NUMBERS, seed=7)
    assert not report.findings, str(report)
    assert report.ran + sum(report.refused.values()) == len(NUMBERS)
    assert all(what in str(report) for what in LEAST)


@pytest.mark.long
def test_kernels_without_barriers_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = BarrierInsertion.steps

    def without(self: BarrierInsertion, steps: Steps, place: Place) -> Steps:
        return _left(whole(self, steps, place))

    monkeypatch.setattr(BarrierInsertion, "steps", without)
    monkeypatch.setattr(gpu_fuzz, "COMPILER", None)
    report = run_gpu(NUMBERS, seed=5)
    assert sum("without a barrier" in found for found in report.findings) >= 8


def _left(steps: Steps) -> Steps:
    kept = [step for step in steps if not isinstance(step, Barrier)]
    return tuple(replace(step, body=_left(step.body)) if isinstance(step, Repeat | Branch) else step for step in kept)


@pytest.mark.long
def test_barriers_that_consider_one_axis_only_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assume wrongly that one column is one thread."""
    real = find_race
    monkeypatch.setattr(
        barriers, "find_race", lambda one, another, extents, also=None: real(one, another, (extents[0], 1, 1), also)
    )
    monkeypatch.setattr(gpu_fuzz, "COMPILER", None)
    report = run_gpu(NUMBERS, seed=5)
    assert any("data race" in found for found in report.findings), str(report)


def test_too_few_kernels_of_a_kind_are_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_fuzz, "COMPILER", None)
    monkeypatch.setattr(gpu_fuzz, "LEAST", {"sums over threads": 1.01})
    (found,) = run_gpu(range(4), seed=5).findings
    assert found == "too few programs that ran have sums over threads: less than 101%"
