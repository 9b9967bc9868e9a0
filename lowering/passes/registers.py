"""Register allocation of tiles: buffers marked `registers` become variables for the vectors of their rows.

A register has no address. So the loops whose variables index a tile are unrolled until all indices are constant. The
innermost loops are unrolled vector by vector where their iterations can be lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import accumulate, product
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.dtypes import bytes_of
from atl.core.index import ONE, ZERO, Index, Var, constant, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import FALSE, TRUE, at_most, conjunction, less, within
from atl.prove import Facts, proves, simplify, simplify_predicate
from atl.text.printing import show_index
from lowering.nest import loopnest as ln
from lowering.nest.loopnest import at_iteration
from lowering.nest.tiles import cells_of, has_lanes, occurs, shape_of, step, vectors, vectors_of_row
from lowering.passes.simplification import simplified_block
from lowering.targets.capabilities import exceeds_registers, fits_registers

MOST_STATEMENTS: Final = 4096
"""Maximum number of unrolled statements for one tile, to limit the size of the text and the time to compile it."""
FEW_STATEMENTS: Final = 64
"""Maximum number of unrolled statements where a tile is only read. Beyond, a copy in memory is read."""
MAY_BE_WRITTEN_OUT: Final = (LoopMark.NONE, LoopMark.UNROLL, LoopMark.VECTOR)
"""Marks of loops that may be unrolled. Iterations of other loops have private registers."""


def with_tiles_in_registers(nest: ln.LoopNest) -> ln.LoopNest:
    """Unroll loops such that every index into a buffer marked `registers` is constant, or the lane of a vector.

    Buffers for which this is impossible remain in memory, and `refused` of the nest has the reason.
    """
    marked = {
        s.buffer.uid: s
        for s in ln.statements(nest.body)
        if isinstance(s, ln.Allocate) and s.mark is LetMark.REGISTERS and s.storage != "registers"
    }
    if not marked:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    refused = [_too_large(allocate) for allocate in marked.values() if not _fits(allocate)]
    tiles = {uid: allocate for uid, allocate in marked.items() if _fits(allocate)}
    single: frozenset[int] = frozenset()
    while tiles:
        writer = _Writer(dict(tiles), nest.vector_bytes, ln.unused_ids(nest), single)
        try:
            body = writer.block(facts, nest.body)
        except _NoTile as found:
            refused.append(found.refused(tiles.pop(found.tile)))
            continue
        if by_element := _stored_by_element(body, tiles.keys() - single):
            single |= by_element
            continue
        return replace(nest, body=writer.in_registers(body), refused=(*nest.refused, *refused))
    return replace(nest, refused=(*nest.refused, *refused))


def _fits(allocate: ln.Allocate) -> bool:
    return allocate.storage == "stack" and fits_registers(bytes_of(allocate.capacity.constant, allocate.buffer.dtype))


def _stored_by_element(body: ln.Block, tiles: AbstractSet[int]) -> frozenset[int]:
    """Return the tiles to which only single elements are stored, never vectors.

    Scalar variables are as fast for these, and faster where compilers vectorise the loop around.
    """
    of_lanes: set[int] = set()
    of_elements: set[int] = set()
    for statement in ln.statements(body):
        match statement:
            case ln.For(variable, body=(ln.Assign(ln.Cell() as cell) | ln.Accumulate(ln.Cell() as cell),)) if occurs(
                cell, variable
            ):
                of_lanes.add(cell.buffer.uid)
            case ln.Assign(ln.Cell() as cell) | ln.Accumulate(ln.Cell() as cell):
                of_elements.add(cell.buffer.uid)
            case (
                ln.For() | ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear()
                | ln.Free() | ln.Gather()
            ):  # fmt: skip
                pass
            case _:
                assert_never(statement)
    return frozenset(tiles & (of_elements - of_lanes))


def _too_large(allocate: ln.Allocate) -> ln.FailedMark:
    reason = exceeds_registers(allocate.capacity, allocate.buffer.dtype)
    return ln.FailedMark(allocate.buffer.name, allocate.mark, allocate.let, *reason)


class _NoTile(Exception):
    """The exception for a tile that cannot be kept in registers. During a trial, it may still be copied to memory."""

    def __init__(self, tile: int, summary: str, required: str) -> None:
        super().__init__(summary)
        self.tile: Final = tile
        self.summary: Final = summary
        self.required: Final = required

    def refused(self, allocate: ln.Allocate) -> ln.FailedMark:
        stack = f's.mark("{allocate.buffer.name}", "stack") keeps it in memory'
        return ln.FailedMark(allocate.buffer.name, allocate.mark, allocate.let, self.summary, self.required, (stack,))


@dataclass(slots=True)
class _Writer:
    """The unroller of loops that index tiles.

    Tiles in `copied` are read from a copy in memory. Those in `single` consist of scalars, all others of vectors.
    `is_tried` is set during the trial of a loop that only reads tiles: if unrolling it fails or gives more than
    `FEW_STATEMENTS` statements, the loop reads copies.
    """

    tiles: dict[int, ln.Allocate]
    vector_bytes: int
    ids: Iterator[int]
    single: AbstractSet[int]
    copied: set[int] = field(default_factory=set)
    left: int = MOST_STATEMENTS
    is_tried: bool = False

    def in_registers(self, body: ln.Block) -> ln.Block:
        """Change the allocations of tiles to registers."""
        return tuple(map(self._allocated, body))

    def _allocated(self, statement: ln.Statement) -> ln.Statement:
        match statement:
            case ln.For(body=body) | ln.If(body=body):
                return ln.with_body(statement, self.in_registers(body))
            case ln.Allocate(buffer, zeroed=zeroed) if buffer.uid in self.tiles:
                # A copy also reads elements that were never stored.
                zeroed = zeroed or buffer.uid in self.copied
                return replace(statement, storage="registers", zeroed=zeroed, vectors=self._lengths(buffer))
            case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather():
                return statement
        assert_never(statement)

    def _lengths(self, buffer: ln.Buffer) -> tuple[int, ...]:
        if buffer.uid in self.single:
            return (1,) * shape_of(buffer)[-1]
        return vectors_of_row(shape_of(buffer)[-1], buffer.dtype, self.vector_bytes)

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, facts: Facts, block: ln.Block) -> ln.Block:
        out: list[ln.Statement] = []
        for statement in block:
            match statement:
                case ln.For():
                    out += self._loop(facts, statement)
                case ln.If(predicate, body):
                    out.append(ln.If(predicate, self.block(facts.assume(predicate), body)))
                case (
                    ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather()
                ):
                    self._check(statement)
                    self.left -= isinstance(statement, ln.Assign | ln.Accumulate | ln.Declare)
                    out.append(statement)
                case _:
                    assert_never(statement)
        return tuple(out)

    def _check(self, statement: ln.Statement) -> None:
        """Raise `_NoTile` if the statement accesses a tile at an index that is not constant."""
        for cell, _ in cells_of((statement,)):
            if cell.buffer.uid not in self.tiles:
                continue
            for position, extent in cell.pairs:
                at, end = position.constant, extent.constant
                if at is None or end is None or not 0 <= at < end:
                    problem = "is not constant" if at is None else "is out of bounds, in unreachable statements"
                    raise _NoTile(
                        cell.buffer.uid,
                        f"its index {show_index(position)} {problem}",
                        "indices that are constant when the loops with constant bounds in the let are unrolled",
                    )

    def _loop(self, facts: Facts, loop: ln.For) -> ln.Block:
        indexed = self._indexed(loop)
        if not indexed:
            return (ln.with_body(loop, self.block(facts.assume(loop.range), loop.body)),)
        if loop.mark not in MAY_BE_WRITTEN_OUT:
            raise _NoTile(
                indexed[0],
                f"the loop {loop.variable.name}, which indexes it, is marked {loop.mark.value}",
                "loops that may be unrolled: a register belongs to one thread",
            )
        if self.is_tried or any(stored and cell.buffer.uid in self.tiles for cell, stored in cells_of(loop.body)):
            return self._written_out(facts, loop, indexed[0])
        if (found := self._down_columns(facts, loop)) is not None:
            return found
        before = self.left
        self.left, self.is_tried = FEW_STATEMENTS, True
        try:
            return self._written_out(facts, loop, indexed[0])
        except _NoTile:
            return self._through_memory(loop)
        finally:
            self.left, self.is_tried = before, False

    def _indexed(self, loop: ln.For) -> list[int]:
        """Return the tiles, allocated outside of the loop, that its variable indexes."""
        own = {s.buffer.uid for s in ln.statements(loop.body) if isinstance(s, ln.Allocate)}
        found = (cell.buffer.uid for cell, _ in cells_of(loop.body) if occurs(cell, loop.variable))
        return [uid for uid in dict.fromkeys(found) if uid in self.tiles and uid not in own]

    # -- unrolling ----------------------------------------------------------------------------------------------------

    def _written_out(self, facts: Facts, loop: ln.For, tile: int) -> ln.Block:
        low, high = simplify(facts, loop.low), simplify(facts, loop.high)
        loop = replace(loop, low=low, high=high)
        if low.constant is not None and high.constant is not None:
            values = range(low.constant, high.constant)
            if not all(has_lanes(statement, loop.variable) for statement in loop.body) or not _may_distribute(
                loop.body
            ):
                return self._iterations(facts, loop, values, tile)
            alone = [ln.with_body(loop, (statement,)) for statement in loop.body]
            return tuple(piece for one in alone for piece in self._by_vectors(facts, one, values))
        counted, values = self._between_constants(facts, loop, tile)
        return self._iterations(facts, counted, values, tile)

    def _iterations(self, facts: Facts, loop: ln.For, values: range, tile: int) -> ln.Block:
        out: list[ln.Statement] = []
        for value in values:
            test = simplify_predicate(facts, within(loop.low, constant(value), loop.high))
            if test == FALSE:
                continue
            inside = facts.assume(test)
            body = self.block(inside, simplified_block(inside, at_iteration(loop, constant(value))))
            if not body:
                continue
            alone = test == TRUE and not any(isinstance(statement, ln.Declare | ln.Allocate) for statement in body)
            out += body if alone else (ln.If(test, body),)
            if self.left < 0:
                raise _NoTile(
                    tile,
                    f"unrolling the loops that index it, such as {loop.variable.name}, gives more than "
                    f"{MOST_STATEMENTS} statements",
                    f"at most {MOST_STATEMENTS} statements",
                )
        return tuple(out)

    def _between_constants(self, facts: Facts, loop: ln.For, tile: int) -> tuple[ln.For, range]:
        """Return a loop and a constant range that contains its range, derived from the extents of a tile.

        If an index of the tile is the loop variable plus an offset that is not constant, the loop runs over that index.
        """
        runs = facts.assume(less(loop.low, loop.high))
        if not self.is_tried:
            for cell, _ in cells_of(loop.body):
                for position, extent in cell.pairs if cell.buffer.uid in self.tiles else ():
                    rest = position - index(loop.variable)
                    if extent.constant is None:
                        continue
                    # An offset with a variable that is bound inside has no proved range here.
                    inside = conjunction((at_most(-rest, loop.low), at_most(loop.high, extent - rest)))
                    if not proves(runs, inside):
                        continue
                    if rest.constant is None:
                        return _counted_by(loop, rest), range(extent.constant)
                    return loop, range(-rest.constant, extent.constant - rest.constant)
        raise _NoTile(
            tile,
            f"the range of the loop {loop.variable.name}, which indexes it, from {show_index(loop.low)} to "
            f"{show_index(loop.high)}, has no proved constant bounds",
            "loops with constant bounds, which can be unrolled",
        )

    def _by_vectors(self, facts: Facts, loop: ln.For, values: range) -> ln.Block:
        """Split a loop over one statement into loops over the lanes of vectors, and single remaining iterations."""
        indexed = self._indexed(loop)
        if not indexed:
            return (loop,)  # only other statements of the original loop index a tile
        own = [cell for cell, _ in cells_of(loop.body) if cell.buffer.uid in self.tiles]
        pieces = [self._vectors_of(cell, loop.variable) for cell in own if occurs(cell, loop.variable)]
        out: list[ln.Statement] = []
        at = values.start
        while at < values.stop:
            ends = {next((end for start, end in starts if start == at), at + 1) for starts in pieces}
            end = min(ends)
            if len(ends) == 1 and at + 1 < end <= values.stop:
                piece = replace(loop, low=constant(at), high=constant(end), mark=LoopMark.NONE)
                self._check(at_iteration(piece, piece.low)[0])
                self.left -= not self.is_tried  # `FEW_STATEMENTS` counts single elements
                out.append(piece)
            else:
                end = at + 1
                out += self._iterations(facts, loop, range(at, end), indexed[0])
            at = end
        return tuple(out)

    def _vectors_of(self, cell: ln.Cell, variable: Var) -> list[tuple[int, int]]:
        """Return the ranges of iterations that cover the vectors of a tile's row; none if the stride is not 1."""
        *rows, (column, _) = cell.pairs
        start = (column - index(variable)).constant
        if start is None or step(column, variable) != 1 or any(variable.uid in row.free for row, _ in rows):
            return []
        lengths = self._lengths(cell.buffer)
        return [(last - n - start, last - start) for last, n in zip(accumulate(lengths), lengths, strict=True) if n > 1]

    # -- tiles read by columns ----------------------------------------------------------------------------------------

    def _down_columns(self, facts: Facts, loop: ln.For) -> ln.Block | None:
        """Let a loop that reads tiles by columns read transposed tiles, made before it; None if it reads otherwise."""
        block: ln.Block = (loop,)
        found: list[Transposed] = []
        for uid in self._indexed(loop):
            if (one := transposed_for(block, self.tiles[uid].buffer, self._lengths, self.ids)) is not None:
                found.append(one)
                block = one.reading
        if not found:
            return None
        before = self.left
        made = [allocate for one in found for allocate in one.made]
        self.tiles |= {allocate.buffer.uid: allocate for allocate in made}
        self.left -= sum(len(one.filled) for one in found)
        (reading,) = block
        try:
            written = self.block(facts, (reading,))
        except _NoTile:
            self.left = before
            return None
        freed = (ln.Free(allocate.buffer) for allocate in reversed(made))
        return (ln.If(TRUE, (*(piece for one in found for piece in one.block), *written, *freed)),)

    # -- copies -------------------------------------------------------------------------------------------------------

    def _through_memory(self, loop: ln.For) -> ln.Block:
        """Let a loop that only reads tiles read them from copies in memory, if their indices are not constant."""
        block: ln.Block = (loop,)
        read = [cell for cell, _ in cells_of(block) if any(position.constant is None for position, _ in cell.pairs)]
        for uid in dict.fromkeys(cell.buffer.uid for cell in read if cell.buffer.uid in self.tiles):
            self.copied.add(uid)
            buffer = self.tiles[uid].buffer
            block = copy_to_memory(block, buffer, next(self.ids), Var(next(self.ids), "at"), self._lengths(buffer))
        return tuple(block)


def _counted_by(loop: ln.For, offset: Index) -> ln.For:
    """Rewrite for i in l..h: s(i) to for i in l + o..h + o: s(i - o)."""
    body = at_iteration(loop, index(loop.variable) - offset)
    return replace(loop, low=loop.low + offset, high=loop.high + offset, body=body)


def _may_distribute(block: ln.Block) -> bool:
    """Return whether a loop may be distributed over its statements: they conflict only within one iteration."""
    accesses = [list(cells_of((statement,))) for statement in block]
    return all(
        one.buffer != other.buffer or one.pairs == other.pairs or _are_distinct(one, other)
        for at, before in enumerate(accesses)
        for after in accesses[at + 1 :]
        for one, stored in before
        for other, also in after
        if stored or also
    )


def _are_distinct(one: ln.Cell, other: ln.Cell) -> bool:
    return any(
        a.constant is not None and b.constant is not None and a != b
        for (a, _), (b, _) in zip(one.pairs, other.pairs, strict=True)
    )


# -- copies of tiles in memory ----------------------------------------------------------------------------------------


def copy_to_memory(block: ln.Block, tile: ln.Buffer, uid: int, lane: Var, lengths: tuple[int, ...]) -> ln.Block:
    """Copy a tile to memory, vector by vector, and let the statements read the copy.

    Dimensions at which all reads have the same constant index are dropped.
    """
    read = [cell for cell, _ in cells_of(block) if cell.buffer == tile]
    positions = zip(*([position for position, _ in cell.pairs] for cell in read), strict=True)
    fixed = [one.constant if len({one, *others}) == 1 else None for one, *others in positions]
    free = tuple(dimension for dimension, at in enumerate(fixed) if at is None)
    extents = tuple(tile.extents[dimension] for dimension in free)
    copy = Copy(tile, ln.Buffer(uid, f"{tile.name}_copy", tile.dtype, extents), free)
    filled: list[ln.Statement] = []
    for vector in vectors(tile, lengths):
        columns = range(vector.first, vector.first + vector.length)
        if any(at not in (None, row) for at, row in zip(fixed, vector.row, strict=False)):
            continue
        row = tuple(map(constant, vector.row))
        if fixed[-1] is None and vector.length > 1:
            filled.append(
                ln.For(lane, constant(columns[0]), constant(columns[-1] + 1), (copy.element(*row, index(lane)),))
            )
        else:
            filled += [copy.element(*row, constant(column)) for column in columns if fixed[-1] in (None, column)]
    made = ln.Allocate(copy.buffer, ln.elements(extents), "stack", zeroed=False)
    return (ln.If(TRUE, (made, *filled, *copy.block(block), ln.Free(copy.buffer))),)


@dataclass(frozen=True, slots=True)
class Copy:
    """A tile and its copy, whose dimensions are the dimensions `free` of the tile, in this order."""

    tile: ln.Buffer
    buffer: ln.Buffer
    free: tuple[int, ...]

    def element(self, *at: Index) -> ln.Assign:
        """Return the assignment of one element to the copy."""
        source = ln.Cell(self.tile, tuple(zip(at, self.tile.extents, strict=True)))
        return ln.Assign(self._cell(source), ln.Load(source))

    def _cell(self, cell: ln.Cell) -> ln.Cell:
        return ln.Cell(self.buffer, tuple(cell.pairs[dimension] for dimension in self.free))

    def block(self, block: ln.Block) -> ln.Block:
        """Let the statements read the copy instead of the tile."""
        return tuple(map(self._statement, block))

    def _statement(self, statement: ln.Statement) -> ln.Statement:
        match statement:
            case ln.For(body=body) | ln.If(body=body):
                return ln.with_body(statement, self.block(body))
            case ln.Assign(_, value) | ln.Accumulate(_, _, value):
                return replace(statement, value=self._scalar(value))
            case ln.Declare(_, initial):
                return replace(statement, initial=self._scalar(initial))
            case ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                return statement
        assert_never(statement)

    def _scalar(self, e: ln.ScalarExpr) -> ln.ScalarExpr:
        match e:
            case ln.Load(ln.Cell() as cell):
                return ln.Load(self._cell(cell)) if cell.buffer == self.tile else e
            case ln.Number() | ln.FromIndex() | ln.Load(ln.Scalar()):
                return e
            case ln.Apply(op, arguments, dtype):
                return ln.Apply(op, tuple(map(self._scalar, arguments)), dtype)
            case ln.Choose(predicate, left, right):
                return ln.Choose(predicate, self._scalar(left), self._scalar(right))
            case ln.Convert(argument, dtype):
                return ln.Convert(self._scalar(argument), dtype)
            case ln.Load():
                raise AssertionError("a load is from a cell or a scalar")
        assert_never(e)


# -- transposition by exchanging lanes --------------------------------------------------------------------------------
# A vector is part of a row, so a column is spread over many variables. Squares of 2^k vectors of 2^k lanes are
# transposed in k rounds. In the round of distance d, element (i, j) is kept if bit d of i equals that of j; otherwise
# it is taken from (i xor d, j xor d). So each vector has lanes of two vectors of the previous round.


@dataclass(frozen=True, slots=True)
class Transposed:
    """A transposed tile: the tiles of all rounds (it is the last), the loops that fill them, and the reading block."""

    made: tuple[ln.Allocate, ...]
    filled: ln.Block
    reading: ln.Block

    @property
    def block(self) -> ln.Block:
        """The statements that make the transposed tile."""
        return (*self.made, *self.filled)


def transposed_for(
    block: ln.Block, tile: ln.Buffer, lengths: Callable[[ln.Buffer], tuple[int, ...]], ids: Iterator[int]
) -> Transposed | None:
    """Return the transpose of a tile for statements that read it by columns, and these statements reading it.

    The result is None if they also read it in other ways, or if the tile does not consist of squares of vectors.
    `lengths` gives the lengths of the vectors in a row of a tile. Dimensions of extent 1, which staging of batched
    operands produces, are ignored.
    """
    long = [dimension for dimension, extent in enumerate(tile.extents) if extent != ONE]
    if len(long) != 2 or _read_by_lanes(block, tile):
        return None
    rows, columns = (tile.extents[dimension] for dimension in long)
    last = ln.Buffer(next(ids), f"{tile.name}_transposed", tile.dtype, (columns, rows))
    length, *others = {*lengths(tile), *lengths(last)}
    if others or length == 1:
        return None
    reading = Copy(tile, last, (long[1], long[0])).block(block)
    if not _read_by_lanes(reading, last):
        return None
    lane, source = Var(next(ids), "lane"), tile
    made: list[ln.Allocate] = []
    filled: list[ln.For] = []
    for distance in (1 << k for k in range(length.bit_length() - 1)):
        is_last = 2 * distance == length
        target = last if is_last else ln.Buffer(next(ids), f"{tile.name}_by{distance}", tile.dtype, (rows, columns))
        vectors = (length,) * (shape_of(target)[-1] // length)
        made.append(ln.Allocate(target, ln.elements(target.extents), "registers", zeroed=False, vectors=vectors))
        filled += _round(source, target, distance, length, lane)
        source = target
    return Transposed(tuple(made), tuple(filled), reading)


def _round(source: ln.Buffer, target: ln.Buffer, distance: int, length: int, lane: Var) -> Iterator[ln.For]:
    """Yield a round for all squares. The round of the largest distance also transposes their positions."""
    rows, columns = (extent for extent in shape_of(source) if extent != 1)
    at = index(lane)
    other = at // distance % 2
    for row, first in product(range(rows), range(0, columns, length)):
        own = row // distance % 2
        to, start = (row, first) if 2 * distance < length else (first + row % length, row // length * length)
        read = _element(source, row + distance * (other - own), at - start + first + distance * (own - other))
        stored = _element(target, constant(to), at)
        yield ln.For(lane, constant(start), constant(start + length), (ln.Assign(stored, ln.Load(read)),))


def _element(tile: ln.Buffer, row: Index, column: Index) -> ln.Cell:
    """Return an element of a tile that has two dimensions of extent above 1."""
    at = iter((row, column))
    return ln.Cell(tile, tuple((ZERO if extent == ONE else next(at), extent) for extent in tile.extents))


def _read_by_lanes(block: ln.Block, tile: ln.Buffer, around: ln.For | None = None) -> bool:
    """Return whether each statement that reads the tile is in a loop whose iterations can be the lanes of vectors."""
    for statement in block:
        match statement:
            case ln.For(body=body):
                if not _read_by_lanes(body, tile, statement):
                    return False
            case ln.If(_, body):
                if not _read_by_lanes(body, tile):
                    return False
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                reads = any(cell.buffer == tile for cell, _ in cells_of((statement,)))
                if reads and (around is None or not has_lanes(statement, around.variable)):
                    return False
            case _:
                assert_never(statement)
    return True
