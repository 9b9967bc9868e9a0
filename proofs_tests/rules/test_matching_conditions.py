"""Matching of a rule's condition with any conjunct of a guard."""

from __future__ import annotations

import pytest

import atl
from rewrites import reschedule
from rewrites.errors import DoesNotApply

DECLARED = "f (a : int32[n] in [0, n), c : int32[n], d : int32[n], x : float32[n]) : float32[n] := "


@pytest.mark.parametrize(
    ("condition", "left"),
    [
        ("k = a[i]", "0 <= a[i] < n"),
        ("c[i] = d[k] ∧ k = a[i]", "0 <= a[i] < n ∧ c[i] = d[a[i]]"),
        ("i = a[i] ∧ k = i", "0 <= i < n ∧ i = a[i]"),
        ("d[k] = 3 ∧ i = c[i] ∧ k = a[i]", "0 <= a[i] < n ∧ d[a[i]] = 3 ∧ i = c[i]"),
    ],
)
def test_delta_is_found_among_other_equations(condition: str, left: str) -> None:
    """An equation that does not determine the parameter is skipped."""
    s = reschedule(atl.parse(f"{DECLARED}⊞[i < n] Σ[k < n] [{condition}] · x[k]")).rw("sum_delta")
    assert f"[{left}] · " in str(s.goal)


def test_equation_without_the_index_is_not_a_delta() -> None:
    s = reschedule(atl.parse(f"{DECLARED}⊞[i < n] Σ[k < n] [c[i] = d[k] ∧ i = a[i]] · x[k]"))
    with pytest.raises(atl.ATLError, match="does not determine its parameter a"):
        s.rw("sum_delta")
    with pytest.raises(DoesNotApply):
        s.rw("sum_delta_only")
