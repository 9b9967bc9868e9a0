"""Fusion of a reduction into the loop that computes its terms.

    for j in 0..m:                      total = 0.0
        power[j] = exp(x[j])            for j in 0..m:
    total = 0.0                   →         power[j] = exp(x[j])
    for j in 0..m:                          total += power[j]
        total += power[j]

The term is then still in a register, and a loop is saved. Compilers do not do this by themselves. Only unmarked loops
over plain assignments and accumulations are fused. Reductions by maximum or minimum are not, because C compilers
vectorise them only in a loop that does nothing else.
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
    """Fuse each reduction over values that a preceding loop stores into that loop."""
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
    """Fuse a reduction into the last loop of the statements before it, if allowed."""
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
                pass  # nothing is stored to it yet
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
    """Return whether a loop consists of assignments and accumulations only, and does not access tiles in registers."""
    return (
        loop.mark is LoopMark.NONE
        and all(isinstance(s, Assign) or (isinstance(s, Accumulate) and s.op in _SUMS) for s in loop.body)
        and all(cell.buffer.uid not in tiles for cell, _ in cells_of(loop.body))
    )


def _may_join(loop: For, declared: Declare, summing: For, adding: Block) -> bool:
    """Return whether a reduction over the same range may be fused with the loop before it.

    It must add only to its variable. Of the values that the loop stores, it may read only those that the same iteration
    stored last.
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
    """Return whether the iteration reads the cell that it stores, and no other iteration stores to that cell."""
    return stored.pairs == read.pairs and any(step(position, variable) for position, _ in stored.pairs)
