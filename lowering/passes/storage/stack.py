"""Loop nests whose buffers fit on the stack together."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from atl.core.marks import CONCURRENT, LetMark
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
    bytes_of,
    stack_in_use,
    with_body,
)
from lowering.targets.stack import STACK_BUDGET

FIRST: Final = (LetMark.STACK, LetMark.REGISTERS)
"""What is marked so is given room before the rest: a later pass may put it in registers."""


def with_stack_in_bounds(nest: LoopNest) -> LoopNest:
    """The loop nest with no more than `STACK_BUDGET` bytes of buffers on the stack at any place.

    What is marked for the stack stays there first, then what is allocated in the most loops. What has no room is on the
    heap; from within loops it moves out of them, and is emptied where it was allocated. It leaves no loop whose
    iterations run at once: each of them has a buffer of its own.
    """
    if stack_in_use(nest.body) <= STACK_BUDGET:
        return nest
    held = _Held()
    held.walk(nest.body, 0)
    order = sorted(range(len(held.on_stack)), key=lambda at: (held.on_stack[at].mark not in FIRST, -held.loops[at]))
    kept = {held.on_stack[at].buffer for at in order if held.has_room(at)}
    return replace(nest, body=_outside(nest.body, kept))


@dataclass(slots=True)
class _Held:
    """The buffers on the stack in the order of the text; each is there for those that follow it in its block.

    `until` has the end of those, and `in_use` the bytes of what has been given room, wherever a buffer is allocated.
    """

    on_stack: list[Allocate] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    until: list[int] = field(default_factory=list)
    in_use: list[int] = field(default_factory=list)

    def walk(self, block: Block, loops: int) -> None:
        here: list[int] = []
        for statement in block:
            match statement:
                case Allocate(storage="stack"):
                    here.append(len(self.on_stack))
                    self.on_stack.append(statement)
                    self.loops.append(loops)
                    self.until.append(0)
                    self.in_use.append(0)
                case For(body=body):
                    self.walk(body, loops + 1)
                case If(body=body):
                    self.walk(body, loops)
                case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                    pass
                case _:
                    assert_never(statement)
        for at in here:
            self.until[at] = len(self.on_stack)

    def has_room(self, at: int) -> bool:
        """Gives a buffer room beside those that were given some, if there is any."""
        span, size = range(at, self.until[at]), bytes_of(self.on_stack[at]) or 0
        if max(self.in_use[other] for other in span) + size > STACK_BUDGET:
            return False
        for other in span:
            self.in_use[other] += size
        return True


def _outside(block: Block, kept: Collection[Buffer]) -> Block:
    """The statements of a block outside of all loops, or of one iteration of a loop whose iterations run at once."""
    out: list[Statement] = []
    for statement in block:
        match statement:
            case Allocate(buffer, storage="stack") if buffer not in kept:
                out.append(replace(statement, storage="heap"))
            case For(body=body, mark=mark) if mark in CONCURRENT:
                out.append(with_body(statement, _outside(body, kept)))
            case For(body=body):
                moved: list[Allocate] = []
                loop = with_body(statement, _in_loop(body, kept, moved))
                out += [*moved, loop, *(Free(allocate.buffer) for allocate in reversed(moved))]
            case If(predicate, body):
                out.append(If(predicate, _outside(body, kept)))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _in_loop(block: Block, kept: Collection[Buffer], moved: list[Allocate]) -> Block:
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
            case For(body=body, mark=mark) if mark in CONCURRENT:
                out.append(with_body(statement, _outside(body, kept)))
            case For(body=body) | If(body=body):
                out.append(with_body(statement, _in_loop(body, kept, moved)))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
