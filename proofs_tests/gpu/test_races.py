"""The report of race freedom: kernels that ship are proved free of races, and a missing barrier is told."""

from __future__ import annotations

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


@pytest.mark.sampled
@pytest.mark.parametrize("name", SHIPPED)
def test_a_kernel_that_ships_is_proved_free_of_races_without_z3(name: str) -> None:
    held = kernel(name).kernels
    forget()
    before = statistics.snapshot()
    report = races.report(held)
    asked = statistics.since(before)
    assert asked.trivial + asked.linear >= len(report.proved)
    assert asked.z3 == asked.z3_refuted == asked.unknown == 0
    assert report, str(report)
    assert {pair.between for pair in report.proved} >= {"blocks"}
    assert report.barriers == sum(
        isinstance(s, Barrier) for launch in launches(held.body) for s in steps_of(launch.body)
    )


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in SCHEDULES if BARRIERS[name]])
def test_without_a_barrier_there_is_a_pair_that_is_not_proved(name: str) -> None:
    held = scheduled(name)[1]
    assert races.report(held)
    for number in range(BARRIERS[name]):
        report = races.report(without_barrier(held, number))
        assert not report
        assert "not proved: launch 0" in str(report)


def test_two_blocks_that_meet_are_not_proved_apart() -> None:
    held = of_text("⊞[i < n | block.x] x[i]")
    (launch,) = held.body
    assert isinstance(launch, Launch)
    (run,) = launch.body
    assert isinstance(run, Run)
    still = replace(run, statement=at_zero(run.statement, launch))
    report = races.report(replace(held, body=(replace(launch, body=(still,)),)))
    assert [pair.between for pair, _ in report.unproved] == ["blocks"]


@pytest.mark.long
def test_blocks_of_rows_and_columns_are_apart_in_a_result_of_one_dimension() -> None:
    """Of several results the elements stand one after the other: the cell of a tile is one number."""
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n, m)
    doubled = atl.gen(n, m, lambda p, q: 2 * x[p, q])
    s = reschedule(atl.program("both", [x], atl.results(rows=atl.gen(n, atl.value), doubled=doubled)))
    report = races.report(kernels(lower(s.gpu_map(["p", "q"], [4, 8]).goal, target="cuda")))
    assert report, str(report)
