"""Definitions of the reshape operators (Fig. 4.3, with drop truncations: E3) as maps of indices in both directions.

`origin` maps an element of the result to an element of the operand, or to padding. `destination` is the reindexer of
Fig. 4.5 (with E1–E3), which maps an element of the operand to its position in the result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from atl.core.index import ZERO, Index, ceildiv, floordiv
from atl.core.predicate import FALSE, TRUE, Predicate, at_most, equal, less
from atl.core.terms import Flatten, PadLeft, PadRight, Place, ReshapeOp, Split, Transpose, TruncateLeft, TruncateRight

Positions: TypeAlias = tuple[Index, ...]
Pairs: TypeAlias = tuple[tuple[Index, Index], ...]
"""An index structure of §4.4.2: (index, extent) for each dimension, outermost first."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The element of the operand at `at` where `present` holds, and padding elsewhere."""

    at: Positions
    present: Predicate = TRUE


def origin(op: ReshapeOp, shape: Positions, at: Positions) -> Origin:
    """Return the origin of the element at `at` of the result; `shape` is the shape of the operand."""
    first, *rest = at
    match op:
        case Transpose():
            return Origin((rest[0], first, *rest[1:]))
        case Flatten() if shape[1].constant == 0:
            return Origin((ZERO, first, *rest), FALSE)
        case Flatten():
            row = floordiv(first, shape[1], positive=True)
            return Origin((row, first - shape[1] * row, *rest))
        case Split(by):
            position = first * by + rest[0]
            return Origin((position, *rest[1:]), less(position, shape[0]))
        case PadLeft(by):
            return Origin((first - by, *rest), at_most(by, first))
        case PadRight():
            return Origin(at, less(first, shape[0]))
        case TruncateLeft(by):
            return Origin((first + by, *rest))
        case TruncateRight():
            return Origin(at)
        case Place(_, position):
            return Origin(tuple(rest), equal(first, position))
        case _:
            assert_never(op)


def positions_needed(op: ReshapeOp) -> int:
    """Return the number of dimensions of the result that the operator's definition refers to."""
    match op:
        case Transpose() | Split():
            return 2
        case Flatten() | PadLeft() | PadRight() | TruncateLeft() | TruncateRight() | Place():
            return 1
        case _:
            assert_never(op)


def destination(op: ReshapeOp, pairs: Pairs) -> Pairs:
    """Return the index structure in the result for an element of the operand with the index structure `pairs`."""
    if isinstance(op, Place):
        return ((op.at, op.extent), *pairs)
    (i, n), *rest = pairs
    match op:
        case Transpose():
            return (rest[0], (i, n), *rest[1:])
        case Flatten():
            (j, m), *inner = rest
            return ((i * m + j, n * m), *inner)
        case Split(by):
            row = floordiv(i, by, positive=True)
            return ((row, ceildiv(n, by, positive=True)), (i - by * row, by), *rest)
        case PadLeft(by):
            return ((i + by, n + by), *rest)
        case PadRight(by):
            return ((i, n + by), *rest)
        case TruncateLeft(by):
            return ((i - by, n - by), *rest)
        case TruncateRight(by):
            return ((i, n - by), *rest)
        case _:
            assert_never(op)


def kept(op: TruncateLeft | TruncateRight, extent: Index, position: Index) -> Predicate:
    """Return the condition that a truncation keeps the element at a position of its operand, which has this extent."""
    match op:
        case TruncateLeft(by):
            return at_most(by, position)
        case TruncateRight(by):
            return less(position, extent - by)
        case _:
            assert_never(op)
