"""Where the storage of a function's buffers is declared, had and given back.

Where storage cannot be had, what is there is given back: at once, if that is little; else at the end of the function,
where each way out goes on with the one of the buffers before, so that a buffer's last line is written once.
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

FEW: Final = 2
"""So many buffers at most are freed at the very place where the next one could not be had."""

Live: TypeAlias = tuple[Buffer, ...]
"""The buffers on the heap that are allocated and not yet freed, the oldest first."""


@dataclass(frozen=True, slots=True)
class Heap:
    """What is on the heap at a place, and the function's ways out: labels at its end.

    From the label of some buffers on these are freed, the last one first. A buffer in `declared` is freed there, and so
    it is declared at the beginning of the function. An iteration of a parallel loop has no way out: there `failed` is
    the variable in which it notes that it had no storage.
    """

    labels: Mapping[Live, str]
    declared: frozenset[Buffer]
    live: Live = ()
    failed: str = ""

    def __contains__(self, buffer: Buffer) -> bool:
        return buffer in self.live

    def having(self, *buffers: Buffer) -> Heap:
        return replace(self, live=(*self.live, *buffers))

    def without(self, buffer: Buffer) -> Heap:
        return replace(self, live=_without(self.live, buffer))


def on_heap(statement: object) -> bool:
    return isinstance(statement, Allocate) and statement.storage == "heap"


def _at_allocations(block: Block, live: Live) -> Iterator[Live]:
    """What is on the heap wherever storage is asked for; statements in a row that do so are one."""
    for is_group, group in groupby(block, on_heap):
        if is_group:
            yield live
            live += tuple(statement.buffer for statement in group if isinstance(statement, Allocate))
            continue
        for statement in group:
            match statement:
                case Free(buffer):
                    live = _without(live, buffer)
                case For(mark=LoopMark.PARALLEL) if has_heap_buffers(statement):
                    yield live  # the way out is after the loop
                case For(body=body) | If(body=body):
                    yield from _at_allocations(body, live)
                case Assign() | Accumulate() | Declare() | Allocate() | Clear():
                    pass
                case _:
                    assert_never(statement)


def _without(live: Live, buffer: Buffer) -> Live:
    return tuple(other for other in live if other != buffer)


# -- text -------------------------------------------------------------------------------------------------------------


def opened(scope: TextScope, nest: LoopNest) -> tuple[TextScope, Heap, list[str]]:
    """The heap where the function of a nest begins, and the declarations of what may be freed at its end."""
    names: dict[str, list[str]] = {}
    declared: set[Buffer] = set()
    taken: Counter[str] = Counter()
    labels: dict[Live, str] = {}
    for live in _at_allocations(nest.body, ()):
        if len(live) <= FEW or live in labels:
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


def ending(scope: TextScope, heap: Heap) -> list[str]:
    """The ways out after the function's return, for where storage could not be had."""
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


def allocated(scope: TextScope, heap: Heap, group: list[Allocate]) -> tuple[TextScope, Heap, list[str]]:
    """Buffers on the heap, and the way out where one of them could not be had."""
    scope, inside, lines, failed = asked_for(scope, heap, group)
    return scope, inside, [*lines, *failed]


def asked_for(scope: TextScope, heap: Heap, group: list[Allocate]) -> tuple[TextScope, Heap, list[str], list[str]]:
    """Buffers on the heap, and after the lines that ask for them, what is done where one of them could not be had."""
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
    there = [f"free({name});" for name in reversed(made)] if len(made) > 1 else []
    failed = [f"if ({' || '.join(f'{name} == NULL' for name in made)}) {{"]
    failed += indented([*there, *way_out(before, heap)])
    return scope, heap.having(*(statement.buffer for statement in group)), lines, [*failed, "}"]


def way_out(scope: TextScope, heap: Heap) -> list[str]:
    """What is done where storage could not be had: what is there is given back, and the function returns.

    In an iteration of a parallel loop, what follows is left out, and it is noted that this was so.
    """
    if heap.failed:
        return [f"{heap.failed} = 1;"]
    if heap.live in heap.labels:
        return [f"goto {heap.labels[heap.live]};"]
    return [*(f"free({scope.name(key(buffer))});" for buffer in reversed(heap.live)), "return OUT_OF_MEMORY;"]


def on_stack(scope: TextScope, statement: Allocate) -> tuple[TextScope, list[str]]:
    """A buffer that is an array of the block."""
    buffer = statement.buffer
    count = statement.capacity.constant
    if count is None:
        raise AssertionError(f"the stack buffer {buffer.name} has no constant capacity")
    name, scope = scope.bind(key(buffer), buffer.name)
    # An array of C has at least one element.
    text = f"{C_TYPES[buffer.dtype]} {name}[{max(count, 1)}]{' = {0}' if statement.zeroed else ''};"
    return scope, [text]
