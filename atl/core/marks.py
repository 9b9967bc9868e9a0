"""Marks: scheduling annotations of loops and lets.

A mark does not change the meaning of a term. Equality, matching and the kernel ignore marks; printing and certificates
keep them. A rewrite keeps the marks of the binders that it keeps. `lowering.targets.capabilities` lists the marks that
a target supports, and lowering decides whether a mark is legal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeAlias, overload

from atl.errors import UnknownMark, brief


class LoopMark(Enum):
    """Execution of the iterations of a generation or a reduction. The value is the mark's notation."""

    NONE = ""
    """Sequential loop."""
    PARALLEL = "parallel"
    """Parallel loop, distributed over CPU threads."""
    VECTOR = "vector"
    """Vectorised loop: the iterations are the lanes of vector instructions."""
    STREAM = "stream"
    """Vectorised loop with non-temporal stores, which bypass the caches."""
    UNROLL = "unroll"
    """Fully unrolled loop."""
    BLOCK_X = "block.x"
    """Loop over the blocks of a GPU grid, along its first axis."""
    BLOCK_Y = "block.y"
    """Loop over the blocks along the second axis of the grid."""
    BLOCK_Z = "block.z"
    """Loop over the blocks along the third axis of the grid."""
    THREAD_X = "thread.x"
    """Loop over the threads of a GPU block, along its first axis."""
    THREAD_Y = "thread.y"
    """Loop over the threads along the second axis of the block."""
    THREAD_Z = "thread.z"
    """Loop over the threads along the third axis of the block."""
    DEVICE_X = "device.x"
    """Loop over the ranks of a distributed program, along the first axis of their mesh."""
    DEVICE_Y = "device.y"
    """Loop over the ranks along the second axis of the mesh."""
    DEVICE_Z = "device.z"
    """Loop over the ranks along the third axis of the mesh."""
    MERGE = "merge"
    """Co-iteration: a merge loop over the sorted coordinates of several sparse operands."""
    RUNS = "runs"
    """Segmented reduction: consecutive iterations that scatter to one element are summed, and stored once."""


class LetMark(Enum):
    """Memory space of the value of a let. The value is the mark's notation."""

    NONE = ""
    """Memory space chosen by lowering."""
    REGISTERS = "registers"
    """Registers of the thread that computes the value."""
    STACK = "stack"
    """Stack of the function; the size must be a compile-time constant."""
    HEAP = "heap"
    """Dynamically allocated memory."""
    RING = "ring"
    """Circular buffer of the last few rows (storage folding): each row overwrites the oldest one."""
    SHARED = "shared"
    """Shared memory of a GPU block."""
    SHARED_2 = "shared 2 stages"
    """Circular buffer in shared memory, filled one iteration ahead of the loop around the let."""
    SHARED_3 = "shared 3 stages"
    """The same, filled two iterations ahead."""
    SHARED_4 = "shared 4 stages"
    """The same, filled three iterations ahead."""
    GLOBAL = "global"
    """Global memory of a GPU."""
    SCRATCHPAD = "scratchpad"
    """Scratchpad of the systolic core. The first dimension of the value is along its partitions."""
    ACCUMULATOR = "accumulator"
    """Memory of the systolic core to which products are added. The first dimension is along its partitions."""

    @property
    def stages(self) -> int:
        """The number of iterations whose values are in shared memory at once; 1 for other marks.

        >>> LetMark.SHARED_3.stages, LetMark.SHARED.stages
        (3, 1)
        """
        words = self.value.split()
        return int(words[1]) if len(words) > 1 else 1


CALL: Final = "call "
"""Beginning of the notation of a call; the name of an instruction follows."""


@dataclass(frozen=True, slots=True)
class CallMark:
    """Mark of a sum that an instruction computes, together with the loops around it that the instruction covers.

    `lowering.instructions` declares the instructions.
    """

    name: str

    @property
    def value(self) -> str:
        """The notation of the mark."""
        return CALL + self.name


AnyLoopMark: TypeAlias = LoopMark | CallMark
"""A mark of a loop."""

Mark: TypeAlias = AnyLoopMark | LetMark
MarkKind: TypeAlias = type[LoopMark] | type[LetMark]

DEVICES: Final = (LoopMark.DEVICE_X, LoopMark.DEVICE_Y, LoopMark.DEVICE_Z)
"""Axes of a mesh of ranks, in order."""

DEVICE_LETTERS: Final[Mapping[LoopMark, str]] = {axis: axis.value.rpartition(".")[2] for axis in DEVICES}
"""Their names in a mesh: x, y and z."""

BLOCKS: Final = (LoopMark.BLOCK_X, LoopMark.BLOCK_Y, LoopMark.BLOCK_Z)
"""Axes of a GPU grid, in order."""

THREADS: Final = (LoopMark.THREAD_X, LoopMark.THREAD_Y, LoopMark.THREAD_Z)
"""Axes of a GPU block, in order."""

STAGED: Final = (LetMark.SHARED_2, LetMark.SHARED_3, LetMark.SHARED_4)
"""Marks of circular buffers in shared memory, in the order of their stages."""


@dataclass(frozen=True, slots=True)
class Level:
    """A level of parallel hardware that runs iterations of marked loops: ranks, blocks or threads, by axes in order.

    `ordered_by` is the operation that orders an access after those of other ranks, blocks or threads. If `folds`,
    they may fold into one scalar variable.
    """

    name: str
    axes: tuple[LoopMark, ...]
    ordered_by: str
    folds: bool


LEVELS: Final = (
    Level("device", DEVICES, "exchange", folds=False),
    Level("block", BLOCKS, "launch", folds=False),
    Level("thread", THREADS, "barrier", folds=True),
)
"""The levels, outermost first."""


def level_of(mark: AnyLoopMark) -> Level | None:
    """Return the level of an axis; None for other marks.

    >>> level_of(LoopMark.BLOCK_Y).ordered_by
    'launch'
    """
    return next((level for level in LEVELS if mark in level.axes), None)


LANES: Final = (LoopMark.VECTOR, LoopMark.STREAM)
"""Marks of vectorised loops."""

CONCURRENT: Final = frozenset((LoopMark.PARALLEL, *LANES, *DEVICES, *BLOCKS, *THREADS))
"""Marks of loops whose iterations run concurrently and must be free of data races."""

BINDER_KIND: Final[dict[MarkKind, str]] = {LoopMark: "a loop", LetMark: "a let"}
"""The binder that a mark of each kind belongs to."""


def marks(of: MarkKind) -> tuple[str, ...]:
    """Return the notations of the marks of an enumeration, except `NONE`."""
    return tuple(mark.value for mark in of if mark.value)


def loop_mark(text: str) -> AnyLoopMark:
    """Return the loop mark with this notation. Raises `UnknownMark`.

    >>> loop_mark("parallel")
    <LoopMark.PARALLEL: 'parallel'>
    """
    return read_mark(LoopMark, text)


def let_mark(text: str) -> LetMark:
    """Return the let mark with this notation. Raises `UnknownMark`.

    >>> let_mark("shared")
    <LetMark.SHARED: 'shared'>
    """
    return read_mark(LetMark, text)


@overload
def read_mark(of: type[LoopMark], text: str) -> AnyLoopMark: ...
@overload
def read_mark(of: type[LetMark], text: str) -> LetMark: ...
def read_mark(of: MarkKind, text: str) -> Mark:
    """Return the mark of an enumeration with this notation; for loops, also a `CallMark`. Raises `UnknownMark`."""
    called = called_in(text) if of is LoopMark else None
    found = called or next((mark for mark in of if mark.value == text), None)
    if found is None:
        raise unknown_mark((of,), text)
    return found


def called_in(text: object) -> CallMark | None:
    """Return the call with this notation, or None for other texts."""
    if not isinstance(text, str) or not text.startswith(CALL):
        return None
    name = text.removeprefix(CALL)
    return CallMark(name) if name.isidentifier() else None


def unknown_mark(sets: tuple[MarkKind, ...], text: object) -> UnknownMark:
    """Return the error for a text that is not a mark of these enumerations."""
    here = " or ".join(BINDER_KIND[of] for of in sets)
    known = [word for of in sets for word in marks(of)]
    required = f"a mark of {here}: {', '.join(known)}"
    for of in BINDER_KIND:
        if isinstance(text, str) and of not in sets and text in marks(of):
            return UnknownMark(f"{text} is a mark of {BINDER_KIND[of]}, not of {here}", required=required)
    near = get_close_matches(text, known, 1, 0.5) if isinstance(text, str) else []
    return UnknownMark(
        f"unknown mark {brief(text)}",
        required=required,
        suggestions=(f"did you mean {near[0]}?",) if near else (),
    )
