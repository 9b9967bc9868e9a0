"""Contractions: sums of products in register tiles, over packed operands, with their epilogues."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from atl.core.program import Program
from lowering.targets.machine import itemsize
from rewrites.cursors.cursor import Cursor, cursor_at
from rewrites.cursors.targets import Handle
from rewrites.errors import DoesNotApply
from rewrites.recipes.declaration import Context, recipe
from rewrites.recipes.structure import Loop, Read, everywhere, loop_at, reads_below, target_of, unused_name


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products: the generations around it and the sums, from the outside in, and the elements it reads."""

    sum: Cursor
    loops: tuple[Loop, ...]
    sums: tuple[Loop, ...]
    reads: tuple[Read, ...]

    @property
    def column(self) -> Loop:
        """The innermost loop, along which the result is contiguous."""
        return self.loops[-1]

    @property
    def moving(self) -> list[Read]:
        """The reads that depend on the column loop."""
        return [read for read in self.reads if read.depends_on(self.column)]

    @property
    def row(self) -> Loop | None:
        """The innermost loop on which an operand that moves with the columns does not depend, so that a tile reuses it.

        None if there is none, or if the range of a sum is read from an array for it, as the entries of a sparse row.
        """
        for loop in self.loops[-2::-1]:
            if any(not read.depends_on(loop) for read in self.moving):
                return None if any(_is_read_for(each.extent, loop) for each in self.sums) else loop
        return None

    @property
    def is_contiguous(self) -> bool:
        """True if every element that moves with the columns moves along the last dimension of its operand."""
        return all(read.factor(self.column) == 1 for read in self.moving)


def contractions(program: Program) -> Iterator[Contraction]:
    """Yield the sums of products whose elements are scalars, with at least one loop around each."""
    for cursor in everywhere(program):
        if _is_sum(cursor) and not (cursor.above is not None and _is_sum(cursor.above)):
            loops, sums, body = _loops_around(cursor), [loop_at(cursor)], cursor.child(0)
            while isinstance(body.term, terms.Guard) or _is_sum(body):
                sums += [loop_at(body)] if _is_sum(body) else []
                body = body.child(0)
            reads = tuple(reads_below(body))
            if loops and isinstance(body.term, terms.Binary) and body.term.op == "mul" and len(reads) > 1:
                yield Contraction(cursor, loops, tuple(sums), reads)


def _is_sum(cursor: Cursor) -> bool:
    return isinstance(cursor.term, terms.Reduce) and cursor.term.monoid == "sum" and not cursor.term.type.rank


def _loops_around(cursor: Cursor) -> tuple[Loop, ...]:
    """Return the generations around a sum up to the let whose value they compute, from the outside in."""
    found: list[Loop] = []
    for around in cursor.spine()[-2::-1]:
        if isinstance(around.term, terms.Let) and cursor.path[len(around.path)] == 0:
            break
        if isinstance(around.term, terms.Gen):
            found.append(loop_at(around))
    return tuple(reversed(found))


def _is_read_for(extent: ix.Index, loop: Loop) -> bool:
    return any(
        isinstance(atom, ix.Read) and loop.variable in ix.atoms(index)
        for atom in ix.atoms(extent)
        for index in getattr(atom, "indices", ())
    )


@dataclass(frozen=True, slots=True)
class Around:
    """A loop around a tile, and whether an operand depends on it."""

    loop: Loop
    depends: bool


class Tiling:
    """Schedules one contraction, which it follows by its sum."""

    def __init__(self, s: Any, found: Contraction) -> None:
        self.s = s
        self.found = found
        self.sum: Handle = s.find(found.sum.path)

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around the sum now."""
        return next(each for each in contractions(self.s.goal) if each.sum.path == self.sum.path).loops

    def at(self, number: int) -> Any:
        """Return a target for the loop of this number."""
        return target_of(self.s.goal, self.loops[number].path)

    def position(self, loop: Loop) -> int:
        """Return the number of a loop, which is followed by its name."""
        return max(k for k, each in enumerate(self.loops) if each.variable.name == loop.variable.name)

    def accumulate(self, name: str) -> None:
        """Keep the sums of the tile in registers."""
        self.s.accumulate(target_of(self.s.goal, self.sum.path), name=name).mark(name, "registers")
        self.buffer = self.s.find(name)

    def block(self, row: Loop, terms: int) -> None:
        """Compute the sum in blocks of terms, outside of the row loop: ⊞i ⊞j Σp e → Σpo ⊞i ⊞j Σpi e."""
        first = self.position(row)
        paths = [loop.path for loop in self.loops[first:]]
        self.s.tile(target_of(self.s.goal, self.sum.path), terms)
        for path in reversed(paths):
            self.s.interchange(target_of(self.s.goal, path))
        top = paths[0]
        inner = next(each for each in contractions(self.s.goal) if each.sum.path[: len(top)] == top)
        self.found, self.sum = inner, self.s.find(inner.sum.path)

    def by_registers(self, row: Loop, rows: int, columns: int, terms: int, name: str) -> None:
        """Tile by rows x columns, and the sum by a number of terms unless that is 0.

        The operand of a tile's columns is copied once for all rows.
        """
        if terms:
            self.block(row, terms)
        s, column = self.s, self.found.column
        wide = column.trips is None or column.trips > columns
        tall = row.trips is None or row.trips > 2 * rows
        while self.position(row) < len(self.loops) - (1 if wide and tall else 2):
            s.interchange(self.at(self.position(row)))
        if wide and tall:
            s.tile([self.at(-2), self.at(-1)], [columns, rows]).interchange(self.at(-2))
        elif wide:
            s.tile(self.at(-1), columns).interchange(self.at(-3))
        elif tall:
            s.tile(self.at(-2), rows)
        self.accumulate(name)
        self.pack(column)

    def pack(self, column: Loop) -> None:
        """Copy the operands of the columns, outside of the innermost loop around the tile that reuses them.

        Windows are copied with their border, others in the order of reading. An operand without reuse is copied only if
        it is not read along its rows.
        """
        for read in {read.name: read for read in self.found.moving}.values():
            around = self.loops_around_tile(read.name)
            reusing = next((k for k, each in enumerate(around) if not each.depends), None)
            straight = read.factor(column) == 1
            if reusing is None and straight:
                continue
            outside = around[reusing + 1 :] if reusing is not None else ()
            place = {"at": target_of(self.s.goal, outside[0].loop.path)} if outside else {}
            is_window = straight and any(read.factor(each) != 0 for each in self.found.sums)
            (self.s.pad if is_window and place else self.s.pack)(read.name, **place)

    def loops_around_tile(self, operand: str) -> list[Around]:
        """Return the loops around the buffer of the sums that repeat, from the inside out, with what they move."""
        tile = cursor_at(self.s.goal, self.buffer.path)
        reads = [read for read in reads_below(tile) if read.name == operand]
        loops = [loop_at(each) for each in tile.spine()[-2::-1] if isinstance(each.term, terms.Gen | terms.Reduce)]
        return [Around(loop, any(read.depends_on(loop) for read in reads)) for loop in loops if loop.trips != 1]

    def by_innermost(self, extent: int, name: str) -> None:
        """Tile the innermost loop only."""
        inner = self.loops[-1]
        if inner.trips is None or inner.trips > extent:
            self.s.tile(self.at(-1), extent)
        self.accumulate(name)


SHARE: Final = 4
"""An operand larger than the last cache divided by this is read in blocks."""


def _terms(found: Contraction, row: Loop, context: Context) -> int:
    """Return the number of terms in a block, or 0 if the operand with the rows is small or of unknown size."""
    terms, rows = context.extent(found.sums[0].extent), context.extent(row.extent)
    if len(found.sums) > 1 or terms is None or not rows:
        return 0
    fitting = (context.machine.l3 or context.machine.l2) // SHARE // (rows * itemsize(context.dtype))
    return 0 if terms <= fitting else max(256, min(1024, 1 << (fitting.bit_length() - 1)))


def _each(
    s: Any, fits: Callable[[Contraction], bool], schedule: Callable[[Tiling, str], object], required: str
) -> None:
    """Schedule each contraction that fits; those that a tactic refuses are left as they are. Raises `DoesNotApply`."""
    refused: list[Handle] = []
    failure: DoesNotApply | None = None
    scheduled = 0
    while True:
        passed = {place.path for place in refused}
        found = next((each for each in contractions(s.goal) if each.sum.path not in passed and fits(each)), None)
        if found is None:
            break
        branch = s.branch()
        try:
            schedule(Tiling(branch, found), unused_name(branch.goal, "acc"))
        except DoesNotApply as error:
            refused.append(s.find(found.sum.path))
            failure = failure or error
        else:
            s.continue_as(branch)
            scheduled += 1
    if not scheduled:
        raise failure or DoesNotApply(f"the goal lacks {required}", required=required)


@recipe(tile=lambda context: context.machine.register_tiles(context.dtype), terms=lambda context: (None, 512, 256))
def tile_sums(s: Any, *, context: Context, tile: tuple[int, int], terms: int | None) -> None:
    """Compute sums of products in register tiles over packed operands: Σp a * b → let acc := Σp ⊞ii ⊞ji a * bp in …

    This suits sums in which an operand is reused for all rows of a tile, as in a product of matrices, a convolution of
    channels, or attention. Sums are computed in blocks of `terms`; None means blocks if the operand with the rows is
    known to be larger than a share of the last cache.
    """

    def schedule(tiling: Tiling, name: str) -> None:
        row = tiling.found.row
        assert row is not None
        tiling.by_registers(row, *tile, _terms(tiling.found, row, context) if terms is None else terms, name)

    _each(s, lambda found: found.row is not None, schedule, "an operand that some rows share, as B[p, j] for all i")


@recipe(width=lambda context: tuple(vectors * context.machine.lanes(context.dtype) for vectors in (4, 8, 2)))
def accumulate_columns(s: Any, *, width: int) -> None:
    """Accumulate `width` columns in registers: ⊞j Σp a(p) * b(p, j) → ⊞jo let acc := Σp ⊞ji a * b in …

    This suits sums that share nothing between rows but run along the last dimension, as a sparse matrix times a matrix.
    """
    _each(
        s,
        lambda found: found.row is None and found.is_contiguous,
        lambda tiling, name: tiling.by_innermost(width, name),
        "operands that are read along their rows, as x[p, j]",
    )


@recipe(rows=lambda context: (context.machine.register_tile(context.dtype)[0], 4, 2))
def accumulate_rows(s: Any, *, rows: int) -> None:
    """Compute sums along contiguous memory for several rows together: ⊞i Σp a * x → ⊞io let acc := Σp ⊞ii a * x in …

    This suits a matrix times a vector: each element of the vector is loaded once for all rows.
    """
    _each(
        s,
        lambda found: found.row is None and not found.is_contiguous,
        lambda tiling, name: tiling.by_innermost(rows, name),
        "a sum along rows, as of a[i, p] * x[p]",
    )
