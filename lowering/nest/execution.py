"""Parts of the loop-nest interpreter: errors, detection of data races, and marked loops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, MutableMapping
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import ClassVar, Final, Literal, TypeAlias

from atl.core.index import Index, Var
from atl.core.marks import AnyLoopMark, LoopMark, level_of
from atl.core.operations import BinaryOp
from atl.errors import ATLError
from lowering.nest.loopnest import Block, For
from lowering.nest.marked_loops import (
    Finger,
    Merge,
    NoMerge,
    NoRuns,
    Runs,
    Stream,
    is_merge,
    merge_at,
    of_lines,
    runs_at,
    stream_at,
)

# -- errors -----------------------------------------------------------------------------------------------------------


TrapKind: TypeAlias = Literal[
    "out of bounds",  # an index outside of its extent, or an address outside of its buffer
    "shape",  # the extents of a cell differ from those of its buffer
    "capacity",  # a buffer is smaller than its elements need
    "uninitialised",  # a read of, or an addition to, a cell without a value
    "overwritten",  # an assignment to a cell with a value
    "read-only",  # a store to an input
    "no storage",  # a buffer that is not allocated, or already freed
    "double free",
    "leak",
    "undeclared",  # a scalar or loop variable that is not in scope
    "redeclared",
    "incomplete",  # an element of an output marked complete was not stored
    "register",  # an element of a tile in registers at an index that is not constant, or not in one vector
    "divisor",  # a division of an index by zero or less
    "numerator",  # a negative numerator that is listed as non-negative
    "aliased",  # a read of, or an addition to, a cell with a value of another tensor in the same storage
    "ring",  # a row of a circular buffer that is not started yet, or replaced already
    "marked loop",  # an invalid merge or `runs` loop, or keys that decrease or repeat where they must not
    "data race",  # two concurrent iterations access one cell, and one of them changes it
    "rows",  # rows or columns of an assembled output in the wrong order, or a row that does not end
    "copy",  # an asynchronous copy that never arrives, or to a row that a later one replaced
    "alignment",  # a misaligned wide load or store of a GPU thread
]


class Trap(ATLError, RuntimeError):
    """An error while a loop nest runs. Correctly lowered programs never cause one. `kind` classifies it."""

    code: ClassVar[str] = "ATL601"

    def __init__(self, kind: TrapKind, summary: str) -> None:
        super().__init__(f"{kind}: {summary}")
        self.kind: Final = kind


# -- data races -------------------------------------------------------------------------------------------------------


AccessKind: TypeAlias = Literal["read", "write"] | BinaryOp
"""Kind of an access to a cell or variable: a read, an assignment, or an operation that folds a value into it."""

REDUCTION_OPS: Final = frozenset(("add", "mul", "min", "max"))
"""Operations by which concurrent iterations may update one scalar variable. Blocks of a GPU may not."""


def canonical_fold(how: AccessKind) -> AccessKind:
    """Return the common name of operations that commute with each other: "add" for "sub"."""
    return "add" if how == "sub" else how


def is_race_free(mark: AnyLoopMark, one: AccessKind, another: AccessKind) -> bool:
    """Return whether two iterations of a loop with this mark may access one cell or variable in these ways.

    They may if both read it, or both fold into it. Blocks of a grid and ranks may only read: they do not synchronise.

    >>> is_race_free(LoopMark.PARALLEL, "add", "sub"), is_race_free(LoopMark.PARALLEL, "add", "read")
    (True, False)
    """
    if one == another == "read":
        return True
    level = level_of(mark)
    folds = level is None or level.folds
    return folds and canonical_fold(one) == canonical_fold(another) and canonical_fold(one) in REDUCTION_OPS


@dataclass(frozen=True, slots=True)
class DataRace:
    """A data race: two iterations of a loop and their conflicting accesses, the earlier one first."""

    loop: str
    mark: AnyLoopMark
    iterations: tuple[int, int]
    accesses: tuple[AccessKind, AccessKind]


@dataclass(slots=True)
class _Running:
    """A running loop, with the iteration that accessed each cell, by kind. None denotes several iterations."""

    name: str
    mark: AnyLoopMark
    iteration: int = 0
    seen: dict[Hashable, dict[AccessKind, int | None]] = field(default_factory=dict)

    def touch(self, what: Hashable, how: AccessKind) -> DataRace | None:
        seen = self.seen.setdefault(what, {})
        for done, by in seen.items():
            if by != self.iteration and not is_race_free(self.mark, done, how):
                earlier = self.iteration if by is None else by
                return DataRace(self.name, self.mark, (earlier, self.iteration), (done, how))
        seen[how] = self.iteration if seen.get(how, self.iteration) == self.iteration else None
        return None


class RaceDetector:
    """A record of the accesses of concurrent iterations while a nest runs, which detects data races."""

    def __init__(self) -> None:
        self._running: list[_Running] = []

    @property
    def depth(self) -> int:
        """Number of running concurrent loops. Storage allocated now is private to their current iterations."""
        return len(self._running)

    def begin(self, name: str, mark: AnyLoopMark) -> None:
        """Enter a loop."""
        self._running.append(_Running(name, mark))

    def iterate(self, iteration: int) -> None:
        """Start an iteration of the innermost loop."""
        self._running[-1].iteration = iteration

    def end(self) -> None:
        """Leave the innermost loop."""
        self._running.pop()

    def touch(self, what: Hashable, allocated_depth: int, how: AccessKind) -> DataRace | None:
        """Record an access to a cell or variable, and return the data race, if any."""
        return next(
            (met for loop in self._running[allocated_depth:] if (met := loop.touch(what, how)) is not None), None
        )


# -- marked loops -----------------------------------------------------------------------------------------------------


Value = Callable[[Index], int]
Positions = MutableMapping[Var, int]


def co_iterations(merge: Merge, value: Value, at: Positions, strict_keys: Collection[Var]) -> Iterator[None]:
    """Advance the fingers (the merged loops), and yield wherever all keys are equal.

    Fingers with a smaller key than another one advance. Where all keys are equal, the finger whose keys may repeat
    (the one not in `strict_keys`) advances; if there is none, all advance. Raises `Trap` for keys that decrease, and
    for repeated keys of a finger in `strict_keys`.
    """
    ends: dict[Var, int] = {}
    for finger in merge.fingers:
        if finger.variable in at:
            raise Trap("redeclared", f"the loop variable {finger.variable.name} is in use")
        low, high = value(finger.loop.low), value(finger.loop.high)
        if low >= high:
            break
        at[finger.variable], ends[finger.variable] = low, high
    else:
        _check_keys(merge, value, at, ends, strict_keys)
        yield from _advance(merge.fingers, value, at, ends, strict_keys)
    for variable in ends:
        del at[variable]


def _advance(
    fingers: tuple[Finger, ...], value: Value, at: Positions, ends: dict[Var, int], strict_keys: Collection[Var]
) -> Iterator[None]:
    repeating = [finger for finger in fingers if finger.variable not in strict_keys]
    while all(at[finger.variable] < ends[finger.variable] for finger in fingers):
        keys = [tuple(map(value, finger.key)) for finger in fingers]
        greatest = max(keys)
        if min(keys) == greatest:
            yield
            moving = repeating or list(fingers)
        else:
            moving = [finger for finger, key in zip(fingers, keys, strict=True) if key < greatest]
        for finger in moving:
            at[finger.variable] += 1


def _check_keys(merge: Merge, value: Value, at: Positions, ends: dict[Var, int], strict_keys: Collection[Var]) -> None:
    """Raise `Trap` if unsorted or repeated keys would make the merge miss equal ones."""
    repeating = [finger.variable.name for finger in merge.fingers if finger.variable not in strict_keys]
    if len(repeating) > 1:
        raise Trap("marked loop", f"the keys of {' and of '.join(repeating)} may repeat")
    for finger in merge.fingers:
        variable = finger.variable
        first = at[variable]
        keys: list[tuple[int, ...]] = []
        for position in range(first, ends[variable]):
            at[variable] = position
            keys.append(tuple(map(value, finger.key)))
        at[variable] = first
        for before, after in pairwise(keys):
            if after < before or (after == before and variable in strict_keys):
                one, next_one = (", ".join(map(str, key)) for key in (before, after))
                raise Trap("marked loop", f"a key of {variable.name} is {one}, but the next one is {next_one}")


def run_positions(runs: Runs, value: Value, at: Positions) -> Iterator[tuple[bool, bool]]:
    """Advance the position through its range, and yield whether a run begins and whether one ends there."""
    variable = runs.loop.variable
    if variable in at:
        raise Trap("redeclared", f"the loop variable {variable.name} is in use")
    low, high = value(runs.loop.low), value(runs.loop.high)

    def keys_at(position: int) -> tuple[int, ...]:
        at[variable] = position
        return tuple(value(key) for key in runs.keys)

    begins = True
    for position in range(low, high):
        ends = position + 1 == high or keys_at(position + 1) != keys_at(position)
        at[variable] = position
        yield begins, ends
        begins = ends
    at.pop(variable, None)


def marked_loop_at(loop: For) -> Merge | NoMerge | Runs | NoRuns | Stream | None:
    """Return the merge, runs or stream of a marked loop; None for a plain loop."""
    if is_merge(loop):
        return merge_at(loop)
    if loop.mark is LoopMark.RUNS:
        return runs_at(loop)
    return stream_at(loop)


def stream_blocks(stream: Stream, value: Value, at: Positions, chance: Random) -> Iterator[tuple[int, Block]]:
    """Yield the first iteration and the statements of each whole cache line, and of each iteration outside of these.

    The start of the first line and the order are random.
    """
    loop, width = stream.loop, stream.width
    if loop.variable in at:
        raise Trap("redeclared", f"the loop variable {loop.variable.name} is in use")
    low, high = value(loop.low), value(loop.high)
    begins = low + chance.randrange(width)
    positions = range(low, max(low, high))
    whole = [start for start in positions[begins - low :: width] if start + width <= high]
    single = [each for each in positions if not whole or not whole[0] <= each < whole[-1] + width]
    together = of_lines(stream)
    for position in chance.sample([*whole, *single], len(whole) + len(single)):
        variable, block = (stream.first, together) if position in whole else (loop.variable, loop.body)
        at[variable] = position
        yield position, block
        del at[variable]
