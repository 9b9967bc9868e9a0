"""Loops in the order of storage (§6.5): sums and generations, and refusals."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import atl
from atl import load
from atl.errors import InvalidArgument
from layouts import Box, IndexFunction, Layout, antidiagonal, backwards, blocked, column_major, skewed
from proofs_tests.sessions.session_programs import body, matmul
from proofs_tests.storages.storages import STORAGES, T, faults_in_c
from rewrites import DoesNotApply, Session, reschedule
from rewrites.errors import NotInjective


def total() -> Session:
    program = atl.parse("total (A : float32[k, m]) : float32 := Σ[i < k] Σ[j < m] A[i, j]")
    return reschedule(program, given=[T >= 1])


def doubled() -> Session:
    program = atl.parse("doubled (A : float32[k, m]) : float32[k, m] := ⊞[i < k] ⊞[j < m] 2 * A[i, j]")
    return reschedule(program, given=[T >= 1])


@cache
def ordered(start: Callable[[], Session], name: str) -> Session:
    """Reorder both loops; cached, so tests must not modify the session."""
    return start().reorder(["i", "j"], STORAGES[name])


@pytest.mark.thinned(11)
@pytest.mark.sampled
@pytest.mark.parametrize("name", STORAGES)
def test_sums_and_generations_run_in_storage_order(name: str, tmp_path: Path) -> None:
    for start in (total, doubled):
        theorem = ordered(start, name).done()
        theorem.save(tmp_path / "ordered.atl.json")
        assert load(tmp_path / "ordered.atl.json").rhs == theorem.rhs


@pytest.mark.long
def test_reordered_loops_agree_in_c() -> None:
    """Three orders suffice for sums, whose kernels otherwise agree."""
    made = [ordered(doubled, name) for name in STORAGES]
    made += [ordered(total, name) for name in ("blocked by a size", "swizzled", "antidiagonal")]
    assert faults_in_c(made) == []


def test_constant_extents_are_summed_too() -> None:
    """The digit of a tile of one element is always 0."""
    s = total().reorder(["i", "j"], blocked(1, 4))
    assert "Σ[p2 < 1]" in body(s)
    assert faults_in_c([s]) == []


def test_unused_locations_are_skipped() -> None:
    assert body(total().reorder(["i", "j"], antidiagonal)) == (
        "Σ[d < max(0, k + m - 1)] Σ[i < k] [i <= d < i + m] · A[i, d - i]"
    )
    assert body(doubled().reorder(["i", "j"], column_major)) == (
        "Σ[p0 < m] Σ[p1 < k] place k p1 place m p0 (2 * A[p1, p0])"
    )


def test_single_loop_is_reordered() -> None:
    s = reschedule(matmul()).reorder("p", backwards)
    assert body(s) == "⊞[i < n] ⊞[j < m] Σ[p0 < k] A[i, k - p0 - 1] * B[k - p0 - 1, j]"
    s = reschedule(matmul()).reorder("p", blocked(4))
    assert body(s).endswith("Σ[p0 < ⌈k / 4⌉] Σ[p1 < 4] [4*p0 + p1 < k] · A[i, 4*p0 + p1] * B[4*p0 + p1, j]")
    assert faults_in_c([s]) == []


def test_loops_without_a_common_order_are_refused() -> None:
    s = reschedule(matmul())
    with pytest.raises(DoesNotApply, match="a sum and a generation cannot be reordered together"):
        s.reorder(["j", "p"], skewed)
    with pytest.raises(DoesNotApply, match="are not directly nested"):
        s.reorder(["i", "p"], skewed)
    with pytest.raises(DoesNotApply, match="is a max"):
        reschedule(atl.parse("f (x : float32[n]) : float32 := max[i < n] x[i]")).reorder("i", backwards)
    with pytest.raises(DoesNotApply, match="depends on another of these loops"):
        reschedule(atl.parse("f (A : float32[n, n]) : float32 := Σ[i < n] Σ[j < i] A[i, j]")).reorder(
            ["i", "j"], skewed
        )
    with pytest.raises(NotInjective, match=r"the elements \(0\) and \(1\)"):
        s.reorder("p", _folded)


def test_order_without_a_known_inverse_is_refused() -> None:
    s = reschedule(atl.parse("doubled (A : float32[2, 3]) : float32[2, 3] := ⊞[i < 2] ⊞[j < 3] 2 * A[i, j]"))
    with pytest.raises(InvalidArgument, match=r"^this layout has no known inverse .* loop indices \[ATL102\]"):
        s.reorder(["i", "j"], Layout((2, 3), (3, 2)))
    assert "p % 7" in body(s.reorder(["i", "j"], Layout((2, 3), (7, 2))))


def test_counterexample_numbers_use_outer_variables() -> None:
    """`i` in the numbers is the outer loop, not the index of the element."""
    s = reschedule(atl.parse("f (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]"))
    with pytest.raises(NotInjective) as refused:
        s.reorder("j", _folded)
    assert refused.value.numbers is not None
    assert set(refused.value.numbers) == {"n", "m", "i"}


def _folded(shape: tuple[Any, ...]) -> IndexFunction:
    return IndexFunction(shape, lambda i: (i // 2,), lambda p: (2 * p,), onto=Box(shape, row_major=True))
