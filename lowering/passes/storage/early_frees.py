"""Early frees: freeing a buffer after its last use."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import assert_never

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
    accessed,
    key,
    opposite,
    with_body,
)
from lowering.passes.dead_stores import loaded


def with_early_frees(nest: LoopNest) -> LoopNest:
    """Move each free to the last statement of its block that accesses the buffer.

    If that access is in a loop, the free follows the loop. The two branches of one test remain adjacent.
    """
    return replace(nest, body=_block(nest.body))


def _block(block: Block) -> Block:
    if not any(isinstance(statement, Free) for statement in block):
        return tuple(_inside(statement) for statement in block)
    after: dict[int, list[Statement]] = {}
    kept: list[Statement] = []
    last: dict[Hashable, int] = {}
    for statement in block:
        if isinstance(statement, Free):
            after.setdefault(last[key(statement.buffer)], []).append(statement)
            continue
        for mentioned in _mentioned(statement):
            last[mentioned] = len(kept)
        kept.append(_inside(statement))
    out: list[Statement] = []
    waiting: list[Statement] = []
    for at, statement in enumerate(kept):
        out.append(statement)
        waiting += after.get(at, [])
        if not (waiting and at + 1 < len(kept) and opposite(statement, kept[at + 1])):
            out += waiting
            waiting = []
    return tuple(out)


def _inside(statement: Statement) -> Statement:
    return with_body(statement, _block(statement.body)) if isinstance(statement, For | If) else statement


def _mentioned(statement: Statement) -> Iterator[Hashable]:
    """Yield the storage that a statement allocates, stores to or reads, at any depth."""
    match statement:
        case For(body=body) | If(body=body):
            for inside in body:
                yield from _mentioned(inside)
        case Assign(target, value) | Accumulate(target, _, value):
            yield accessed(target)
            yield from loaded(value)
        case Declare(variable, initial):
            yield key(variable)
            yield from loaded(initial)
        case Allocate(buffer) | Clear(buffer) | Free(buffer):
            yield key(buffer)
        case _:
            assert_never(statement)
