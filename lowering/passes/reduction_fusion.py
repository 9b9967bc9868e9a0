"""Loop nests in which what a loop stores is added up by that loop, and not by another one after it.

    for j in 0..m:                      total = 0.0
        power[j] = exp(x[j])            for j in 0..m:
    total = 0.0                   →         power[j] = exp(x[j])
    for j in 0..m:                          total += power[j]
        total += power[j]

The number is in a register then, and a loop is saved that does next to nothing. No compiler does so by itself. Only
loops without a mark are put together, of statements that hold no loops and no tests; and none with a maximum or
minimum, of which C makes vectors only in a loop that does nothing else.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, assert_never

from atl.core.index import Var, index
from atl.core.marks import LoopMark
from atl.core.predicate import TRUE
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Block,
    Cell,
    Clear,
    Declare,
    For,
    Free,
    If,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
    key,
    with_body,
)
from lowering.nest.substitution import at_iteration
from lowering.nest.tiles import cells_of, sources, step, tiles_of
from lowering.passes.simplification import in_a_block

_SUMS: Final = ("add", "sub", "mul")


def with_fused_reductions(nest: LoopNest) -> LoopNest:
    """The loop nest in which a sum over what a loop has just stored is a part of that loop."""
    return replace(nest, body=_block(nest.body, tiles_of(nest).keys()))


def _block(block: Block, tiles: AbstractSet[int]) -> Block:
    out: Block = ()
    for statement in block:
        match statement:
            case For() if out and isinstance(out[-1], Declare):
                joined = _joined(out[:-1], out[-1], statement, tiles)
                out = joined or (*out, _inside(statement, tiles))
            case If(predicate, (Declare() as declared, For() as summing, *rest)) if predicate == TRUE:
                joined = _joined(out, declared, summing, tiles)
                left = in_a_block(_block(tuple(rest), tiles)) if joined else (_inside(statement, tiles),)
                out = (*(joined or out), *left)
            case For() | If() | Assign() | Accumulate() | Declare() | Allocate() | Clear() | Free():
                out = (*out, _inside(statement, tiles))
            case _:
                assert_never(statement)
    return out


def _inside(statement: Statement, tiles: AbstractSet[int]) -> Statement:
    return with_body(statement, _block(statement.body, tiles)) if isinstance(statement, For | If) else statement


def _joined(before: Block, declared: Declare, summing: For, tiles: AbstractSet[int]) -> Block | None:
    """The statements before a sum with the sum in the last loop of them, if it may be there."""
    read = {key(source) for value in _values(summing.body) for source in sources(value) if isinstance(source, Scalar)}
    for at, loop in reversed(tuple(enumerate(before))):
        match loop:
            case For():
                adding = at_iteration(summing, index(loop.variable))
                plain = _is_plain(loop, tiles) and _is_plain(summing, tiles)
                if not (plain and _may_join(loop, declared, summing, adding)):
                    return None
                return (*before[:at], declared, with_body(loop, (*loop.body, *adding)), *before[at + 1 :])
            case Allocate():
                pass  # nobody has stored to it
            case Declare(variable) if key(variable) not in read:
                pass
            case If() | Assign() | Accumulate() | Declare() | Clear() | Free():
                return None
            case _:
                assert_never(loop)
    return None


def _values(block: Block) -> list[ScalarExpr]:
    return [statement.value for statement in block if isinstance(statement, Assign | Accumulate)]


def _is_plain(loop: For, tiles: AbstractSet[int]) -> bool:
    """Whether a loop is of nothing but assignments and sums, and no part of a tile in registers."""
    return (
        loop.mark is LoopMark.NONE
        and all(isinstance(s, Assign) or (isinstance(s, Accumulate) and s.op in _SUMS) for s in loop.body)
        and all(cell.buffer.uid not in tiles for cell, _ in cells_of(loop.body))
    )


def _may_join(loop: For, declared: Declare, summing: For, adding: Block) -> bool:
    """Whether a sum over the same range may be done iteration by iteration with the loop before it.

    It adds to nothing but its variable, and reads of what the loop stores only what the same iteration has stored last.
    """
    targets = [s.target for s in adding if isinstance(s, Accumulate)]
    if (loop.low, loop.high) != (summing.low, summing.high) or len(targets) < len(adding):
        return False
    if not isinstance(declared.initial, Number) or any(target != declared.variable for target in targets):
        return False
    made = {key(s.target) for s in loop.body if isinstance(s, Assign | Accumulate) and isinstance(s.target, Scalar)}
    made.add(key(declared.variable))
    stored = [cell for cell, is_stored in cells_of(loop.body) if is_stored]
    return all(
        key(source) not in made
        if isinstance(source, Scalar)
        else all(_is_own(cell, source, loop.variable) for cell in stored if cell.buffer == source.buffer)
        for value in _values(adding)
        for source in sources(value)
    )


def _is_own(stored: Cell, read: Cell, variable: Var) -> bool:
    """Whether what is read is the very cell that the iteration stores, and no other iteration stores."""
    return stored.pairs == read.pairs and any(step(position, variable) for position, _ in stored.pairs)
