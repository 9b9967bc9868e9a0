"""Recipes for data movement and the last steps: transposes in tiles, guards as bounds, non-temporal stores, threads."""

from __future__ import annotations

from typing import Any, Final

from atl.core import terms
from atl.core.marks import LoopMark
from lowering.targets.machine import itemsize
from rewrites.cursors.cursor import Cursor, cursor_at, walk
from rewrites.errors import DoesNotApply
from rewrites.recipes.declaration import Context, recipe
from rewrites.recipes.structure import Loop, Nest, Read, loop_at, outer_nests, reads_below, target_of, unused_name


def _line(context: Context) -> int:
    return max(1, context.machine.line // itemsize(context.dtype))


@recipe(tile=lambda context: (_line(context), 2 * _line(context), max(1, _line(context) // 2)))
def transpose_in_tiles(s: Any, *, tile: int) -> None:
    """Transpose square tiles in registers: ⊞[j] ⊞[i] x[i, j] → ⊞[jo] ⊞[io] let t := ⊞[ii] ⊞[ji] x[…] in ⊞[ji] ⊞[ii] t.

    A row of a tile is a cache line, so that each line is read once and stored once.
    """
    for nest in outer_nests(s.goal):
        found = _transposed(nest)
        if found is not None:
            read, outer, inner = found
            for between in nest.loops[[loop.path for loop in nest.loops].index(outer.path) : -2]:
                s.interchange(target_of(s.goal, between.path))
            outer, inner = next(each for each in outer_nests(s.goal) if each.name == nest.name).loops[-2:]
            s.tile([target_of(s.goal, outer.path), target_of(s.goal, inner.path)], tile)
            s.tails(strategy="split")
            # The first of the loops over tiles is that over full tiles.
            name = unused_name(s.goal, "tile")
            s.stage(read.name, at=f"{inner.variable.name}o", name=name).mark(name, "registers")
            return
    raise DoesNotApply("no operand is read across its rows", required="two nested loops, and reads such as x[i, j]")


def _transposed(nest: Nest) -> tuple[Read, Loop, Loop] | None:
    """Return a read along whose last dimension another loop than the innermost runs, and both loops."""
    loops = nest.loops
    if len(loops) < 2 or loops[-1].trips is not None:
        return None
    if any(isinstance(cursor.term, terms.Reduce | terms.Let) for cursor in walk(nest.cursor)):
        return None
    for read in reads_below(nest.cursor):
        if read.factor(loops[-1]) == 0 and read.depends_on(loops[-1]):
            for outer in loops[-2::-1]:
                if read.factor(outer) == 1:
                    return read, outer, loops[-1]
    return None


@recipe()
def guards_to_bounds(s: Any) -> None:
    """Turn guards into bounds of loops, and peel partial tiles: ⊞[io < ⌈n / k⌉] e → (⊞[io < n // k] e) ++ …"""
    s.tails(strategy="split")


ROW: Final = 4096
"""Least number of bytes in a row that is stored by non-temporal stores: lines at its ends are written in parts."""
SHARE: Final = 4
"""A result larger than the last cache divided by this is stored without reading its memory first."""


@recipe()
def stream_results(s: Any, *, context: Context) -> None:
    """Store a result that is too large for the caches by non-temporal stores: ⊞[j < m] e → ⊞[j < m | stream] e."""
    shape = s.goal.body.type.shape
    stored, row = context.elements(shape), context.elements(shape[-1:])
    if stored is None or row is None:
        raise DoesNotApply("the size of the result is not known", required="sizes={…} of the goal")
    large, width = (context.machine.l3 or context.machine.l2) // SHARE, itemsize(context.dtype)
    if stored * width <= large or row * width < ROW or row * width % context.machine.line:
        raise DoesNotApply(
            "the result fits in the caches, or its rows are short or not whole cache lines",
            required=f"a result of more than {large} bytes, in rows of {ROW} bytes or more and of whole cache lines",
        )
    stores = [cursor for cursor in walk(outer_nests(s.goal)[-1].cursor, top_down=True) if _stores_elements(cursor)]
    marked = [cursor.path for cursor in stores if _mark(cursor) is LoopMark.VECTOR]
    loops = marked or [
        cursor.path for cursor in stores if _mark(cursor) is LoopMark.NONE and cursor.term.type.rank == 1
    ]
    short = any(loop_at(cursor_at(s.goal, path)).trips is not None for path in loops)
    if not loops or short:
        raise DoesNotApply("the result is stored in short loops or has sums inside", required="loops over whole rows")
    for path in loops:
        if _mark(cursor_at(s.goal, path)) is not LoopMark.STREAM:  # a name marks all loops that have it
            s.mark(target_of(s.goal, path), "stream")
    if not (report := s.check()):
        raise report.diagnostics[0]


def _mark(cursor: Cursor) -> LoopMark:
    return cursor.term.mark if isinstance(cursor.term, terms.Gen) else LoopMark.PARALLEL


def _stores_elements(cursor: Cursor) -> bool:
    """Return whether a loop computes elements of the result, without a sum inside."""
    in_value = any(
        isinstance(around.term, terms.Let) and cursor.path[len(around.path)] == 0 for around in cursor.spine()[:-1]
    )
    return (
        isinstance(cursor.term, terms.Gen)
        and not in_value
        and not any(isinstance(below.term, terms.Reduce) for below in walk(cursor))
    )


@recipe()
def share_by_threads(s: Any, *, context: Context) -> None:
    """Share the outermost loops among threads: ⊞[i < n] e → ⊞[i < n | parallel] e."""
    if not context.parallel:
        raise DoesNotApply("one thread was asked for", required="parallel=True")
    marked = 0
    for nest in outer_nests(s.goal):
        for cursor in walk(nest.cursor, top_down=True):
            if isinstance(cursor.term, terms.Gen) and not any(
                isinstance(around.term, terms.Gen) for around in cursor.spine()[:-1]
            ):
                s.mark(cursor.path, "parallel")  # the name would mark all loops of this name, also inside others
                marked += 1
    if marked and not (report := s.check()):
        raise report.diagnostics[0]
    if not marked:
        raise DoesNotApply("no loop can be shared", required="a loop that computes separate elements")
