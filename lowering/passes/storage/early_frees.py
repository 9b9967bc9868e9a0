"""Early frees: freeing a buffer after its last use."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import assert_never

from lowering.nest import loopnest as ln
from lowering.passes.dead_stores import loaded


def with_early_frees(nest: ln.LoopNest) -> ln.LoopNest:
    """Move each free to the last statement of its block that accesses the buffer.

    If that access is in a loop, the free follows the loop. The two branches of one test remain adjacent.
    """
    return replace(nest, body=_block(nest.body))


def _block(block: ln.Block) -> ln.Block:
    if not any(isinstance(statement, ln.Free) for statement in block):
        return tuple(_inside(statement) for statement in block)
    after: dict[int, list[ln.Statement]] = {}
    kept: list[ln.Statement] = []
    last: dict[Hashable, int] = {}
    for statement in block:
        if isinstance(statement, ln.Free):
            after.setdefault(last[ln.key(statement.buffer)], []).append(statement)
            continue
        for mentioned in _mentioned(statement):
            last[mentioned] = len(kept)
        kept.append(_inside(statement))
    out: list[ln.Statement] = []
    waiting: list[ln.Statement] = []
    for at, statement in enumerate(kept):
        out.append(statement)
        waiting += after.get(at, [])
        if not (waiting and at + 1 < len(kept) and ln.opposite(statement, kept[at + 1])):
            out += waiting
            waiting = []
    return tuple(out)


def _inside(statement: ln.Statement) -> ln.Statement:
    return ln.with_body(statement, _block(statement.body)) if isinstance(statement, ln.For | ln.If) else statement


def _mentioned(statement: ln.Statement) -> Iterator[Hashable]:
    """Yield the storage that a statement allocates, stores to or reads, at any depth."""
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            for inside in body:
                yield from _mentioned(inside)
        case ln.Assign(target, value) | ln.Accumulate(target, _, value):
            yield ln.accessed(target)
            yield from loaded(value)
        case ln.Declare(variable, initial):
            yield ln.key(variable)
            yield from loaded(initial)
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer):
            yield ln.key(buffer)
        case _:
            assert_never(statement)
