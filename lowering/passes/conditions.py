"""Merging of nested conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from atl.core.predicate import TRUE, conjunction
from lowering.nest import loopnest as ln


def with_conditions_joined(nest: ln.LoopNest) -> ln.LoopNest:
    """Replace `if p: if q: s` by `if p and q: s`.

    Two consecutive statements with opposite conditions are kept: they are the two branches of one test.
    """
    return replace(nest, body=_block(nest.body))


def _block(block: ln.Block) -> ln.Block:
    return tuple(_statement(statement, is_branch=_is_branch(block, at)) for at, statement in enumerate(block))


def _is_branch(block: ln.Block, at: int) -> bool:
    """Return whether the statement before or after this one has the opposite condition."""
    statement = block[at]
    return isinstance(statement, ln.If) and (
        (at > 0 and ln.opposite(block[at - 1], statement))
        or (at + 1 < len(block) and ln.opposite(statement, block[at + 1]))
    )


def _statement(statement: ln.Statement, *, is_branch: bool) -> ln.Statement:
    match statement:
        case ln.For(body=body):
            return ln.with_body(statement, _block(body))
        case ln.If(predicate, body):
            while not is_branch and predicate != TRUE and len(body) == 1 and isinstance(body[0], ln.If):
                predicate, body = conjunction((predicate, body[0].predicate)), body[0].body
            return ln.If(predicate, _block(body))
        case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
            return statement
    assert_never(statement)
