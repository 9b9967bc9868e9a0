"""Loop unswitching: moving loop-invariant conditions out of loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final, assert_never

from atl.checks.safety import has_meaning
from atl.core.marks import LoopMark
from atl.core.predicate import (
    FALSE,
    TRUE,
    All,
    Any,
    NonNegative,
    NonZero,
    Predicate,
    Zero,
    conjunction,
    conjuncts,
    disjunction,
    expressions,
    negation,
    predicate_order,
)
from atl.core.terms import BinaryOp, UnaryOp
from atl.prove import Facts, holds
from lowering.nest import loopnest as ln
from lowering.passes.simplification import each_replaced, until_settled

MOST_TESTS: Final = 2
"""Maximum number of inner conditions that leave an innermost loop, since each of them duplicates the loop."""


def with_unswitched_loops(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `for i: if p: s` by `if p: for i: s`, where p is loop-invariant.

    The invariant parts of a conjunction leave the loop, and so do conditions that all statements of the loop share, and
    pairs of opposite conditions. An innermost loop is also unswitched on other conditions in it, including those of
    selections; it is then duplicated, once for each outcome.

    A condition outside of a loop is also evaluated if the loop has no iterations. So its divisors must be proved
    positive, and its reads in bounds, outside of the loop. The condition is then known within the loop.
    """
    return until_settled(nest, _block)


def _block(facts: Facts, block: ln.Block) -> ln.Block:
    return each_replaced(block, partial(_statement, facts))


def _statement(facts: Facts, statement: ln.Statement) -> ln.Block:
    match statement:
        case ln.For(body=body):
            inner = _block(facts.assume(statement.range), body)
            return _loop(facts, statement if inner is body else ln.with_body(statement, inner))
        case ln.If(predicate, body):
            inner = _block(facts.assume(predicate), body)
            return (statement if inner is body else ln.If(predicate, inner),)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
            return (statement,)
    assert_never(statement)


def _loop(facts: Facts, loop: ln.For) -> ln.Block:
    """Unswitch a loop whose body was processed. Loops marked `merge` are kept."""
    if loop.mark is LoopMark.MERGE:
        return (loop,)
    shared = _shared(facts, loop)
    if shared:
        predicate = conjunction(shared)
        inner = tuple(_without(statement, shared) for statement in loop.body)
        return (ln.If(predicate, _loop(facts.assume(predicate), ln.with_body(loop, _spliced(inner)))),)
    tests: dict[Predicate, Predicate] = {}
    for predicate in _tests_of(loop.body):
        for test in _invariant_parts(facts, loop, predicate):
            tests.setdefault(_same(test), test)
    if not tests or len(tests) > MOST_TESTS:
        return (loop,)
    test = next(iter(tests.values()))
    return tuple(
        ln.If(outcome, _loop(facts.assume(outcome), ln.with_body(loop, body)))
        for outcome in (test, negation(test))
        if (body := _decided(loop.body, outcome))
    )


def _tests_of(body: ln.Block) -> Iterator[Predicate]:
    """Yield the conditions that may leave the loop: that of its two branches, or those in an innermost loop."""
    first = body[0]
    if isinstance(first, ln.If) and len(body) == 2 and ln.opposite(first, body[1]):
        yield first.predicate
    elif not any(isinstance(inside, ln.For | ln.Allocate | ln.Clear) for inside in ln.statements(body)):
        yield from _tests(body)


def _invariant_parts(facts: Facts, loop: ln.For, predicate: Predicate) -> Iterator[Predicate]:
    """Yield the loop-invariant parts of the predicate."""
    if _is_invariant(facts, loop, predicate):
        yield predicate
        return
    match predicate:
        case All(parts) | Any(parts):
            for part in parts:
                yield from _invariant_parts(facts, loop, part)
        case NonNegative() | Zero() | NonZero():
            pass
        case _:
            assert_never(predicate)


def _same(test: Predicate) -> Predicate:
    """Return one representative for a condition and its negation."""
    return min(test, negation(test), key=predicate_order)


def _shared(facts: Facts, loop: ln.For) -> tuple[Predicate, ...]:
    """Return the loop-invariant conditions that all statements of a loop share."""
    under = [conjuncts(statement.predicate) for statement in loop.body if isinstance(statement, ln.If)]
    if len(under) < len(loop.body) or not under:
        return ()
    shared = [part for part in under[0] if all(part in other for other in under[1:])]
    found: list[Predicate] = []
    for part in shared:
        if _is_invariant(facts, loop, part):
            found.append(part)
            facts = facts.assume(part)
    return tuple(found)


def _is_invariant(facts: Facts, loop: ln.For, predicate: Predicate) -> bool:
    """Return whether a condition is not constant, is loop-invariant, and is defined outside of the loop."""
    return (
        predicate not in (TRUE, FALSE)
        and not any(loop.variable.uid in e.free for e in expressions(predicate))
        and all(has_meaning(e, partial(holds, facts)) for e in expressions(predicate))
    )


def _without(statement: ln.Statement, shared: tuple[Predicate, ...]) -> ln.Statement:
    assert isinstance(statement, ln.If)
    return replace(
        statement, predicate=conjunction(part for part in conjuncts(statement.predicate) if part not in shared)
    )


def _spliced(block: ln.Block) -> ln.Block:
    """Inline the bodies of true conditions, unless their declarations would be visible to other statements."""
    out: list[ln.Statement] = []
    for statement in block:
        is_true = isinstance(statement, ln.If) and statement.predicate == TRUE
        inside = statement.body if isinstance(statement, ln.If) and is_true else (statement,)
        alone = len(block) == 1 or not any(isinstance(inner, ln.Declare | ln.Allocate) for inner in inside)
        out += inside if alone else (statement,)
    return tuple(out)


# -- inner conditions -------------------------------------------------------------------------------------------------


def _tests(block: ln.Block) -> Iterator[Predicate]:
    """Yield the conditions in a block, the outer ones first."""
    for statement in block:
        match statement:
            case ln.If(predicate, body):
                yield predicate
                yield from _tests(body)
            case ln.Assign(_, value) | ln.Accumulate(_, _, value) | ln.Declare(_, value):
                yield from _tests_in(value)
            case ln.For() | ln.Allocate() | ln.Clear() | ln.Free():
                pass
            case _:
                assert_never(statement)


def _tests_in(e: ln.ScalarExpr) -> Iterator[Predicate]:
    match e:
        case ln.Choose(predicate, left, right):
            yield predicate
            yield from _tests_in(left)
            yield from _tests_in(right)
        case ln.Apply(_, arguments):
            for argument in arguments:
                yield from _tests_in(argument)
        case ln.Convert(argument):
            yield from _tests_in(argument)
        case ln.Number() | ln.Load() | ln.FromIndex():
            pass
        case _:
            assert_never(e)


def _decided(block: ln.Block, outcome: Predicate) -> ln.Block:
    """Specialise a block to the known outcome of a condition."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.If(predicate, body):
                left = _known(predicate, outcome)
                inner = _decided(body, outcome)
                if left != FALSE and inner:
                    out.append(ln.If(left, inner))
            case ln.Assign(_, value) | ln.Accumulate(_, _, value):
                out.append(replace(statement, value=_chosen(value, outcome)))
            case ln.Declare(_, initial):
                out.append(replace(statement, initial=_chosen(initial, outcome)))
            case ln.For(body=body):
                if inner := _decided(body, outcome):
                    out.append(replace(statement, body=inner))
            case ln.Allocate() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return _spliced(tuple(out))


def _chosen(e: ln.ScalarExpr, outcome: Predicate) -> ln.ScalarExpr:
    match e:
        case ln.Choose(predicate, left, right):
            test = _known(predicate, outcome)
            if test == TRUE:
                return _chosen(left, outcome)
            if test == FALSE:
                return _chosen(right, outcome)
            return ln.Choose(test, _chosen(left, outcome), _chosen(right, outcome))
        case ln.Apply(op, arguments, dtype):
            return _applied(op, tuple(_chosen(argument, outcome) for argument in arguments), arguments, dtype)
        case ln.Convert(argument, dtype):
            return ln.Convert(_chosen(argument, outcome), dtype)
        case ln.Number() | ln.Load() | ln.FromIndex():
            return e
    assert_never(e)


def _applied(
    op: UnaryOp | BinaryOp, arguments: tuple[ln.ScalarExpr, ...], before: tuple[ln.ScalarExpr, ...], dtype: str
) -> ln.ScalarExpr:
    """Apply the operation, dropping selected zeros from sums."""
    chosen = [
        isinstance(old, ln.Choose) and new == ln.Number(0, dtype) for old, new in zip(before, arguments, strict=True)
    ]
    if op == "add" and any(chosen):
        return arguments[0] if chosen[1] else arguments[1]
    return ln.Apply(op, arguments, dtype)


def _known(predicate: Predicate, outcome: Predicate) -> Predicate:
    """Simplify a predicate by the known outcome of a condition."""
    if predicate == outcome:
        return TRUE
    if predicate == negation(outcome):
        return FALSE
    match predicate:
        case All(parts):
            return conjunction(_known(part, outcome) for part in parts)
        case Any(parts):
            return disjunction(_known(part, outcome) for part in parts)
        case NonNegative() | Zero() | NonZero():
            return predicate
    assert_never(predicate)
