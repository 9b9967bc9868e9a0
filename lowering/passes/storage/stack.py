"""The stack budget: buffers that do not fit on the stack together move to the heap."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Final, assert_never

from atl.core.marks import CONCURRENT, LetMark
from lowering.nest import loopnest as ln
from lowering.targets.stack import STACK_BUDGET

FIRST: Final = (LetMark.STACK, LetMark.REGISTERS)
"""Marks of buffers that are placed on the stack first. Those marked `registers` may leave it in a later pass."""


def with_stack_budget(nest: ln.LoopNest) -> ln.LoopNest:
    """Limit the buffers on the stack to `STACK_BUDGET` bytes at any place.

    Buffers marked for the stack have priority, then those in the deepest loops. Buffers that do not fit move to the
    heap. Their allocations are hoisted out of loops, and they are cleared at their original place. They are not hoisted
    out of concurrent loops, whose iterations have private buffers.
    """
    if ln.stack_in_use(nest.body) <= STACK_BUDGET:
        return nest
    stack = _StackBuffers()
    stack.collect(nest.body, 0)
    order = sorted(range(len(stack.buffers)), key=lambda at: (stack.buffers[at].mark not in FIRST, -stack.loops[at]))
    kept = {stack.buffers[at].buffer for at in order if stack.reserve(at)}
    return replace(nest, body=_outside(nest.body, kept))


@dataclass(slots=True)
class _StackBuffers:
    """The buffers on the stack in the order of the text, with the number of loops around each.

    Buffer i is live at the allocations i to until[i] - 1. `in_use` has the reserved bytes at each allocation.
    """

    buffers: list[ln.Allocate] = field(default_factory=list)
    loops: list[int] = field(default_factory=list)
    until: list[int] = field(default_factory=list)
    in_use: list[int] = field(default_factory=list)

    def collect(self, block: ln.Block, loops: int) -> None:
        here: list[int] = []
        for statement in block:
            match statement:
                case ln.Allocate(storage="stack"):
                    here.append(len(self.buffers))
                    self.buffers.append(statement)
                    self.loops.append(loops)
                    self.until.append(0)
                    self.in_use.append(0)
                case ln.For(body=body):
                    self.collect(body, loops + 1)
                case ln.If(body=body):
                    self.collect(body, loops)
                case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
                    pass
                case _:
                    assert_never(statement)
        for at in here:
            self.until[at] = len(self.buffers)

    def reserve(self, at: int) -> bool:
        """Reserve stack space for a buffer, and return whether it fits."""
        span, size = range(at, self.until[at]), ln.bytes_of(self.buffers[at]) or 0
        if max(self.in_use[other] for other in span) + size > STACK_BUDGET:
            return False
        for other in span:
            self.in_use[other] += size
        return True


def _outside(block: ln.Block, kept: Collection[ln.Buffer]) -> ln.Block:
    """Move buffers to the heap in a block outside of all loops, or directly in a concurrent loop."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.Allocate(buffer, storage="stack") if buffer not in kept:
                out.append(replace(statement, storage="heap"))
            case ln.For(body=body, mark=mark) if mark in CONCURRENT:
                out.append(ln.with_body(statement, _outside(body, kept)))
            case ln.For(body=body):
                moved: list[ln.Allocate] = []
                loop = ln.with_body(statement, _in_loop(body, kept, moved))
                out += [*moved, loop, *(ln.Free(allocate.buffer) for allocate in reversed(moved))]
            case ln.If(predicate, body):
                out.append(ln.If(predicate, _outside(body, kept)))
            case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def _in_loop(block: ln.Block, kept: Collection[ln.Buffer], moved: list[ln.Allocate]) -> ln.Block:
    """Move buffers to the heap in a block within a loop, and add their allocations to `moved`."""
    out: list[ln.Statement] = []
    here: set[ln.Buffer] = set()
    for statement in block:
        match statement:
            case ln.Allocate(buffer, capacity, storage="stack", zeroed=zeroed) if buffer not in kept:
                here.add(buffer)
                moved.append(replace(statement, storage="heap", zeroed=False))
                out.append(ln.Clear(buffer, capacity, zeroed))
            case ln.Free(buffer) if buffer in here:
                pass
            case ln.For(body=body, mark=mark) if mark in CONCURRENT:
                out.append(ln.with_body(statement, _outside(body, kept)))
            case ln.For(body=body) | ln.If(body=body):
                out.append(ln.with_body(statement, _in_loop(body, kept, moved)))
            case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)
