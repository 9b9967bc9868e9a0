"""Analysis of merges (co-iteration): the positions whose keys increase strictly."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Var
from atl.prove import Facts, Proved
from lowering.nest.loopnest import Accumulate, Allocate, Assign, Block, Clear, Declare, For, Free, If, LoopNest
from lowering.nest.marked_loops.key_order import rises
from lowering.nest.marked_loops.merges import Merge, fingers_in, is_merge, merge_at


def with_strict_keys(nest: LoopNest) -> LoopNest:
    """Set `strict` of the nest to the positions of merges whose keys are proved to increase strictly.

    At equal keys, a merge advances all these positions together, provided that at most one other position exists.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, strict=frozenset(_strict(nest.body, facts)))


def _strict(block: Block, facts: Facts, fingers: Collection[Var] = ()) -> Iterator[Var]:
    """Yield the strict positions in a block. `fingers` are the variables of the merge around it."""
    for statement in block:
        match statement:
            case For(body=body):
                own = statement.variable not in fingers
                walk = merge_at(statement) if own and is_merge(statement) else None
                within = [each.variable for each in fingers_in(statement)] if own else fingers
                if isinstance(walk, Merge):
                    for finger in walk.fingers:
                        if isinstance(rises(finger, facts, strict=True), Proved):
                            yield finger.variable
                yield from _strict(body, facts.assume(statement.range), within)
            case If(predicate, body):
                yield from _strict(body, facts.assume(predicate), fingers)
            case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                pass
            case _:
                assert_never(statement)
