"""Instances of rules: premises and checks of a step without its program."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any

import pytest

import atl
from atl.checks.scope import outermost, parts_in_scope
from atl.core.forms import Role, slots_of
from atl.core.predicate import negation
from atl.core.terms import Access, Binary, Expr, Unary
from atl.errors import ATLError
from proofs_tests.rules.test_statements import SESSIONS
from rewrites import reschedule, rules
from rewrites.cursors.cursor import cursor_at
from rewrites.errors import NotATheorem, NotEqual, PremiseFailed
from rewrites.kernel import instance_at, reflexivity, with_names_and_marks_at


@pytest.mark.sampled
@pytest.mark.parametrize("name", SESSIONS)
def test_premises_depend_on_the_arguments_only(name: str) -> None:
    for step in SESSIONS[name]().done().steps:
        assert step.rule.premises(step.arguments) == step.rule.instance(step.arguments).premises


@pytest.mark.sampled
@pytest.mark.parametrize("name", SESSIONS)
def test_instance_at_makes_the_step_of_the_kernel(name: str) -> None:
    for call in SESSIONS[name]().steps:
        for step, before, after in call.traced():
            cursor, made = cursor_at(before, step.path), cursor_at(after, step.path)
            found, _ = instance_at(step.rule, step.arguments, cursor.term, cursor.scope, reverse=step.reverse)
            assert found == made.term


def with_one_field_changed(term: Expr) -> Iterator[Expr]:
    """Yield terms that differ from a term in one field."""
    for slot in slots_of(type(term)):
        value: Any = getattr(term, slot.name)
        other: Any = None
        match slot.role:
            case Role.INDEX:
                other = value + 1
            case Role.PREDICATE:
                other = negation(value)
            case Role.PART:
                other = Unary("neg", value)
            case Role.STATIC:
                other = next(word for word in ("add", "mul", "sum", "max") if word != value)
            case _:
                continue
        with suppress(ATLError):
            yield replace(term, **{slot.name: other})


@pytest.mark.long
@pytest.mark.parametrize("name", SESSIONS)
def test_step_with_one_changed_field_is_refused(name: str) -> None:
    tried: set[tuple[str, bool]] = set()
    fields = 0
    for step, before in ((step, before) for call in SESSIONS[name]().steps for step, before, _ in call.traced()):
        if (step.rule.name, step.reverse) in tried:
            continue
        tried.add((step.rule.name, step.reverse))
        cursor = cursor_at(before, step.path)
        for other in with_one_field_changed(cursor.term):
            fields += 1
            with pytest.raises(NotEqual):
                instance_at(step.rule, step.arguments, other, cursor.scope, reverse=step.reverse)
    assert fields > len(tried)


@pytest.mark.long
@pytest.mark.parametrize("name", SESSIONS)
def test_renaming_with_one_changed_field_is_refused(name: str) -> None:
    theorem = reflexivity(SESSIONS[name]().goal)
    tried: set[type] = set()
    for path, term, _ in parts_in_scope(theorem.rhs.body, outermost(theorem.rhs)):
        if type(term) in tried:
            continue
        tried.add(type(term))
        for other in with_one_field_changed(term):
            with pytest.raises(NotATheorem):
                with_names_and_marks_at(theorem, path, other)
    assert {Access, Binary} <= tried


def test_premises_that_need_z3_are_refused_in_fast_mode() -> None:
    n, m = atl.sizes("n m")
    x = atl.tensor("x", n)
    square = 2 * n * m <= n * n + m * m
    guarded = atl.program("f", [x], atl.guard(square, x))
    arguments = {"p": square.node, "e": x.node}
    for thorough in (True, False):
        with nullcontext() if thorough else pytest.raises(PremiseFailed):
            instance_at(rules["guard_true"], arguments, guarded.body, outermost(guarded), thorough=thorough)


def test_instance_needs_its_premises() -> None:
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    program = atl.program("f", [x], atl.gen(n, lambda i: atl.guard(i >= 1, x[i])))
    guarded = cursor_at(program, (0,))
    rule = rules["guard_true"]
    arguments = {"p": guarded.term.predicate, "e": guarded.term.body}  # type: ignore[union-attr]
    with pytest.raises(PremiseFailed):
        instance_at(rule, arguments, guarded.term, guarded.scope)
    with pytest.raises(NotEqual):
        instance_at(rule, arguments, program.body, outermost(program))
    assert reschedule(program).goal.body == program.body
