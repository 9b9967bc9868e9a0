"""Factors move out of signs, quotients and guards; tactics refuse unsuitable terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from rewrites import Session, reschedule
from rewrites.egraph.search import Limit


def session(body: str, of: str = "") -> Session:
    return reschedule(atl.parse(f"f (x : float64[n], y : float64) : float64{of} := {body}"))


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("Σ[i < n] (y * x[i]) / 2", "y * Σ[i < n] x[i] / 2"),
        ("Σ[i < n] y / x[i] / 2", "y * Σ[i < n] 1 / x[i] / 2"),
        ("Σ[i < n] ([i < 5] · [2 <= i] · y) * x[i]", "y * Σ[i < n] [i < 5 ∧ 2 <= i] · x[i]"),
        ("Σ[i < n] ([i < 5] · ([2 <= i] · y) * x[i]) * 3", "y * Σ[i < n] [i < 5 ∧ 2 <= i] · x[i] * 3"),
        ("Σ[i < n] -(y * x[i])", "y * Σ[i < n] -x[i]"),
        ("Σ[i < n] -(-y * x[i])", "y * Σ[i < n] -(-x[i])"),
        ("Σ[i < n] x[i] * (-y)", "y * Σ[i < n] -x[i]"),
        ("Σ[i < n] -y", "y * Σ[i < n] -(1)"),
        ("Σ[i < n] y / x[i]", "y * Σ[i < n] 1 / x[i]"),
        ("Σ[i < n] x[i] / y", "(Σ[i < n] x[i]) / y"),
        ("Σ[i < n] x[i] * (y / 2)", "y * Σ[i < n] x[i] * (1 / 2)"),
        ("Σ[i < n] ([i < 5] · y) / x[i]", "y * Σ[i < n] [i < 5] · 1 / x[i]"),
        ("Σ[i < n] -([i < 5] · y)", "y * Σ[i < n] [i < 5] · -(1)"),
        ("Σ[i < n] [1 <= i] · ([i < 5] · y) * x[i]", "y * Σ[i < n] [1 <= i < 5] · x[i]"),
        ("Σ[i < n] [1 <= i] · [i < 5] · y * x[i]", "y * Σ[i < n] [1 <= i < 5] · x[i]"),
        ("Σ[i < n] [1 <= i] · Σ[j < n] y * x[j]", "y * Σ[i < n] [1 <= i] · Σ[j < n] x[j]"),
        ("Σ[i < n] Σ[j < n] [1 <= j] · y * x[j]", "y * Σ[i < n] Σ[j < n] [1 <= j] · x[j]"),
    ],
)
def test_factor_leaves_through_signs_quotients_and_guards(body: str, taken: str) -> None:
    leaves("y", body, taken)


@pytest.mark.parametrize(
    ("body", "taken"),
    [
        ("Σ[i < n] [1 <= i] · Σ[j < n] x[i] * x[j]", "Σ[j < n] x[j] * Σ[i < n] [1 <= i] · x[i]"),
        ("Σ[i < n] Σ[j < n] [1 <= j] · x[i] * x[j]", "Σ[j < n] [1 <= j] · x[j] * Σ[i < n] x[i]"),
        ("Σ[i < n] [1 <= i] · Σ[j < n] [j < 3] · x[i] * x[j]", "Σ[j < n] [j < 3] · x[j] * Σ[i < n] [1 <= i] · x[i]"),
    ],
)
def test_inner_factor_leaves_the_outer_sum(body: str, taken: str) -> None:
    leaves("x[j]", body, taken)


def leaves(factor: str, body: str, taken: str) -> None:
    start = session(body).goal
    goal = session(body).factor_out(factor).goal
    assert goal == session(taken).goal
    given: dict[str, Any] = {"x": np.array([0.5, -2.0, 3.0, 1.0, 4.0, 8.0, -0.25]), "y": 1.5}
    assert np.allclose(atl.evaluate(goal, **given), atl.evaluate(start, **given), rtol=1e-12, atol=0)


def nest() -> Session:
    return reschedule(atl.parse("f (x : float32[n, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] 2 * x[i, j]"))


Call = Callable[[], object]
MIXED: Any = ["i", 0]
REFUSED: list[tuple[Call, str]] = [
    (lambda: session("Σ[i < n] -(x[i] / y)").factor_out("y"), "no ring law moves this factor out"),
    (lambda: session("Σ[i < n] sqrt(y)").factor_out("y"), "the node around the product with this factor is not a sum"),
    (lambda: session("Σ[i < n] y + x[i]").factor_out("y"), "the node around the product with this factor is not a sum"),
    (lambda: session("Σ[i < n] y * x[i]").factor_out("x[i]"), "depends on the sum i around it"),
    (lambda: nest().split_loop("i"), "split_loop needs at least one index"),
    (lambda: nest().rename("_ * _", "k"), "_ . _ does not select anything with a name"),
    (lambda: nest().inline("b"), "no loop, sum or let in the goal is named b"),
    (
        lambda: session("let b := 2 * x in ⊞[i < n] b[i] + x[i]", "[n]").inline("b", at="x[_]"),
        "the let b is not at that place",
    ),
    (lambda: nest().gpu_map(["i", "j", "i", "j"], 4), "one loop to 3, the last one along x"),
    (lambda: nest().gpu_map(["i", "j"], [4]), r"by=\[4\] for 2 loops"),
    (lambda: nest().gpu_map(["i", "j"], 4), "by=4 for 2 loops"),
    (lambda: nest().coalesce("y[_]"), r"nothing in the goal fits the pattern y\[_\]"),
    (lambda: session("Σ[i < n] y * x[i]").flatten_loops("i"), "i is a reduction"),
    (lambda: session("⊞[i < n] y * x[i]", "[n]").flatten_loops("i"), "no loop is directly inside the loop i"),
    (lambda: nest().tile(MIXED, 4), "is neither a path nor a list of loops"),
    (lambda: nest().auto(limit="x"), "limit='x'"),
    (lambda: Limit(nodes=0), "at least one node"),
    (lambda: Limit(seconds=-1.0), "non-negative rounds and seconds"),
]


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[f"{k} {text[:40]}" for k, (_, text) in enumerate(REFUSED)])
def test_inapplicable_tactics_are_refused_with_a_reason(call: Call, message: str) -> None:
    with pytest.raises(atl.ATLError, match=message):
        call()
