"""Kernels as data: what a host launches, and what the threads of each block do between barriers.

A barrier stands outside of the loops of threads, and only there: a `Run` is a statement of the loop nest, in which
there is no place for one. So every thread of a block comes to every barrier, by construction. What a kernel computes is
what its loop nest does, statement by statement: a loop whose mark is an axis forks, and joins when all of its
iterations are done. A thread that is in no loop of an axis does there what is its own (scalars, private buffers, its
registers); what is seen by others is stored by the first thread of the axis.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

from atl.core.index import ZERO, Index, Var, index, polynomial
from atl.core.marks import THREADS, LoopMark
from atl.core.predicate import Predicate, within
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Buffer,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    LoopNest,
    Scalar,
    statements,
)
from lowering.nest.tiles import cells_of

AXES: Final = ("x", "y", "z")
MOST_THREADS: Final = (1024, 1024, 64)
"""So many threads a block has along each axis at most."""
THREADS_OF_A_BLOCK: Final = 1024
"""So many in all."""
SHARED_BYTES: Final = 48 * 1024
"""So much shared memory a block has that is declared in the text of a kernel."""
WARP: Final = 32
"""So many threads along x run together, and may hand their values to each other."""

Folding: TypeAlias = Literal["add", "mul", "min", "max"]
"""The operations by which threads fold values into one."""
Extents: TypeAlias = tuple[int, int, int]
"""How many threads a block has along each axis."""


# -- where buffers are ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """How one dimension of a buffer is dealt to the threads of an axis.

    The position of an element is `factor*t + r` with 0 <= r < factor in "blocks", `t + factor*r` with 0 <= t < factor
    "in turns", t being the thread along the axis. What is left of the position in each thread is r.
    """

    axis: int
    how: Literal["blocks", "in turns"]
    factor: int


@dataclass(frozen=True, slots=True)
class Dealt:
    """In registers: the shares of a buffer's dimensions, and the extents that are left in each thread."""

    shares: tuple[Share | None, ...]
    extents: tuple[int, ...]


Where: TypeAlias = Literal["global", "shared", "private"] | Dealt
"""In memory that all threads see, or those of a block; or of each thread: by itself, or dealt to them."""


# -- what a thread reads or stores at once ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WideLoad:
    """The cells that the iterations of a loop read, which lie side by side; they are read under these conditions."""

    cell: Cell
    under: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Wide:
    """A loop of so many iterations, of which a thread reads all such cells at once, and perhaps `stores` all of them.

    Of each, the address in the first iteration is a multiple of the number of iterations. What conditions the loop has
    hold in all iterations or in none.
    """

    lanes: int
    loads: tuple[WideLoad, ...]
    stores: bool


# -- what a block does ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Barrier:
    """All threads of a block wait here for each other; `why` names what would meet."""

    why: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Run:
    """A statement that the threads carry out without waiting for each other: a loop of threads, or a store.

    `sums` are the scalars declared outside of it into which its threads fold: each is the same in all threads then.
    """

    statement: For | Assign | Accumulate
    sums: tuple[Fold, ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """A scalar into which the threads of a loop fold by one operation, along these axes."""

    into: Scalar
    op: Folding
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop in which all threads of a block go round together."""

    variable: Var
    low: Index
    high: Index
    body: Steps
    mark: LoopMark = LoopMark.NONE

    @property
    def range(self) -> Predicate:
        return within(self.low, index(self.variable), self.high)


@dataclass(frozen=True, slots=True)
class Branch:
    """What all threads of a block do where the predicate holds, which is the same for all of them."""

    predicate: Predicate
    body: Steps


Step: TypeAlias = Run | Repeat | Branch | Barrier | Declare | Allocate | Clear | Free
Steps: TypeAlias = tuple[Step, ...]


# -- what the host does -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel: a block of `threads` for each iteration of the loops of `grid`, which are the outermost first.

    `places` tell where the buffers are that the kernel allocates, by their `uid`; `wide` are the loops that read or
    store their iterations at once, by the `uid` of their variables.
    """

    grid: tuple[For, ...]
    threads: Extents
    body: Steps
    places: Mapping[int, Where]
    wide: Mapping[int, Wide] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop around launches, which runs on the host."""

    variable: Var
    low: Index
    high: Index
    body: HostBlock

    @property
    def range(self) -> Predicate:
        return within(self.low, index(self.variable), self.high)


@dataclass(frozen=True, slots=True)
class HostBranch:
    predicate: Predicate
    body: HostBlock


HostStep: TypeAlias = Launch | HostLoop | HostBranch | Allocate | Clear | Free
HostBlock: TypeAlias = tuple[HostStep, ...]


@dataclass(frozen=True, slots=True)
class Kernels:
    """A loop nest as kernels; `nest` is what they were made of, with its parameters and all that is known of it."""

    nest: LoopNest
    body: HostBlock


# -- looking at them --------------------------------------------------------------------------------------------------


def launches(block: HostBlock) -> Iterator[Launch]:
    """The launches in the order of the text."""
    for step in block:
        match step:
            case Launch():
                yield step
            case HostLoop(body=body) | HostBranch(body=body):
                yield from launches(body)
            case Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(step)


def steps_of(body: Steps) -> Iterator[Step]:
    """Every step of a kernel, outer ones first."""
    for step in body:
        yield step
        if isinstance(step, Repeat | Branch):
            yield from steps_of(step.body)


def axis_of(mark: LoopMark) -> int | None:
    """The axis of a loop of threads."""
    return THREADS.index(mark) if mark in THREADS else None


def is_own(target: Cell | Scalar, places: Mapping[int, Where]) -> bool:
    """Whether each thread has what is stored to: all of them store it, then, where they are in no loop of an axis."""
    return isinstance(target, Scalar) or places.get(target.buffer.uid, "global") not in ("global", "shared")


def wide_cells(launch: Launch) -> Iterator[tuple[Cell, For, int]]:
    """The cells that are read or stored at once: with the loop, and how many they are in each."""
    for step in steps_of(launch.body):
        if not isinstance(step, Run):
            continue
        for loop in statements((step.statement,)):
            if isinstance(loop, For) and (wide := launch.wide.get(loop.variable.uid)) is not None:
                stored = [cell for cell, changed in cells_of(loop.body) if changed] if wide.stores else []
                yield from ((cell, loop, wide.lanes) for cell in (*(load.cell for load in wide.loads), *stored))


def touched_by(launch: Launch) -> dict[Buffer, bool]:
    """The buffers that a kernel reads or changes and does not allocate, each with whether it changes it."""
    found: dict[Buffer, bool] = {}

    def note(buffer: Buffer, changed: bool) -> None:
        if buffer.uid not in launch.places:
            found[buffer] = found.get(buffer, False) or changed

    for step in steps_of(launch.body):
        match step:
            case Run(statement) | (Declare() as statement):
                for cell, changed in cells_of((statement,)):
                    note(cell.buffer, changed)
            case Clear(buffer):
                note(buffer, True)
            case Repeat() | Branch() | Barrier() | Allocate() | Free():
                pass
            case _:
                assert_never(step)
    return found


# -- registers --------------------------------------------------------------------------------------------------------


def rest_of(position: Index, share: Share | None, thread: Index) -> Index:
    """What is left of a position in a thread: see `Share`."""
    if share is None:
        return position
    match share.how:
        case "blocks":
            return position - share.factor * thread
        case "in turns":
            rest = divided(position - thread, share.factor)
            if rest is None:
                raise AssertionError("a share is in turns where what is left of a position is divisible")
            return rest
    assert_never(share.how)


def divided(e: Index, by: int) -> Index | None:
    """The expression divided by a number, if each of its coefficients is a multiple of it."""
    if any(coefficient % by for _, coefficient in e.terms):
        return None
    return polynomial({monomial: coefficient // by for monomial, coefficient in e.terms})


def in_registers(cell: Cell, dealt: Dealt, threads: Mapping[int, Index]) -> Cell:
    """The cell of a dealt buffer within a thread; `threads` are the threads along the axes of the loops around."""
    pairs = tuple(
        (rest_of(position, share, threads[share.axis] if share else ZERO), index(extent))
        for (position, _), share, extent in zip(cell.pairs, dealt.shares, dealt.extents, strict=True)
    )
    buffer = Buffer(
        cell.buffer.uid, cell.buffer.name, cell.buffer.dtype, tuple(index(extent) for extent in dealt.extents)
    )
    return Cell(buffer, pairs)
