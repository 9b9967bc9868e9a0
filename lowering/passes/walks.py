"""Which keys of merges rise strictly."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import assert_never

from atl.checks.scope import initial_facts
from atl.core.index import Var
from atl.prove import Facts, Proved
from lowering.nest.loopnest import Accumulate, Allocate, Assign, Block, Clear, Declare, For, Free, If, LoopNest
from lowering.nest.walks.merges import Merge, fingers_in, is_merge, merge_at
from lowering.nest.walks.order import rises


def with_strict_keys(nest: LoopNest) -> LoopNest:
    """The loop nest whose `strict` has the positions of merges at which the keys are proved to rise strictly.

    Where keys are equal a merge goes on with all of them at once, if there is at most one other finger.
    """
    facts = initial_facts(nest.assumptions, nest.inputs)
    return replace(nest, strict=frozenset(_strict(nest.body, facts)))


def _strict(block: Block, facts: Facts, fingers: Collection[Var] = ()) -> Iterator[Var]:
    """The positions in a block; `fingers` are the loops of the merge that it stands in, which are none of their own."""
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
