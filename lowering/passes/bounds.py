"""Loop nests whose loops run only where their bodies do something."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import assert_never

from atl.checks.safety import has_meaning
from atl.checks.scope import reads
from atl.core.index import Index, Var, ceildiv, constant, floordiv, imax, imin, index
from atl.core.marks import LoopMark
from atl.core.predicate import NonNegative, Predicate, conjunction, conjuncts
from atl.prove import Facts, holds
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    statements,
    with_body,
)
from lowering.nest.tiles import step
from lowering.passes.simplification import each_replaced, until_settled
from lowering.targets.capabilities import FULLY_UNROLLED


def with_tests_as_bounds(nest: LoopNest) -> LoopNest:
    """The loop nest with `for i in max(a, l)..b: s` in place of `for i in a..b: if l <= i: s`, and so for its end.

    A test that is linear in the variable of a loop whose whole body stands under it becomes a bound of the loop. Bounds
    are computed before the loop: so they must be proved to mean something there. They read no elements, since the sum
    of one and a number may not fit into 64 bits where comparing the two does. Loops that are to be unrolled or merged
    stay. So do those of few iterations that are innermost, or go over a window that slides with a loop around: C
    compilers write these out, and mask.
    """
    return until_settled(nest, _block)


def _block(facts: Facts, block: Block) -> Block:
    return each_replaced(block, lambda statement: (_statement(facts, statement),))


def _statement(facts: Facts, statement: Statement) -> Statement:
    match statement:
        case For():
            loop = _tightened(facts, statement)
            inner = _block(facts.assume(loop.range), loop.body)
            return loop if inner is loop.body else with_body(loop, inner)
        case If(predicate, body):
            inner = _block(facts.assume(predicate), body)
            return statement if inner is body else If(predicate, inner)
        case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return statement
    assert_never(statement)


def _tightened(facts: Facts, loop: For) -> For:
    if len(loop.body) != 1 or loop.mark in (LoopMark.UNROLL, LoopMark.MERGE) or _is_written_out(loop):
        return loop
    branch = loop.body[0]
    if not isinstance(branch, If):
        return loop
    low, high = [loop.low], [loop.high]
    left: list[Predicate] = []
    for part in conjuncts(branch.predicate):
        first, end = _bounds(facts, loop, part)
        low += first
        high += end
        if not first and not end:
            left.append(part)
    if len(low) == len(high) == 1:
        return loop
    inner = (replace(branch, predicate=conjunction(left)),) if left else branch.body
    return replace(loop, low=imax(*low), high=imin(*high), body=inner)


def _bounds(facts: Facts, loop: For, test: Predicate) -> tuple[list[Index], list[Index]]:
    """From where on a test holds, or before what end, if it is linear in the variable of the loop."""
    if not isinstance(test, NonNegative):
        return [], []
    factor = step(test.expression, loop.variable)
    if not factor:
        return [], []
    rest = test.expression - index(loop.variable) * factor
    if any(reads(rest)) or _slides(loop, rest) or not has_meaning(rest, partial(holds, facts)):
        return [], []
    if factor > 0:
        return [ceildiv(-rest, constant(factor))], []
    return [], [floordiv(rest, constant(-factor)) + 1]


def _is_written_out(loop: For) -> bool:
    return _is_short(loop) and not any(isinstance(inside, For) for inside in statements(loop.body))


def _is_short(loop: For) -> bool:
    length = (loop.high - loop.low).constant
    return length is not None and length <= FULLY_UNROLLED


def _slides(loop: For, rest: Index) -> bool:
    """Whether the loop goes over a window of few elements, at a place that moves by less than the window's length."""
    length = loop.high - loop.low
    return _is_short(loop) and any(
        abs(factor) < (length.constant or 0)
        for monomial, factor in rest.terms
        if any(isinstance(atom, Var) for atom in monomial)
    )
