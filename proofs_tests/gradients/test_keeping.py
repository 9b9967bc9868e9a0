"""Gradients that read lets which the forward pass keeps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.program import Program
from atl.errors import InvalidArgument
from gradients.keeping import outermost
from rewrites.errors import NotATheorem
from rewrites.kernel import reflexivity

SOFTMAX = atl.parse(
    """softmax (x : float64[n, m]) : float64[n, m] :=
       ⊞[i < n]
         let top := max[j < m] x[i, j] in
         let power := ⊞[j < m] exp(x[i, j] - stop(top)) in
         let total := Σ[j < m] power[j] in
         ⊞[j < m] power[j] / total"""
)
TANH = atl.parse("activation (x : float64[n]) : float64[n] := let y := tanh(x) in y")
TWO = atl.parse(
    """two (x : float64[n], s : float64) : (y : float64[n], z : float64) :=
       let e := ⊞[i < n] exp(s * x[i]) in e ++ ⊞[j < 1] Σ[i < n] e[i] * e[i]"""
)
PROGRAMS = {"softmax": SOFTMAX, "activation": TANH, "two": TWO}
KEEP = {"softmax": ["power", "total"], "activation": ["y"], "two": ["e"]}


@pytest.mark.parametrize("name", KEEP)
def test_gradient_with_kept_lets_agrees(name: str) -> None:
    p = PROGRAMS[name]
    numbers = np.random.default_rng(0)
    shapes = {"x": (2, 3) if name == "softmax" else (4,), "s": ()}
    given = [numbers.normal(size=shapes[array.name]) for array in p.inputs]
    found = atl.gradient(p, "x", keep=KEEP[name])
    assert found.forward is not None
    forward: Any = atl.evaluate(found.forward, *given)
    results = [*forward] if found.forward.results else [forward]
    kept = results[-len(KEEP[name]) :]
    along = numbers.normal(size=np.size(np.concatenate([np.ravel(each) for each in [*_evaluated(p, given)]])))
    along = along if p.results else along.reshape(results[0].shape)
    assert np.allclose(
        np.asarray(atl.evaluate(found.program, *given, *kept, along)),
        np.asarray(atl.evaluate(atl.gradient(p, "x").program, *given, along)),
    )
    for result, expected in zip(results, _evaluated(p, given), strict=False):
        assert np.allclose(result, expected)


def _evaluated(p: Program, given: list[Any]) -> list[Any]:
    made: Any = atl.evaluate(p, *given)
    return [*made] if p.results else [made]


@pytest.mark.long
def test_kept_lets_are_not_computed_again() -> None:
    found = atl.gradient(SOFTMAX, "x", keep=["power", "total"])
    assert "exp" not in str(found.program)
    assert [array.name for array in found.program.inputs] == ["x", "power", "total", "dout"]
    assert found.theorem.lhs.name == "softmax_tangent_paired"
    layer = atl.differentiable(SOFTMAX, keep=["power", "total"])
    assert layer.backward(("x",)).each[0].reads == (1, 2)
    assert atl.differentiable(TANH, keep="y").extended.results == ()


@pytest.mark.long
def test_kept_lets_are_outside_of_all_loops() -> None:
    theorem = atl.gradient(SOFTMAX, "x", keep="power").kept
    assert theorem is not None
    assert "  let top := ⊞[i < n] max[j < m] x[i, j] in\n  let power :=" in str(theorem.outermost.rhs)
    nested = atl.parse(
        "f (x : float64[n]) : float64[n] := ⊞[i < n] 2 * (let a := exp(x[i]) in let b := a * a in b * b)"
    )
    found = atl.gradient(nested, "x", keep="b")
    at, along = np.array([0.5, -1.0]), np.array([1.0, 2.0])
    assert found.forward is not None
    forward: Any = atl.evaluate(found.forward, at)
    assert np.allclose(np.asarray(atl.evaluate(found.program, at, forward.b, along)), 8 * np.exp(4 * at) * along)


@pytest.mark.long
def test_wrong_kept_lets_are_refused() -> None:
    found = atl.gradient(SOFTMAX, "x", keep="total")
    with pytest.raises(NotATheorem, match="is not the gradient of its theorem"):
        replace(found, program=atl.gradient(SOFTMAX, "x").program)
    assert found.kept is not None
    doubled = atl.parse(str(SOFTMAX).replace("Σ[j < m] power[j]", "2 * Σ[j < m] power[j]"))
    with pytest.raises(NotATheorem, match="the forward pass does not compute total as its theorem does"):
        replace(found.kept, outermost=outermost(doubled, ["total"]))
    with pytest.raises(NotATheorem, match="the gradient does not compute total"):
        str(replace(found.kept, computed=atl.gradient(doubled, "x").program).program)
    in_rows = atl.parse(
        "f (x : float64[n], s : float64) : float64[n] given 1 <= n := "
        "rec[1 <= p < n] y from ⊞[i < 1] x[i] in let a := y[p - 1] * s in a + x[p]"
    )
    with pytest.raises(atl.DoesNotApply, match="between it and the place of the binding"):
        atl.differentiable(in_rows, keep="a")
    for keep, message in ((["totl"], "did you mean total"), (3, "keep=3"), (["i"], "no let of softmax is named 'i'")):
        wrong: Any = keep
        with pytest.raises(InvalidArgument, match=message):
            atl.gradient(SOFTMAX, "x", keep=wrong)


def test_kept_let_may_have_another_type() -> None:
    program = atl.parse(
        "f (x : float32[n], i : int32[n]) : float32[n] := "
        "let a := ⊞[k < n] i[k] + i[k] in ⊞[k < n] cast(float32, a[k]) * x[k]"
    )
    made = atl.gradient(program, "x", keep="a")
    i, dout = np.array([1, 2, 2**30 - 1], np.int32), np.array([1.0, 2.0, 3.0], np.float32)
    assert [array.dtype for array in made.program.inputs] == ["float32", "int32", "int32", "float32"]
    assert np.array_equal(
        atl.compile(made.program)(np.ones(3, np.float32), i, i + i, dout), dout * (i + i).astype(np.float32)
    )


LETS = """f (x : float64[n]) : float64[n] :=
  let a := ⊞[i < n] exp(x[i]) in let {second} := ⊞[i < n] sin(x[i]) * a[i] in ⊞[i < n] a[i] * {second}[i]"""
BOUNDED = """g (x : float64[n]) : float64[n] given n <= 3 := let e := ⊞[i < n] exp(x[i]) in ⊞[i < n] e[i] * e[i]"""


def test_name_of_two_lets_is_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"2 lets of f are named 'a'(.|\n)*try: give each of these lets"):
        atl.gradient(atl.parse(LETS.format(second="a")), "x", keep="a")


def test_theorem_about_another_let_of_the_same_name_is_refused() -> None:
    kept = atl.gradient(atl.parse(LETS.format(second="b")), "x", keep=["a", "b"]).kept
    assert kept is not None
    with pytest.raises(NotATheorem, match="the forward pass does not compute a"):
        replace(kept, values=kept.values[::-1])
    of_both = outermost(atl.parse(LETS.format(second="b")), ["a", "b"])
    ambiguous = reflexivity(replace(of_both.rhs, body=atl.parse(LETS.format(second="a")).body))
    with pytest.raises(NotATheorem, match="2 outermost lets of f are named a"):
        replace(kept, names=("a",), outermost=ambiguous, values=kept.values[1:])


def test_theorem_with_other_assumptions_is_refused() -> None:
    free, bounded = (
        atl.gradient(atl.parse(text), "x", keep="e") for text in (BOUNDED.replace("given n <= 3 ", ""), BOUNDED)
    )
    assert free.kept is not None
    assert bounded.kept is not None
    assert free.program.body == bounded.program.body
    with pytest.raises(NotATheorem, match="the forward pass does not compute e as its theorem does"):
        replace(free.kept, values=bounded.kept.values)
    with pytest.raises(NotATheorem, match="the theorem about e has other assumptions than g_gradient"):
        str(replace(bounded.kept, computed=free.kept.computed).program)
    plain = atl.gradient(atl.parse(BOUNDED), "x")
    with pytest.raises(NotATheorem, match="is not the gradient of its theorem"):
        replace(plain, program=replace(plain.program, assumptions=()))


def test_forward_program_of_another_theorem_is_refused() -> None:
    ours, theirs = (
        atl.gradient(atl.parse(BOUNDED.replace("e[i] * e[i]", text)), "x", keep="e")
        for text in ("e[i] * e[i]", "2 * e[i]")
    )
    assert ours.kept is not None
    assert theirs.kept is not None
    with pytest.raises(NotATheorem, match="is not about the program with the kept lets"):
        replace(ours, kept=replace(ours.kept, outermost=theirs.kept.outermost))
    with pytest.raises(NotATheorem, match="the kept lets are not those of g"):
        replace(ours, of=theirs.of)
