"""Recipes for data movement and the last steps: transposes in tiles, guards as bounds, non-temporal stores, threads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from atl.core import terms
from atl.core.marks import LetMark, LoopMark
from atl.core.program import Program
from lowering.targets.capabilities import fits_registers
from lowering.targets.machine import itemsize
from rewrites.cursors.cursor import Cursor, cursor_at, walk
from rewrites.errors import DoesNotApply
from rewrites.recipes.declaration import Context, recipe, schedule_each
from rewrites.recipes.structure import Loop, Read, has_call, loop_at, outer_nests, reads_below, target_of, unused_name


def _squares(context: Context) -> list[int]:
    """Return the sides of square tiles that are kept in registers, first the elements of a cache line if they fit."""
    size = itemsize(context.dtype)
    line = max(1, context.machine.line // size)
    return [side for side in (line, 2 * line, line // 2, line // 4, 1) if side and fits_registers(side * side * size)]


@recipe(tile=_squares)
def transpose_in_tiles(s: Any, *, tile: int) -> None:
    """Transpose square tiles in registers: ⊞[j] ⊞[i] x[i, j] → ⊞[jo] ⊞[io] let t := ⊞[ii] ⊞[ji] x[…] in ⊞[ji] ⊞[ii] t.

    A row of a tile is a cache line, so that each line is read once and stored once, or a part of a long line.
    """

    def schedule(s: Any, found: Transposed) -> None:
        for between in found.between:
            s.interchange(target_of(s.goal, between.path))
        outer, inner = _loops_of(s, found)[-2:]
        s.tile([target_of(s.goal, outer.path), target_of(s.goal, inner.path)], tile)
        place = s.find(_loops_of(s, found)[-3].path)
        s.tails(strategy="split")
        # The handle follows the first part, which has the full tiles.
        at = target_of(s.goal, place.path)
        name = unused_name(s.goal, "tile")
        s.stage(found.read.name, at=at, name=name).mark(name, "registers")

    schedule_each(s, _transposes, schedule, "two nested loops, and reads such as x[i, j] across the rows of the result")


@dataclass(frozen=True, slots=True)
class Transposed:
    """A nest that reads an operand across its rows: the name of its let, the read, and the loops to interchange."""

    name: str | None
    read: Read
    between: tuple[Loop, ...]


def _loops_of(s: Any, found: Transposed) -> Sequence[Loop]:
    """Return the loops of a nest now."""
    return next(nest for nest in outer_nests(s.goal) if nest.name == found.name).loops


def _transposes(program: Program) -> Iterator[Transposed]:
    """Yield the nests that read an operand along whose last dimension another loop than the innermost runs.

    Lets with sums, recurrences or lets inside are not such operands: staging would compute them again for each tile.
    """
    costly: set[str] = set()
    for nest in outer_nests(program):
        loops = nest.loops
        if has_call(nest.cursor.term) or any(
            isinstance(cursor.term, terms.Reduce | terms.Let | terms.Rec) for cursor in walk(nest.cursor)
        ):
            costly |= {nest.name} if nest.name is not None else set()
            continue
        if len(loops) < 2 or loops[-1].trips is not None:
            continue
        reads = [
            (read, k)
            for read in reads_below(nest.cursor)
            if read.name not in costly and read.factor(loops[-1]) == 0 and read.depends_on(loops[-1])
            for k in range(len(loops) - 2, -1, -1)
            if read.factor(loops[k]) == 1 and not read.depends_on(loops[k], before=-1)
        ]
        if reads:
            read, outer = reads[0]
            yield Transposed(nest.name, read, tuple(loops[outer:-2]))


@recipe()
def guards_to_bounds(s: Any) -> None:
    """Turn guards into bounds of loops, and peel partial tiles: ⊞[io < ⌈n / k⌉] e → (⊞[io < n // k] e) ++ …

    Circular buffers in a recurrence are left: their rows would be computed in parts, one for each border.
    """
    for found in walk(cursor_at(s.goal, ())):
        is_ring = isinstance(found.term, terms.Let) and found.term.mark is LetMark.RING
        if is_ring and any(isinstance(around.term, terms.Rec) for around in found.spine()):
            raise DoesNotApply(f"{found.called[0]} is a ring in a recurrence", required="rings outside of recurrences")
    s.tails(strategy="split")


@recipe()
def compute_in_result(s: Any) -> None:
    """Compute the parts of a result where they are stored: let x := e in flatten x ++ … → flatten e ++ …"""
    before = len(s.steps)
    while (found := next(_parts(s.goal), None)) is not None:
        s.inline(found)
    if len(s.steps) == before:
        raise DoesNotApply("no let is a part of the result", required="a let that the result only copies, as flatten x")


def _parts(program: Program) -> Iterator[str]:
    """Yield the names of the lets around the result that are used once, as a whole part of a concatenation."""
    *lets, result = outer_nests(program)
    used = [
        (each, each.names.of_tensor(each.term.position))
        for nest in (*lets, result)
        for each in walk(nest.cursor)
        if isinstance(each.term, terms.Local)
    ]
    for name in [nest.name for nest in lets if not has_call(nest.cursor.term)]:
        uses = [each for each, called in used if called == name]
        if len(uses) == 1 and name is not None:
            above = uses[0].spine()[len(result.cursor.path) : -1]
            in_result = uses[0].path[: len(result.cursor.path)] == result.cursor.path
            if in_result and above and all(isinstance(each.term, terms.Concat | terms.Reshape) for each in above):
                yield name


LINES: Final = 64
"""Least number of cache lines in a row for non-temporal stores: those at its ends are written in parts."""


@recipe()
def stream_results(s: Any, *, context: Context) -> None:
    """Store a result that is too large for the caches by non-temporal stores: ⊞[j < m] e → ⊞[j < m | stream] e."""
    shape = s.goal.body.type.shape
    stored, row = context.elements(shape), context.elements(shape[-1:])
    if stored is None or row is None:
        raise DoesNotApply("the size of the result is not known", required="sizes={…} of the goal")
    machine, width = context.machine, itemsize(context.dtype)
    short = LINES * machine.line
    if stored * width <= machine.resident or row * width < short or row * width % machine.line:
        raise DoesNotApply(
            "the result fits in the caches, or its rows are short or not whole cache lines",
            required=f"more than {machine.resident} bytes, in rows of {short} bytes or more and of whole cache lines",
        )
    stores = [
        (cursor.path, cursor.term)
        for cursor in walk(outer_nests(s.goal)[-1].cursor, top_down=True)
        if isinstance(cursor.term, terms.Gen) and _stores_elements(cursor)
    ]
    marked = [path for path, loop in stores if loop.mark is LoopMark.VECTOR]
    loops = marked or [path for path, loop in stores if loop.mark is LoopMark.NONE and loop.type.rank == 1]
    if not loops or any(loop_at(cursor_at(s.goal, path)).trips is not None for path in loops):
        raise DoesNotApply("the result is stored in short loops or has sums inside", required="loops over whole rows")
    for path in loops:
        loop = cursor_at(s.goal, path).term
        if isinstance(loop, terms.Gen) and loop.mark is not LoopMark.STREAM:  # a name marks all loops that have it
            s.mark(target_of(s.goal, path), "stream")
    if not (report := s.check()):
        raise report.diagnostics[0]


def _stores_elements(cursor: Cursor) -> bool:
    """Return whether a loop computes elements of the result, without a sum inside."""
    in_value = any(
        isinstance(around.term, terms.Let) and cursor.path[len(around.path)] == 0 for around in cursor.spine()[:-1]
    )
    return not in_value and not any(isinstance(below.term, terms.Reduce) for below in walk(cursor))


@recipe()
def share_by_threads(s: Any, *, context: Context) -> None:
    """Share the outermost loops among threads: ⊞[i < n] e → ⊞[i < n | parallel] e.

    If a nest has several parts, those with fewer iterations than the machine has cores are left, such as border rows,
    unless all are so short. A loop within the rows of a recurrence starts its threads for each row, so it is shared
    only if a row is known to have many elements.
    """
    if not context.parallel:
        raise DoesNotApply("one thread was asked for", required="parallel=True")
    marked = 0
    for nest in outer_nests(s.goal):
        outermost = [
            loop_at(cursor)
            for cursor in (() if has_call(nest.cursor.term) else walk(nest.cursor, top_down=True))
            if isinstance(cursor.term, terms.Gen)
            and not any(isinstance(around.term, terms.Gen) for around in cursor.spine()[:-1])
            and _is_worth_threads(cursor, context)
        ]
        long = [loop for loop in outermost if not loop.is_shorter(context.machine.cores)]
        for loop in long or outermost:
            s.mark(loop.path, "parallel")  # the name would mark all loops of this name, also inside others
            marked += 1
    if marked and not (report := s.check()):
        raise report.diagnostics[0]
    if not marked:
        raise DoesNotApply(
            "no loop can be shared",
            required="a loop that computes separate elements, and within a recurrence sizes={…} with long rows",
        )


SHARED: Final = 100_000
"""Least number of elements of a row of a recurrence that threads share: starting them takes microseconds."""


def _is_worth_threads(cursor: Cursor, context: Context) -> bool:
    """Return whether a loop is not started again for each row of a recurrence, or each of these rows is long."""
    if not any(isinstance(around.term, terms.Rec) for around in cursor.spine()[:-1]):
        return True
    return (context.elements(cursor.term.type.shape) or 0) >= SHARED
