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
from lowering.nest import loopnest as ln
from lowering.nest.substitution import at_iteration
from lowering.nest.tiles import cells_of, sources, step, tiles_of
from lowering.passes.simplification import in_a_block

_SUMS: Final = ("add", "sub", "mul")


def with_fused_reductions(nest: ln.LoopNest) -> ln.LoopNest:
    """Fuse each reduction over values that a preceding loop stores into that loop."""
    return replace(nest, body=_block(nest.body, tiles_of(nest).keys()))


def _block(block: ln.Block, tiles: AbstractSet[int]) -> ln.Block:
    out: ln.Block = ()
    for statement in block:
        match statement:
            case ln.For() if out and isinstance(out[-1], ln.Declare):
                joined = _joined(out[:-1], out[-1], statement, tiles)
                out = joined or (*out, _inside(statement, tiles))
            case ln.If(predicate, (ln.Declare() as declared, ln.For() as summing, *rest)) if predicate == TRUE:
                joined = _joined(out, declared, summing, tiles)
                left = in_a_block(_block(tuple(rest), tiles)) if joined else (_inside(statement, tiles),)
                out = (*(joined or out), *left)
            case (
                ln.For()
                | ln.If()
                | ln.Assign()
                | ln.Accumulate()
                | ln.Declare()
                | ln.Allocate()
                | ln.Clear()
                | ln.Free()
            ):
                out = (*out, _inside(statement, tiles))
            case _:
                assert_never(statement)
    return out


def _inside(statement: ln.Statement, tiles: AbstractSet[int]) -> ln.Statement:
    return (
        ln.with_body(statement, _block(statement.body, tiles)) if isinstance(statement, ln.For | ln.If) else statement
    )


def _joined(before: ln.Block, declared: ln.Declare, summing: ln.For, tiles: AbstractSet[int]) -> ln.Block | None:
    """Fuse a reduction into the last loop of the statements before it, if allowed."""
    read = {
        ln.key(source) for value in _values(summing.body) for source in sources(value) if isinstance(source, ln.Scalar)
    }
    for at, loop in reversed(tuple(enumerate(before))):
        match loop:
            case ln.For():
                adding = at_iteration(summing, index(loop.variable))
                plain = _is_plain(loop, tiles) and _is_plain(summing, tiles)
                if not (plain and _may_join(loop, declared, summing, adding)):
                    return None
                return (*before[:at], declared, ln.with_body(loop, (*loop.body, *adding)), *before[at + 1 :])
            case ln.Allocate():
                pass  # nothing is stored to it yet
            case ln.Declare(variable) if ln.key(variable) not in read:
                pass
            case ln.If() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free():
                return None
            case _:
                assert_never(loop)
    return None


def _values(block: ln.Block) -> list[ln.ScalarExpr]:
    return [statement.value for statement in block if isinstance(statement, ln.Assign | ln.Accumulate)]


def _is_plain(loop: ln.For, tiles: AbstractSet[int]) -> bool:
    """Return whether a loop consists of assignments and accumulations only, and does not access tiles in registers."""
    return (
        loop.mark is LoopMark.NONE
        and all(isinstance(s, ln.Assign) or (isinstance(s, ln.Accumulate) and s.op in _SUMS) for s in loop.body)
        and all(cell.buffer.uid not in tiles for cell, _ in cells_of(loop.body))
    )


def _may_join(loop: ln.For, declared: ln.Declare, summing: ln.For, adding: ln.Block) -> bool:
    """Return whether a reduction over the same range may be fused with the loop before it.

    It must add only to its variable. Of the values that the loop stores, it may read only those that the same iteration
    stored last.
    """
    targets = [s.target for s in adding if isinstance(s, ln.Accumulate)]
    if (loop.low, loop.high) != (summing.low, summing.high) or len(targets) < len(adding):
        return False
    if not isinstance(declared.initial, ln.Number) or any(target != declared.variable for target in targets):
        return False
    made = {
        ln.key(s.target)
        for s in loop.body
        if isinstance(s, ln.Assign | ln.Accumulate) and isinstance(s.target, ln.Scalar)
    }
    made.add(ln.key(declared.variable))
    stored = [cell for cell, is_stored in cells_of(loop.body) if is_stored]
    return all(
        ln.key(source) not in made
        if isinstance(source, ln.Scalar)
        else all(_is_own(cell, source, loop.variable) for cell in stored if cell.buffer == source.buffer)
        for value in _values(adding)
        for source in sources(value)
    )


def _is_own(stored: ln.Cell, read: ln.Cell, variable: Var) -> bool:
    """Return whether the iteration reads the cell that it stores, and no other iteration stores to that cell."""
    return stored.pairs == read.pairs and any(step(position, variable) for position, _ in stored.pairs)
