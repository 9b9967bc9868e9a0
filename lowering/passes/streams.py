"""Which streamed loops store whole lines of the cache, and how."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import assert_never

from atl.checks.scope import initial_facts
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
from lowering.nest.walks.streams import lines_of


def with_lines(nest: LoopNest) -> LoopNest:
    """The loop nest whose loops that are marked `stream` have the `lines` that they store, or why there are none."""
    if not any(isinstance(each, For) and each.mark is LoopMark.STREAM for each in statements(nest.body)):
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
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
