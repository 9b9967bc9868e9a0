"""Factors move out of sums: from any position in a product, through guards and inner sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import body, k, m, n
from rewrites import DoesNotApply, Session, reschedule

r = atl.sizes("r")
X, B, C = atl.tensor("X", n, k, m), atl.tensor("B", k, r), atl.tensor("C", m, r)
P, t, V = atl.tensor("P", n, k), atl.tensor("t", n), atl.tensor("V", k, m)


def mttkrp() -> atl.Program:
    return atl.program(
        "mttkrp", [X, B, C], atl.gen(n, r, lambda i, j: atl.sum(k, m, lambda p, q: X[i, p, q] * B[p, j] * C[q, j]))
    )


def weighted() -> atl.Program:
    return atl.program(
        "weighted", [P, t, V], atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: P[i, q] / t[i] * V[q, j]))
    )


def masked() -> atl.Program:
    """Return a factor with a sign and guards, some on the index of the sum."""

    def term(i: atl.IndexExpr, j: atl.IndexExpr, q: atl.IndexExpr) -> atl.Tensor:
        return -(V[q, j] * atl.guard((q <= i) & (j <= i), -t[i] * P[i, q]))

    return atl.program("masked", [P, t, V], atl.gen(n, m, lambda i, j: atl.sum(k, lambda q: term(i, j, q))))


def counted() -> atl.Program:
    """Return a factor whose access is safe only by a guard on the index of the sum."""
    return atl.program(
        "counted", [t], atl.gen(n, lambda i: atl.sum(n, k, lambda q, c: atl.guard(c + i + q < n, t[c + i])))
    )


FACTORED: dict[str, tuple[Callable[[], Session], str]] = {
    "the middle of a product": (
        lambda: reschedule(mttkrp()).factor_out("B[_, _]"),
        "⊞[i < n] ⊞[j < r] Σ[p < k] B[p, j] * Σ[q < m] X[i, p, q] * C[q, j]",
    ),
    "past a sum that it depends on": (
        lambda: reschedule(mttkrp()).factor_out("C[_, _]"),
        "⊞[i < n] ⊞[j < r] Σ[q < m] C[q, j] * Σ[p < k] X[i, p, q] * B[p, j]",
    ),
    "out of the sums over tiles and within them": (
        lambda: reschedule(mttkrp()).tile(["p", "q"], 4).factor_out("B[_, _]"),
        ("⊞[i < n] ⊞[j < r] Σ[po < ⌈k / 4⌉] Σ[pi < 4] [4*po + pi < k] · B[4*po + pi, j] * "
        "Σ[qo < ⌈m / 4⌉] Σ[qi < 4] [4*qo + qi < m] · X[i, 4*po + pi, 4*qo + qi] * C[4*qo + qi, j]"),
    ),
    "out of the sum that is chosen": (
        lambda: reschedule(mttkrp()).tile("q", 4).factor_out("B[_, _]", out_of="qi"),
        ("⊞[i < n] ⊞[j < r] Σ[p < k] Σ[qo < ⌈m / 4⌉] B[p, j] * "
        "Σ[qi < 4] [4*qo + qi < m] · X[i, p, 4*qo + qi] * C[4*qo + qi, j]"),
    ),
    "by a handle": (
        lambda: (s := reschedule(mttkrp())).factor_out(s.find("B[p, j]")),
        "⊞[i < n] ⊞[j < r] Σ[p < k] B[p, j] * Σ[q < m] X[i, p, q] * C[q, j]",
    ),
    "two factors, one after the other": (
        lambda: reschedule(
            atl.program("p", [P, t], atl.gen(n, lambda i: atl.sum(k, lambda q: t[0] * P[i, q] * t[i])), given=[n >= 1])
        ).factor_out("t[i]").factor_out("t[0]"),
        "⊞[i < n] t[i] * (t[0] * Σ[q < k] P[i, q])",
    ),
    "a divisor": (
        lambda: reschedule(weighted()).factor_out("t[_]"),
        "⊞[i < n] ⊞[j < m] (Σ[q < k] P[i, q] * V[q, j]) / t[i]",
    ),
    "through signs and guards": (
        lambda: reschedule(masked()).factor_out("t[_]"),
        "⊞[i < n] ⊞[j < m] [j <= i] · t[i] * Σ[q < k] [q <= i] · -(V[q, j] * -P[i, q])",
    ),
    "all of the term": (
        lambda: reschedule(counted()).factor_out("t[_]"),
        "⊞[i < n] Σ[c < k] ([i + c < n] · t[i + c]) * Σ[q < n] [i + c + q < n] · 1",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", FACTORED)
def test_factor_leaves_independent_sums(name: str) -> None:
    make, expected = FACTORED[name]
    s = make()
    assert body(s) == expected
    assert len(s.steps) <= 2
    kernel = compiled(s.goal)
    for sizes in ({"n": 1, "k": 1, "m": 1, "r": 1}, {"n": 3, "k": 2, "m": 5, "r": 2}, {"n": 6, "k": 9, "m": 4, "r": 3}):
        numbers = np.random.default_rng(sizes["n"])
        start = s.theorem.lhs
        given: dict[str, Any] = {
            array.name: numbers.integers(1, 9, [sizes[str(extent)] for extent in array.shape]).astype("float32")
            for array in start.inputs
        } | {name: sizes[name] for name in start.free_sizes}
        np.testing.assert_allclose(kernel(**given), atl.evaluate(start, **given), rtol=1e-5)


def test_factor_stays_inside_a_dependent_sum() -> None:
    triangle = atl.program("p", [P, t], atl.sum(n, lambda i: atl.sum((0, i + 1), lambda j: t[j] * t[i] * t[0])))
    s = reschedule(triangle, given=[n >= 1])
    with pytest.raises(DoesNotApply, match="depends on the sum j, which cannot be moved out of i"):
        s.factor_out("t[j]")
    assert body(s.factor_out("t[i]")) == "Σ[i < n] t[i] * Σ[j < i + 1] t[j] * t[0]"
