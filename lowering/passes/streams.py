"""Analysis of the cache lines that loops marked `stream` store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.marks import LoopMark
from atl.prove import Facts
from lowering.nest import loopnest as ln
from lowering.nest.marked_loops.streams import lines_of


def with_cache_lines(nest: ln.LoopNest) -> ln.LoopNest:
    """Set `lines` of the loops marked `stream`: the cache lines that they store, or the reason why they store none."""
    if not any(isinstance(each, ln.For) and each.mark is LoopMark.STREAM for each in ln.statements(nest.body)):
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, body=_block(nest.body, facts, ln.unused_ids(nest)))


def _block(block: ln.Block, facts: Facts, ids: Iterator[int]) -> ln.Block:
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.For(mark=LoopMark.STREAM):
                out.append(replace(statement, lines=lines_of(statement, facts, ids)))
            case ln.For(body=body):
                out.append(ln.with_body(statement, _block(body, facts.assume(statement.range), ids)))
            case ln.If(predicate, body):
                out.append(ln.If(predicate, _block(body, facts.assume(predicate), ids)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
