"""Race reports: shipped kernels are proved free of data races, and a missing barrier is reported."""

from dataclasses import replace

import pytest

import atl
from atl.prove import forget, statistics
from lowering import lower
from lowering.gpu import races
from lowering.gpu.kernels import Barrier, Launch, Run, launches, steps_of
from lowering.gpu.outlining import kernels
from proofs_tests.gpu.test_cuda_text import SHIPPED, kernel
from proofs_tests.gpu.test_gpu_kernels import BARRIERS, SCHEDULES, at_zero, of_text, scheduled, without_barrier
from rewrites import reschedule


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_kernel_is_proved_race_free_without_z3(name: str) -> None:
    held = kernel(name).kernels
    forget()
    before = statistics.snapshot()
    report = races.report(held)
    since = statistics.since(before)
    assert since.trivial + since.linear >= len(report.proved)
    assert since.z3 == since.z3_refuted == since.unknown == 0
    assert report, str(report)
    assert {pair.between for pair in report.proved} >= {"blocks"}
    steps = (step for launch in launches(held.body) for step in steps_of(launch.body))
    assert report.barriers == sum(isinstance(step, Barrier) for step in steps)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCHEDULES if BARRIERS[name]])
def test_missing_barrier_leaves_an_unproved_pair(name: str) -> None:
    held = scheduled(name)[1]
    assert races.report(held)
    for number in range(BARRIERS[name]):
        report = races.report(without_barrier(held, number))
        assert not report
        assert "not proved: launch 0" in str(report)


def test_race_between_two_blocks_is_not_proved_absent() -> None:
    held = of_text("⊞[i < n | block.x] x[i]")
    (launch,) = held.body
    assert isinstance(launch, Launch)
    (run,) = launch.body
    assert isinstance(run, Run)
    still = replace(run, statement=at_zero(run.statement, launch))
    report = races.report(replace(held, body=(replace(launch, body=(still,)),)))
    assert [pair.between for pair, _ in report.unproved] == ["blocks"]


@pytest.mark.long
def test_rows_and_columns_in_one_flat_result_are_proved_disjoint() -> None:
    """Several results are stored one after the other, so the cell of a tile has one flat index."""
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n, m)
    doubled = atl.gen(n, m, lambda p, q: 2 * x[p, q])
    s = reschedule(atl.program("both", [x], atl.results(rows=atl.gen(n, atl.value), doubled=doubled)))
    report = races.report(kernels(lower(s.gpu_map(["p", "q"], [4, 8]).goal, target="cuda")))
    assert report, str(report)
