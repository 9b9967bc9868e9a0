"""Dead store elimination: removal of variables and buffers that the output does not depend on."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import assert_never

from lowering.nest import loopnest as ln
from lowering.nest.tiles import sources


def without_dead_stores(nest: ln.LoopNest) -> ln.LoopNest:
    """Remove the stores that the output does not depend on."""
    needed = _needed(nest)
    return replace(nest, body=_kept(nest.body, needed))


def _needed(nest: ln.LoopNest) -> frozenset[Hashable]:
    """Return the storage that the output depends on, including the output."""
    stores = [s for s in ln.statements(nest.body) if isinstance(s, ln.Assign | ln.Accumulate | ln.Declare)]
    reads: dict[Hashable, set[Hashable]] = {}
    for store in stores:
        value = store.initial if isinstance(store, ln.Declare) else store.value
        reads.setdefault(_target(store), set()).update(loaded(value))
    needed: set[Hashable] = set()
    waiting: list[Hashable] = [ln.key(nest.output)]
    while waiting:
        found = waiting.pop()
        if found not in needed:
            needed.add(found)
            waiting.extend(reads.get(found, ()))
    return frozenset(needed)


def _target(store: ln.Assign | ln.Accumulate | ln.Declare) -> Hashable:
    return ln.accessed(store.variable if isinstance(store, ln.Declare) else store.target)


def loaded(e: ln.ScalarExpr) -> Iterator[Hashable]:
    """Return the storage that an expression reads."""
    return map(ln.accessed, sources(e))


def _kept(block: ln.Block, needed: frozenset[Hashable]) -> ln.Block:
    return tuple(kept for statement in block for kept in _statement(statement, needed))


def _statement(statement: ln.Statement, needed: frozenset[Hashable]) -> ln.Block:
    """Return the needed part of the statement."""
    match statement:
        case ln.For(body=body) | ln.If(body=body):
            inner = _kept(body, needed)
            return (ln.with_body(statement, inner),) if inner else ()
        case ln.Assign() | ln.Accumulate() | ln.Declare():
            return (statement,) if _target(statement) in needed else ()
        case ln.Allocate(buffer) | ln.Clear(buffer) | ln.Free(buffer):
            return (statement,) if ln.key(buffer) in needed else ()
    assert_never(statement)
