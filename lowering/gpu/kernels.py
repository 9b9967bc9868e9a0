"""GPU kernels as data: the launches of the host, and the steps of each block's threads between barriers.

A barrier is only possible between steps, outside of the loops of threads. A `Run` is a statement of the loop nest,
which cannot contain one. So every thread of a block reaches every barrier, by construction.

A kernel computes what its loop nest does, statement by statement. A loop whose mark is an axis forks, and joins when
all of its iterations are done. Outside of such a loop, every thread along the axis executes statements on private
data (scalars, private buffers, its registers); only the first thread of the axis stores to data that others see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias, assert_never

from atl.core.index import ZERO, Index, Var, constant, floordiv, index, polynomial
from atl.core.marks import THREADS, AnyLoopMark, LoopMark
from atl.core.predicate import Predicate, within
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of

AXES: Final = ("x", "y", "z")
MAX_THREADS: Final = (1024, 1024, 64)
"""Largest number of threads of a block along each axis."""
MAX_THREADS_PER_BLOCK: Final = 1024
"""Largest number of threads of a block."""
STATIC_BYTES: Final = 48 * 1024
"""Largest size of the statically declared shared memory of a block. Larger ones are allocated at the launch."""
SHARED_BYTES: Final = 227 * 1024
"""Largest size of the shared memory of a block: that of sm_90. The launch fails on a GPU that has less."""
WARP: Final = 32
"""Number of threads along x that run together and can exchange values by shuffles."""

Folding: TypeAlias = Literal["add", "mul", "min", "max"]
"""Operations by which threads fold values into one."""
Extents: TypeAlias = tuple[int, int, int]
"""Number of threads of a block along each axis."""


# -- storage of buffers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Share:
    """The distribution, blocked or cyclic, of one dimension of a buffer over the threads of an axis.

    The position of an element is `factor*t + r` with 0 <= r < factor if blocked, or `t + factor*r` with
    0 <= t < factor if cyclic. Here t is the thread along the axis, and r is the local position in that thread.
    """

    axis: int
    how: Literal["blocked", "cyclic"]
    factor: int


@dataclass(frozen=True, slots=True)
class Distributed:
    """A buffer distributed over the registers of threads: the share of each dimension, and the local extents."""

    shares: tuple[Share | None, ...]
    extents: tuple[int, ...]


Memory: TypeAlias = Literal["global", "shared", "private"] | Distributed
"""Memory of a buffer: seen by all threads, by those of a block, or by one thread (undivided or distributed)."""


# -- vector accesses --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class WideLoad:
    """The consecutive cells read by the iterations of a loop, and the conditions under which they are read."""

    cell: ln.Cell
    under: tuple[Predicate, ...]


@dataclass(frozen=True, slots=True)
class Wide:
    """A loop of `lanes` iterations whose loads are made by one vector instruction each, and its store if `stores`.

    The address in the first iteration is a multiple of the number of iterations. The conditions in the loop hold in all
    iterations or in none.
    """

    lanes: int
    loads: tuple[WideLoad, ...]
    stores: bool


@dataclass(frozen=True, slots=True)
class Copy:
    """A loop whose `lanes` iterations are one asynchronous copy of `COPY_BYTES` from global to shared memory.

    Zeros are stored if the conditions of the load do not hold. The target has no value until a `Wait` for its group.
    """

    lanes: int
    load: WideLoad


@dataclass(frozen=True, slots=True)
class Shuffle:
    """A read of another thread's register by all `lanes` lanes of a warp: the register that each lane passes, and the
    lane whose value it gets. Hardware takes the lane modulo 32."""

    lane: Index
    register: ln.Cell
    lanes: int


COPY_BYTES: Final = 16
"""Size of an asynchronous copy."""


# -- steps of a block -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Barrier:
    """A barrier for all threads of a block; `why` names the data race that it prevents."""

    why: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Commit:
    """The end of a group: the asynchronous copies of each thread since the last one. A group may be empty."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of each thread until its own copies have arrived, except those of the last `groups` groups.

    Other threads see them after the next barrier. `of` is the loop that reads them.
    """

    groups: int
    of: Var = field(compare=False)


@dataclass(frozen=True, slots=True)
class Run:
    """A statement that the threads execute without barriers: a loop of threads, or a store.

    `folds` are the scalars declared outside into which the threads fold. Afterwards all threads have the same values.
    """

    statement: ln.For | ln.Assign | ln.Accumulate
    folds: tuple[Fold, ...] = ()


@dataclass(frozen=True, slots=True)
class Fold:
    """A scalar into which the threads of a loop fold by one operation, along these axes."""

    into: ln.Scalar
    op: Folding
    axes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A loop that all threads of a block execute together."""

    variable: Var
    low: Index
    high: Index
    body: Steps
    mark: AnyLoopMark = LoopMark.NONE

    @property
    def range(self) -> Predicate:
        return within(self.low, index(self.variable), self.high)


@dataclass(frozen=True, slots=True)
class Branch:
    """Steps under a predicate that has the same value for all threads of a block."""

    predicate: Predicate
    body: Steps


Step: TypeAlias = Run | Repeat | Branch | Barrier | Commit | Wait | ln.Declare | ln.Allocate | ln.Clear | ln.Free
Steps: TypeAlias = tuple[Step, ...]


# -- steps of the host ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel: one block of `threads` for each iteration of the loops of `grid`, outermost first.

    `memories` maps the `uid` of each buffer allocated in the kernel to its memory. `wide` maps the `uid` of a loop's
    variable to its vector accesses, `copies` to its asynchronous copy, and `calls` to the call of an instruction by all
    threads of a warp. `shuffles` maps cells in registers of another thread to the shuffle that reads them. `dynamic`
    maps the `uid` of each buffer in shared memory to the byte at which it begins in memory of `dynamic_bytes`, which is
    allocated at the launch; it is empty if shared memory is declared statically.
    """

    grid: tuple[ln.For, ...]
    threads: Extents
    body: Steps
    memories: Mapping[int, Memory]
    wide: Mapping[int, Wide] = field(default_factory=dict)
    calls: Mapping[int, ln.InstructionCall] = field(default_factory=dict)
    copies: Mapping[int, Copy] = field(default_factory=dict)
    shuffles: Mapping[ln.Cell, Shuffle] = field(default_factory=dict)
    dynamic: Mapping[int, int] = field(default_factory=dict)

    @property
    def dynamic_bytes(self) -> int:
        """The size of the shared memory that is allocated at the launch."""
        made = (step for step in steps_of(self.body) if isinstance(step, ln.Allocate))
        return max(
            (self.dynamic[s.buffer.uid] + (ln.bytes_of(s) or 0) for s in made if s.buffer.uid in self.dynamic),
            default=0,
        )


@dataclass(frozen=True, slots=True)
class HostLoop:
    """A loop around launches, executed by the host."""

    variable: Var
    low: Index
    high: Index
    body: HostBlock

    @property
    def range(self) -> Predicate:
        return within(self.low, index(self.variable), self.high)


@dataclass(frozen=True, slots=True)
class HostBranch:
    """Steps of the host under a predicate."""

    predicate: Predicate
    body: HostBlock


HostStep: TypeAlias = Launch | HostLoop | HostBranch | ln.Allocate | ln.Clear | ln.Free
HostBlock: TypeAlias = tuple[HostStep, ...]


@dataclass(frozen=True, slots=True)
class Kernels:
    """The kernels of a loop nest, with the nest for its parameters and assumptions."""

    nest: ln.LoopNest
    body: HostBlock


# -- traversal --------------------------------------------------------------------------------------------------------


def launches(block: HostBlock) -> Iterator[Launch]:
    """Yield the launches in the order of the text."""
    for step in block:
        match step:
            case Launch():
                yield step
            case HostLoop(body=body) | HostBranch(body=body):
                yield from launches(body)
            case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(step)


def steps_of(body: Steps) -> Iterator[Step]:
    """Yield every step of a kernel, outer steps first."""
    for step in body:
        yield step
        if isinstance(step, Repeat | Branch):
            yield from steps_of(step.body)


def dynamic_places(body: Steps, memories: Mapping[int, Memory], folds: int) -> dict[int, int]:
    """Return the byte at which each buffer in shared memory begins, by `uid`, if they are too large to be static.

    Memory for folds, of `folds` bytes, is static.
    """
    places: dict[int, int] = {}
    end = 0
    for step in steps_of(body):
        if isinstance(step, ln.Allocate) and memories[step.buffer.uid] == "shared":
            places[step.buffer.uid] = end
            end += -(-(ln.bytes_of(step) or 0) // COPY_BYTES) * COPY_BYTES
    return places if end + folds > STATIC_BYTES else {}


def axis_of(mark: AnyLoopMark) -> int | None:
    """Return the axis of a loop of threads, or None for other marks."""
    return THREADS.index(mark) if mark in THREADS else None


def is_private(target: ln.Cell | ln.Scalar, memories: Mapping[int, Memory]) -> bool:
    """Return whether each thread has a private copy of a target. Every thread then executes stores to it."""
    return isinstance(target, ln.Scalar) or memories.get(target.buffer.uid, "global") not in ("global", "shared")


def wide_cells(launch: Launch) -> Iterator[tuple[ln.Cell, ln.For, int]]:
    """Yield the cells of vector accesses and of asynchronous copies with their loop and its number of lanes."""
    for step in steps_of(launch.body):
        if not isinstance(step, Run):
            continue
        for loop in ln.statements((step.statement,)):
            if not isinstance(loop, ln.For):
                continue
            stored = [cell for cell, changed in cells_of(loop.body) if changed]
            if (wide := launch.wide.get(loop.variable.uid)) is not None:
                loaded = [load.cell for load in wide.loads]
                yield from ((cell, loop, wide.lanes) for cell in (*loaded, *(stored if wide.stores else [])))
            elif (copy := launch.copies.get(loop.variable.uid)) is not None:
                yield from ((cell, loop, copy.lanes) for cell in (copy.load.cell, *stored))


def external_buffers(launch: Launch) -> dict[ln.Buffer, bool]:
    """Return the buffers that a kernel accesses but does not allocate, mapped to whether the kernel writes them."""
    found: dict[ln.Buffer, bool] = {}

    def note(buffer: ln.Buffer, changed: bool) -> None:
        if buffer.uid not in launch.memories:
            found[buffer] = found.get(buffer, False) or changed

    for step in steps_of(launch.body):
        match step:
            case Run(statement) | (ln.Declare() as statement):
                for cell, changed in cells_of((statement,)):
                    note(cell.buffer, changed)
            case ln.Clear(buffer):
                note(buffer, True)
            case Repeat() | Branch() | Barrier() | Commit() | Wait() | ln.Allocate() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(step)
    return found


# -- registers --------------------------------------------------------------------------------------------------------


def local_position(position: Index, share: Share | None, thread: Index) -> Index:
    """Return the local position of an element in its thread (r in `Share`)."""
    if share is None:
        return position
    match share.how:
        case "blocked":
            return position - share.factor * thread
        case "cyclic":
            rest = divided(position - thread, share.factor)
            if rest is None:
                raise AssertionError("a cyclic share requires a divisible local position")
            return rest
    assert_never(share.how)


def owner(position: Index, share: Share) -> Index:
    """Return the thread along the axis of a share that has this position (t in `Share`)."""
    quotient = floordiv(position, constant(share.factor))
    match share.how:
        case "blocked":
            return quotient
        case "cyclic":
            return position - share.factor * quotient
    assert_never(share.how)


def divided(e: Index, by: int) -> Index | None:
    """Return the expression divided by a number, or None if a coefficient is not a multiple of it."""
    if any(coefficient % by for _, coefficient in e.terms):
        return None
    return polynomial({monomial: coefficient // by for monomial, coefficient in e.terms})


def in_registers(cell: ln.Cell, distribution: Distributed, threads: Mapping[int, Index]) -> ln.Cell:
    """Return the local cell of a distributed buffer; `threads` maps axes to the threads along them.

    Outside of the loops of an axis, only its first thread accesses registers as its own.
    """
    pairs = tuple(
        (local_position(position, share, threads.get(share.axis, ZERO) if share else ZERO), index(extent))
        for (position, _), share, extent in zip(cell.pairs, distribution.shares, distribution.extents, strict=True)
    )
    buffer = ln.Buffer(
        cell.buffer.uid, cell.buffer.name, cell.buffer.dtype, tuple(index(extent) for extent in distribution.extents)
    )
    return ln.Cell(buffer, pairs)
