"""Analysis of the cache lines that loops marked `stream` store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from atl.checks.scope import known_at_the_start
from atl.core.marks import LoopMark
from atl.prove import Facts
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
    unused_ids,
    with_body,
)
from lowering.nest.marked_loops.streams import lines_of


def with_cache_lines(nest: LoopNest) -> LoopNest:
    """Set `lines` of the loops marked `stream`: the cache lines that they store, or the reason why they store none."""
    if not any(isinstance(each, For) and each.mark is LoopMark.STREAM for each in statements(nest.body)):
        return nest
    facts = known_at_the_start(nest.assumptions, nest.inputs)
    return replace(nest, body=_block(nest.body, facts, unused_ids(nest)))


def _block(block: Block, facts: Facts, ids: Iterator[int]) -> Block:
    out: list[Statement] = []
    for statement in block:
        match statement:
            case For(mark=LoopMark.STREAM):
                out.append(replace(statement, lines=lines_of(statement, facts, ids)))
            case For(body=body):
                out.append(with_body(statement, _block(body, facts.assume(statement.range), ids)))
            case If(predicate, body):
                out.append(If(predicate, _block(body, facts.assume(predicate), ids)))
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
