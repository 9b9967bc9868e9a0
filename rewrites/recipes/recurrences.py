"""Recipes for recurrences: solvers in blocks of rows, and stencils in blocks of steps and in tiles."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from atl.core.program import Program
from atl.errors import IllegalMark
from lowering import lower
from lowering.targets.machine import itemsize, power_of_two
from rewrites.cursors.cursor import Cursor, walk
from rewrites.cursors.targets import Target, named
from rewrites.errors import DoesNotApply
from rewrites.recipes.contractions import scalar_monoid
from rewrites.recipes.declaration import Context, recipe, schedule_each
from rewrites.recipes.structure import loop_at, reads_below, uncalled_places


def _named(program: Program, cursor: Cursor) -> Target:
    """Return the name of a recurrence's tensor as a target if that is its first place, or else the path."""
    name = cursor.called[1]
    first = next(named(program, name, top_down=True), None)
    return name if first is not None and first.path == cursor.path else cursor.path


# -- solvers ----------------------------------------------------------------------------------------------------------


def _block_sizes(context: Context) -> list[int]:
    """Return numbers of rows of a block, whose triangle of coefficients fits in L1."""
    rows = power_of_two(int((context.machine.l1 / itemsize(context.dtype)) ** 0.5))
    return [rows, 2 * rows, max(1, rows // 2)]


def _inner_sizes(context: Context) -> list[int]:
    rows, _ = context.machine.register_tile(context.dtype)
    return [rows, 2 * rows]


@recipe(rows=_block_sizes, within=_inner_sizes)
def block_solvers(s: Any, *, rows: int, within: int, context: Context) -> None:
    """Solve in blocks of rows: rec[i] x in … Σ[j < i] L[i, j] * x[j, c] → rec[io] xo in let panel := … in rec[ii] …

    A panel is a product of matrices, with the sums over the rows of earlier blocks. The blocks are computed in smaller
    blocks. This suits solvers whose rows are vectors. For a single right side, all coefficients are read once anyway.
    """

    def schedule(s: Any, found: Cursor) -> None:
        _, low, high = found.loop
        count = context.extent(high - low)
        if count is not None and count <= rows:
            raise DoesNotApply(f"{found.called[0]} has {count} rows", required=f"more than the {rows} rows of a block")
        if context.extent(found.term.type.shape[-1]) == 1:
            raise DoesNotApply(f"the rows of {found.called[1]} have one element", required="more than one right side")
        s.block_rows(_named(s.goal, found), rows).block_rows(found.called[1], within)

    schedule_each(
        s, _solvers, schedule, "a recurrence of vectors with a sum over all earlier rows, as of L[i, j] * x[j, c]"
    )


def _solvers(program: Program) -> Iterator[Cursor]:
    """Yield the outermost recurrences that begin without rows, and whose rows are vectors with sums over all rows."""
    for cursor in uncalled_places(program):
        term = cursor.term
        inner = any(isinstance(around.term, terms.Rec) for around in cursor.spine()[:-1])
        if isinstance(term, terms.Rec) and not inner and term.low == ix.ZERO and term.type.rank > 1:
            row = ix.index(cursor.loop[0])
            if any(_adds_rows(found, cursor.called[1], row) for found in walk(cursor.child(1))):
                yield cursor


def _adds_rows(cursor: Cursor, rows: str, row: ix.Index) -> bool:
    """Return whether a place is a sum over all rows before `row` of the recurrence whose tensor is named `rows`."""
    if scalar_monoid(cursor) != "sum" or cursor.loop[1:] != (ix.ZERO, row):
        return False
    at = ix.index(loop_at(cursor).variable)
    return any(read.name == rows and read.indices[0] == at for read in reads_below(cursor))


# -- stencils ---------------------------------------------------------------------------------------------------------


STEPS: Final = (16, 12, 8, 6, 5, 4, 3, 2)
"""Numbers of steps of a block that are considered."""
WIDTHS: Final = (8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 2048, 4096)
"""Widths of tiles that are considered."""
MEMORY: Final = 4.0
"""Time to step through an array in memory, relative to that in the second-level cache."""
START: Final = 32
"""Time to start the innermost loop, in iterations."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """A block of steps, and the widths of tiles. `cost` is the time of a step relative to one in the cache."""

    steps: int
    widths: tuple[int, ...]
    cost: float


def tilings(context: Context, extents: Sequence[int]) -> list[Tiling]:
    """Return tilings of a state of these extents whose windows fit in L2, the best by the model first.

    A window has two rows, and reaches `steps` cells beyond the tile on each side, for reads at a distance of 1. It is
    read from memory once for all steps of a block. On average, a step computes half of the cells beyond the tile.
    """
    elements = context.machine.l2 * 3 // 4 // (2 * itemsize(context.dtype))
    found: list[Tiling] = []
    for steps in STEPS:
        choices = [[*(width for width in WIDTHS if width < extent), extent] for extent in extents]
        best = Tiling(steps, (), inf)
        for widths in product(*choices):
            if prod(width + 2 * steps for width in widths) <= elements:
                tiles = prod(-(-extent // width) for extent, width in zip(extents, widths, strict=True))
                cells = prod(extents)
                computed = tiles * prod(width + steps for width in widths) / cells * (1 + START / (widths[-1] + steps))
                read = tiles * prod(width + 2 * steps for width in widths) / cells
                best = min(best, Tiling(steps, widths, computed + MEMORY * read / steps), key=lambda each: each.cost)
        found += [best] if best.widths else []
    return sorted(found, key=lambda each: each.cost)


MOST_STEPS: Final = 8
"""Maximum number of steps of a block that are made row by row in L2. More take longer to compile."""
FEW_STEPS: Final = 5
"""The same in the last cache, from which rows are read more slowly."""


def _pipelined(context: Context, row_bytes: int, last: int | None) -> int | None:
    """Return the number of steps of a block whose rings fit in a cache, the best by the model. None if none fits.

    A step keeps the three rows that the next one reads. The first and the last state of a block are in memory. In the
    last block, all steps are made or copied.
    """
    machine = context.machine
    fitting = [
        k
        for limit, cache in ((MOST_STEPS, machine.l2 * 3 // 4), (FEW_STEPS, machine.resident))
        for k in range(2, min(limit, limit if last is None else last) + 1)
        if 3 * (k - 1) * row_bytes <= cache
    ]
    return min(fitting, key=lambda k: (1 if last is None else -(-last // k) * k) * (1 + MEMORY / k), default=None)


@recipe(steps=lambda _: (0, 4, 8))
def pipeline_time(s: Any, *, steps: int, context: Context) -> None:
    """Make several steps of a stencil at once, row by row: rec[p] u in step(u[p - 1]) → rec[b] u in let u1 | ring := ….

    This suits states that are larger than the last cache, whose sizes are known, on one thread. A few rows of each step
    must fit in L2, or in a share of the last cache. With `steps=0`, the machine model chooses the number of steps.
    """

    def schedule(s: Any, found: Cursor) -> None:
        rec, known, last = _large_states(found, context)
        if context.parallel:
            raise DoesNotApply("rows are computed in order", required="one thread; tile_time has tiles for threads")
        row_bytes = prod(known[1:]) * itemsize(context.dtype)
        chosen = steps or _pipelined(context, row_bytes, last)
        if chosen is None or (last is not None and chosen > last):
            raise DoesNotApply(
                f"the rows of several steps of {rec.called[1]} do not fit in a cache",
                required="smaller rows, more steps",
            )
        s.pipeline_steps(_named(s.goal, rec), chosen)
        try:
            lower(s.goal)
        except IllegalMark as error:
            raise DoesNotApply(error.summary, required=error.required) from error

    schedule_each(s, _iterations, schedule, "an iterated stencil, of which only the last state is read")


@recipe(steps=lambda _: (0, 4, 8, 16))
def tile_time(s: Any, *, steps: int, context: Context) -> None:
    """Make several steps of a stencil at once in tiles: (rec[p] u in step(u[p - 1]))[T] → (rec[b] u in ⊞[io] …)[T / k].

    This suits states that are larger than the last cache, whose sizes are known. The tiles fit in L2. With `steps=0`,
    the machine model chooses the number of steps of a block.
    """

    def schedule(s: Any, found: Cursor) -> None:
        rec, known, last = _large_states(found, context)
        fitting = [each for each in tilings(context, known) if steps in (0, each.steps)]
        chosen = next((each for each in fitting if last is None or each.steps <= last), None)
        if chosen is None or chosen.cost >= 1 + START / known[-1] + MEMORY:
            raise DoesNotApply("no tiles of several steps are faster", required="windows of a tile that fit in L2")
        s.time_tile(_named(s.goal, rec), chosen.steps, **_widths(rec, chosen.widths, known))

    schedule_each(s, _iterations, schedule, "an iterated stencil, of which only the last state is read")


def _large_states(found: Cursor, context: Context) -> tuple[Cursor, list[int], int | None]:
    """Return the recurrence of an iteration, the extents of its states, and the number of steps, if it is known.

    Raises `DoesNotApply` for states of unknown sizes, and for those of which two fit in the last cache.
    """
    term = found.term
    assert isinstance(term, terms.Access)
    rec = found.child(0)
    assert isinstance(rec.term, terms.Rec)
    extents = [context.extent(extent) for extent in found.scope.shape(term.type)]
    known = [extent for extent in extents if extent is not None]
    if len(known) < len(extents):
        raise DoesNotApply(f"the sizes of {rec.called[1]} are not known", required="sizes={…} of the states")
    size, cache = prod(known) * itemsize(context.dtype), context.machine.last_cache
    if 2 * size <= cache:
        raise DoesNotApply(
            f"two states of {rec.called[1]} have {2 * size} bytes",
            required=f"states that do not fit in the last cache of {cache} bytes",
        )
    last = context.extent(found.scope.index(term.index))
    return rec, known, last


def _widths(rec: Cursor, widths: Sequence[int], extents: Sequence[int]) -> Mapping[str, int]:
    """Return the widths by the names of the loops of a step, without those of the last loops that are not tiled."""
    names: list[str] = []
    cursor = rec.child(1)
    while isinstance(cursor.term, terms.Gen):
        names.append(cursor.called[0])
        cursor = cursor.child(0)
    tiled = max((at + 1 for at, width in enumerate(widths) if width < extents[at]), default=1)
    if len(names) < tiled or len(set(names)) < len(names):
        raise DoesNotApply("the step is not a nest of loops", required="a step that is one nest of named loops")
    return dict(zip(names[:tiled], widths, strict=False))


def _iterations(program: Program) -> Iterator[Cursor]:
    """Yield the reads of the last state of a recurrence that begins with one state, outside of loops."""
    for cursor in uncalled_places(program):
        term = cursor.term
        if isinstance(term, terms.Access) and isinstance(term.tensor, terms.Rec) and term.type.rank:
            rec = term.tensor
            if rec.low == ix.ONE and not (rec.loose or rec.loose_tensors or term.index.loose):
                yield cursor
