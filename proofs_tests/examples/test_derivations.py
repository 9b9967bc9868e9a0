"""Derivations of the programs of Fig. 8.6: no more steps than the authors', and kernels that agree."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from atl import Program
from atl.checks.wellformed import make_program
from examples import derivations, everyday
from examples.schedules import blur, convolution, matmul, tensor_addition
from lowering import compile as compile_kernel
from proofs_tests.examples.test_figure_8_6 import arguments, cases
from rewrites import Derivation, Session
from rewrites.errors import PremiseFailed
from rewrites.kernel import Theorem, reflexivity, rewrite

pytestmark = pytest.mark.sampled

DERIVED: dict[str, tuple[Callable[[], Session], Callable[[], Program], int]] = {
    # name: (derivation, the schedule it reaches, the steps of the authors)
    "tiled matmul": (derivations.matmul_tiled, matmul.tiled, 18),
    "tiled+tails matmul": (derivations.matmul_tiled_with_tails, matmul.tiled_with_tails, 21),
    "split tensor add": (derivations.addition_flat, tensor_addition.flat, 39),
    "gather conv": (derivations.scatter_to_gather, convolution.gather, 17),
    "im2col conv": (derivations.im2col, convolution.im2col, 8),
    "fused blur": (derivations.blur_fused, blur.fused, 13),
    "fused+tails blur": (derivations.blur_fused_with_tails, blur.fused_with_tails, 13),
    "tiled+tails+staged blur": (derivations.blur_tiled_staged_with_tails, blur.tiled_staged_with_tails, 40),
}

PIPELINES: dict[str, tuple[Callable[[], Session], int, str]] = {
    "fused": (derivations.pipeline_fused, 3, "⊞[i < n] [1 <= i] · 2 * f[i - 1] + 2 * f[i]"),
    "split": (derivations.pipeline_split, 4, "(⊞[i < 1] 2 * f[i]) ++ ⊞[1 <= i < n] 2 * f[i - 1] + 2 * f[i]"),
    "tiled": (
        derivations.pipeline_tiled,
        13,
        (
            "truncr (8*⌈n / 8⌉ - n) flatten ⊞[i < ⌈n / 8⌉] let v := ⊞[j < 8] [8*i + j < n] · "
            "([1 <= 8*i + j] · 2 * f[8*i + j - 1] + 2 * f[8*i + j]) in ⊞[j < 8] [8*i + j < n] · v[j]"
        ),
    ),
    "shift": (derivations.convolution_shift, 9, "⊞[i < n] [2 <= i <= m + 1] · 1.0 * c[i - 2]"),
}


@pytest.mark.parametrize("name", DERIVED)
def test_derivation_reaches_its_schedule_in_few_steps(name: str) -> None:
    derivation, target, authors = DERIVED[name]
    session = derivation()
    assert session.goal.body == target().body
    assert len(session.steps) <= authors


def test_two_stage_blur_has_its_border_peeled() -> None:
    session = derivations.blur_two_stage_with_tails()
    assert len(session.steps) <= 13
    kernel = compile_kernel(session.goal)
    for at in cases("blur"):
        given, expected = arguments(session.goal, at)
        np.testing.assert_array_equal(kernel(**given), expected, err_msg=str(at))


@pytest.mark.parametrize("name", PIPELINES)
def test_pipeline_is_derived_as_in_chapter_4(name: str) -> None:
    derivation, authors, written = PIPELINES[name]
    session = derivation()
    assert " ".join(str(session.goal).split(":=", 1)[1].split()) == written
    assert len(session.steps) <= authors


@pytest.mark.parametrize("name", DERIVED)
def test_derived_kernel_agrees_with_its_start(name: str) -> None:
    theorem = DERIVED[name][0]().done()
    start, end = compile_kernel(theorem.lhs), compile_kernel(theorem.rhs)
    for at in cases(name):
        given, expected = arguments(theorem.lhs, at)
        for kernel in (start, end):
            free: dict[str, Any] = {size: at[size] for size in kernel.program.free_sizes}
            np.testing.assert_array_equal(kernel(**given, **free), expected, err_msg=str(at))


@pytest.mark.parametrize("name", PIPELINES)
def test_derived_pipeline_agrees_with_its_start(name: str) -> None:
    theorem = PIPELINES[name][0]().done()
    start, end = compile_kernel(theorem.lhs), compile_kernel(theorem.rhs)
    for n in (1, 2, 7, 8, 9, 23):
        values: Any = np.arange(1, n + 1, dtype=np.float32)
        free: dict[str, Any] = {"n": n} if "n" in start.program.free_sizes else {}
        np.testing.assert_array_equal(end(values, **free), start(values, **free))


GIVEN: dict[str, Callable[[], Session]] = {
    **{name: derivation for name, (derivation, _, _) in DERIVED.items()},
    **{f"pipeline {name}": derivation for name, (derivation, _, _) in PIPELINES.items()},
    "two-stage+tails blur": derivations.blur_two_stage_with_tails,
}


def replay(start: Program, theorem: Theorem) -> None:
    """Apply the steps of a theorem to another start."""
    again = reflexivity(start)
    for step in theorem.steps:
        again = rewrite(again, step.rule, step.path, step.arguments, reverse=step.reverse)


@pytest.mark.parametrize("name", GIVEN)
def test_every_assumption_is_needed(name: str) -> None:
    """Remove one assumption at a time; each derivation then stops at a step with an unproved premise."""
    theorem = GIVEN[name]().done()
    start = theorem.lhs
    own = make_program(start.name, start.inputs, start.body).assumptions
    for left_out in start.assumptions:
        if left_out in own:
            continue
        fewer = tuple(assumption for assumption in start.assumptions if assumption != left_out)
        with pytest.raises(PremiseFailed):
            replay(replace(start, assumptions=fewer), theorem)


@pytest.mark.long
@pytest.mark.parametrize("made", [derivations.pipeline_tiled, derivations.im2col, everyday.softmax_by_rows])
def test_search_skips_exactly_the_inapplicable_places(made: Callable[[], Session]) -> None:
    work = made().begin()
    found = 0
    for rule in work.rules.values():
        for reverse in (False, True):
            for cursor in work.cursors():
                trial = Derivation(work.theorem, work.rules)
                taken = trial.attempted(rule, cursor.path, {}, reverse=reverse)
                assert work.applies(rule, cursor, {}, reverse=reverse) == taken, (rule.name, reverse, cursor.path)
                found += taken
    assert work.taken == 0
    assert found > 20
