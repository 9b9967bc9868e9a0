"""Reindexers (Fig. 4.5 as corrected by E1–E3): storage locations of tensor elements as functions of index structures.

A reindexer is a list of steps in the order in which lowering descends. Each step is a function from a list of
(index, extent) pairs to such a list. The steps are applied from the innermost outwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from atl.core.index import Index
from atl.core.predicate import Predicate, conjunction
from atl.core.reshape_definitions import Pairs, destination, kept
from atl.core.terms import Flatten, PadLeft, PadRight, Place, ReshapeOp, Split, Transpose, TruncateLeft, TruncateRight


@dataclass(frozen=True, slots=True)
class Cons:
    """The step of a generation, which prepends its index, counted from its lower bound."""

    index: Index
    extent: Index


Step: TypeAlias = Cons | ReshapeOp
Reindexer: TypeAlias = tuple[Step, ...]
"""Steps from the outermost inwards. All their index expressions and reshape amounts are opened."""

IDENTITY: Reindexer = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """The location of an element, and the condition under which every truncation keeps it."""

    pairs: Pairs
    kept: Predicate


def stored_at(reindexer: Reindexer, pairs: Pairs = ()) -> Placement:
    """Apply a reindexer to an index structure, which is empty for a scalar."""
    kept_by_all: list[Predicate] = []
    for step in reversed(reindexer):
        match step:
            case Cons(index, extent):
                pairs = ((index, extent), *pairs)
            case TruncateLeft() | TruncateRight():
                position, extent = pairs[0]
                kept_by_all.append(kept(step, extent, position))
                pairs = destination(step, pairs)
            case Transpose() | Flatten() | Split() | PadLeft() | PadRight() | Place():
                pairs = destination(step, pairs)
            case _:
                assert_never(step)
    return Placement(pairs, conjunction(kept_by_all))
