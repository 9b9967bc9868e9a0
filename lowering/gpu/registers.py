"""Distribution of buffers over the registers of a block's threads, the same at every access."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import ZERO, Index, constant, index
from atl.core.marks import THREADS, CallMark
from atl.core.predicate import within
from atl.errors import IllegalMark
from atl.prove import Facts, proves
from lowering.gpu import kernels as kn
from lowering.gpu.barriers import Place
from lowering.gpu.shuffles import Exchange, NoShuffle, reads_in
from lowering.instructions.matching import Around
from lowering.nest.accesses import Access, accesses_of, after
from lowering.nest.loopnest import Allocate, Cell, Clear, Declare, For, Free, LoopNest, Statement, statements
from lowering.nest.tiles import step
from lowering.targets.legality import place_of


@dataclass(frozen=True, slots=True)
class _Access:
    """An access to a distributed buffer, with the thread (and its loop) along each axis."""

    access: Access
    cell: Cell
    threads: Mapping[int, tuple[Index, For]]

    @property
    def facts(self) -> Facts:
        return self.access.facts


def distribute(
    nest: LoopNest,
    allocate: Allocate,
    steps: kn.Steps,
    place: Place,
    extents: kn.Extents,
    memories: Mapping[int, kn.Memory],
) -> tuple[kn.Distributed, Mapping[Cell, kn.Shuffle]]:
    """Distribute a buffer marked `registers` over the threads of a block, as its stores do.

    Returns the distribution, and the shuffles by which threads read registers of others. Raises `IllegalMark`.
    """
    uid = allocate.buffer.uid
    shape = [extent.constant for extent in allocate.buffer.extents]
    constant_shape = [extent for extent in shape if extent is not None]
    if len(constant_shape) < len(shape):
        raise refused(nest, allocate, "its size is not constant", "constant extents")
    found: tuple[kn.Share | None, ...] | None = None
    first: _Access | None = None
    accesses = list(_accesses(steps, place, uid))
    stores = [access for access in accesses if access.access.how != "read"]
    # Along axes without a loop around the stores, each thread stores the same values to its own registers.
    stored_along = {axis for access in stores for axis in access.threads}
    for access in stores or accesses:
        shares = tuple(_share(access, position) for position, _ in access.cell.pairs)
        missing = {axis for axis, extent in enumerate(extents) if extent > 1} - {s.axis for s in shares if s}
        missing &= stored_along
        if missing:
            raise _unknown_thread(nest, allocate, access, min(missing))
        if found is not None and first is not None and shares != found:
            raise _inconsistent(nest, allocate, first, access)
        found, first = shares, first or access
    shares = found if found is not None else (None,) * len(shape)
    local = (_local_extent(extent, share) for extent, share in zip(constant_shape, shares, strict=True))
    distribution = kn.Distributed(shares, tuple(local))
    foreign = [
        access
        for access in accesses
        if access.access.how == "read" and tuple(_share(access, at) for at, _ in access.cell.pairs) != shares
    ]
    return distribution, _shuffles(nest, allocate, Exchange(distribution, extents), foreign, steps, place, memories)


def _shuffles(
    nest: LoopNest,
    allocate: Allocate,
    exchange: Exchange,
    foreign: Sequence[_Access],
    steps: kn.Steps,
    place: Place,
    memories: Mapping[int, kn.Memory],
) -> Mapping[Cell, kn.Shuffle]:
    """Return the shuffles for reads of other threads' registers. Raises `IllegalMark` if one is not a shuffle."""
    cells = {access.cell for access in foreign}
    found: dict[Cell, kn.Shuffle | None] = {}
    for statement, here in _statements(steps, place) if cells else ():
        for read in reads_in(statement, Around(here.facts), allocate.buffer.uid, memories):
            if read.cell not in cells:
                continue
            text = next(each.access.text for each in foreign if each.cell == read.cell)
            try:
                made = exchange.shuffle(read)
                if found.setdefault(read.cell, made) != made:
                    raise NoShuffle("its element is read under two conditions", "one condition, or two lets")
            except NoShuffle as error:
                raise refused(
                    nest, allocate, f"in `{text}` {error.reason}", error.required, numbers=error.numbers
                ) from None
    return {cell: made for cell, made in found.items() if made is not None}


def _local_extent(extent: int, share: kn.Share | None) -> int:
    """Return the number of elements of a dimension in each thread."""
    if share is None:
        return extent
    match share.how:
        case "blocked":
            return share.factor
        case "cyclic":
            return -(-extent // share.factor)
    assert_never(share.how)


def _share(access: _Access, position: Index) -> kn.Share | None:
    """Return the distribution of a position, or None if it is not distributed."""
    for axis, (thread, loop) in access.threads.items():
        factor = step(position, loop.variable)
        if not factor or factor < 0:
            continue
        rest = position - thread * factor
        if proves(access.facts, within(ZERO, rest, constant(factor))):
            return kn.Share(axis, "blocked", factor)
        count = (loop.high - loop.low).constant
        if factor == 1 and count is not None and kn.divided(rest, count) is not None:
            return kn.Share(axis, "cyclic", count)
    return None


def _accesses(steps: kn.Steps, place: Place, uid: int) -> Iterator[_Access]:
    for statement, here in _statements(steps, place):
        yield from _in_statement(statement, here, uid)


def _statements(steps: kn.Steps, place: Place) -> Iterator[tuple[Statement, Place]]:
    """Yield the statements that threads execute, each with its place."""
    for step_ in steps:
        match step_:
            case kn.Run(statement):
                yield statement, place
            case Declare():
                yield step_, place
            case kn.Repeat(variable, body=body):
                _, scope = place.scope.bind(variable, variable.name)
                yield from _statements(body, Place(place.facts.assume(step_.range), scope))
            case kn.Branch(predicate, body):
                yield from _statements(body, replace(place, facts=place.facts.assume(predicate)))
            case Allocate() | Clear() | Free() | kn.Barrier() | kn.Commit() | kn.Wait():
                pass
            case _:
                assert_never(step_)
        if isinstance(step_, Declare | Allocate):
            place = replace(place, scope=after(place.scope, step_))


def _in_statement(statement: Statement, place: Place, uid: int) -> Iterator[_Access]:
    loops = {
        loop.variable.uid: loop for loop in statements((statement,)) if isinstance(loop, For) and loop.mark in THREADS
    }
    called = {s.variable for s in statements((statement,)) if isinstance(s, For) and isinstance(s.mark, CallMark)}
    for access in accesses_of(place.scope, place.facts, statement):
        if access.how == "read" and called.intersection(access.loops):
            continue  # an instruction reads registers of other lanes (`calls`)
        if isinstance(access.storage, Cell) and access.storage.buffer.uid == uid:
            around = [loops[variable.uid] for variable in access.loops if variable.uid in loops]
            threads = {THREADS.index(loop.mark): (index(loop.variable) - loop.low, loop) for loop in around}
            yield _Access(access, access.storage, threads)


# -- errors -----------------------------------------------------------------------------------------------------------


def refused(
    nest: LoopNest,
    allocate: Allocate,
    summary: str,
    required: str,
    *suggestions: str,
    numbers: Mapping[str, int] | None = None,
) -> IllegalMark:
    """Return the error of a buffer that cannot be in the memory that its mark requests."""
    name = allocate.buffer.name
    return IllegalMark(
        f"the buffer {name} is marked {allocate.mark.value}; {summary}",
        binder=name,
        mark=allocate.mark.value,
        place=place_of(nest, allocate.let),
        required=required,
        numbers=numbers,
        suggestions=(*suggestions, f's.mark("{name}", "shared"), or s.mark("{name}", None)'),
    )


def _unknown_thread(nest: LoopNest, allocate: Allocate, access: _Access, axis: int) -> IllegalMark:
    return refused(
        nest,
        allocate,
        f"the index in `{access.access.text}` does not determine a thread along {kn.AXES[axis]}",
        f"an index c*t + r with 0 <= r < c, or t + c*r, where t is the loop marked thread.{kn.AXES[axis]}: a register "
        "belongs to one thread",
    )


def _inconsistent(nest: LoopNest, allocate: Allocate, one: _Access, another: _Access) -> IllegalMark:
    return refused(
        nest,
        allocate,
        f"`{one.access.text}` and `{another.access.text}` distribute its elements differently, so that a thread would "
        "access another thread's registers",
        "the same thread for an element at each access",
    )
