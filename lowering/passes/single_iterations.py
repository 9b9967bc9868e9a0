"""Loop nests without loops that run once or not at all: of a border of one cell compilers make a loop of vectors."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Extremum, Index, Quotient, Size, Var, atoms
from atl.core.marks import LoopMark
from atl.core.predicate import Predicate, at_most, conjunction, disjunction, less
from atl.prove import Facts, holds, simplify, simplify_predicate
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
    with_body,
)
from lowering.nest.substitution import at_iteration
from lowering.nest.tiles import Tiles, over_lanes, tiles_of
from lowering.passes.simplification import simplified_block


def with_single_iterations(nest: LoopNest) -> LoopNest:
    """The loop nest with `if l < h: s(l)` in place of `for i in l..h: s(i)`, where that is at most one iteration.

    Of innermost loops without a mark over assignments and sums, such as those of the first and the last cell of a row.
    The variable is l or h - 1, whichever is a polynomial of sizes and variables; a loop of which neither is one stays.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, body=_block(facts, nest.body, tiles_of(nest)))


def _block(facts: Facts, block: Block, tiles: Tiles) -> Block:
    return tuple(_statement(facts, statement, tiles) for statement in block)


def _statement(facts: Facts, statement: Statement, tiles: Tiles) -> Statement:
    match statement:
        case For(body=body):
            if all(isinstance(inside, Assign | Accumulate) for inside in body):
                return _as_branch(facts, statement, tiles) or statement
            return with_body(statement, _block(facts.assume(statement.range), body, tiles))
        case If(predicate, body):
            return with_body(statement, _block(facts.assume(predicate), body, tiles))
        case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return statement
    assert_never(statement)


def _as_branch(facts: Facts, loop: For, tiles: Tiles) -> If | None:
    """The only iteration of a loop, under the condition that there is one; none of a loop that may run twice."""
    if loop.mark is not LoopMark.NONE or over_lanes(loop, tiles):
        return None
    # Without a minimum, a maximum or a quotient no difference of bounds is known to be so small, and not to be one.
    if not any(isinstance(atom, Extremum | Quotient) for bound in (loop.low, loop.high) for atom in atoms(bound)):
        return None
    if not holds(facts, at_most(loop.high, loop.low + 1)):
        return None
    test = simplify_predicate(facts, _below(loop.low, loop.high))
    inside = facts.assume(test)
    for value in (simplify(inside, loop.low), simplify(inside, loop.high - 1)):
        if _is_polynomial(value):
            return If(test, simplified_block(inside, at_iteration(loop, value)))
    return None


def _is_polynomial(value: Index) -> bool:
    return all(isinstance(atom, Size | Var) for atom in atoms(value))


def _below(low: Index, high: Index) -> Predicate:
    """low < high, said of the choices where one is a minimum or a maximum: each of those can be simpler, or decided."""
    if isinstance(of := high.atom, Extremum):
        every, parts = of.kind == "min", [_below(low, choice) for choice in of.choices]
    elif isinstance(of := low.atom, Extremum):
        every, parts = of.kind == "max", [_below(choice, high) for choice in of.choices]
    else:
        return less(low, high)
    return conjunction(parts) if every else disjunction(parts)
