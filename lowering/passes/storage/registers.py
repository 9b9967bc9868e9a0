"""Register allocation of tiles: buffers marked `registers` become variables for the vectors of their rows.

A register has no address. So the loops whose variables index a tile are unrolled until all indices are constant. The
innermost loops are unrolled vector by vector where their iterations can be lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, assert_never

from atl.checks.scope import initial_facts
from atl.core.dtypes import bytes_of
from atl.core.index import Index, Var, constant, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import FALSE, TRUE, at_most, conjunction, less, within
from atl.prove import Facts, proves, simplify, simplify_predicate
from atl.text.printing import show_index
from lowering.nest import loopnest as ln
from lowering.nest.substitution import at_iteration
from lowering.nest.tiles import cells_of, has_lanes, occurs, shape_of, step, vectors_of_row
from lowering.passes.simplification import simplified_block
from lowering.passes.storage.copies import copy_to_memory
from lowering.passes.storage.transposition import Transposed, transposed_for
from lowering.targets.stack import exceeds_registers, fits_registers

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
                ln.For()
                | ln.If()
                | ln.Assign()
                | ln.Accumulate()
                | ln.Declare()
                | ln.Allocate()
                | ln.Clear()
                | ln.Free()
            ):
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
            case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
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
                case ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
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
        """Let a loop that only reads tiles read copies in memory of those that it or a loop in it indexes."""
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
