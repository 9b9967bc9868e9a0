"""Scatters become gathers: which sums are solved for, which remain, and which scatters are refused."""

from __future__ import annotations

import re

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from lowering import lower, print_nest
from rewrites import DoesNotApply, reschedule

pytestmark = pytest.mark.sampled

VECTOR = "f (x : float32[n], w : float32[k], v : float32[3]) : "
MATRIX = "f (X : float32[n, m], W : float32[k, k], Y : float32[n, n], D : float32[n, 8]) : "

GATHERED = {
    "a translation": (
        VECTOR, "float32[n + 1] := Σ[i < n] place (n + 1) (i + 1) x[i]", "⊞[q < n + 1] [1 <= q] · x[q - 1]"),
    "a reversal": (VECTOR, "float32[n] := Σ[i < n] place n (n - 1 - i) x[i]", "⊞[q < n] x[n - q - 1]"),
    "a convolution": (
        VECTOR, "float32[n + k] := Σ[i < n] Σ[r < k] place (n + k) (i + r) (w[r] * x[i])",
        "⊞[q < k + n] Σ[r < k] [r <= q < r + n] · w[r] * x[q - r]"),
    "constant extents remain": (
        VECTOR, "float32[n + 3] := Σ[r < 3] Σ[i < n] place (n + 3) (i + r) (v[r] * x[i])",
        "⊞[q < n + 3] Σ[r < 3] [r <= q < r + n] · v[r] * x[q - r]"),
    "strides": (
        VECTOR, "float32[2*n + 1] := Σ[i < n] Σ[r < 3] place (2*n + 1) (2*i + r) (v[r] * x[i])",
        "⊞[q < 2*n + 1] Σ[max(0, ⌈q / 2⌉ - 1) <= i < min(n, q // 2 + 1)] v[q - 2*i] * x[i]"),
    "dilations": (
        VECTOR, "float32[n + 6] := Σ[i < n] Σ[r < 3] place (n + 6) (i + 3*r) (v[r] * x[i])",
        "⊞[q < n + 6] Σ[max(0, (q - n) // 3 + 1) <= r < min(q // 3 + 1, 3)] v[r] * x[q - 3*r]"),
    "two digits": (
        MATRIX, "float32[8*n] := Σ[i < n] Σ[j < 8] place (8*n) (8*i + j) D[i, j]", "⊞[q < 8*n] D[q // 8, q % 8]"),
    "a quotient": (
        VECTOR, "float32[n] := Σ[i < n] place n (i // 2) x[i]", "⊞[q < n] Σ[2*q <= i < min(n, 2*q + 2)] x[i]"),
    "a triangle": (
        MATRIX, "float32[n] := Σ[i < n] Σ[j < i] place n j Y[i, j]", "⊞[j < n] Σ[j + 1 <= i < n] Y[i, j]"),
    "a diagonal": (
        MATRIX, "float32[n, n] := Σ[i < n] place n i place n i D[i, 0]", "⊞[i < n] ⊞[i1 < n] [i = i1] · D[i, 0]"),
    "two dimensions": (
        MATRIX, "float32[n + k, m] := Σ[i < n] Σ[j < m] Σ[r < k] place (n + k) (i + r) place m j (W[r, 0] * X[i, j])",
        "⊞[q < k + n] ⊞[j < m] Σ[r < k] [r <= q < r + n] · W[r, 0] * X[q - r, j]"),
    "rows": (MATRIX, "float32[n, m + 1] := ⊞[i < n] Σ[j < m] place (m + 1) (j + 1) X[i, j]",
             "⊞[i < n] ⊞[q < m + 1] [1 <= q] · X[i, q - 1]"),
    "rows below a sum": (
        MATRIX, "float32[n, m] := Σ[i < n] Σ[j < m] ⊞[r < n] place m j (X[i, j] * Y[i, r])",
        "⊞[r < n] ⊞[j < m] Σ[i < n] X[i, j] * Y[i, r]"),
    "additions share a loop": (
        VECTOR, "float32[n] := (Σ[i < n] place n i (2*x[i])) + (Σ[i < n] [1 <= i] · place n (i - 1) x[i])",
        "⊞[i < n] 2 * x[i] + [i + 1 < n] · x[i + 1]"),
    "one sum of additions": (
        VECTOR, "float32[n + 1] := Σ[i < n] place (n + 1) (i + 1) x[i] + place (n + 1) i (3 * x[i])",
        "⊞[q < n + 1] [1 <= q] · x[q - 1] + [q < n] · 3 * x[q]"),
    "a let is bound outside": (
        VECTOR, "float32[n + 1] := Σ[i < n] let h := x[i] * x[i] in place (n + 1) (i + 1) h + place (n + 1) i (h * h)",
        "let h := ⊞[i < n] x[i] * x[i] in ⊞[q < n + 1] [1 <= q] · h[q - 1] + [q < n] · h[q] * h[q]"),
    "a let in an addend is bound outside": (
        MATRIX, "float32[n] := (Σ[i < n] place n i D[i, 2]) + Σ[i < n] let h := Y[i, 0] in Σ[j < 8] place n i (h * h)",
        "let h := ⊞[i < n] Y[i, 0] in ⊞[i < n] D[i, 2] + Σ[j < 8] h[i] * h[i]"),
    "a let in a generation is bound outside": (
        MATRIX, "float32[n, m] := Σ[r < k] ⊞[i < n] let h := D[i, 0] * W[r, 0] in Σ[j < m] place m j (h * X[i, j])",
        "let h := ⊞[r < k] ⊞[i < n] D[i, 0] * W[r, 0] in ⊞[i < n] ⊞[j < m] Σ[r < k] h[r, i] * X[i, j]"),
    "a scatter bound by a let": (
        VECTOR, "float32[n] := let g := Σ[i < n] place (n + 1) (i + 1) x[i] in ⊞[i < n] g[i] * g[i]",
        "let g := ⊞[q < n + 1] [1 <= q] · x[q - 1] in ⊞[i < n] g[i] * g[i]"),
    "below other operators": (
        VECTOR, "float32[n + 1] := max(Σ[i < n] place (n + 1) (i + 1) x[i], ⊞[i < n + 1] 0)",
        "max(⊞[q < n + 1] [1 <= q] · x[q - 1], ⊞[i < n + 1] 0)"),
}  # fmt: skip


@pytest.mark.parametrize("name", GATHERED)
def test_each_element_sums_what_is_added_to_it(name: str) -> None:
    inputs, written, gathered = GATHERED[name]
    s = reschedule(atl.parse(inputs + written))
    s.gather()
    _, body = str(s.goal).split(":=", 1)
    assert " ".join(body.split()) == gathered
    assert s.check()


def test_keep_chooses_the_sum_that_remains() -> None:
    convolution = VECTOR + GATHERED["a convolution"][1]
    s = reschedule(atl.parse(convolution))
    s.gather(keep="i")
    assert "Σ[max(0, q - k + 1) <= i < min(n, q + 1)] w[q - i] * x[i]" in str(s.goal)
    x, w = np.arange(5, dtype=np.float32), np.array([1, 2], dtype=np.float32)
    assert np.array_equal(atl.evaluate(s.goal, x, w, np.zeros(3, np.float32))[:6], np.convolve(x, w))


EMBEDDING = (
    "f (t : int32[n], d : float32[n, m], v : size) : float32[v, m] := "
    "Σ[i < n] Σ[j < m] [0 <= t[i] ∧ t[i] < v] · place v t[i] place m j d[i, j]"
)


def test_a_scatter_to_positions_that_are_data_remains_and_its_rows_are_gathered() -> None:
    s = reschedule(atl.parse(EMBEDDING))
    s.gather()
    assert "Σ[i < n] [0 <= t[i] < v] · place v t[i] ⊞[j < m] d[i, j]" in str(s.goal)
    assert "a scatter remains: the positions of place v t[i]" in repr(s)
    assert s.check()


def test_a_gathered_scatter_is_stored_without_clearing_the_result() -> None:
    s = reschedule(atl.parse(VECTOR + GATHERED["a quotient"][1]))
    assert "clear out" in print_nest(lower(s.goal))
    s.gather()
    assert "clear out" not in print_nest(lower(s.goal))


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ("float32[n*n] := Σ[i < n] place (n*n) (i*i) x[i]", "no equation determines i, in [q = i*i] · x[i]"),
        ("float32[n] := Σ[i < n] place n ((i + 1) % n) x[i]", "no equation determines i, in [q = (i + 1) % n] · x[i]"),
        ("float32[n] := ⊞[i < n] x[i]", "the goal has no placed terms"),
    ],
)  # fmt: skip
def test_a_refusal_shows_the_equation_and_changes_nothing(written: str, reason: str) -> None:
    s = reschedule(atl.parse(VECTOR + written))
    before = s.goal
    with pytest.raises(DoesNotApply, match=re.escape(reason)):
        s.gather()
    assert s.goal == before


def test_sums_to_keep_are_checked() -> None:
    s = reschedule(atl.parse(VECTOR + GATHERED["a translation"][1]))
    with pytest.raises(InvalidArgument, match="keep='j' does not name a sum"):
        s.gather(keep="j")
    with pytest.raises(InvalidArgument, match="keep=3 does not name a sum"):
        s.gather(keep=3)  # type: ignore[arg-type]
    with pytest.raises(DoesNotApply, match="no equation determines i, which keep= excludes"):
        s.gather(keep="i")


@pytest.mark.long
def test_a_scatter_remains_where_a_formula_would_read_later_rows() -> None:
    """The guard of a state of two dimensions would be lost around lets of the gradient."""
    n, steps = atl.sizes("n T", min=1)
    x = atl.tensor("x", steps, n, dtype="float64")

    def state(rows: atl.Tensor, t: atl.IndexExpr, i: atl.IndexExpr, j: atl.IndexExpr) -> atl.Tensor:
        return atl.select(t >= 1, rows[t - 1, i, j], 0)

    def row(t: atl.IndexExpr, rows: atl.Tensor) -> atl.Tensor:
        read = atl.gen(n, lambda i: atl.sum(n, lambda j: state(rows, t, i, j) * x[t, j]))
        return atl.let(read, lambda p: atl.gen(n, n, lambda i, j: state(rows, t, i, j) + p[i] * x[t, j]))

    gradient = atl.gradient(atl.program("delta", [x], atl.rec(steps, row, of=(n, n))), "x").program
    atl.check_safe(gradient)
    with pytest.raises(DoesNotApply, match="as a formula for each element it would not compile"):
        reschedule(gradient).gather()
