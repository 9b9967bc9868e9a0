"""Fusion of lets into the loops that read them: by rows, by strips with windows, or inline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from atl.core.program import Program
from lowering.targets.machine import SPARE_REGISTERS, itemsize, power_of_two
from rewrites.cursors.cursor import walk
from rewrites.errors import DoesNotApply
from rewrites.recipes.contractions import contractions
from rewrites.recipes.declaration import Context, recipe, schedule_each
from rewrites.recipes.preparation import unroll_all_taps
from rewrites.recipes.structure import Loop, Nest, Read, as_read, loop_at, outer_nests, reads_below, target_of


class Relation(Enum):
    """The index at which the loop of the same number reads a dimension of a let."""

    SAME = auto()
    """At the loop's own index."""
    WINDOW = auto()
    """At a constant distance from the loop's index."""
    OTHER = auto()
    """At any other index."""


@dataclass(frozen=True, slots=True)
class Producer:
    """A let around the result: its nest, the names of the nests that read it, and how each dimension is read."""

    nest: Nest
    readers: frozenset[str | None]
    relations: tuple[Relation, ...]
    reads: tuple[Read, ...]

    @property
    def name(self) -> str:
        """The name of the let."""
        assert self.nest.name is not None
        return self.nest.name

    @property
    def aligned(self) -> int:
        """The number of leading dimensions that are read at the reader's own index."""
        found = next((k for k, each in enumerate(self.relations) if each is not Relation.SAME), None)
        return len(self.relations) if found is None else found


def producers(program: Program) -> list[Producer]:
    """Return the lets around the result, in order."""
    nests = outer_nests(program)
    reads: dict[str, list[tuple[Nest, Read]]] = {}
    for nest in nests:  # A let inside the value of x may be called x too.
        for cursor in walk(nest.cursor, top_down=True):
            outermost = cursor.above is None or not isinstance(cursor.above.term, terms.Access)
            if outermost and isinstance(cursor.term, terms.Access | terms.Local):
                read = as_read(cursor)
                if read is not None and read.name in reads:
                    reads[read.name].append((nest, read))
        if nest.name is not None:
            reads[nest.name] = []
    return [_producer(nest, reads[nest.name]) for nest in nests if nest.name is not None]


def _producer(nest: Nest, reads: Sequence[tuple[Nest, Read]]) -> Producer:
    rank = nest.cursor.term.type.rank
    relations = [Relation.SAME] * rank
    for reader, read in reads:
        loops = reader.loops
        for k in range(rank):
            worst = max((relations[k], _relation(read, loops, k)), key=lambda each: each.value)
            relations[k] = worst
    return Producer(
        nest, frozenset(reader.name for reader, _ in reads), tuple(relations), tuple(read for _, read in reads)
    )  # fmt: skip


def _relation(read: Read, loops: Sequence[Loop], dimension: int) -> Relation:
    if dimension >= len(loops) or dimension >= len(read.indices):
        return Relation.OTHER
    distance = read.indices[dimension] - ix.index(loops[dimension].variable)
    if distance.constant is None:
        moves = loops[dimension].variable in ix.atoms(distance)
        return Relation.WINDOW if not moves and _is_short(read, distance) else Relation.OTHER
    return Relation.SAME if distance.constant == 0 else Relation.WINDOW


def _is_short(read: Read, distance: ix.Index) -> bool:
    """Return whether all loops in a distance have a constant number of iterations, as taps have."""
    loops = [loop_at(each) for each in read.cursor.spine() if isinstance(each.term, terms.Gen | terms.Reduce)]
    trips = {loop.variable: loop.trips for loop in loops}
    return all(isinstance(atom, ix.Var) and trips.get(atom) is not None for atom in ix.atoms(distance))


@dataclass(frozen=True, slots=True)
class Group:
    """A nest, and the lets that only it and each other read, from the last to the first."""

    root: Nest
    producers: tuple[Producer, ...]

    @property
    def aligned(self) -> int:
        """The number of leading dimensions in which every let is read at the reader's own index."""
        return min((producer.aligned for producer in self.producers), default=0)

    @property
    def has_window(self) -> bool:
        """True if the lets are read through windows in the first dimension that is not aligned.

        A window along the last dimension only does not count, because a whole row can be computed before it is read.
        """
        k = self.aligned
        relations = [each.relations[k] for each in self.producers if len(each.relations) > k]
        windows = len(relations) == len(self.producers) and Relation.OTHER not in relations
        return windows and Relation.WINDOW in relations and (k == 0 or k < len(self.root.loops) - 1)


def _is_scattered(producer: Producer) -> bool:
    """Return whether a let scatters its elements, so that computing one row takes as long as computing all."""
    return any(
        isinstance(cursor.term, terms.Reshape) and isinstance(cursor.term.op, terms.Place)
        for cursor in walk(producer.nest.cursor)
    )


def groups(program: Program) -> list[Group]:
    """Divide the lets into groups that can be fused, each with the nest that reads it."""
    nests = outer_nests(program)
    group_of: dict[str | None, str | None] = {None: None}
    members: dict[str | None, list[Producer]] = {None: []}
    for producer in reversed(producers(program)):
        roots = {group_of[reader] for reader in producer.readers}
        fits = bool(producer.relations) and producer.relations[0] is not Relation.OTHER and not _is_scattered(producer)
        if len(roots) == 1 and fits:
            (root,) = roots
            group_of[producer.name] = root
            members[root].append(producer)
        else:
            group_of[producer.name] = producer.name
            members[producer.name] = []
    by_name = {nest.name: nest for nest in nests}
    return [Group(by_name[name], tuple(found)) for name, found in members.items()]


def _each_group(s: Any, fits: Callable[[Group], bool], schedule: Callable[[Any, Group], object], required: str) -> None:
    """Schedule each group of lets that fits. Raises `DoesNotApply`."""
    schedule_each(s, lambda program: filter(fits, groups(program)), schedule, required)


MAX_READS: Final = 12
"""Maximum number of elements read by a let of `jam_rows`, whose rows between two tiles are computed twice."""
ROWS: Final = 16
"""Rows of a tile with windows. With windows of three rows, two rows in eighteen are computed twice."""
BORDER: Final = 2
"""Rows that a tile with windows of three rows reads in addition to its own."""


def _tile_columns(context: Context) -> int:
    """Return the columns of a tile with windows, a power of two: a buffer with its rows takes at most half of L1."""
    machine = context.machine
    return max(machine.line, power_of_two(machine.l1 // 2 // (ROWS + BORDER))) // itemsize(context.dtype)


@recipe()
def inline_copies(s: Any) -> None:
    """Inline lets that only copy, and lets whose elements are each read once: let x := e in … x[i] … → … e(i) …"""
    names = [
        producer.name
        for producer in producers(s.goal)
        if _is_copy(producer.nest) or _is_read_once(producer)
    ]  # fmt: skip
    if not names:
        raise DoesNotApply("no let is a copy or is read once", required="a let with elements that are read once")
    for name in names:
        s.fuse(name)


def _is_copy(nest: Nest) -> bool:
    """Return whether each element of a nest is an element of another tensor."""
    cursor = nest.cursor
    while isinstance(cursor.term, terms.Gen):
        cursor = cursor.child(0)
    return isinstance(cursor.term, terms.Access) and cursor.term.type.rank == 0


def _is_read_once(producer: Producer) -> bool:
    everywhere = all(relation is Relation.SAME for relation in producer.relations)
    return everywhere and len(producer.reads) == 1 and not any(
        isinstance(cursor.term, terms.Reduce) for cursor in walk(producer.nest.cursor)
    )  # fmt: skip


@recipe(tile=lambda context: context.machine.register_tiles(context.dtype))
def fuse_epilogues(s: Any, *, tile: tuple[int, int]) -> None:
    """Compute sums of products in tiles of the loop that reads them: let x := ⊞ Σ e in ⊞ f(x) → ⊞ let x := … in f(x).

    The tiles have rows x columns that fit in registers, so `f` is applied to sums that are still there.
    """
    rows, columns = tile

    def schedule(s: Any, group: Group) -> None:
        s.interchange(target_of(s.goal, group.root.loops[-2].path))
        for_columns, for_rows = _root(s, group).loops[-2:]
        s.tile([target_of(s.goal, for_columns.path), target_of(s.goal, for_rows.path)], [columns, rows])
        s.interchange(target_of(s.goal, _root(s, group).loops[-2].path))
        _stage(s, group, group.aligned - 1)

    required = "a let of sums of products, and f(x[i, j])"
    schedule_each(
        s, lambda program: (each for each in groups(program) if _is_epilogue(each, program)), schedule, required
    )


def _is_epilogue(group: Group, program: Program) -> bool:
    """Return whether a nest reads its lets element by element, and a sum of products reuses an operand for its rows."""
    loops = group.root.loops
    reusing = {found.row.variable.name for found in contractions(program) if found.row is not None}
    return bool(group.producers) and group.aligned == len(loops) > 1 and loops[-2].variable.name in reusing


@recipe(rows=lambda context: (context.machine.register_tile(context.dtype)[0], 4, 16))
def fuse_rows(s: Any, *, rows: int) -> None:
    """Compute lets in the row loop that reads them: let x := ⊞[i] e in ⊞[i] b(x[i]) → ⊞[i] let x := e in b(x).

    Rows are computed together, in tiles of `rows`, if a sum of products inside reuses an operand for all of them.
    """

    def schedule(s: Any, group: Group) -> None:
        row = group.root.loops[group.aligned - 1]
        reusing = {found.row.variable.name for found in contractions(s.goal) if found.row is not None}
        if row.variable.name in reusing and (row.trips is None or row.trips > rows):
            s.tile(target_of(s.goal, row.path), rows)
        _stage(s, group, group.aligned - 1)

    def fits(group: Group) -> bool:
        return group.aligned > 0 and not group.has_window

    _each_group(s, fits, schedule, "a let whose rows are read one by one")


def _rows_together(context: Context) -> list[int]:
    """Return numbers of rows that share the values of a window of five rows in registers."""
    most = min(6, max(2, (context.machine.vector_registers - SPARE_REGISTERS) // 2))
    return list(dict.fromkeys((most, max(2, most - 2), most + 2)))


@recipe(rows=_rows_together)
def jam_rows(s: Any, *, rows: int) -> None:
    """Compute several rows together, which share a let in registers: ⊞[y] ⊞[x] b(e[y], e[y + 1]) → ⊞[yo] ⊞[x] let e …

    This suits one let that is cheap to compute and read through a window of rows, at its own column.
    """

    def schedule(s: Any, group: Group) -> None:
        *_, row, column = group.root.loops
        (producer,) = group.producers
        unroll_all_taps(s)
        s.unroll_and_jam(target_of(s.goal, row.path), rows, share=producer.name)
        s.mark(column.variable.name, "vector").mark(producer.name, "registers")

    _each_group(s, _is_cheap_window, schedule, "a let, and reads such as x[y + 1, x]")


def _is_cheap_window(group: Group) -> bool:
    depth = len(group.root.loops)
    if len(group.producers) != 1 or not group.has_window or group.aligned != depth - 2:
        return False
    (producer,) = group.producers
    at_column = producer.relations[-1] is Relation.SAME and len(producer.relations) == depth
    return at_column and sum(map(_times, reads_below(producer.nest.cursor))) <= MAX_READS


def _times(read: Read) -> int:
    """Return the number of terms with a read, in all sums of constant extents around it."""
    sums = [loop_at(each) for each in read.cursor.spine() if isinstance(each.term, terms.Reduce)]
    return prod(loop.trips for loop in sums if loop.trips is not None)


@recipe(tile=lambda context: (None, (ROWS, None), (ROWS, _tile_columns(context)), (2 * ROWS, _tile_columns(context))))
def stage_windows(s: Any, *, context: Context, tile: tuple[int, int | None] | None) -> None:
    """Compute tiles, each with the part of the lets that it reads: ⊞[y] ⊞[x] b → ⊞[yo] let e := … in ⊞[yi] ⊞[x] b.

    A tile is a strip of whole rows, or a block of rows and columns. Neighbouring tiles both compute the values that
    both read. A let that is read at its reader's own row is computed row by row. `tile=None` lets the model decide:
    strips for several lets or more than two dimensions, and where a strip is known to take less than a quarter of L2;
    otherwise blocks, whose buffers fit in L1.
    """

    def schedule(s: Any, group: Group) -> None:
        depth = group.aligned
        loops = group.root.loops[depth:]
        rows, columns = _tile(group, context) if tile is None else tile
        by = [rows, columns] if columns is not None and len(loops) == 2 else [rows]
        if len(loops) == 1:
            by = [8 * _tile_columns(context)]
        s.tile([target_of(s.goal, loop.path) for loop in loops[: len(by)]], by)
        below = _root(s, group).loops[depth + len(by) - 1 :]
        outer, row = s.find(below[0].path), s.find(below[1].path)
        for producer in group.producers:
            by_row = len(loops) > 1 and producer.relations[depth] is Relation.SAME
            s.stage(producer.name, at=target_of(s.goal, (row if by_row else outer).path))

    _each_group(s, lambda group: group.has_window, schedule, "a let, and reads such as x[y + 1]")


def _tile(group: Group, context: Context) -> tuple[int, int | None]:
    """Return the rows and columns of a tile by the model; None for whole rows."""
    strips = ROWS, None
    loops = group.root.loops[group.aligned :]
    if len(loops) != 2:
        return strips
    row = context.extent(loops[-1].extent)
    fits = row is not None and context.machine.strip_rows(max(1, row) * itemsize(context.dtype)) > 2 * ROWS
    return strips if fits or len(group.producers) > 1 else (ROWS, _tile_columns(context))


def _root(s: Any, group: Group) -> Nest:
    """Return the nest that reads the lets of a group, as it is now."""
    return next(nest for nest in outer_nests(s.goal) if nest.name == group.root.name)


def _stage(s: Any, group: Group, depth: int) -> None:
    """Stage the lets of a group in the loop of its root at a depth."""
    place = s.find(_root(s, group).loops[depth].path)
    for producer in group.producers:
        s.stage(producer.name, at=target_of(s.goal, place.path))
