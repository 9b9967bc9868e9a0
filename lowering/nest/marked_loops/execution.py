"""Execution of merges, runs and streams by the loop-nest interpreter, in the same way as the printed code."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableMapping
from itertools import pairwise
from random import Random

from atl.core.index import Index, Var
from atl.core.marks import LoopMark
from lowering.nest.loopnest import Block, For
from lowering.nest.marked_loops.merges import Finger, Merge, NoMerge, is_merge, merge_at
from lowering.nest.marked_loops.runs import NoRuns, Runs, runs_at
from lowering.nest.marked_loops.streams import Stream, of_lines, stream_at
from lowering.nest.traps import Trap

Value = Callable[[Index], int]
Positions = MutableMapping[Var, int]


def co_iterations(merge: Merge, value: Value, at: Positions, strict: Collection[Var]) -> Iterator[None]:
    """Advance the fingers of a merge, and yield wherever all keys are equal.

    Fingers with a smaller key than another one advance. Where all keys are equal, the finger whose keys may repeat
    (the one not in `strict`) advances, or else all do. Raises `Trap` for keys that decrease, and for repeated keys of
    a finger in `strict`.
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
        _look_at_keys(merge, value, at, ends, strict)
        yield from _met(merge.fingers, value, at, ends, strict)
    for variable in ends:
        del at[variable]


def _met(
    fingers: tuple[Finger, ...], value: Value, at: Positions, ends: dict[Var, int], strict: Collection[Var]
) -> Iterator[None]:
    repeating = [finger for finger in fingers if finger.variable not in strict]
    while all(at[finger.variable] < ends[finger.variable] for finger in fingers):
        keys = [value(finger.key) for finger in fingers]
        greatest = max(keys)
        if min(keys) == greatest:
            yield
            moving = repeating or list(fingers)
        else:
            moving = [finger for finger, key in zip(fingers, keys, strict=True) if key < greatest]
        for finger in moving:
            at[finger.variable] += 1


def _look_at_keys(merge: Merge, value: Value, at: Positions, ends: dict[Var, int], strict: Collection[Var]) -> None:
    """Raise `Trap` if unsorted or repeated keys would make the merge miss equal ones."""
    repeating = [finger.variable.name for finger in merge.fingers if finger.variable not in strict]
    if len(repeating) > 1:
        raise Trap("marked loop", f"the keys of {' and of '.join(repeating)} may repeat")
    for finger in merge.fingers:
        variable = finger.variable
        first = at[variable]
        keys: list[int] = []
        for position in range(first, ends[variable]):
            at[variable] = position
            keys.append(value(finger.key))
        at[variable] = first
        for before, after in pairwise(keys):
            if after < before or (after == before and variable in strict):
                raise Trap("marked loop", f"a key of {variable.name} is {before}, but the next one is {after}")


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
    """Yield the statements of each cache line and of each other iteration, with their first iteration.

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
