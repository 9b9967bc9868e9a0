"""Loops in the order of places (§6.5): sums and generations, proved by rules that stand, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import atl
from atl.errors import InvalidArgument
from layouts import Box, IndexFunction, Layout, antidiagonal, backwards, blocked, column_major, skewed
from proofs_tests.sessions.session_programs import body, matmul
from proofs_tests.storages.ways import WAYS, T, faults_in_c
from rewrites import DoesNotApply, Session, load, reschedule
from rewrites.errors import NotInjective


def total() -> Session:
    program = atl.parse("total (A : float32[k, m]) : float32 := Σ[i < k] Σ[j < m] A[i, j]")
    return reschedule(program, given=[T >= 1])


def doubled() -> Session:
    program = atl.parse("doubled (A : float32[k, m]) : float32[k, m] := ⊞[i < k] ⊞[j < m] 2 * A[i, j]")
    return reschedule(program, given=[T >= 1])


@cache
def ordered(start: Callable[[], Session], name: str) -> Session:
    """Both loops in the order of a way: derived once for the tests, none of which goes on with it."""
    return start().reorder(["i", "j"], WAYS[name])


@pytest.mark.thinned(2)
@pytest.mark.sampled
@pytest.mark.parametrize("name", WAYS)
def test_sums_and_generations_run_in_the_order_of_places(name: str, tmp_path: Path) -> None:
    for start in (total, doubled):
        theorem = ordered(start, name).done()
        theorem.save(tmp_path / "ordered.atl.json")
        assert load(tmp_path / "ordered.atl.json").rhs == theorem.rhs


@pytest.mark.long
def test_all_of_these_orders_agree_in_c_under_sanitizers() -> None:
    """Sums in three of these orders: what is not in the order is the same in all of them."""
    made = [ordered(doubled, name) for name in WAYS]
    made += [ordered(total, name) for name in ("blocked by a size", "swizzled", "antidiagonal")]
    assert faults_in_c(made) == []


def test_places_that_are_numbers_are_summed_over_too() -> None:
    """A tile of one element has a digit that is always 0."""
    s = total().reorder(["i", "j"], blocked(1, 4))
    assert "Σ[p2 < 1]" in body(s)
    assert faults_in_c([s]) == []


def test_places_that_no_iteration_has_are_left_out() -> None:
    assert body(total().reorder(["i", "j"], antidiagonal)) == (
        "Σ[d < max(0, k + m - 1)] Σ[i < k] [i <= d < i + m] · A[i, d - i]"
    )
    assert body(doubled().reorder(["i", "j"], column_major)) == (
        "Σ[p0 < m] Σ[p1 < k] place k p1 place m p0 (2 * A[p1, p0])"
    )


def test_one_loop_of_a_nest_is_reordered() -> None:
    s = reschedule(matmul()).reorder("p", backwards)
    assert body(s) == "⊞[i < n] ⊞[j < m] Σ[p0 < k] A[i, k - p0 - 1] * B[k - p0 - 1, j]"
    s = reschedule(matmul()).reorder("p", blocked(4))
    assert body(s).endswith("Σ[p0 < ⌈k / 4⌉] Σ[p1 < 4] [4*p0 + p1 < k] · A[i, 4*p0 + p1] * B[4*p0 + p1, j]")
    assert faults_in_c([s]) == []


def test_what_has_no_common_order_is_refused() -> None:
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


def test_an_order_from_which_no_way_leads_back_is_refused_before_a_step_is_taken() -> None:
    s = reschedule(atl.parse("doubled (A : float32[2, 3]) : float32[2, 3] := ⊞[i < 2] ⊞[j < 3] 2 * A[i, j]"))
    with pytest.raises(InvalidArgument, match=r"^this layout has no known inverse .* loop indices \[ATL102\]"):
        s.reorder(["i", "j"], Layout((2, 3), (3, 2)))
    assert "p % 7" in body(s.reorder(["i", "j"], Layout((2, 3), (7, 2))))


def test_numbers_that_break_a_storage_are_of_what_is_outside_of_it() -> None:
    """The element is told by its indices; `i` in the numbers is the loop around, and not the index of the element."""
    s = reschedule(atl.parse("f (A : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] A[i, j]"))
    with pytest.raises(NotInjective) as refused:
        s.reorder("j", _folded)
    assert refused.value.numbers is not None
    assert set(refused.value.numbers) == {"n", "m", "i"}


def _folded(shape: tuple[Any, ...]) -> IndexFunction:
    return IndexFunction(shape, lambda i: (i // 2,), lambda p: (2 * p,), onto=Box(shape, row_major=True))
