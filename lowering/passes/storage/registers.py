"""Loop nests whose tiles are in registers: the buffers that are marked so, as variables for the vectors of their rows.

A register has no address. So the loops by which a tile is indexed are written out until each of its indices is
constant: iteration by iteration, and the innermost ones vector by vector where their iterations can be lanes.
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
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Buffer,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Refused,
    Statement,
    statements,
    unused_ids,
    with_body,
)
from lowering.nest.substitution import at_iteration
from lowering.nest.tiles import cells_of, has_lanes, occurs, shape_of, step, vectors_of_row
from lowering.passes.simplification import simplified_block
from lowering.passes.storage.copies import read_from
from lowering.passes.storage.transposition import Transposed, transposed_for
from lowering.targets.stack import exceeds_registers, fits_registers

MOST_STATEMENTS: Final = 4096
"""So many statements are written out for one tile at most: they are text for people and work for compilers."""
FEW_STATEMENTS: Final = 64
"""Where a tile is only read, one by one, more than that are not written out: a copy in memory is read instead."""
MAY_BE_WRITTEN_OUT: Final = (LoopMark.NONE, LoopMark.UNROLL, LoopMark.VECTOR)
"""The marks of the loops that may be written out; the iterations of others have registers of their own."""


def with_tiles_in_registers(nest: LoopNest) -> LoopNest:
    """The loop nest in which every buffer marked `registers` is a tile: all of its indices are constant.

    What cannot be one stays a buffer in memory, and the nest's `refused` say why.
    """
    marked = {
        s.buffer.uid: s
        for s in statements(nest.body)
        if isinstance(s, Allocate) and s.mark is LetMark.REGISTERS and s.storage != "registers"
    }
    if not marked:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    refused = [_too_large(allocate) for allocate in marked.values() if not _has_room(allocate)]
    tiles = {uid: allocate for uid, allocate in marked.items() if _has_room(allocate)}
    single: frozenset[int] = frozenset()
    while tiles:
        writer = _Writer(dict(tiles), nest.vector_bytes, unused_ids(nest), single)
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


def _has_room(allocate: Allocate) -> bool:
    return allocate.storage == "stack" and fits_registers(bytes_of(allocate.capacity.constant, allocate.buffer.dtype))


def _stored_by_element(body: Block, tiles: AbstractSet[int]) -> frozenset[int]:
    """The tiles to which elements are stored, and never a vector: of single numbers they are no slower.

    They are faster where compilers make vectors of the loop around, of one number for each of its iterations.
    """
    of_lanes: set[int] = set()
    of_elements: set[int] = set()
    for statement in statements(body):
        match statement:
            case For(variable, body=(Assign(Cell() as cell) | Accumulate(Cell() as cell),)) if occurs(cell, variable):
                of_lanes.add(cell.buffer.uid)
            case Assign(Cell() as cell) | Accumulate(Cell() as cell):
                of_elements.add(cell.buffer.uid)
            case For() | If() | Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)
    return frozenset(tiles & (of_elements - of_lanes))


def _too_large(allocate: Allocate) -> Refused:
    said = exceeds_registers(allocate.capacity, allocate.buffer.dtype)
    return Refused(allocate.buffer.name, allocate.mark, allocate.let, *said)


class _NoTile(Exception):
    """A tile cannot be kept in registers, as this says; or, in what is only tried, not without a copy of it."""

    def __init__(self, tile: int, summary: str, required: str) -> None:
        super().__init__(summary)
        self.tile: Final = tile
        self.summary: Final = summary
        self.required: Final = required

    def refused(self, allocate: Allocate) -> Refused:
        stack = f's.mark("{allocate.buffer.name}", "stack") keeps it in memory'
        return Refused(allocate.buffer.name, allocate.mark, allocate.let, self.summary, self.required, (stack,))


@dataclass(slots=True)
class _Writer:
    """Writes out the loops that index some tiles. `copied` are those of which a copy in memory is read.

    Those in `single` are of single numbers, and all others of vectors.
    """

    tiles: dict[int, Allocate]
    vector_bytes: int
    ids: Iterator[int]
    single: AbstractSet[int]
    copied: set[int] = field(default_factory=set)
    left: int = MOST_STATEMENTS
    is_tried: bool = False

    def in_registers(self, body: Block) -> Block:
        """The statements with the tiles allocated as such."""
        return tuple(map(self._allocated, body))

    def _allocated(self, statement: Statement) -> Statement:
        match statement:
            case For(body=body) | If(body=body):
                return with_body(statement, self.in_registers(body))
            case Allocate(buffer, zeroed=zeroed) if buffer.uid in self.tiles:
                # A copy takes along what was never stored.
                zeroed = zeroed or buffer.uid in self.copied
                return replace(statement, storage="registers", zeroed=zeroed, vectors=self._lengths(buffer))
            case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                return statement
        assert_never(statement)

    def _lengths(self, buffer: Buffer) -> tuple[int, ...]:
        if buffer.uid in self.single:
            return (1,) * shape_of(buffer)[-1]
        return vectors_of_row(shape_of(buffer)[-1], buffer.dtype, self.vector_bytes)

    # -- statements ---------------------------------------------------------------------------------------------------

    def block(self, facts: Facts, block: Block) -> Block:
        out: list[Statement] = []
        for statement in block:
            match statement:
                case For():
                    out += self._loop(facts, statement)
                case If(predicate, body):
                    out.append(If(predicate, self.block(facts.assume(predicate), body)))
                case Allocate() | Assign() | Accumulate() | Declare() | Clear() | Free():
                    self._check(statement)
                    self.left -= isinstance(statement, Assign | Accumulate | Declare)
                    out.append(statement)
                case _:
                    assert_never(statement)
        return tuple(out)

    def _check(self, statement: Statement) -> None:
        """Raises `_NoTile` where the statement has an element of a tile at an index that is not constant."""
        for cell, _ in cells_of((statement,)):
            if cell.buffer.uid not in self.tiles:
                continue
            for position, extent in cell.pairs:
                at, end = position.constant, extent.constant
                if at is None or end is None or not 0 <= at < end:
                    what = "is not constant" if at is None else "is beyond it, in statements that are never reached"
                    raise _NoTile(
                        cell.buffer.uid,
                        f"its index {show_index(position)} {what}",
                        "indices that are constant once the loops over constant ranges, inside of the let, are written "
                        "out",
                    )

    def _loop(self, facts: Facts, loop: For) -> Block:
        indexed = self._indexed(loop)
        if not indexed:
            return (with_body(loop, self.block(facts.assume(loop.range), loop.body)),)
        if loop.mark not in MAY_BE_WRITTEN_OUT:
            raise _NoTile(
                indexed[0],
                f"the loop {loop.variable.name}, which indexes it, is marked {loop.mark.value}",
                "loops that may be written out: a register belongs to one thread",
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

    def _indexed(self, loop: For) -> list[int]:
        """The tiles, allocated outside of the loop, that its variable is an index of."""
        own = {s.buffer.uid for s in statements(loop.body) if isinstance(s, Allocate)}
        found = (cell.buffer.uid for cell, _ in cells_of(loop.body) if occurs(cell, loop.variable))
        return [uid for uid in dict.fromkeys(found) if uid in self.tiles and uid not in own]

    # -- loops written out --------------------------------------------------------------------------------------------

    def _written_out(self, facts: Facts, loop: For, tile: int) -> Block:
        low, high = simplify(facts, loop.low), simplify(facts, loop.high)
        loop = replace(loop, low=low, high=high)
        if low.constant is not None and high.constant is not None:
            values = range(low.constant, high.constant)
            if not all(has_lanes(statement, loop.variable) for statement in loop.body) or not _are_apart(loop.body):
                return self._iterations(facts, loop, values, tile)
            alone = [with_body(loop, (statement,)) for statement in loop.body]
            return tuple(piece for one in alone for piece in self._by_vectors(facts, one, values))
        counted, values = self._between_constants(facts, loop, tile)
        return self._iterations(facts, counted, values, tile)

    def _iterations(self, facts: Facts, loop: For, values: range, tile: int) -> Block:
        out: list[Statement] = []
        for value in values:
            test = simplify_predicate(facts, within(loop.low, constant(value), loop.high))
            if test == FALSE:
                continue
            inside = facts.assume(test)
            body = self.block(inside, simplified_block(inside, at_iteration(loop, constant(value))))
            if not body:
                continue
            alone = test == TRUE and not any(isinstance(statement, Declare | Allocate) for statement in body)
            out += body if alone else (If(test, body),)
            if self.left < 0:
                raise _NoTile(
                    tile,
                    f"the loops that index it, {loop.variable.name} among them, are more than {MOST_STATEMENTS} "
                    "statements when they are written out",
                    f"at most {MOST_STATEMENTS} statements",
                )
        return tuple(out)

    def _between_constants(self, facts: Facts, loop: For, tile: int) -> tuple[For, range]:
        """A loop, and constants between which its range lies, as the extents of the tile that it indexes say.

        Where its variable is not an index but for a constant, the loop is counted by that index instead.
        """
        runs = facts.assume(less(loop.low, loop.high))
        if not self.is_tried:
            for cell, _ in cells_of(loop.body):
                for position, extent in cell.pairs if cell.buffer.uid in self.tiles else ():
                    rest = position - index(loop.variable)
                    if extent.constant is None:
                        continue
                    # What is bound inside is not known here: an offset with it lies within nothing that is proved.
                    inside = conjunction((at_most(-rest, loop.low), at_most(loop.high, extent - rest)))
                    if not proves(runs, inside):
                        continue
                    if rest.constant is None:
                        return _counted_by(loop, rest), range(extent.constant)
                    return loop, range(-rest.constant, extent.constant - rest.constant)
        raise _NoTile(
            tile,
            f"the loop {loop.variable.name}, from {show_index(loop.low)} to {show_index(loop.high)}, which indexes it, "
            "is not between constants, as far as is proved",
            "loops over ranges that lie within constants, so that they can be written out",
        )

    def _by_vectors(self, facts: Facts, loop: For, values: range) -> Block:
        """A loop over one statement as loops over the lanes of vectors, and single iterations for what is left."""
        indexed = self._indexed(loop)
        if not indexed:
            return (loop,)  # another statement was beside it that indexes a tile
        own = [cell for cell, _ in cells_of(loop.body) if cell.buffer.uid in self.tiles]
        pieces = [self._vectors_of(cell, loop.variable) for cell in own if occurs(cell, loop.variable)]
        out: list[Statement] = []
        at = values.start
        while at < values.stop:
            ends = {next((end for start, end in starts if start == at), at + 1) for starts in pieces}
            end = min(ends)
            if len(ends) == 1 and at + 1 < end <= values.stop:
                piece = replace(loop, low=constant(at), high=constant(end), mark=LoopMark.NONE)
                self._check(at_iteration(piece, piece.low)[0])
                self.left -= not self.is_tried  # the few are of single elements
                out.append(piece)
            else:
                end = at + 1
                out += self._iterations(facts, loop, range(at, end), indexed[0])
            at = end
        return tuple(out)

    def _vectors_of(self, cell: Cell, variable: Var) -> list[tuple[int, int]]:
        """The iterations that are the vectors of a tile's row; none where the row is not walked along."""
        *rows, (column, _) = cell.pairs
        start = (column - index(variable)).constant
        if start is None or step(column, variable) != 1 or any(variable.uid in row.free for row, _ in rows):
            return []
        lengths = self._lengths(cell.buffer)
        return [(last - n - start, last - start) for last, n in zip(accumulate(lengths), lengths, strict=True) if n > 1]

    # -- tiles read down their columns --------------------------------------------------------------------------------

    def _down_columns(self, facts: Facts, loop: For) -> Block | None:
        """A loop that reads tiles down their columns, after the transposed tiles that it reads instead, if it does."""
        block: Block = (loop,)
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
        freed = (Free(allocate.buffer) for allocate in reversed(made))
        return (If(TRUE, (*(piece for one in found for piece in one.block), *written, *freed)),)

    # -- copies -------------------------------------------------------------------------------------------------------

    def _through_memory(self, loop: For) -> Block:
        """A loop that only reads tiles, with copies in memory in place of those that it or a loop in it indexes."""
        block: Block = (loop,)
        read = [cell for cell, _ in cells_of(block) if any(position.constant is None for position, _ in cell.pairs)]
        for uid in dict.fromkeys(cell.buffer.uid for cell in read if cell.buffer.uid in self.tiles):
            self.copied.add(uid)
            buffer = self.tiles[uid].buffer
            block = read_from(block, buffer, next(self.ids), Var(next(self.ids), "at"), self._lengths(buffer))
        return tuple(block)


def _counted_by(loop: For, offset: Index) -> For:
    """for i in l..h: s(i) as for i in l + o..h + o: s(i - o)."""
    body = at_iteration(loop, index(loop.variable) - offset)
    return replace(loop, low=loop.low + offset, high=loop.high + offset, body=body)


def _are_apart(block: Block) -> bool:
    """Whether the statements of a loop may run each for all iterations: they meet in no cell but of one iteration."""
    accesses = [list(cells_of((statement,))) for statement in block]
    return all(
        one.buffer != other.buffer or one.pairs == other.pairs or _never_meet(one, other)
        for at, before in enumerate(accesses)
        for after in accesses[at + 1 :]
        for one, stored in before
        for other, also in after
        if stored or also
    )


def _never_meet(one: Cell, other: Cell) -> bool:
    return any(
        a.constant is not None and b.constant is not None and a != b
        for (a, _), (b, _) in zip(one.pairs, other.pairs, strict=True)
    )
