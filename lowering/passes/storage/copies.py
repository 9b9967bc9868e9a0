"""Copies of register tiles in memory, for loops whose indices into a tile are not constant."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import Index, Var, constant, index
from atl.core.predicate import TRUE
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, vectors


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
            case ln.Allocate() | ln.Clear() | ln.Free():
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
