"""Transposition of register tiles that are read by columns, by exchanging lanes.

A vector is part of a row, so a column is spread over many variables. Squares of 2^k vectors of 2^k lanes are transposed
in k rounds. In the round of distance d, element (i, j) is kept if bit d of i equals that of j; otherwise it is taken
from (i xor d, j xor d). So each vector has lanes of two vectors of the previous round.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import assert_never

from atl.core.index import ONE, ZERO, Index, Var, constant, index
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, has_lanes, shape_of
from lowering.passes.storage.copies import Copy


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
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                reads = any(cell.buffer == tile for cell, _ in cells_of((statement,)))
                if reads and (around is None or not has_lanes(statement, around.variable)):
                    return False
            case _:
                assert_never(statement)
    return True
