"""Fusion of lets into the loops that read them: by rows, by strips with windows, or inline."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from math import prod
from typing import Any, Final

from atl.core import index as ix
from atl.core import terms
from atl.core.predicate import atoms_of
from atl.core.program import Program
from atl.text.printing import show_index
from lowering.targets.machine import SPARE_REGISTERS, itemsize
from rewrites.cursors.cursor import Cursor, walk
from rewrites.errors import DoesNotApply
from rewrites.recipes.contractions import contractions, is_pointwise, tiles_of_sums
from rewrites.recipes.declaration import Context, recipe, schedule_each
from rewrites.recipes.preparation import unroll_all_taps
from rewrites.recipes.structure import Loop, Nest, Read, as_read, has_call, loop_at, outer_nests, reads_below, target_of


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
        Nor do lets with more dimensions than the nest has loops: a tile of elements would need whole rows of them.
        """
        k = self.aligned
        if any(len(each.relations) > len(self.root.loops) for each in self.producers):
            return False
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
    by_name = {nest.name: nest for nest in outer_nests(program)}
    called = {name for name, nest in by_name.items() if has_call(nest.cursor.term)}
    group_of: dict[str | None, str | None] = {None: None}
    members: dict[str | None, list[Producer]] = {None: []}
    for producer in reversed(producers(program)):
        roots = {group_of[reader] for reader in producer.readers}
        fits = bool(producer.relations) and producer.relations[0] is not Relation.OTHER and not _is_scattered(producer)
        if len(roots) == 1 and fits and not called & {producer.name, *roots}:
            (root,) = roots
            group_of[producer.name] = root
            members[root].append(producer)
        else:
            group_of[producer.name] = producer.name
            members[producer.name] = []
    return [Group(by_name[name], tuple(found)) for name, found in members.items()]


def _each_group(s: Any, fits: Callable[[Group], bool], schedule: Callable[[Any, Group], object], required: str) -> None:
    """Schedule each group of lets that fits. Raises `DoesNotApply`."""
    schedule_each(s, lambda program: filter(fits, groups(program)), schedule, required)


MAX_READS: Final = 12
"""Maximum number of elements read by a let of `jam_rows`, whose rows between two tiles are computed twice."""
ROW_BYTES: Final = 8192
"""Size of a row that is assumed where it is not known: 2048 numbers of four bytes."""


def _row_bytes(group: Group, context: Context) -> int:
    """Return the size of a row of the nest that reads a group of lets, or what is assumed for it."""
    row = context.elements([loop.extent for loop in group.root.loops[group.aligned + 1 :]])
    return ROW_BYTES if row is None else max(1, row) * itemsize(context.dtype)


OPERATIONS: Final = 3
"""Maximum number of operations for an element of a let that is computed again at each read."""
REPEATED: Final = 8
"""Maximum number of these operations in all reads of the let."""


@recipe()
def inline_copies(s: Any) -> None:
    """Inline lets that copy, are read once, or are cheap to compute again: let x := e in … x[i] … → … e(i) …

    Cheap elements take a few additions and multiplications of one element of an operand with all dimensions. A let is
    kept if a sum of products reuses its elements, or reads a copy with a border through windows: inner loops would
    compute the elements, or the conditions, again.
    """
    before = len(s.steps)
    while (found := next((each for each in producers(s.goal) if _is_better_inline(each, s.goal)), None)) is not None:
        s.fuse(found.name)
    if len(s.steps) == before:
        raise DoesNotApply("no let is a copy, cheap or read once", required="a let whose elements are read once")


def _is_better_inline(producer: Producer, program: Program) -> bool:
    called = {nest.name for nest in outer_nests(program) if has_call(nest.cursor.term)}
    if called & {producer.name, *producer.readers}:
        return False
    if _is_read_once(producer):
        return True
    reused = [found for found in contractions(program) if found.row is not None]
    if _is_copy(producer.nest):
        moving = {read.name for found in reused for read in found.moving}
        return not (producer.name in moving and _has_border(producer.nest))
    return _is_cheap(producer) and all(read.name != producer.name for found in reused for read in found.reads)


def _is_cheap(producer: Producer) -> bool:
    """Return whether it takes less to compute the elements of a let at each read than to store them."""
    loops = producer.nest.loops
    if not loops or any(len(read.indices) < len(loops) or _is_read_again(read) for read in producer.reads):
        return False
    element = loops[-1].cursor.child(0)
    operations = [each for each in walk(element) if isinstance(each.term, terms.Unary | terms.Binary)]
    cheap = is_pointwise(element) and all(_is_arithmetic(each, loops[-1]) for each in operations)
    whole = {
        (read.name, read.indices) for read in reads_below(element) if all(read.depends_on(loop) for loop in loops)
    }  # fmt: skip
    few = len(operations) <= OPERATIONS and len(operations) * len(producer.reads) <= REPEATED
    return cheap and few and len(whole) == 1


def _is_arithmetic(cursor: Cursor, inner: Loop) -> bool:
    """Return whether an operation is an addition, a subtraction, a product, or the same for all of the inner loop."""
    cheap = isinstance(cursor.term, terms.Unary | terms.Binary) and cursor.term.op in ("add", "sub", "mul", "neg")
    return cheap or not any(read.depends_on(inner) for read in reads_below(cursor))


def _is_read_again(read: Read) -> bool:
    """Return whether a loop repeats a read, other than one of constant extent, such as taps."""
    loops = [loop_at(each) for each in read.cursor.spine() if isinstance(each.term, terms.Gen | terms.Reduce)]
    return any(loop.trips is None and not read.depends_on(loop) for loop in loops)


def _is_copy(nest: Nest) -> bool:
    """Return whether each element of a nest is an element of another tensor."""
    cursor = nest.cursor
    while isinstance(cursor.term, terms.Gen):
        cursor = cursor.child(0)
    return isinstance(cursor.term, terms.Access) and cursor.term.type.rank == 0


def _has_border(nest: Nest) -> bool:
    """Return whether a copy reads at clamped positions, or has guards."""
    return any(isinstance(cursor.term, terms.Guard) for cursor in walk(nest.cursor)) or any(
        isinstance(atom, ix.Extremum)
        for read in reads_below(nest.cursor)
        for index in read.indices
        for atom in ix.atoms(index)
    )


def _is_read_once(producer: Producer) -> bool:
    everywhere = all(relation is Relation.SAME for relation in producer.relations)
    return everywhere and len(producer.reads) == 1 and not any(
        isinstance(cursor.term, terms.Reduce) for cursor in walk(producer.nest.cursor)
    )  # fmt: skip


@recipe(tile=tiles_of_sums)
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


def _multiples(rows: int) -> list[int]:
    """Return a number of rows, half of it and twice as many."""
    return list(dict.fromkeys((rows, max(1, rows // 2), 2 * rows)))


@recipe(rows=lambda context: _multiples(context.machine.register_tile(context.dtype)[0]))
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
def jam_rows(s: Any, *, context: Context, rows: int) -> None:
    """Compute several rows together, which share a let in registers: ⊞[y] ⊞[x] b(e[y], e[y + 1]) → ⊞[yo] ⊞[x] let e …

    This suits one let that is cheap to compute and read through a window of rows, at its own column. Each of the last
    rows, fewer than `rows`, computes its window. Images that are known to fit in a share of the last cache are left:
    there, computing each row of the let once is faster.
    """

    def schedule(s: Any, group: Group) -> None:
        *_, row, column = group.root.loops
        (producer,) = group.producers
        unroll_all_taps(s)
        path, (_, low, _), whole = row.path, row.cursor.loop, rows * (row.extent // rows)
        has_rest = whole != row.extent
        if has_rest:
            s.split_loop(target_of(s.goal, path), show_index(low + whole, ascii=True))
            path = (*path, 0)
        s.unroll_and_jam(target_of(s.goal, path), rows, share=producer.name)
        if has_rest:
            s.stage(producer.name, at=target_of(s.goal, (*row.path, 1, 0)))
        s.mark(column.variable.name, "vector").mark(producer.name, "registers")

    def fits(group: Group) -> bool:
        return _is_cheap_window(group) and not _is_in_caches(group, context)

    _each_group(s, fits, schedule, "a let, and reads such as x[y + 1, x]; and images larger than the caches")


def _is_cheap_window(group: Group) -> bool:
    depth = len(group.root.loops)
    if len(group.producers) != 1 or not group.has_window or group.aligned != depth - 2:
        return False
    (producer,) = group.producers
    at_column = producer.relations[-1] is Relation.SAME and len(producer.relations) == depth
    return at_column and sum(map(_times, reads_below(producer.nest.cursor))) <= MAX_READS


def _is_in_caches(group: Group, context: Context) -> bool:
    """Return whether the result and the lets of a group are known to stay in the last cache."""
    counts = [
        context.elements(nest.cursor.term.type.shape) for nest in (group.root, *(each.nest for each in group.producers))
    ]
    known = [count for count in counts if count is not None]
    return len(known) == len(counts) and sum(known) * itemsize(context.dtype) <= context.machine.resident


def _times(read: Read) -> int:
    """Return the number of terms with a read, in all sums of constant extents around it."""
    sums = [loop_at(each) for each in read.cursor.spine() if isinstance(each.term, terms.Reduce)]
    return prod(loop.trips for loop in sums if loop.trips is not None)


RING: Final = "ring"
"""The choice of `stage_windows` that keeps the rows of a window in a circular buffer, without tiles."""


def _window_tiles(context: Context) -> tuple[Any, ...]:
    machine = context.machine
    return None, RING, (machine.strip_rows(ROW_BYTES), None), machine.window_block(context.dtype)


@recipe(tile=_window_tiles)
def stage_windows(s: Any, *, context: Context, tile: Any) -> None:
    """Compute the part of the lets that is read: ⊞[y] ⊞[x] b → ⊞[yo] let e | ring := … in ⊞[yi] ⊞[x] b.

    The rows of a let that a window reads are kept in a circular buffer (`tile="ring"`), if threads share the work in
    strips of whole rows. Otherwise a tile is a strip or a block of rows and columns, with buffers of the parts that it
    reads. Neighbouring tiles both compute the values that both read. A let that is read at its reader's own row is
    computed row by row. `tile=None` lets the model decide: blocks for one let whose rows are known to be too long for
    the caches, otherwise circular buffers. Reads with guards on their rows have no circular buffer.
    """

    def schedule(s: Any, group: Group) -> None:
        depth = group.aligned
        loops = group.root.loops[depth:]
        guarded = _guards_rows(group)
        rows, columns = _tile(group, context) if tile is None else (None, None) if tile == RING else tile
        by = [] if rows is None else [rows, columns] if columns is not None and len(loops) == 2 else [rows]
        if len(loops) == 1:
            by = [context.machine.panel_elements(context.dtype)]
        if by:
            s.tile([target_of(s.goal, loop.path) for loop in loops[: len(by)]], by)
        now = _root(s, group).loops
        outer = s.find(now[depth + len(by) - 1].path) if depth + len(by) else None
        row = s.find(now[depth + len(by)].path)
        for producer in group.producers:
            by_row = len(loops) > 1 and producer.relations[depth] is Relation.SAME
            place = row if by_row else outer
            if place is not None:
                s.stage(producer.name, at=target_of(s.goal, place.path))
            if not by_row and len(by) == (0 if rows is None else 1) < len(loops) and not guarded:
                s.mark(producer.name, "ring")

    _each_group(s, lambda group: group.has_window, schedule, "a let, and reads such as x[y + 1]")


def _tile(group: Group, context: Context) -> tuple[int | None, int | None]:
    """Return the rows and columns of a tile by the model; None for all rows, and for whole rows."""
    machine = context.machine
    strip = machine.strip_rows(_row_bytes(group, context))
    guarded = _guards_rows(group)
    if len(group.producers) == 1 and len(group.root.loops) == group.aligned + 2 and (guarded or strip < LEAST_STRIP):
        return machine.window_block(context.dtype)
    return strip if context.parallel or guarded else None, None


def _guards_rows(group: Group) -> bool:
    """Return whether reads of the rows have guards: the loop over rows is split there, and cannot fill one buffer."""
    row = group.root.loops[group.aligned].variable
    return any(
        isinstance(cursor.term, terms.Guard) and row in atoms_of(cursor.scope.predicate(cursor.term.predicate))
        for cursor in walk(group.root.cursor)
    )


LEAST_STRIP: Final = 8
"""Rows that must fit in half of L2, or blocks are preferred to whole rows: those of a window, and the next ones."""


def _root(s: Any, group: Group) -> Nest:
    """Return the nest that reads the lets of a group, as it is now."""
    return next(nest for nest in outer_nests(s.goal) if nest.name == group.root.name)


def _stage(s: Any, group: Group, depth: int) -> None:
    """Stage the lets of a group in the loop of its root at a depth."""
    place = s.find(_root(s, group).loops[depth].path)
    for producer in group.producers:
        s.stage(producer.name, at=target_of(s.goal, place.path))
