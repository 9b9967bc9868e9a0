"""Reindexers (Fig. 4.5 as corrected by E1–E3): where a tensor's elements are stored, as a function of index structures.

A reindexer is kept as the list of steps that lowering met on its way down. Applied to the index structure of an element,
it takes the steps from the innermost out: each is a function from a list of (index, extent) pairs to such a list.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from atl.index import Index, ceildiv, floordiv
from atl.predicate import Predicate, at_most, conjunction, less
from atl.terms import (
    Flatten,
    PadLeft,
    PadRight,
    ReshapeOp,
    Split,
    Transpose,
    TruncateLeft,
    TruncateRight,
)
from lowering.loopnest import Pairs


@dataclass(frozen=True, slots=True)
class Cons:
    """A generation: it puts its index, counted from its lower bound, in front."""

    index: Index
    extent: Index


Step: TypeAlias = Cons | ReshapeOp
Reindexer: TypeAlias = tuple[Step, ...]
"""Steps from the outermost in. All index expressions in it are opened; amounts of reshapes too."""

IDENTITY: Reindexer = ()


@dataclass(frozen=True, slots=True)
class Stored:
    """Where an element goes, and for each truncation on the way the condition under which it is kept."""

    pairs: Pairs
    kept: tuple[Predicate, ...]


def stored_at(reindexer: Reindexer, pairs: Pairs = ()) -> Stored:
    """The reindexer applied to an index structure; that of a scalar is empty."""
    kept: list[Predicate] = []
    for step in reversed(reindexer):
        match step:
            case Cons(index, extent):
                pairs = ((index, extent), *pairs)
            case TruncateLeft(by):
                kept.append(at_most(by, pairs[0][0]))
                pairs = reindexed(step, pairs)
            case TruncateRight(by):
                kept.append(less(pairs[0][0], pairs[0][1] - by))
                pairs = reindexed(step, pairs)
            case _:
                pairs = reindexed(step, pairs)
    return Stored(pairs, tuple(kept))


def kept(stored: Stored) -> Predicate:
    return conjunction(stored.kept)


def reindexed(op: ReshapeOp, pairs: Pairs) -> Pairs:
    """The reindexer of one reshape operator: from the index of an element of its operand to that of its result."""
    match op:
        case Transpose():
            first, second, *rest = pairs
            return (second, first, *rest)
        case Flatten():
            (i, n), (j, m), *rest = pairs
            return ((i * m + j, n * m), *rest)
        case Split(by):
            (i, n), *rest = pairs
            quotient = floordiv(i, by, positive=True)
            return ((quotient, ceildiv(n, by, positive=True)), (i - by * quotient, by), *rest)
        case PadLeft(by):
            (i, n), *rest = pairs
            return ((i + by, n + by), *rest)
        case PadRight(by):
            (i, n), *rest = pairs
            return ((i, n + by), *rest)
        case TruncateLeft(by):
            (i, n), *rest = pairs
            return ((i - by, n - by), *rest)
        case TruncateRight(by):
            (i, n), *rest = pairs
            return ((i, n - by), *rest)
        case _:
            assert_never(op)
