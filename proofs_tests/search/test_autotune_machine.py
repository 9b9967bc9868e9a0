"""Autotuning on this machine, and in the benchmark."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl import Program
from bench.comparison import Roofline, Tuning, Workload, moved, posed
from bench.measure import measured
from bench.outcome import Case
from examples.schedules import anchors
from lowering import compile as compiled
from lowering.timing.comparison import KernelComparison, UnbuiltSchedule
from lowering.timing.inputs import random_inputs
from proofs_tests.search.by_hand import SIZES, tiled
from rewrites import Session, autotune, reschedule
from rewrites.session.tuning.measuring import interval


def test_tiles_of_a_product_are_derived_built_checked_and_timed(tmp_path: Path) -> None:
    def tiled(s: Session, by: int, order: str) -> None:
        if order == "ipj":
            s.interchange("j")
        s.tile("j", by).tails()

    s = reschedule(anchors.product())
    sizes = {"n": 96, "m": 96, "k": 96}
    choices: Mapping[str, Sequence[Any]] = {"by": [0, 32], "order": ["ijp", "ipj"]}
    found = s.autotune(sizes, 600, schedule=tiled, choices=choices, folder=tmp_path)
    assert [one.outcome == "refused" for one in found.tried].count(True) == 2
    assert {one.outcome for one in found.tried} <= {"measured", "slow", "refused"}
    # With the sum outside the columns the loop vectorises: at least twice as fast, typically ten times.
    assert found.best is not None
    assert found.best.parameters["order"] == "ipj"
    a, b = np.random.default_rng(1).random((2, 96, 96), np.float32)
    np.testing.assert_allclose(compiled(s.goal)(a, b), a @ b, rtol=1e-4)


class Planted(KernelComparison):
    """A comparison in which the candidates with tiles of 4 are wrong, and those with tiles of 8 slow."""

    def begin(self, program: Program) -> UnbuiltSchedule:
        text = str(program)
        if "ii < 4]" in text:
            program = atl.parse(text.replace("2 * x[4*io + ii]", "2.001 * x[4*io + ii]"))
        if "ii < 8]" in text:
            endless = "(Σ[k < 2000] exp(x[8*io + ii] * value(k)))"
            program = atl.parse(text.replace("2 * x[8*io + ii]", endless))
        return super().begin(program)


@pytest.mark.parametrize("predicted", [0.0, 1e9])
def test_planted_wrong_and_slow_candidates_are_found(
    predicted: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A prediction of a long run forbids to run the start, and runs candidates in child processes.
    monkeypatch.setattr(Planted, "predicted_ms", predicted)
    # The right ones are never as slow as that.
    monkeypatch.setattr("rewrites.session.tuning.measuring.LOSING", 20.0)

    def planted(program: Program, sizes: Mapping[str, int]) -> Planted:
        return Planted(program, dict(sizes), random_inputs(program, sizes), fast_math=False)

    found = autotune(tiled, {"by": [2, 4, 8, 16]}, {"n": 20_000}, 600, measure=planted, folder=tmp_path)
    outcomes = {one.parameters["by"]: one.outcome for one in found.tried}
    assert (outcomes[4], outcomes[8]) == ("wrong", "slow")
    assert {outcomes[2], outcomes[16]} <= {"measured", "noisy"}
    assert found.baseline == ("by=2" if predicted else "start")


def test_kernels_are_built_ahead_in_another_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lowering.timing.comparison.cores", lambda: 2)
    monkeypatch.setenv("ATL_CACHE", str(tmp_path / "builds"))
    found = autotune(tiled, {"by": [2, 4, 0, 8]}, SIZES, 600)
    assert found.stopped == "exhausted"
    assert sorted(one.parameters["by"] for one in found.tried) == [0, 2, 4, 8]
    assert {one.outcome for one in found.tried if one.parameters["by"]} <= {"measured", "slow", "noisy", "same"}


def test_sparse_goals_are_tuned_with_random_and_with_given_operands(tmp_path: Path) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    n, m = atl.sizes("n m")
    a, x = atl.tensor("A", n, m), atl.tensor("x", m)
    product = atl.program("spmv", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))
    s = reschedule(product).sparsify("A", atl.CSR)
    matrix = sparse.random(40, 30, 0.2, format="csr", dtype=np.float32, random_state=0)
    given = partial(atl.measure, inputs={"A": matrix, "x": np.ones(30, np.float32)})
    for number, (sizes, way) in enumerate((({"n": 40, "m": 30, "A_nnz": 99}, None), ({"n": 40, "m": 30}, given))):
        found = s.branch().autotune(
            sizes, 600, schedule=lambda s, by: s.unroll("i", by), choices={"by": [2, 4]}, measure=way,
            folder=tmp_path / str(number),
        )  # fmt: skip
        assert {one.outcome for one in found.tried} <= {"measured", "same", "slow", "noisy"}, found


def _by_tiles(by: int) -> Session:
    return reschedule(anchors.transpose()).tile(["j", "i"], [by, by]).tails(strategy="split")


def _doing(*tuned: Tuning) -> Workload:
    pose = posed(np.transpose, lambda size: ((size, size),) * 2)
    return Workload("turning", "a transpose", (64,), pose, (), (), Roofline("copy", moved), max_size=4000, tuned=tuned)


@pytest.mark.long
def test_tuned_schedule_is_benchmarked_and_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    # At this size the winner is random, so every candidate counts as faster.
    monkeypatch.setattr("rewrites.session.tuning.measuring.compared", lambda *_: (interval([2.0] * 7), 0.5))
    turning = _doing(Tuning(_by_tiles, {"by": (9, 0)}))
    progress: list[str] = []
    first = measured(turning, Case("turning", 64, rounds=1, tune=60), watch=progress.append)
    assert [entry.name for entry in first.entries] == ["_by_tiles(by=9), tuned"]
    assert first.entries[0].derived
    assert any("tuning _by_tiles, by=0: refused" in output for output in progress)
    monkeypatch.undo()
    again = measured(turning, Case("turning", 64, rounds=1), watch=progress.append)
    assert [entry.name for entry in again.entries] == ["_by_tiles(by=9), tuned"]


@pytest.mark.long
def test_benchmark_explains_tuning_if_none_exists() -> None:
    found = measured(_doing(Tuning(_by_tiles, {"by": (5,)})), Case("turning", 65, rounds=1), watch=lambda _: None)
    ((name, why, output),) = [(one.name, one.why, one.detail) for one in found.left_out]
    assert (name, why) == ("_by_tiles, tuned", "absent")
    assert "--tune 60" in output


def test_failed_tuning_fails_the_benchmark() -> None:
    found = measured(_doing(Tuning(_by_tiles, {"by": (0,)})), Case("turning", 64, rounds=1), watch=lambda _: None)
    ((why, output),) = [(one.why, one.detail) for one in found.left_out]
    assert why == "failed"
    assert "a tile of 0 iterations" in output
