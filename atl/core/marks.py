"""Marks: how a binder is to run, as one of a closed set for loops and one for lets.

A mark is no part of what a term means: equality, matching and the kernel ignore it, printing and certificates keep it,
and a rewrite keeps the marks of the binders that it keeps. Which of them a target carries out is said in
`lowering.targets.capabilities`; whether a mark may stand where it does is lowering's to say.
"""

from __future__ import annotations

from difflib import get_close_matches
from enum import Enum
from typing import Final, TypeAlias, TypeVar

from atl.errors import UnknownMark, brief


class LoopMark(Enum):
    """How the iterations of a generation or a reduction run. The value is the mark as it is written."""

    NONE = ""
    """One after the other."""
    PARALLEL = "parallel"
    """At the same time, shared out among the threads of a CPU."""
    VECTOR = "vector"
    """At the same time, as the lanes of vector instructions."""
    STREAM = "stream"
    """At the same time, as the lanes of vector instructions, which store whole lines past the caches."""
    UNROLL = "unroll"
    """One after the other, written out one by one."""
    BLOCK_X = "block.x"
    """At the same time: each is a block of a GPU's grid, along its first axis."""
    BLOCK_Y = "block.y"
    """Along the second axis of the grid."""
    BLOCK_Z = "block.z"
    """Along the third axis of the grid."""
    THREAD_X = "thread.x"
    """At the same time: each is a thread of a GPU's block, along its first axis."""
    THREAD_Y = "thread.y"
    """Along the second axis of the block."""
    THREAD_Z = "thread.z"
    """Along the third axis of the block."""
    MERGE = "merge"
    """Only where the coordinates of several sparse operands meet: they are walked through together."""
    RUNS = "runs"
    """In runs of equal keys: what a run scatters to one element is gathered first, and stored once."""


class LetMark(Enum):
    """Where the value of a let is kept. The value is the mark as it is written."""

    NONE = ""
    """Wherever lowering chooses."""
    REGISTERS = "registers"
    """In registers, of the thread that computes it."""
    STACK = "stack"
    """On the stack of the function, in room that is known before it runs."""
    HEAP = "heap"
    """In memory that is allocated when it is needed."""
    RING = "ring"
    """In a buffer that holds the last few rows only, each written over the oldest one."""
    SHARED = "shared"
    """In the memory that the threads of a GPU's block share."""
    GLOBAL = "global"
    """In the memory of a GPU, which all of its threads see."""


Mark: TypeAlias = LoopMark | LetMark

BLOCKS: Final = (LoopMark.BLOCK_X, LoopMark.BLOCK_Y, LoopMark.BLOCK_Z)
"""The axes of a GPU's grid, in their order."""

THREADS: Final = (LoopMark.THREAD_X, LoopMark.THREAD_Y, LoopMark.THREAD_Z)
"""The axes of a GPU's block, in their order."""

LANES: Final = (LoopMark.VECTOR, LoopMark.STREAM)
"""The marks of loops whose iterations are the lanes of vector instructions."""

AT_ONCE: Final = frozenset((LoopMark.PARALLEL, *LANES, *BLOCKS, *THREADS))
"""The marks of loops whose iterations run at the same time, so that none may touch what another one changes."""

CALLED: Final[dict[type[Enum], str]] = {LoopMark: "a loop", LetMark: "a let"}
"""What the marks of each set are for."""

M = TypeVar("M", bound=Enum)


def marks(of: type[Enum]) -> tuple[str, ...]:
    """The marks of a set, as they are written; that of nothing is left out."""
    return tuple(mark.value for mark in of if mark.value)


def loop_mark(text: str) -> LoopMark:
    """The mark of a loop that is written so. Raises `UnknownMark`.

    >>> loop_mark("parallel")
    <LoopMark.PARALLEL: 'parallel'>
    """
    return read_mark(LoopMark, text)


def let_mark(text: str) -> LetMark:
    """The mark of a let that is written so. Raises `UnknownMark`.

    >>> let_mark("shared")
    <LetMark.SHARED: 'shared'>
    """
    return read_mark(LetMark, text)


def read_mark(of: type[M], text: str) -> M:
    """The mark of a set that is written so. Raises `UnknownMark`, which says which there are."""
    found = next((mark for mark in of if mark.value == text), None)
    if found is None:
        raise unknown_mark((of,), text)
    return found


def unknown_mark(sets: tuple[type[Enum], ...], text: object) -> UnknownMark:
    """What to say of a text that is a mark of none of these sets."""
    here = " or ".join(CALLED[of] for of in sets)
    known = [word for of in sets for word in marks(of)]
    required = f"a mark of {here}: {', '.join(known)}"
    for of in CALLED:
        if isinstance(text, str) and of not in sets and text in marks(of):
            return UnknownMark(f"{text} is a mark of {CALLED[of]}, and not of {here}", required=required)
    near = get_close_matches(text, known, 1, 0.5) if isinstance(text, str) else []
    return UnknownMark(
        f"there is no mark {brief(text)}",
        required=required,
        suggestions=(f"did you mean {near[0]}?",) if near else (),
    )
