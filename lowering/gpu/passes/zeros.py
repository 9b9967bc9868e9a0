"""Replaces the clearing of shared buffers by stores of zeros where a program stores no element.

Shared memory is uninitialised. A buffer that needs zeros is cleared by all threads, with a barrier before its first
store. Suppose that one statement runs once for each cell of the buffer. Then the statement stores a zero where its
conditions do not hold, and the buffer need not be cleared. Cells that are never read, such as the padding of rows,
need not be stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import ZERO, Index, index
from atl.core.marks import LetMark
from atl.core.predicate import TRUE, Predicate, at_most, conjunction, conjuncts, equal, less, within
from atl.prove import Facts, proves, upper_bound
from lowering.nest import loopnest as ln
from lowering.nest.accesses import accesses_of
from lowering.nest.aliasing import other_run, same_cell_facts
from lowering.nest.text_scope import TextScope


def store_zeros(block: ln.Block, facts: Facts, scope: TextScope) -> ln.Block:
    """Replace clearing by stores of zeros in each buffer for which they are proved to reach each cell."""
    for allocate in [s for s in ln.statements(block) if isinstance(s, ln.Allocate)]:
        if allocate.zeroed and allocate.mark is not LetMark.REGISTERS:
            block = _replace(block, allocate, facts, scope)
    return block


@dataclass(frozen=True, slots=True)
class _Store:
    """A statement that stores to a buffer, and the loops around it inside of the buffer's scope."""

    statement: ln.Assign
    loops: tuple[ln.For, ...]


def _replace(block: ln.Block, allocate: ln.Allocate, facts: Facts, scope: TextScope) -> ln.Block:
    out: list[ln.Statement] = []
    for at, statement in enumerate(block):
        if isinstance(statement, ln.Allocate) and statement.buffer == allocate.buffer:
            rest = block[at + 1 :]
            stores = list(_stores(rest, allocate, ()))
            kept = _remaining(stores[0], rest, facts, scope) if len(stores) == 1 and stores[0] is not None else None
            if kept is not None and stores[0] is not None:
                stored = (_with_zeros(s, stores[0].statement, kept, ()) for s in rest)
                return (*out, replace(statement, zeroed=False), *stored)
            return block
        match statement:
            case ln.For(body=body):
                out.append(ln.with_body(statement, _replace(body, allocate, facts.assume(statement.range), scope)))
            case ln.If(predicate, body):
                out.append(ln.If(predicate, _replace(body, allocate, facts.assume(predicate), scope)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _stores(block: ln.Block, allocate: ln.Allocate, loops: tuple[ln.For, ...]) -> Iterator[_Store | None]:
    """Yield the stores to a buffer, None for a store that is not a simple assignment."""
    for statement in block:
        match statement:
            case ln.For(body=body):
                yield from _stores(body, allocate, (*loops, statement))
            case ln.If(body=body):
                inside = list(_stores(body, allocate, loops))
                yield from inside if len(body) == 1 else [None] * len(inside)
            case ln.Assign(target) if ln.accessed(target) == ln.key(allocate.buffer):
                yield _Store(statement, loops)
            case ln.Accumulate(target) if ln.accessed(target) == ln.key(allocate.buffer):
                yield None
            case ln.Clear(buffer) if buffer == allocate.buffer:
                yield None
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                pass
            case _:
                assert_never(statement)


def _remaining(store: _Store, rest: ln.Block, facts: Facts, scope: TextScope) -> Predicate | None:
    """Return the conditions to keep if the store reaches each cell that `rest` reads exactly once, else None.

    The store reaches as many cells as a box has, all within the box, and no cell twice. Along each dimension the box
    spans all reads or the whole buffer. Where the loops exceed the buffer, a condition excludes the excess.
    """
    target = store.statement.target
    times = 1
    inside = facts
    for loop in store.loops:
        times *= (loop.high - loop.low).constant or 0 if loop.low.constant is not None else 0
        inside = inside.assume(loop.range)
    if not isinstance(target, ln.Cell) or times == 0:
        return None
    variables = tuple(loop.variable for loop in store.loops)
    ranges = [(loop.variable, loop.low, loop.high) for loop in store.loops]
    box = [upper_bound(inside, position + 1, ranges) or extent for position, extent in target.pairs]
    if ln.elements(tuple(box)).constant != times or not _is_within(target, inside, box):
        return None
    twice = same_cell_facts(target.pairs, inside, target.pairs, inside, variables)
    if not all(proves(twice, equal(index(variable), other_run(variable))) for variable in variables):
        return None
    read = (access for s in rest for access in accesses_of(s, facts, scope) if access.how == "read")
    cells = [(access.storage, access.facts) for access in read if ln.accessed(access.storage) == ln.accessed(target)]
    if not all(isinstance(cell, ln.Cell) and _is_within(cell, known, box) for cell, known in cells):
        return None
    out = [(at, extent, most) for (at, extent), most in zip(target.pairs, box, strict=True) if most != extent]
    beyond = [less(at, extent) for at, extent, most in out if not proves(facts, at_most(most, extent))]
    return conjunction(beyond)


def _is_within(cell: ln.Cell, facts: Facts, box: Sequence[Index]) -> bool:
    pairs = zip(cell.pairs, box, strict=True)
    return all(proves(facts, within(ZERO, position, extent)) for (position, _), extent in pairs)


def _with_zeros(
    statement: ln.Statement, store: ln.Assign, kept: Predicate, conditions: tuple[Predicate, ...]
) -> ln.Statement:
    """Return the statement with the store made unconditional, of a zero where a condition fails; `kept` is kept."""
    if statement is store:
        left = [part for condition in conditions for part in conjuncts(condition) if part not in conjuncts(kept)]
        value = ln.Choose(conjunction(left), store.value, ln.Number(0, store.value.dtype)) if left else store.value
        stored = replace(store, value=value)
        return stored if kept == TRUE else ln.If(kept, (stored,))
    match statement:
        case ln.For(body=body) if _contains(statement, store):
            return ln.with_body(statement, tuple(_with_zeros(s, store, kept, conditions) for s in body))
        case ln.If(predicate, (inner,)) if _contains(statement, store):
            return _with_zeros(inner, store, kept, (*conditions, predicate))
        case ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
            return statement
    assert_never(statement)


def _contains(statement: ln.Statement, store: ln.Assign) -> bool:
    return any(inner is store for inner in ln.statements((statement,)))
