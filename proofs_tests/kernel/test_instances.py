"""An instance of a rule by itself: its premises told from its arguments, and its checks in a scope alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import atl
from atl.checks.scope import outermost
from examples import beyond_the_paper, derivations
from rewrites import Session, reschedule, rules
from rewrites.errors import NotEqual, PremiseFailed
from rewrites.kernel import instance_at
from rewrites.matching.premises import premises_of
from rewrites.places.site import site_at

STEPS: dict[str, Callable[[], Session]] = {
    "tails of matmul": derivations.matmul_tiled_with_tails,
    "tails of blur": derivations.blur_fused_with_tails,
    "flat addition": derivations.addition_flat,
    "scatter to gather": derivations.scatter_to_gather,
    "tiled stencils": beyond_the_paper.stencils_tiled,
}


@pytest.mark.parametrize("name", STEPS)
def test_premises_are_told_from_the_arguments_alone(name: str) -> None:
    for step in STEPS[name]().done().steps:
        assert premises_of(step.rule, step.arguments) == step.rule.instance(step.arguments).premises


@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_the_kernel_is_an_instance_checked_where_it_stands(name: str) -> None:
    for call in STEPS[name]().steps:
        for step, before, after in call.traced():
            site, made = site_at(before, step.path), site_at(after, step.path)
            found, _ = instance_at(step.rule, step.arguments, site.term, site.scope, reverse=step.reverse)
            assert found == made.term


def test_an_instance_is_refused_where_its_premises_do_not_hold() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    program = atl.program("f", [x], atl.gen(n, lambda i: atl.guard(i >= 1, x[i])))
    guarded = site_at(program, (0,))
    rule = rules["guard_true"]
    arguments = {"p": guarded.term.predicate, "e": guarded.term.body}  # type: ignore[union-attr]
    with pytest.raises(PremiseFailed):
        instance_at(rule, arguments, guarded.term, guarded.scope)
    with pytest.raises(NotEqual):
        instance_at(rule, arguments, program.body, outermost(program))
    assert reschedule(program).goal.body == program.body
