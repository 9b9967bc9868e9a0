"""Conversion of guards around loop bodies to loop bounds."""

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
from lowering.nest import loopnest as ln
from lowering.nest.tiles import step
from lowering.passes.simplification import each_replaced, until_settled
from lowering.targets.capabilities import FULLY_UNROLLED


def with_guards_as_bounds(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `for i in a..b: if l <= i: s` by `for i in max(a, l)..b: s`, and likewise for upper bounds.

    The guard must cover the whole body and be linear in the loop variable. Bounds are computed before the loop, so they
    must be proved to be defined there. Bounds do not read array elements: adding to an element may overflow where a
    comparison does not.

    Loops marked `unroll` or `merge` are kept. So are short innermost loops, and short loops over a window that slides
    with an outer loop, because C compilers unroll these and use masks.
    """
    return until_settled(nest, _block)


def _block(facts: Facts, block: ln.Block) -> ln.Block:
    return each_replaced(block, lambda statement: (_statement(facts, statement),))


def _statement(facts: Facts, statement: ln.Statement) -> ln.Statement:
    match statement:
        case ln.For():
            loop = _tightened(facts, statement)
            inner = _block(facts.assume(loop.range), loop.body)
            return loop if inner is loop.body else ln.with_body(loop, inner)
        case ln.If(predicate, body):
            inner = _block(facts.assume(predicate), body)
            return statement if inner is body else ln.If(predicate, inner)
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
            return statement
    assert_never(statement)


def _tightened(facts: Facts, loop: ln.For) -> ln.For:
    if len(loop.body) != 1 or loop.mark in (LoopMark.UNROLL, LoopMark.MERGE) or _is_written_out(loop):
        return loop
    branch = loop.body[0]
    if not isinstance(branch, ln.If):
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


def _bounds(facts: Facts, loop: ln.For, test: Predicate) -> tuple[list[Index], list[Index]]:
    """Return lower and upper bounds that are equivalent to a condition, if it is linear in the loop variable."""
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


def _is_written_out(loop: ln.For) -> bool:
    return _is_short(loop) and not any(isinstance(inside, ln.For) for inside in ln.statements(loop.body))


def _is_short(loop: ln.For) -> bool:
    length = (loop.high - loop.low).constant
    return length is not None and length <= FULLY_UNROLLED


def _slides(loop: ln.For, rest: Index) -> bool:
    """Return whether a short loop covers a window that moves with an outer loop by less than its length."""
    length = loop.high - loop.low
    return _is_short(loop) and any(
        abs(factor) < (length.constant or 0)
        for monomial, factor in rest.terms
        if any(isinstance(atom, Var) for atom in monomial)
    )
