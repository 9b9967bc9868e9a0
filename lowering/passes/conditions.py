"""Merging of nested conditions."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from atl.core.predicate import TRUE, conjunction
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Statement,
    opposite,
    with_body,
)


def with_conditions_joined(nest: LoopNest) -> LoopNest:
    """Replace `if p: if q: s` by `if p and q: s`.

    Two consecutive statements with opposite conditions are kept: they are the two branches of one test.
    """
    return replace(nest, body=_block(nest.body))


def _block(block: Block) -> Block:
    return tuple(_statement(statement, is_branch=_is_branch(block, at)) for at, statement in enumerate(block))


def _is_branch(block: Block, at: int) -> bool:
    """Return whether the statement before or after this one has the opposite condition."""
    statement = block[at]
    return isinstance(statement, If) and (
        (at > 0 and opposite(block[at - 1], statement)) or (at + 1 < len(block) and opposite(statement, block[at + 1]))
    )


def _statement(statement: Statement, *, is_branch: bool) -> Statement:
    match statement:
        case For(body=body):
            return with_body(statement, _block(body))
        case If(predicate, body):
            while not is_branch and predicate != TRUE and len(body) == 1 and isinstance(body[0], If):
                predicate, body = conjunction((predicate, body[0].predicate)), body[0].body
            return If(predicate, _block(body))
        case Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
            return statement
    assert_never(statement)
