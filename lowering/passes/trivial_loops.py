"""Removal of loops with at most one iteration, such as those over a border of one cell."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Extremum, Index, Quotient, Size, Var, atoms
from atl.core.marks import LoopMark
from atl.core.predicate import Predicate, at_most, conjunction, disjunction, less
from atl.prove import Facts, holds, simplify, simplify_predicate
from lowering.nest import loopnest as ln
from lowering.nest.substitution import at_iteration
from lowering.nest.tiles import Tiles, over_lanes, tiles_of
from lowering.passes.simplification import simplified_block


def without_trivial_loops(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `for i in l..h: s(i)` by `if l < h: s(l)`, if the loop has at most one iteration.

    This applies to unmarked innermost loops over assignments and accumulations, such as those for the first and last
    cell of a row, which compilers would vectorise. The variable is replaced by l or h - 1, whichever is a polynomial of
    sizes and variables. A loop is kept if neither is.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, body=_block(facts, nest.body, tiles_of(nest)))


def _block(facts: Facts, block: ln.Block, tiles: Tiles) -> ln.Block:
    return tuple(_statement(facts, statement, tiles) for statement in block)


def _statement(facts: Facts, statement: ln.Statement, tiles: Tiles) -> ln.Statement:
    match statement:
        case ln.For(body=body):
            if all(isinstance(inside, ln.Assign | ln.Accumulate) for inside in body):
                return _as_branch(facts, statement, tiles) or statement
            return ln.with_body(statement, _block(facts.assume(statement.range), body, tiles))
        case ln.If(predicate, body):
            return ln.with_body(statement, _block(facts.assume(predicate), body, tiles))
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
            return statement
    assert_never(statement)


def _as_branch(facts: Facts, loop: ln.For, tiles: Tiles) -> ln.If | None:
    """Return the only iteration of a loop as a branch, or None if the loop may have more iterations."""
    if loop.mark is not LoopMark.NONE or over_lanes(loop, tiles):
        return None
    # Without a minimum, maximum or quotient, the bounds cannot differ by 0 or 1 without being decided.
    if not any(isinstance(atom, Extremum | Quotient) for bound in (loop.low, loop.high) for atom in atoms(bound)):
        return None
    if not holds(facts, at_most(loop.high, loop.low + 1)):
        return None
    test = simplify_predicate(facts, _below(loop.low, loop.high))
    inside = facts.assume(test)
    for value in (simplify(inside, loop.low), simplify(inside, loop.high - 1)):
        if _is_polynomial(value):
            return ln.If(test, simplified_block(inside, at_iteration(loop, value)))
    return None


def _is_polynomial(value: Index) -> bool:
    return all(isinstance(atom, Size | Var) for atom in atoms(value))


def _below(low: Index, high: Index) -> Predicate:
    """Return low < high, with minima and maxima expanded to comparisons of their operands, which are simpler."""
    if isinstance(of := high.atom, Extremum):
        every, parts = of.kind == "min", [_below(low, choice) for choice in of.choices]
    elif isinstance(of := low.atom, Extremum):
        every, parts = of.kind == "max", [_below(choice, high) for choice in of.choices]
    else:
        return less(low, high)
    return conjunction(parts) if every else disjunction(parts)
