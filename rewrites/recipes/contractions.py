"""Contractions: sums of products, and other reductions of two operands, in register tiles over packed operands."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from atl.core.program import Program
from atl.core.traversal import Path
from atl.text.printing import show_index
from lowering.targets.machine import SPARE_REGISTERS, itemsize, power_of_two
from rewrites.cursors.cursor import Cursor, cursor_at, walk
from rewrites.cursors.targets import Handle
from rewrites.errors import DoesNotApply
from rewrites.recipes.declaration import Context, recipe, schedule_each
from rewrites.recipes.structure import Loop, Read, loop_at, reads_below, target_of, uncalled_places, unused_name
from rewrites.tactics.operand_reads import reads_of


@dataclass(frozen=True, slots=True)
class Contraction:
    """A sum of products, or another reduction of a term of two operands or more.

    `loops` are the generations around it, and `sums` the reductions, from the outside in. `reads` are the elements that
    the term reads.
    """

    sum: Cursor
    loops: tuple[Loop, ...]
    sums: tuple[Loop, ...]
    reads: tuple[Read, ...]

    @property
    def is_sum(self) -> bool:
        """True if the terms are added."""
        return scalar_monoid(self.sum) == "sum"

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

    def used_share(self, context: Context, rows: int, columns: int) -> float | None:
        """Return the share of the elements of tiles that are elements of the result, or None for unknown sizes."""
        trips = [None if loop is None else context.extent(loop.extent) for loop in (self.row, self.column)]
        if not all(trips):
            return None
        return prod(each / (-(-each // tile) * tile) for each, tile in zip(trips, (rows, columns), strict=True) if each)

    def uses_more(self, other: Contraction, context: Context, rows: int, columns: int) -> bool:
        """Return whether tiles use a larger share of their elements than those of another contraction, if known."""
        own, its = (each.used_share(context, rows, columns) for each in (self, other))
        return own is None or its is None or own > its

    def is_shorter(self, extent: int) -> bool:
        """Return whether the column loop has a variable number of iterations, proved to be less than `extent`."""
        return self.column.trips is None and self.column.is_shorter(extent)

    @property
    def shares_terms(self) -> bool:
        """True if an operand of the terms is the same for all columns, as the vector of a matrix-vector product."""
        return any(
            not read.depends_on(self.column) and any(read.depends_on(each) for each in self.sums) for read in self.reads
        )

    @property
    def window(self) -> tuple[Loop, ...]:
        """The sums along which an operand of the columns is read as a window, as x[p + q] over q."""
        return tuple(
            each
            for each in self.sums
            if any(read.factor(self.column) == 1 and read.factor(each) != 0 for read in self.moving)
        )

    @property
    def is_contiguous(self) -> bool:
        """True if every element that moves with the columns moves along the last dimension of its operand."""
        return all(read.factor(self.column) == 1 for read in self.moving)


def contractions(program: Program) -> Iterator[Contraction]:
    """Yield the reductions of scalar terms of two operands or more, with at least one loop around each."""
    for cursor in uncalled_places(program):
        monoid = scalar_monoid(cursor)
        if monoid is not None and not (cursor.above is not None and scalar_monoid(cursor.above) == monoid):
            loops, sums, body = _loops_around(cursor), [loop_at(cursor)], cursor.child(0)
            while isinstance(body.term, terms.Guard) or scalar_monoid(body) == monoid:
                sums += [] if isinstance(body.term, terms.Guard) else [loop_at(body)]
                body = body.child(0)
            reads = tuple(reads_below(body))
            once = len({(read.name, read.indices) for read in reads}) == len(reads)
            if loops and len(reads) > 1 and once and is_pointwise(body):
                yield Contraction(cursor, loops, tuple(sums), reads)


def scalar_monoid(cursor: Cursor) -> terms.Monoid | None:
    """Return the monoid of a reduction of scalars; None for any other term."""
    return cursor.term.monoid if isinstance(cursor.term, terms.Reduce) and not cursor.term.type.rank else None


POINTWISE: Final = (
    terms.Input, terms.Local, terms.Constant, terms.Value, terms.Access, terms.Unary, terms.Binary, terms.Select,
    terms.Cast,
)  # fmt: skip


def is_pointwise(cursor: Cursor) -> bool:
    """Return whether a term computes with elements only, without loops, guards and lets."""
    return all(isinstance(each.term, POINTWISE) for each in walk(cursor))


def _loops_around(cursor: Cursor) -> tuple[Loop, ...]:
    """Return the generations around a sum up to the let whose value they compute, from the outside in.

    A let of a number is a part of the term in the loops around it.
    """
    found: list[Loop] = []
    for around in cursor.spine()[-2::-1]:
        in_value = isinstance(around.term, terms.Let) and cursor.path[len(around.path)] == 0
        if in_value and around.child(0).term.type.rank > 0:
            break
        if isinstance(around.term, terms.Gen):
            found.append(loop_at(around))
    return tuple(reversed(found))


def _is_read_for(extent: ix.Index, loop: Loop) -> bool:
    arrays = [atom for atom in ix.atoms(extent) if isinstance(atom, ix.Read)]
    return any(loop.variable in ix.atoms(index) for atom in arrays for index in atom.indices)


@dataclass(frozen=True, slots=True)
class EnclosingLoop:
    """A loop around a tile, and whether an operand depends on it."""

    loop: Loop
    depends: bool


COPYING: Final = 2
"""Number of vector multiply-adds that take as long as copying one element."""


class Tiling:
    """Schedules one contraction. A handle on its sum follows it as the goal changes."""

    def __init__(self, s: Any, found: Contraction) -> None:
        self.s = s
        self.sum: Handle = s.find(found.sum.path)
        names = [loop.variable.name for loop in found.loops]
        for loop in found.loops if len(set(names)) < len(names) else ():
            s.rename(loop.path, unused_name(s.goal, loop.variable.name))
        self.found = self.now()

    def now(self, at: Path | None = None) -> Contraction:
        """Return the contraction as it is now, or the one below a place. Raises `DoesNotApply` if it is lost."""
        top = self.sum.path if at is None else at
        for each in contractions(self.s.goal):
            if each.sum.path == top or (at is not None and each.sum.path[: len(top)] == top):
                return each
        raise DoesNotApply(
            "the terms of the sum are no longer scalars", required="loops that can be tiled around a sum"
        )

    @property
    def loops(self) -> tuple[Loop, ...]:
        """The loops around the sum now."""
        return self.now().loops

    def at(self, number: int) -> Any:
        """Return a target for the loop of this number."""
        return target_of(self.s.goal, self.loops[number].path)

    def position(self, loop: Loop) -> int:
        """Return the current number of a loop, which is found by its name."""
        return max(k for k, each in enumerate(self.loops) if each.variable.name == loop.variable.name)

    def accumulate(self, name: str) -> None:
        """Keep the sums of the tile in registers."""
        self.s.accumulate(target_of(self.s.goal, self.sum.path), name=name).mark(name, "registers")
        self.buffer = self.s.find(name)

    def with_short_columns_outside(self, context: Context) -> Contraction | None:
        """Return the contraction with its innermost loops outside of the two before them, or None if they are long.

        Loops are short if they are known to have fewer iterations than a vector has lanes, as the taps of a filter.
        """
        found, lanes = self.found, context.machine.lanes(context.dtype)
        trips = [context.extent(loop.extent) for loop in found.loops]
        count = next((k for k, each in enumerate(reversed(trips)) if each is None or each >= lanes), 0)
        if not count or len(found.loops) < count + 2:
            return None
        *outside, column, row = found.loops[:-count]
        moved = replace(found, loops=(*outside, *found.loops[-count:], row, column))
        return moved if moved.row is row else None

    def with_channels_inside(self, context: Context, rows: int, columns: int) -> Contraction | None:
        """Return the contraction of windows with its row loop innermost, or None if that is not predicted to be faster.

        A tile of channels x positions copies windows. A tile of positions x channels reads them where they are, and its
        elements are stored one by one.
        """
        found, row, lanes = self.found, self.found.row, context.machine.lanes(context.dtype)
        window, sums = (context.elements([each.extent for each in loops]) for loops in (found.window, found.sums))
        if row is None or not found.window or not window or not sums:
            return None
        outside = tuple(each for each in found.loops if each not in (row, found.column))
        moved = replace(found, loops=(*outside, found.column, row))
        now, then = (each.used_share(context, rows, columns) for each in (found, moved))
        channels = context.extent(row.extent)
        if moved.row is not found.column or now is None or then is None or not channels:
            return None
        copying, storing = COPYING * lanes / (channels * window), COPYING * lanes / sums
        return moved if now / (1 + copying) < then / (1 + storing) else None

    def by_channels(self, found: Contraction, rows: int, columns: int, name: str) -> None:
        """Tile by positions x channels: ⊞k ⊞p e → ⊞po ⊞ko ⊞pi ⊞ki e. A tile is stored in the order of the result."""
        s = self.s
        for loop in found.loops[-2:]:
            while self.position(loop) < len(self.loops) - 1:
                s.interchange(self.at(self.position(loop)))
        s.tile([self.at(-2), self.at(-1)], [rows, columns])
        self.found = found
        self.accumulate(name)
        s.interchange(target_of(s.goal, (*self.buffer.path, 1)))
        self.pack(found.column)

    def by_outer_registers(self, found: Contraction, rows: int, columns: int, name: str) -> None:
        """Tile two loops that have short loops inside: ⊞k ⊞c ⊞r e → ⊞ko ⊞co ⊞r ⊞ci ⊞ki e."""
        s = self.s
        outer = self.position(found.loops[-1])
        s.tile([self.at(outer), self.at(outer + 1)], [columns, rows])
        for inner in (outer + 3, outer + 2):
            for at in range(inner, len(self.loops) - 1):
                s.interchange(self.at(at))
        self.found = found
        self.accumulate(name)
        self.pack(found.column)

    def block(self, row: Loop, depth: int) -> None:
        """Compute the sum in blocks of `depth` terms, outside of the row loop: ⊞i ⊞j Σp e → Σpo ⊞i ⊞j Σpi e."""
        first = self.position(row)
        paths = [loop.path for loop in self.loops[first:]]
        self.s.tile(target_of(self.s.goal, self.sum.path), depth)
        for path in reversed(paths):
            self.s.interchange(target_of(self.s.goal, path))
        self.found = self.now(paths[0])
        self.sum = self.s.find(self.found.sum.path)

    def by_registers(self, row: Loop, rows: int, columns: int, depth: int, name: str) -> None:
        """Tile by rows x columns, and the sum by `depth` terms unless that is 0.

        The operand of a tile's columns is copied once for all rows.
        """
        if depth:
            self.block(row, depth)
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
        """Copy the operands of the columns, outside of the innermost loops around the tile that reuse them.

        Windows are copied with their border, others in the order of reading. An operand without reuse is copied only if
        it is not read along its rows. An operand of a type that is only stored is copied, so that it is converted once.
        """
        stored = [read for read in self.found.reads if read.is_stored]
        for read in {read.name: read for read in (*self.found.moving, *stored)}.values():
            straight = read.factor(column) == 1 or not read.depends_on(column)
            packed, is_only = self.read_in_tile(read.name, moves=read.depends_on(column))
            around = self.loops_around_tile(packed)
            reusing = next((k for k, each in enumerate(around) if not each.depends), None)
            while reusing is not None and reusing + 1 < len(around) and not around[reusing + 1].depends:
                reusing += 1
            if reusing is None and straight:
                continue
            outside = around[reusing + 1 :] if reusing is not None else ()
            place = {"at": target_of(self.s.goal, outside[0].loop.path)} if outside else {}
            is_window = straight and any(read.factor(each) != 0 for each in self.found.sums)
            if is_window and place and is_only:
                self.s.pad(read.name, **place)
            elif place or is_only or not straight:
                self.s.pack(read.name, **self.number_of(packed, outside), **place)

    def read_in_tile(self, operand: str, *, moves: bool) -> tuple[Read, bool]:
        """Return the read of an operand in the buffer of the sums, and whether it is the only one.

        Of several, it is the first that moves with the columns of the tile, or the first that does not.
        """
        reads = [read for read in reads_below(cursor_at(self.s.goal, self.buffer.path)) if read.name == operand]
        value = cursor_at(self.s.goal, (*self.buffer.path, 0))
        column = [loop_at(each) for each in walk(value, top_down=True) if isinstance(each.term, terms.Gen)][-1]
        return next((read for read in reads if read.depends_on(column) is moves), reads[0]), len(reads) == 1

    def number_of(self, read: Read, around: Sequence[EnclosingLoop]) -> dict[str, int]:
        """Return the number of a read among those of its operand inside these loops, unless it is the only one."""
        reads = reads_of(self.s.begin(), read.name, (*around[0].loop.path, 0) if around else ())
        at = read.cursor.path
        number = next(k for k, each in enumerate(reads) if each.path == at[: len(each.path)])
        return {"nth": number} if len(reads) > 1 else {}

    def loops_around_tile(self, read: Read) -> list[EnclosingLoop]:
        """Return the loops around the buffer of the sums, from the inside out, and whether the read depends on each.

        Loops of one iteration are left out.
        """
        tile = cursor_at(self.s.goal, self.buffer.path)
        loops = [loop_at(each) for each in tile.spine()[-2::-1] if isinstance(each.term, terms.Gen | terms.Reduce)]
        return [EnclosingLoop(loop, read.depends_on(loop)) for loop in loops if loop.trips != 1]

    def by_innermost(self, extent: int, name: str, *, contiguous: bool) -> None:
        """Tile the innermost loop only.

        Its last iterations, after the whole tiles, are computed term by term if their operands are contiguous, and one
        by one otherwise.
        """
        inner = self.loops[-1]
        if inner.trips is not None and inner.trips <= extent:
            self.accumulate(name)
            return
        _, low, _ = inner.cursor.loop
        if low == ix.ZERO and not any(isinstance(atom, ix.Var) for atom in ix.atoms(inner.extent)):
            self.split_rest(inner, extent, contiguous=contiguous)
        self.s.tile(self.at(-1), extent)
        self.accumulate(name)

    def split_rest(self, inner: Loop, extent: int, *, contiguous: bool) -> None:
        """Split off the iterations of the innermost loop after its whole tiles, and go on with the tiles."""
        whole = extent * (inner.extent // extent)
        if whole == inner.extent:
            return
        below = self.sum.path[len(inner.path) :]
        self.s.split_loop(self.at(-1), show_index(whole, ascii=True))
        if contiguous:
            rest = (*inner.path, 1, *below)
            self.s.accumulate(target_of(self.s.goal, rest), name=unused_name(self.s.goal, "rest"))
        self.sum = self.s.find((*inner.path, 0, *below))


def _depth(found: Contraction, row: Loop, context: Context) -> int:
    """Return the number of terms in a block, or 0 if the operand with the rows is small or of unknown size."""
    extent, rows = context.extent(found.sums[0].extent), context.extent(row.extent)
    if len(found.sums) > 1 or extent is None or not rows:
        return 0
    machine, size = context.machine, itemsize(context.dtype)
    fitting = machine.resident // (rows * size)
    _, columns = machine.register_tile(context.dtype)
    most = (machine.l2 or machine.l1) // 4 // (columns * size)  # the copied columns take a quarter of L2
    return 0 if extent <= fitting else max(machine.panel_depth(context.dtype), power_of_two(min(most, fitting)))


def _each(
    s: Any, fits: Callable[[Contraction], bool], schedule: Callable[[Tiling, str], object], required: str
) -> None:
    """Schedule each contraction that fits. Raises `DoesNotApply`."""
    schedule_each(
        s,
        lambda program: filter(fits, contractions(program)),
        lambda branch, found: schedule(Tiling(branch, found), unused_name(branch.goal, "acc")),
        required,
    )


def _depths(context: Context) -> tuple[int | None, ...]:
    panel, longest = context.machine.panel_depth(context.dtype), max(context.sizes.values(), default=None)
    return None, *(depth for depth in (2 * panel, panel) if longest is None or depth < longest)


def vector_widths(context: Context) -> list[int]:
    """Return numbers of elements that fit in vector registers as a row of sums, the preferred one first."""
    free = max(1, context.machine.vector_registers - SPARE_REGISTERS)
    return [min(vectors, free) * context.machine.lanes(context.dtype) for vectors in (4, 8, 2)]


def tiles_of_sums(context: Context) -> list[tuple[int, int]]:
    """Return tiles of sums that stay in registers, the preferred one first.

    If a matrix of the two largest sizes is larger than a share of the last cache, the tile with three vectors in a row
    is preferred. The operand with the rows is then read from memory once for each column of tiles.
    """
    preferred, wide, *others = context.machine.register_tiles(context.dtype)
    largest = sorted(context.sizes.values())[-2:]
    is_large = len(largest) == 2 and prod(largest) * itemsize(context.dtype) > context.machine.resident
    return [wide, preferred, *others] if is_large else [preferred, wide, *others]


@recipe(tile=tiles_of_sums, depth=_depths)
def tile_sums(s: Any, *, context: Context, tile: tuple[int, int], depth: int | None) -> None:
    """Compute sums of products in register tiles over packed operands: Σp a * b → let acc := Σp ⊞ii ⊞ji a * bp in …

    This suits sums in which an operand is reused for all rows of a tile, as in a product of matrices, a convolution of
    channels, or attention. It also suits other terms and reductions: Σp |a - b|, min[p] a + b. Sums are computed in
    blocks of `depth` terms; None means blocks if the operand with the rows is known to be larger than a share of the
    last cache. Maxima and minima are not computed in blocks.
    """

    def schedule(tiling: Tiling, name: str) -> None:
        row = tiling.found.row
        assert row is not None
        blocked = _depth(tiling.found, row, context) if depth is None else depth
        # Rows of a block of maxima would have guards, whose zeros would enter the maxima of all blocks.
        outer, inside = tiling.with_short_columns_outside(context), tiling.with_channels_inside(context, *tile)
        if outer is not None and outer.uses_more(inside or tiling.found, context, *tile):
            tiling.by_outer_registers(outer, *tile, name)
        elif inside is not None:
            tiling.by_channels(inside, *tile, name)
        else:
            tiling.by_registers(row, *tile, blocked if tiling.found.is_sum else 0, name)

    _each(s, lambda found: found.row is not None, schedule, "an operand that some rows share, as B[p, j] for all i")


@recipe(width=vector_widths)
def accumulate_columns(s: Any, *, width: int) -> None:
    """Accumulate `width` columns in registers: ⊞j Σp a(p) * b(p, j) → ⊞jo let acc := Σp ⊞ji a * b in …

    This suits sums that share nothing between rows but run along the last dimension, as a sparse matrix times a matrix.
    """
    _each(
        s,
        lambda found: found.row is None and bool(found.moving) and found.is_contiguous,
        lambda tiling, name: tiling.by_innermost(width, name, contiguous=True),
        "operands that are read along their rows, as x[p, j]",
    )


@recipe(rows=lambda context: (context.machine.register_tile(context.dtype)[0], 4, 2))
def accumulate_rows(s: Any, *, rows: int) -> None:
    """Compute sums along contiguous memory for several rows together: ⊞i Σp a * x → ⊞io let acc := Σp ⊞ii a * x in …

    This suits a matrix times a vector: each element of the vector is loaded once for all rows.
    """

    def fits(found: Contraction) -> bool:
        whole = found.row is None and not found.is_contiguous and not found.is_shorter(rows)
        return whole and bool(found.moving) and found.shares_terms

    _each(
        s,
        fits,
        lambda tiling, name: tiling.by_innermost(rows, name, contiguous=False),
        "a sum along rows of a matrix with a vector, as of a[i, p] * x[p]",
    )


@dataclass(frozen=True, slots=True)
class SharedMatrix:
    """Two products in a concatenation that read one matrix: `across` adds up its rows, `along` sums each row up."""

    across: Contraction
    along: Contraction


def _shared_matrices(program: Program) -> Iterator[SharedMatrix]:
    """Yield the neighbouring products with one matrix and with its transpose."""
    products = {
        found.sum.path[:-1]: found
        for found in contractions(program)
        if len(found.loops) == len(found.sums) == 1 and found.is_sum and found.loops[0].path == found.sum.path[:-1]
    }
    for cursor in uncalled_places(program):
        if isinstance(cursor.term, terms.Concat):
            pair = [products[path] for path in ((*cursor.path, 0), (*cursor.path, 1)) if path in products]
            for across, along in permutations(pair, 2):
                if _reads_rows_of(across, along):
                    yield SharedMatrix(across, along)


def _reads_rows_of(across: Contraction, along: Contraction) -> bool:
    """Return whether the terms `across` and the loop `along` go over the same rows of one operand."""
    rows, others = across.sums[0], along.column
    return rows.extent == others.extent and any(
        one.name == another.name
        and len(one.indices) > 1
        and (one.factor(across.column), one.factor(rows, -2)) == (1, 1)
        and (another.factor(along.sums[0]), another.factor(others, -2)) == (1, 1)
        for one in across.reads
        for another in along.reads
    )


@recipe()
def share_rows(s: Any) -> None:
    """Read a matrix once for its product and that of its transpose: (⊞j Σi a) ++ ⊞i Σj b → Σi (⊞j a) ++ place i Σj b.

    Each row of the matrix is added to one product, and summed up for an element of the other. If the product of the
    transpose is first, the two loops over the row become one. This saves most if the matrix is larger than the first
    cache.
    """

    def schedule(s: Any, found: SharedMatrix) -> None:
        both = found.across.column.path[:-1]
        s.interchange(target_of(s.goal, found.across.column.path))
        s.rw("gen_scatter", at=target_of(s.goal, found.along.column.path))
        s.rw("sum_concat", at=target_of(s.goal, both), reverse=True)

    schedule_each(
        s, _shared_matrices, schedule, "products with a matrix and its transpose, as of results(A.T @ x, A @ y)"
    )
