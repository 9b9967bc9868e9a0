"""Recipes on reductions of any term: in register tiles, and of whole arrays in vector registers."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest

import atl
from lowering import lower, print_nest
from proofs_tests.recipes.machines import AVX2, TINY
from rewrites import Session, reschedule

PAIRS: Final[dict[str, str]] = {
    "l1": "(x : float32[n, k], y : float32[m, k]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k] abs(x[i, p] - y[j, p])",
    "min-plus": "(x : float32[n, k], y : float32[k, m]) : float32[n, m] := "
    "⊞[i < n] ⊞[j < m] min[p < k] x[i, p] + y[p, j]",
    "largest-difference": "(x : float32[n, k], y : float32[m, k]) : float32[n, m] := "
    "⊞[i < n] ⊞[j < m] max[p < k] abs(x[i, p] - y[j, p])",
}
WHOLE: Final[dict[str, str]] = {
    "dot": "(x : float32[k], y : float32[k]) : float32 := Σ[p < k] x[p] * y[p]",
    "norm": "(x : float32[n, k]) : float32 := sqrt(Σ[i < n] Σ[p < k] x[i, p] * x[i, p])",
}


def optimized(text: str, **options: Any) -> Session:
    return reschedule(atl.parse(f"f {text}")).optimize(**options)


def applied(s: Session) -> list[str]:
    assert s.report is not None
    return [outcome.recipe.name for outcome in s.report.applied]


def check(s: Session, sizes: dict[str, int]) -> None:
    """Compare the compiled goal with the compiled program."""
    arrays = atl.random_inputs(s.theorem.lhs, sizes)
    expected = atl.compile(s.theorem.lhs)(**arrays)
    np.testing.assert_allclose(s.compile()(**arrays), expected, rtol=1e-5)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", PAIRS)
def test_reductions_of_two_operands_are_tiled(name: str) -> None:
    s = optimized(PAIRS[name], machine=AVX2)
    assert applied(s) == ["tile_sums", "guards_to_bounds"]
    assert "acc | registers" in str(s.goal)
    for n, m, k in ((1, 1, 1), (6, 16, 7), (13, 35, 5), (40, 18, 33)):
        check(s, {"n": n, "m": m, "k": k})


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("name", PAIRS)
def test_large_reductions_of_two_operands_are_tiled(name: str) -> None:
    s = optimized(PAIRS[name], machine=TINY, sizes={"n": 30, "m": 30, "k": 30})
    assert "tile_sums" in applied(s)
    check(s, {"n": 13, "m": 35, "k": 37})


@pytest.mark.sampled
@pytest.mark.parametrize("name", WHOLE)
def test_whole_arrays_are_reduced_in_registers(name: str) -> None:
    s = optimized(WHOLE[name], machine=TINY)
    assert applied(s) == ["accumulate_vectors"]
    assert "acc | registers" in str(s.goal)
    for k in (1, 7, 8, 9, 16, 33):
        check(s, {"k": k} | ({"n": 3} if "n" in s.goal.sizes else {}))


@pytest.mark.parametrize("name", WHOLE)
def test_script_of_a_whole_array_makes_the_same_goal(name: str) -> None:
    s = optimized(WHOLE[name], machine=AVX2)
    names: dict[str, Any] = {}
    exec(s.script(), names)
    assert names["s"].goal == s.goal


@pytest.mark.parametrize(
    "text",
    [
        "(x : float32[n, k]) : float32[n] := ⊞[i < n] Σ[p < k] x[i, p] * x[i, p]",
        "(x : float32[n, k]) : float32 := Σ[i < n] exp(Σ[p < k] x[i, p])",
        "(x : float32[k, 3]) : float32 := Σ[p < k] x[p, 0]",
        "(x : float32[k]) : float32 := Σ[p < k] [3 <= p] · x[p]",
        "(x : float32[9]) : float32 := Σ[p < 9] x[p]",
        "(x : float32[k]) : float32 := max[p < k] abs(x[p])",
    ],
    ids=["rows", "operand", "column", "guarded", "constant", "maximum"],
)
def test_other_reductions_are_left_as_written(text: str) -> None:
    assert "accumulate_vectors" not in applied(optimized(text, machine=AVX2))


BOTH: Final[dict[str, str]] = {
    "transpose first": "(⊞[j < m] Σ[i < n] A[i, j] * x[i]) ++ ⊞[i < n] Σ[j < m] A[i, j] * y[j]",
    "transpose last": "(⊞[i < n] Σ[j < m] A[i, j] * y[j]) ++ ⊞[j < m] Σ[i < n] A[i, j] * x[i]",
}
APART: Final[dict[str, str]] = {
    "another matrix": BOTH["transpose first"].replace("A[i, j] * y", "B[i, j] * y"),
    "a larger matrix": BOTH["transpose first"].replace("Σ[i < n]", "Σ[i < n - 1]"),
}


def both(body: str) -> str:
    arrays = "(A : float32[n, m], B : float32[n, m], x : float32[n], y : float32[m])"
    return f"{arrays} : float32[n + m]\n  given 1 <= n :=\n  {body}"


@pytest.mark.parametrize(("name", "loops"), [("transpose first", 1), ("transpose last", 2)])
def test_matrix_is_read_once_for_both_products(name: str, loops: int) -> None:
    s = optimized(both(BOTH[name]), machine=AVX2)
    assert applied(s) == ["share_rows"]
    (loop,) = print_nest(lower(s.goal)).split("    for i in 0..n:\n")[1:]
    assert loop.count("A[") == 2
    assert loop.count("for ") == loops
    check(s, {"n": 5, "m": 7})


@pytest.mark.parametrize("name", APART)
def test_other_products_are_computed_one_by_one(name: str) -> None:
    assert "share_rows" not in applied(optimized(both(APART[name]), machine=AVX2))
