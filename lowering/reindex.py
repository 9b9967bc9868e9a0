"""Reindexers (Fig. 4.5 as corrected by E1–E3): where a tensor's elements are stored, as a function of index structures.

A reindexer is kept as the list of steps that lowering met on its way down. Applied to the index structure of an
element, it takes the steps from the innermost out: each is a function from a list of (index, extent) pairs to such a
list.
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
    """A generation: it puts its index, counted from its lower bound, in front."""

    index: Index
    extent: Index


Step: TypeAlias = Cons | ReshapeOp
Reindexer: TypeAlias = tuple[Step, ...]
"""Steps from the outermost in. All index expressions in it are opened; amounts of reshapes too."""

IDENTITY: Reindexer = ()


@dataclass(frozen=True, slots=True)
class Placement:
    """Where an element goes, and the condition under which every truncation on the way keeps it."""

    pairs: Pairs
    kept: Predicate


def stored_at(reindexer: Reindexer, pairs: Pairs = ()) -> Placement:
    """The reindexer applied to an index structure; that of a scalar is empty."""
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
