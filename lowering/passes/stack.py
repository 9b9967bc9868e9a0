"""Loop nests whose buffers fit on the stack together."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import assert_never

from atl.checks.stack import STACK_BUDGET
from atl.core.marks import LetMark
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    stack_in_use,
    statements,
)


def with_stack_in_bounds(nest: LoopNest) -> LoopNest:
    """The loop nest with no more than `STACK_BUDGET` bytes of buffers on the stack at any place.

    What is marked for the stack stays there first, then what is allocated in the most loops. What has no room is on the
    heap; from within loops it moves out of them, and is emptied where it was allocated.
    """
    if stack_in_use(nest.body) <= STACK_BUDGET:
        return nest
    on_stack = [s for s in statements(nest.body) if isinstance(s, Allocate) and s.storage == "stack"]
    loops = dict(_loops_around(nest.body, 0))
    kept: set[Buffer] = set()
    for allocate in sorted(on_stack, key=lambda a: (a.mark is not LetMark.STACK, -loops[a.buffer])):
        if stack_in_use(nest.body, {*kept, allocate.buffer}) <= STACK_BUDGET:
            kept.add(allocate.buffer)
    return replace(nest, body=_outside(nest.body, kept))


def _loops_around(block: Block, loops: int) -> Iterator[tuple[Buffer, int]]:
    """Each buffer that is allocated in the block, with the number of loops around it."""
    for statement in block:
        match statement:
            case Allocate(buffer):
                yield buffer, loops
            case For(body=body):
                yield from _loops_around(body, loops + 1)
            case If(body=body):
                yield from _loops_around(body, loops)
            case Assign() | Accumulate() | Declare() | Clear() | Free():
                pass
            case _:
                assert_never(statement)


def _outside(block: Block, kept: Collection[Buffer]) -> Block:
    """The statements of a block outside of all loops."""
    out: list[Statement] = []
    for statement in block:
        match statement:
            case Allocate(buffer, storage="stack") if buffer not in kept:
                out.append(replace(statement, storage="heap"))
            case For(body=body):
                moved: list[Allocate] = []
                loop = replace(statement, body=_within(body, kept, moved))
                out += [*moved, loop, *(Free(allocate.buffer) for allocate in reversed(moved))]
            case If(predicate, body):
                out.append(If(predicate, _outside(body, kept)))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _within(block: Block, kept: Collection[Buffer], moved: list[Allocate]) -> Block:
    """The statements of a block within a loop; what is allocated outside of it now is added to `moved`."""
    out: list[Statement] = []
    here: set[Buffer] = set()
    for statement in block:
        match statement:
            case Allocate(buffer, capacity, storage="stack", zeroed=zeroed) if buffer not in kept:
                here.add(buffer)
                moved.append(replace(statement, storage="heap", zeroed=False))
                out.append(Clear(buffer, capacity, zeroed))
            case Free(buffer) if buffer in here:
                pass
            case For(body=body) | If(body=body):
                out.append(replace(statement, body=_within(body, kept, moved)))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
