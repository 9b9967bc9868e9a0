"""Workspaces in loops: a scattered row is emptied by the loops that filled it, rather than cleared as a whole.

    for i in 0..n:                                         zeros w[m] at its allocation
        clear w[0..m]                                      for i in 0..n:
        for p in pos[i]..pos[i + 1]:               →           for p in pos[i]..pos[i + 1]:
            w[crd[p]] += val[p]                                    w[crd[p]] += val[p]
        …                                                      …
                                                               for p in pos[i]..pos[i + 1]:
                                                                   clear w[crd[p]]

A sparse row stores few elements of a workspace, and clearing all of them takes time in proportion to its extent. The
second loops store to the same cells as the first ones: ranges, conditions and positions depend on sizes, loop variables
and inputs alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import assert_never

from atl.core.index import ONE, Read, Var, atoms, index
from atl.core.marks import LoopMark
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, stores_to


def with_emptied_workspaces(nest: ln.LoopNest) -> ln.LoopNest:
    """Empty workspaces by the loops that filled them, if all stores are to positions that are read from arrays."""
    cleared = [each.buffer for each in ln.statements(nest.body) if isinstance(each, ln.Clear) and each.zeroed]
    if not cleared:
        return nest
    ids = ln.unused_ids(nest)
    body = nest.body
    for buffer in cleared:
        if cleared.count(buffer) == 1:
            body = _Workspace(buffer, ids).emptied(body)
    return replace(nest, body=body)


@dataclass(frozen=True, slots=True)
class _Workspace:
    """A buffer that is cleared at one place."""

    buffer: ln.Buffer
    ids: Iterator[int]

    def emptied(self, block: ln.Block) -> ln.Block:
        """Return the block with loops that empty the buffer, if it allocates the buffer outside of the loop around."""
        for at, statement in enumerate(block):
            match statement:
                case ln.Allocate(buffer, storage="heap") if buffer == self.buffer and not statement.zeroed:
                    rest = self._within(block[at + 1 :], in_loop=False)
                    return block if rest is None else (*block[:at], replace(statement, zeroed=True), *rest)
                case ln.For(body=body) | ln.If(body=body):
                    made = self.emptied(body)
                    if made is not body:
                        return (*block[:at], ln.with_body(statement, made), *block[at + 1 :])
                case (
                    ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather()
                ):
                    pass
                case _:
                    assert_never(statement)
        return block

    def _within(self, block: ln.Block, *, in_loop: bool) -> ln.Block | None:
        """Return the block with the change made in a loop that follows the allocation; None if nothing changes."""
        for at, statement in enumerate(block):
            match statement:
                case ln.Clear(buffer) if buffer == self.buffer:
                    uses = block[at + 1 :]
                    emptying = self._emptying(uses) if in_loop and statement.row is None else None
                    return None if not emptying else (*block[:at], *uses, *emptying)
                case ln.For(body=body) | ln.If(body=body):
                    made = self._within(body, in_loop=in_loop or isinstance(statement, ln.For))
                    if made is not None:
                        others = (*block[:at], *block[at + 1 :])
                        used = any(cell.buffer == self.buffer for cell, _ in cells_of(others))
                        return None if used else (*block[:at], ln.with_body(statement, made), *block[at + 1 :])
                case (
                    ln.Allocate() | ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Clear() | ln.Free() | ln.Gather()
                ):
                    pass
                case _:
                    assert_never(statement)
        return None

    def _emptying(self, block: ln.Block) -> ln.Block | None:
        """Return loops that store zero to the cells of the buffer that a block stores; None if that takes longer."""
        out: list[ln.Statement] = []
        for statement in block:
            if not stores_to(statement, self.buffer):
                continue
            match statement:
                case ln.For(variable, mark=LoopMark.NONE | LoopMark.UNROLL):
                    body = self._emptying(ln.at_iteration(statement, index(new := Var(next(self.ids), variable.name))))
                    if body is None:
                        return None
                    out.append(ln.For(new, statement.low, statement.high, body, statement.mark, statement.binder))
                case ln.If(predicate, body):
                    inner = self._emptying(body)
                    if inner is None:
                        return None
                    out.append(ln.If(predicate, inner))
                case ln.Accumulate(ln.Cell() as cell) if any(isinstance(atom, Read) for atom in atoms(cell.address)):
                    out.append(ln.Clear(self.buffer, ONE, cell=cell))
                case ln.For() | ln.Assign() | ln.Accumulate():
                    return None
                case ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                    raise AssertionError("the statement does not store to the buffer")
                case _:
                    assert_never(statement)
        return tuple(out)
