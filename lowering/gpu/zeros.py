"""Shared buffers that are stored in full: a zero for each element of which the program stores nothing.

Shared memory holds nothing at the start. So a buffer that counts on zeros is cleared by all threads, and they wait for
each other, before any of it is stored. Where one statement runs as often as the buffer has cells, and never twice for
one of them, it comes to each of them: then it stores a zero where its conditions do not hold, and nothing is cleared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import ZERO, index
from atl.core.marks import LetMark
from atl.core.predicate import Predicate, conjunction, equal, within
from atl.prove import Facts, proves
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Cell,
    Choose,
    Clear,
    Declare,
    For,
    Free,
    If,
    Number,
    Statement,
    accessed,
    key,
    statements,
)
from lowering.nest.meeting import meeting, other


def with_zeros_stored(block: Block, facts: Facts) -> Block:
    """The block with stores of zeros in place of cleared buffers, where it is proved that they come to each cell."""
    for allocate in [s for s in statements(block) if isinstance(s, Allocate)]:
        if allocate.zeroed and allocate.mark is not LetMark.REGISTERS:
            block = _stored(block, allocate, facts)
    return block


@dataclass(frozen=True, slots=True)
class _Store:
    """A statement that stores to a buffer, and the loops around it since the buffer was made."""

    statement: Assign
    loops: tuple[For, ...]


def _stored(block: Block, allocate: Allocate, facts: Facts) -> Block:
    out: list[Statement] = []
    for at, statement in enumerate(block):
        if isinstance(statement, Allocate) and statement.buffer == allocate.buffer:
            rest = block[at + 1 :]
            stores = list(_stores(rest, allocate, ()))
            if len(stores) == 1 and stores[0] is not None and _comes_to_each(stores[0], allocate, facts):
                stored = (_with_zeros(s, stores[0].statement, ()) for s in rest)
                return (*out, replace(statement, zeroed=False), *stored)
            return block
        match statement:
            case For(body=body):
                out.append(replace(statement, body=_stored(body, allocate, facts.assume(statement.range))))
            case If(predicate, body):
                out.append(If(predicate, _stored(body, allocate, facts.assume(predicate))))
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _stores(block: Block, allocate: Allocate, loops: tuple[For, ...]) -> Iterator[_Store | None]:
    """What stores to a buffer; None for what does it in another way than by one assignment."""
    for statement in block:
        match statement:
            case For(body=body):
                yield from _stores(body, allocate, (*loops, statement))
            case If(body=body):
                inside = list(_stores(body, allocate, loops))
                yield from inside if len(body) == 1 else [None] * len(inside)
            case Assign(target) if accessed(target) == key(allocate.buffer):
                yield _Store(statement, loops)
            case Accumulate(target) if accessed(target) == key(allocate.buffer):
                yield None
            case Clear(buffer) if buffer == allocate.buffer:
                yield None
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)


def _comes_to_each(store: _Store, allocate: Allocate, facts: Facts) -> bool:
    """Whether the statement, without its conditions, is proved to come to each cell once.

    It comes to as many as there are, all of them within the buffer and no two to the same one.
    """
    target = store.statement.target
    times = 1
    for loop in store.loops:
        times *= (loop.high - loop.low).constant or 0 if loop.low.constant is not None else 0
        facts = facts.assume(loop.range)
    if not isinstance(target, Cell) or times == 0 or allocate.capacity.constant != times:
        return False
    if not all(proves(facts, within(ZERO, position, extent)) for position, extent in target.pairs):
        return False
    variables = tuple(loop.variable for loop in store.loops)
    twice = meeting(target.pairs, facts, target.pairs, facts, variables)
    return all(proves(twice, equal(index(variable), other(variable))) for variable in variables)


def _with_zeros(statement: Statement, store: Assign, conditions: tuple[Predicate, ...]) -> Statement:
    """The statement with this store in it where these conditions do not hold, too: of a zero."""
    if statement is store:
        condition = conjunction(conditions)
        return replace(store, value=Choose(condition, store.value, Number(0, store.value.dtype)))
    match statement:
        case For(body=body) if _holds(statement, store):
            return replace(statement, body=tuple(_with_zeros(s, store, conditions) for s in body))
        case If(predicate, (inner,)) if _holds(statement, store):
            return _with_zeros(inner, store, (*conditions, predicate))
        case For() | If() | Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return statement
    assert_never(statement)


def _holds(statement: Statement, store: Assign) -> bool:
    return any(inner is store for inner in statements((statement,)))
