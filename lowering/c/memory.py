"""Declaration, allocation and release of a function's buffers.

If an allocation fails, the buffers allocated so far are freed: in place, if there are few; otherwise at the end of the
function, where each exit falls through to the exit of the earlier buffers, so that each `free` is written once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final, TypeAlias, assert_never

from atl.core.marks import LoopMark
from lowering.c.capacity import allocation
from lowering.c.loops import has_heap_buffers
from lowering.c.text import indented
from lowering.c.values.scalars import C_TYPES
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
    key,
)
from lowering.nest.text_scope import TextScope

MAX_INLINE_FREES: Final = 2
"""Largest number of buffers that are freed in place after a failed allocation."""

Live: TypeAlias = tuple[Buffer, ...]
"""The allocated buffers on the heap, oldest first."""


@dataclass(frozen=True, slots=True)
class Heap:
    """The buffers on the heap at a place, and the labels of the function's error exits.

    The exit at the label of some buffers frees them, the last one first. Buffers in `declared` are freed at an exit, so
    they are declared at the beginning of the function. In an iteration of a parallel loop, which cannot leave the
    function, `failed` is the variable that records a failed allocation.
    """

    labels: Mapping[Live, str]
    declared: frozenset[Buffer]
    live: Live = ()
    failed: str = ""

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self.live

    def with_buffers(self, *buffers: Buffer) -> Heap:
        return replace(self, live=(*self.live, *buffers))

    def without(self, buffer: Buffer) -> Heap:
        return replace(self, live=_without(self.live, buffer))


def is_on_heap(statement: object) -> bool:
    return isinstance(statement, Allocate) and statement.storage == "heap"


def _at_allocations(block: Block, live: Live) -> Iterator[Live]:
    """Yield the live buffers at each allocation; consecutive allocations count as one."""
    for is_group, group in groupby(block, is_on_heap):
        if is_group:
            yield live
            live += tuple(statement.buffer for statement in group if isinstance(statement, Allocate))
            continue
        for statement in group:
            match statement:
                case Free(buffer):
                    live = _without(live, buffer)
                case For(mark=LoopMark.PARALLEL) if has_heap_buffers(statement):
                    yield live  # the exit is after the loop
                case For(body=body) | If(body=body):
                    yield from _at_allocations(body, live)
                case Assign() | Accumulate() | Declare() | Allocate() | Clear():
                    pass
                case _:
                    assert_never(statement)


def _without(live: Live, buffer: Buffer) -> Live:
    return tuple(other for other in live if other != buffer)


# -- text -------------------------------------------------------------------------------------------------------------


def initial_heap(scope: TextScope, nest: LoopNest) -> tuple[TextScope, Heap, list[str]]:
    """Return the heap at the beginning of a nest's function, and declarations of buffers freed at its end."""
    names: dict[str, list[str]] = {}
    declared: set[Buffer] = set()
    taken: Counter[str] = Counter()
    labels: dict[Live, str] = {}
    for live in _at_allocations(nest.body, ()):
        if len(live) <= MAX_INLINE_FREES or live in labels:
            continue
        for buffer in live:
            if buffer not in declared:
                declared.add(buffer)
                name, scope = scope.bind(key(buffer), buffer.name)
                names.setdefault(C_TYPES[buffer.dtype], []).append(f"*restrict {name}")
        name = f"free_{scope.name(key(live[-1]))}"
        taken[name] += 1
        labels[live] = f"{name}_{taken[name]}_" if taken[name] > 1 else name
    return scope, Heap(labels, frozenset(declared)), [f"{kind} {', '.join(of)};" for kind, of in names.items()]


def error_exits(scope: TextScope, heap: Heap) -> list[str]:
    """Return the labelled error exits after the function's return, which free buffers after a failed allocation."""
    lines: list[str] = []
    written: set[Live] = set()
    for start in sorted(heap.labels, key=len, reverse=True):
        if start in written:
            continue
        live = start
        while live and live not in written:
            label = [f"{heap.labels[live]}:"] if live in heap.labels else []
            lines += [*label, *indented([f"free({scope.name(key(live[-1]))});"])]
            written |= {live} & heap.labels.keys()
            live = live[:-1]
        lines += indented([f"goto {heap.labels[live]};" if live else "return OUT_OF_MEMORY;"])
    return lines


def allocate(scope: TextScope, heap: Heap, group: list[Allocate]) -> tuple[TextScope, Heap, list[str]]:
    """Allocate buffers on the heap, and leave the function if that fails."""
    scope, inside, lines, failed = allocate_checked(scope, heap, group)
    return scope, inside, [*lines, *failed]


def allocate_checked(
    scope: TextScope, heap: Heap, group: list[Allocate]
) -> tuple[TextScope, Heap, list[str], list[str]]:
    """Allocate buffers on the heap; return the lines that allocate, and those that handle a failure."""
    before = scope
    lines: list[str] = []
    made: list[str] = []
    for statement in group:
        buffer = statement.buffer
        if buffer in heap.declared:
            name, inside, kind = scope.name(key(buffer)), scope, ""
        else:
            name, inside = scope.bind(key(buffer), buffer.name)
            kind = f"{C_TYPES[buffer.dtype]} *restrict "
        lines.append(f"{kind}{name} = {allocation(scope, statement, f'sizeof *{name}')};")
        scope = inside
        made.append(name)
    allocated = [f"free({name});" for name in reversed(made)] if len(made) > 1 else []
    failed = [f"if ({' || '.join(f'{name} == NULL' for name in made)}) {{"]
    failed += indented([*allocated, *failure(before, heap)])
    return scope, heap.with_buffers(*(statement.buffer for statement in group)), lines, [*failed, "}"]


def failure(scope: TextScope, heap: Heap) -> list[str]:
    """Return the lines that handle a failed allocation: they free the live buffers and leave the function.

    In an iteration of a parallel loop, the failure is recorded, and the rest of the iteration is skipped.
    """
    if heap.failed:
        return [f"{heap.failed} = 1;"]
    if heap.live in heap.labels:
        return [f"goto {heap.labels[heap.live]};"]
    return [*(f"free({scope.name(key(buffer))});" for buffer in reversed(heap.live)), "return OUT_OF_MEMORY;"]


def declare_on_stack(scope: TextScope, statement: Allocate) -> tuple[TextScope, list[str]]:
    """Declare a buffer as an array of the block."""
    buffer = statement.buffer
    count = statement.capacity.constant
    if count is None:
        raise AssertionError(f"the stack buffer {buffer.name} has no constant capacity")
    name, scope = scope.bind(key(buffer), buffer.name)
    # C does not allow arrays of length 0.
    text = f"{C_TYPES[buffer.dtype]} {name}[{max(count, 1)}]{' = {0}' if statement.zeroed else ''};"
    return scope, [text]
