"""Substitution in blocks: indices for loop variables, and buffers for other buffers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import assert_never

from atl.core.index import ONE, ZERO, Index, Leaf, Var, index, map_leaves
from atl.core.predicate import Predicate, substitute
from atl.core.reshape_definitions import Pairs
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Apply,
    Assign,
    Block,
    Buffer,
    Cell,
    Choose,
    Clear,
    Convert,
    Declare,
    For,
    Free,
    FromIndex,
    If,
    Load,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    statements,
)


def at_iteration(loop: For, value: Index) -> Block:
    """Return the body of a loop with `value` substituted for the loop variable.

    A buffer that is allocated outside of the loop keeps its extents, even if they contain the variable.
    """
    made = frozenset(s.buffer.uid for s in statements(loop.body) if isinstance(s, Allocate))
    return _Replacement(loop.variable, value, made).block(loop.body)


def in_other_buffers(block: Block, others: Mapping[Buffer, Buffer]) -> Block:
    """Replace buffers in the statements."""
    return _Replacement(None, ZERO, frozenset(), others).block(block)


def in_rows(block: Block, buffer: Buffer, other: Buffer, row: Pairs) -> Block:
    """Move the elements of a buffer to a row of another buffer, along its last dimensions.

    `row` are the first pairs of each cell of the row. Dimensions of extent 1 are dropped.
    """
    return _Replacement(None, ZERO, frozenset(), {buffer: other}, row).block(block)


def index_at(expression: Index, variable: Var, value: Index) -> Index:
    """Substitute a value for a variable in an index expression."""
    if variable.uid not in expression.free:
        return expression
    return map_leaves(expression, lambda leaf: value if leaf == variable else index(leaf))


def cell_at(cell: Cell, variable: Var, value: Index) -> Cell:
    """Substitute a value for a loop variable in a cell of a buffer allocated outside of the loop."""
    found = _Replacement(variable, value, frozenset())
    return Cell(cell.buffer, found.pairs(cell.pairs))


@dataclass(frozen=True, slots=True)
class _Replacement:
    """A substitution of an index for a variable, if any, and of buffers.

    `made` are the ids of the buffers in whose extents the variable is replaced.
    """

    variable: Var | None
    value: Index
    made: frozenset[int]
    others: Mapping[Buffer, Buffer] = field(default_factory=dict)
    row: Pairs = ()

    def block(self, block: Block) -> Block:
        return tuple(map(self._statement, block))

    def _leaf(self, leaf: Leaf) -> Index:
        return self.value if leaf == self.variable else index(leaf)

    def _index(self, e: Index) -> Index:
        return e if self.variable is None else index_at(e, self.variable, self.value)

    def _predicate(self, predicate: Predicate) -> Predicate:
        return predicate if self.variable is None else substitute(predicate, self._leaf)

    def _buffer(self, buffer: Buffer) -> Buffer:
        buffer = self.others.get(buffer, buffer)
        return replace(buffer, extents=tuple(map(self._index, buffer.extents))) if buffer.uid in self.made else buffer

    def _storage(self, at: Cell | Scalar) -> Cell | Scalar:
        if isinstance(at, Scalar):
            return at
        pairs = self.pairs(at.pairs)
        if self.row and at.buffer in self.others:
            pairs = (*self.row, *(pair for pair in pairs if pair[1] != ONE))
        return Cell(self._buffer(at.buffer), pairs)

    def pairs(self, pairs: Pairs) -> Pairs:
        return tuple((self._index(position), self._index(extent)) for position, extent in pairs)

    def _statement(self, statement: Statement) -> Statement:
        match statement:
            case For(_, low, high, body):
                return replace(statement, low=self._index(low), high=self._index(high), body=self.block(body))
            case If(predicate, body):
                return If(self._predicate(predicate), self.block(body))
            case Assign(target, value):
                return Assign(self._storage(target), self._scalar(value))
            case Accumulate(target, op, value):
                return Accumulate(self._storage(target), op, self._scalar(value))
            case Declare(_, initial):
                return replace(statement, initial=self._scalar(initial))
            case Allocate(buffer, capacity):
                return replace(statement, buffer=self._buffer(buffer), capacity=self._index(capacity))
            case Clear(buffer, count, _, row):
                row = None if row is None else self._index(row)
                return replace(statement, buffer=self._buffer(buffer), count=self._index(count), row=row)
            case Free(buffer):
                return Free(self._buffer(buffer))
        assert_never(statement)

    def _scalar(self, e: ScalarExpr) -> ScalarExpr:
        match e:
            case Number():
                return e
            case Load(source):
                return Load(self._storage(source))
            case FromIndex(of, dtype):
                return FromIndex(self._index(of), dtype)
            case Apply(op, arguments, dtype):
                return Apply(op, tuple(map(self._scalar, arguments)), dtype)
            case Choose(predicate, left, right):
                return Choose(self._predicate(predicate), self._scalar(left), self._scalar(right))
            case Convert(argument, dtype):
                return Convert(self._scalar(argument), dtype)
        assert_never(e)
