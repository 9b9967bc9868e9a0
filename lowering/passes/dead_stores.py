"""Dead store elimination: removal of variables and buffers that the output does not depend on."""

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
    ScalarExpr,
    Statement,
    accessed,
    key,
    statements,
    with_body,
)
from lowering.nest.tiles import sources


def without_dead_stores(nest: LoopNest) -> LoopNest:
    """Remove the stores that the output does not depend on."""
    needed = _needed(nest)
    return replace(nest, body=_kept(nest.body, needed))


def _needed(nest: LoopNest) -> frozenset[Hashable]:
    """Return the storage that the output depends on, including the output."""
    stores = [s for s in statements(nest.body) if isinstance(s, Assign | Accumulate | Declare)]
    reads: dict[Hashable, set[Hashable]] = {}
    for store in stores:
        value = store.initial if isinstance(store, Declare) else store.value
        reads.setdefault(_target(store), set()).update(loaded(value))
    needed: set[Hashable] = set()
    waiting: list[Hashable] = [key(nest.output)]
    while waiting:
        found = waiting.pop()
        if found not in needed:
            needed.add(found)
            waiting.extend(reads.get(found, ()))
    return frozenset(needed)


def _target(store: Assign | Accumulate | Declare) -> Hashable:
    return accessed(store.variable if isinstance(store, Declare) else store.target)


def loaded(e: ScalarExpr) -> Iterator[Hashable]:
    """Return the storage that an expression reads."""
    return map(accessed, sources(e))


def _kept(block: Block, needed: frozenset[Hashable]) -> Block:
    return tuple(kept for statement in block for kept in _statement(statement, needed))


def _statement(statement: Statement, needed: frozenset[Hashable]) -> Block:
    """Return the needed part of the statement."""
    match statement:
        case For(body=body) | If(body=body):
            inner = _kept(body, needed)
            return (with_body(statement, inner),) if inner else ()
        case Assign() | Accumulate() | Declare():
            return (statement,) if _target(statement) in needed else ()
        case Allocate(buffer) | Clear(buffer) | Free(buffer):
            return (statement,) if key(buffer) in needed else ()
    assert_never(statement)
