"""Proofs that the keys of a merge are sorted."""

from __future__ import annotations

from atl.core.index import Index, Leaf, index, map_leaves
from atl.core.predicate import Predicate, at_most, less, within
from atl.prove import Answer, Facts, prove
from lowering.nest.aliasing import other_run
from lowering.nest.marked_loops.merges import Finger


def rises(finger: Finger, facts: Facts, *, strict: bool) -> Answer:
    """Try to prove that the keys of a finger increase, or do not decrease."""
    return prove(*rising(finger, facts, strict=strict))


def rising(finger: Finger, facts: Facts, *, strict: bool) -> tuple[Facts, Predicate]:
    """Return the facts about two positions of a finger, the first before the second, and the goal about their keys."""
    loop = finger.loop
    later = other_run(loop.variable)

    def moved(leaf: Leaf) -> Index:
        return later if leaf == loop.variable else index(leaf)

    both = facts.assume(
        loop.range,
        within(loop.low, later, loop.high),
        less(index(loop.variable), later),
    )
    there = map_leaves(finger.key, moved)
    return both, less(finger.key, there) if strict else at_most(finger.key, there)
