"""Buffers in registers: dealt to the threads of a block, the same way wherever they are accessed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import ZERO, Index, constant, index
from atl.core.marks import THREADS
from atl.core.predicate import within
from atl.errors import IllegalMark
from atl.prove import Facts, proves
from lowering.gpu.barriers import Place
from lowering.gpu.kernels import (
    AXES,
    Barrier,
    Branch,
    Dealt,
    Extents,
    Repeat,
    Run,
    Share,
    Steps,
    divided,
)
from lowering.nest.accesses import Access, accesses_of, after
from lowering.nest.loopnest import Allocate, Cell, Clear, Declare, For, Free, LoopNest, Statement, statements
from lowering.nest.tiles import step
from lowering.targets.mark_checks import place_of


@dataclass(frozen=True, slots=True)
class _Access:
    """An access to a buffer that is dealt: what is known there, and the thread along each axis of a loop around."""

    access: Access
    cell: Cell
    threads: Mapping[int, tuple[Index, For]]

    @property
    def facts(self) -> Facts:
        return self.access.facts


def dealt(nest: LoopNest, allocate: Allocate, steps: Steps, place: Place, extents: Extents) -> Dealt:
    """How a buffer marked `registers` is dealt to the threads of a block. Raises `IllegalMark` where it cannot be."""
    shape = [extent.constant for extent in allocate.buffer.extents]
    constant_shape = [extent for extent in shape if extent is not None]
    if len(constant_shape) < len(shape):
        raise refused(nest, allocate, "it has no constant size", "constant extents")
    found: tuple[Share | None, ...] | None = None
    first: _Access | None = None
    for access in _accesses(steps, place, allocate.buffer.uid):
        shares = tuple(_share(access, position) for position, _ in access.cell.pairs)
        missing = {axis for axis, extent in enumerate(extents) if extent > 1} - {s.axis for s in shares if s}
        if missing:
            raise _not_told_apart(nest, allocate, access, min(missing))
        if found is not None and first is not None and shares != found:
            raise _otherwise(nest, allocate, first, access)
        found, first = shares, first or access
    shares = found if found is not None else (None,) * len(shape)
    left = (_left(extent, share) for extent, share in zip(constant_shape, shares, strict=True))
    return Dealt(shares, tuple(left))


def _left(extent: int, share: Share | None) -> int:
    """How many elements of a dimension each thread has."""
    if share is None:
        return extent
    match share.how:
        case "blocks":
            return share.factor
        case "in turns":
            return -(-extent // share.factor)
    assert_never(share.how)


def _share(access: _Access, position: Index) -> Share | None:
    """How a position is dealt, if it is."""
    for axis, (thread, loop) in access.threads.items():
        factor = step(position, loop.variable)
        if not factor or factor < 0:
            continue
        rest = position - thread * factor
        if proves(access.facts, within(ZERO, rest, constant(factor))):
            return Share(axis, "blocks", factor)
        count = (loop.high - loop.low).constant
        if factor == 1 and count is not None and divided(rest, count) is not None:
            return Share(axis, "in turns", count)
    return None


def _accesses(steps: Steps, place: Place, uid: int) -> Iterator[_Access]:
    for step_ in steps:
        match step_:
            case Run(statement):
                yield from _in_statement(statement, place, uid)
            case Declare():
                yield from _in_statement(step_, place, uid)
            case Repeat(variable, body=body):
                _, scope = place.scope.bind(variable, variable.name)
                yield from _accesses(body, Place(place.facts.assume(step_.range), scope), uid)
            case Branch(predicate, body):
                yield from _accesses(body, replace(place, facts=place.facts.assume(predicate)), uid)
            case Allocate() | Clear() | Free() | Barrier():
                pass
            case _:
                assert_never(step_)
        if isinstance(step_, Declare | Allocate):
            place = replace(place, scope=after(place.scope, step_))


def _in_statement(statement: Statement, place: Place, uid: int) -> Iterator[_Access]:
    loops = {
        loop.variable.uid: loop for loop in statements((statement,)) if isinstance(loop, For) and loop.mark in THREADS
    }
    for access in accesses_of(statement, place.facts, place.scope):
        if isinstance(access.storage, Cell) and access.storage.buffer.uid == uid:
            around = [loops[variable.uid] for variable in access.loops if variable.uid in loops]
            threads = {THREADS.index(loop.mark): (index(loop.variable) - loop.low, loop) for loop in around}
            yield _Access(access, access.storage, threads)


# -- what is said -----------------------------------------------------------------------------------------------------


def refused(nest: LoopNest, allocate: Allocate, summary: str, required: str, *suggestions: str) -> IllegalMark:
    """What to say of a buffer that cannot be where its mark says."""
    name = allocate.buffer.name
    return IllegalMark(
        f"the buffer {name} is marked {allocate.mark.value}; {summary}",
        binder=name,
        mark=allocate.mark.value,
        place=place_of(nest, allocate.let),
        required=required,
        suggestions=(*suggestions, f's.mark("{name}", "shared"), or s.mark("{name}", None)'),
    )


def _not_told_apart(nest: LoopNest, allocate: Allocate, access: _Access, axis: int) -> IllegalMark:
    return refused(
        nest,
        allocate,
        f"`{access.access.text}` does not say which thread along {AXES[axis]} its element belongs to",
        f"an index c*t + r with 0 <= r < c, or t + c*r, where t is the loop marked thread.{AXES[axis]}: a register "
        "belongs to one thread",
    )


def _otherwise(nest: LoopNest, allocate: Allocate, one: _Access, another: _Access) -> IllegalMark:
    return refused(
        nest,
        allocate,
        f"a thread would touch what is in registers of another one: `{one.access.text}` deals its elements to the "
        f"threads otherwise than `{another.access.text}`",
        "the same thread for the same element, wherever it is accessed",
    )
