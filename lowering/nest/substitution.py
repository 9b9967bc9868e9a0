"""Substitution in blocks: indices for loop variables, and buffers for other buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.core.index import ONE, ZERO, Index, Leaf, Var, index, map_leaves
from atl.core.predicate import Predicate, substitute
from atl.core.reshape_definitions import Pairs
from lowering.nest import loopnest as ln


def at_iteration(loop: ln.For, value: Index) -> ln.Block:
    """Return the body of a loop with `value` substituted for the loop variable.

    A buffer that is allocated outside of the loop keeps its extents, even if they contain the variable.
    """
    made = frozenset(s.buffer.uid for s in ln.statements(loop.body) if isinstance(s, ln.Allocate))
    return _Replacement(loop.variable, value, made).block(loop.body)


def in_other_buffers(block: ln.Block, others: Mapping[ln.Buffer, ln.Buffer]) -> ln.Block:
    """Replace buffers in the statements."""
    return _Replacement(None, ZERO, frozenset(), others).block(block)


def in_rows(block: ln.Block, buffer: ln.Buffer, other: ln.Buffer, row: Pairs) -> ln.Block:
    """Move the elements of a buffer to a row of another buffer, along its last dimensions.

    `row` are the first pairs of each cell of the row. Dimensions of extent 1 are dropped.
    """
    return _Replacement(None, ZERO, frozenset(), {buffer: other}, row).block(block)


def index_at(expression: Index, variable: Var, value: Index) -> Index:
    """Substitute a value for a variable in an index expression."""
    if variable.uid not in expression.free:
        return expression
    return map_leaves(expression, lambda leaf: value if leaf == variable else index(leaf))


def cell_at(cell: ln.Cell, variable: Var, value: Index) -> ln.Cell:
    """Substitute a value for a loop variable in a cell of a buffer allocated outside of the loop."""
    found = _Replacement(variable, value, frozenset())
    return ln.Cell(cell.buffer, found.pairs(cell.pairs))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A substitution of an index for a variable, if any, and of buffers.

    `made` are the ids of the buffers in whose extents the variable is replaced.
    """

    variable: Var | None
    value: Index
    made: frozenset[int]
    others: Mapping[ln.Buffer, ln.Buffer] = field(default_factory=dict)
    row: Pairs = ()

    def block(self, block: ln.Block) -> ln.Block:
        return tuple(map(self._statement, block))

    def _leaf(self, leaf: Leaf) -> Index:
        return self.value if leaf == self.variable else index(leaf)

    def _index(self, e: Index) -> Index:
        return e if self.variable is None else index_at(e, self.variable, self.value)

    def _predicate(self, predicate: Predicate) -> Predicate:
        return predicate if self.variable is None else substitute(predicate, self._leaf)

    def _buffer(self, buffer: ln.Buffer) -> ln.Buffer:
        buffer = self.others.get(buffer, buffer)
        return replace(buffer, extents=tuple(map(self._index, buffer.extents))) if buffer.uid in self.made else buffer

    def _storage(self, at: ln.Cell | ln.Scalar) -> ln.Cell | ln.Scalar:
        if isinstance(at, ln.Scalar):
            return at
        pairs = self.pairs(at.pairs)
        if self.row and at.buffer in self.others:
            pairs = (*self.row, *(pair for pair in pairs if pair[1] != ONE))
        return ln.Cell(self._buffer(at.buffer), pairs)

    def pairs(self, pairs: Pairs) -> Pairs:
        return tuple((self._index(position), self._index(extent)) for position, extent in pairs)

    def _statement(self, statement: ln.Statement) -> ln.Statement:
        match statement:
            case ln.For(_, low, high, body):
                return replace(statement, low=self._index(low), high=self._index(high), body=self.block(body))
            case ln.If(predicate, body):
                return ln.If(self._predicate(predicate), self.block(body))
            case ln.Assign(target, value):
                return ln.Assign(self._storage(target), self._scalar(value))
            case ln.Accumulate(target, op, value):
                return ln.Accumulate(self._storage(target), op, self._scalar(value))
            case ln.Declare(_, initial):
                return replace(statement, initial=self._scalar(initial))
            case ln.Allocate(buffer, capacity):
                return replace(statement, buffer=self._buffer(buffer), capacity=self._index(capacity))
            case ln.Clear(buffer, count, _, row):
                row = None if row is None else self._index(row)
                return replace(statement, buffer=self._buffer(buffer), count=self._index(count), row=row)
            case ln.Free(buffer):
                return ln.Free(self._buffer(buffer))
        assert_never(statement)

    def _scalar(self, e: ln.ScalarExpr) -> ln.ScalarExpr:
        match e:
            case ln.Number():
                return e
            case ln.Load(source):
                return ln.Load(self._storage(source))
            case ln.FromIndex(of, dtype):
                return ln.FromIndex(self._index(of), dtype)
            case ln.Apply(op, arguments, dtype):
                return ln.Apply(op, tuple(map(self._scalar, arguments)), dtype)
            case ln.Choose(predicate, left, right):
                return ln.Choose(self._predicate(predicate), self._scalar(left), self._scalar(right))
            case ln.Convert(argument, dtype):
                return ln.Convert(self._scalar(argument), dtype)
        assert_never(e)
