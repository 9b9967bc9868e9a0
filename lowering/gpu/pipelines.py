"""Software pipelines: loops whose lets in shared memory are filled some iterations ahead, in circular buffers.

A let marked `shared S stages` directly within a loop becomes a circular buffer of S rows, one for each iteration. The
statements that fill it read only memory that the kernel does not change, so they may run earlier:

    for ahead < S - 1: fill row ahead; commit
    wait; barrier
    for y: fill row y + S - 1; commit; the other statements, which read row y; wait; barrier

Rows beyond the last iteration are not filled. Where the fills are asynchronous copies, a row arrives with a wait for
its group (`arrivals`). The loop nest is not changed: in it, the let is computed in the iteration that reads it. So
indices have the bounds of the nest, except y + S - 1, and places in shared memory; both fit where those of the nest do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator
from dataclasses import dataclass, replace
from typing import Final, assert_never

from atl.core.index import ONE, ZERO, Index, Var, constant, index
from atl.core.marks import LoopMark
from atl.core.predicate import less
from lowering.gpu import kernels as kn
from lowering.gpu.registers import refused
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, sources, stores_to

_ARRIVED: Final = "the next row that was filled ahead has arrived"


@dataclass(frozen=True, slots=True)
class Pipeline:
    """A loop with its staged lets: the statements that fill them, and the other statements of an iteration."""

    loop: ln.For
    lets: tuple[ln.Allocate, ...]
    fills: ln.Block
    others: ln.Block

    @property
    def stages(self) -> int:
        """The number of rows of each buffer."""
        return self.lets[0].mark.stages

    def steps(self, ids: Iterator[int], steps_of: Callable[[ln.Block], kn.Steps]) -> kn.Steps:
        """Return the steps of the pipeline; `steps_of` are those of other statements."""
        loop, ahead, more = self.loop, Var(next(ids), "ahead"), constant(self.stages - 1)
        waits = (kn.Wait(self.stages - 1, loop.variable), kn.Barrier(_ARRIVED))

        def fill(row: Index, block: ln.Block) -> tuple[kn.Step, ...]:
            at = loop.low + row
            cleared = tuple(
                ln.Clear(ring, ln.elements(ring.extents[1:]), zeroed=False, row=row) for ring in self._rings
            )
            filled = ln.at_iteration(replace(loop, body=block), at)
            steps = (*cleared, *steps_of(self._in_rings(filled, row)))
            return kn.Branch(less(at, loop.high), steps), kn.Commit()

        row = index(loop.variable) - loop.low
        rest = steps_of(self._in_rings(tuple(s for s in self.others if not self._frees(s)), row))
        return (
            *(
                replace(let, buffer=ring, capacity=let.capacity * self.stages)
                for let, ring in zip(self.lets, self._rings, strict=True)
            ),
            kn.Repeat(ahead, ZERO, more, fill(index(ahead), _with_other_variables(self.fills, ids))),
            *waits,
            kn.Repeat(loop.variable, loop.low, loop.high, (*fill(row + more, self.fills), *rest, *waits), loop.mark),
            *(s for s in self.others if isinstance(s, ln.Free) and self._frees(s)),
        )

    @property
    def _rings(self) -> tuple[ln.Buffer, ...]:
        """The circular buffers, with a row for each iteration."""
        count = self.loop.high - self.loop.low
        return tuple(
            replace(let.buffer, extents=(count, *(e for e in let.buffer.extents if e != ONE)), rows=self.stages)
            for let in self.lets
        )

    def _in_rings(self, block: ln.Block, row: Index) -> ln.Block:
        count = self.loop.high - self.loop.low
        for let, ring in zip(self.lets, self._rings, strict=True):
            block = ln.in_rows(block, let.buffer, ring, ((row, count),))
        return block

    def _frees(self, statement: ln.Statement) -> bool:
        return isinstance(statement, ln.Free) and any(statement.buffer == let.buffer for let in self.lets)


def pipeline_of(nest: ln.LoopNest, loop: ln.For, changed: Collection[Hashable]) -> Pipeline | None:
    """Return the pipeline of a loop, or None if no let directly within it is staged.

    `changed` are the keys of the storage that the kernel changes. Raises `IllegalMark`.
    """
    lets = tuple(s for s in loop.body if isinstance(s, ln.Allocate) and s.mark.stages > 1)
    if not lets:
        return None
    name = loop.variable.name
    for let in lets:
        if let.mark is not lets[0].mark:
            required = f"the same number of stages as {lets[0].buffer.name}"
            raise refused(nest, let, f"{lets[0].buffer.name} is marked {lets[0].mark.value}", required)
        if let.zeroed:
            summary = "some of its elements are not stored, or not proved to be, so all are zeroed first"
            raise refused(nest, let, summary, "one statement that stores each element, or a zero")
        if loop.mark not in (LoopMark.NONE, LoopMark.UNROLL):
            summary = f"the loop {name} around it is marked {loop.mark.value}"
            raise refused(nest, let, summary, "a sequential loop directly around the let")
    fills = tuple(s for s in loop.body if any(stores_to(s, let.buffer) for let in lets))
    for fill in fills:
        let = next(let for let in lets if stores_to(fill, let.buffer))
        reason = _dependence(fill, {let.buffer for let in lets}, changed)
        if reason is not None:
            required = (
                f"statements that read only memory that the kernel does not change: they run ahead of the loop {name}"
            )
            raise refused(nest, let, reason, required)
    others = tuple(s for s in loop.body if s not in lets and s not in fills)
    return Pipeline(loop, lets, fills, others)


def _dependence(fill: ln.Statement, own: Collection[ln.Buffer], changed: Collection[Hashable]) -> str | None:
    """Return the reason why a statement cannot run in an earlier iteration, if any."""
    declared = {s.variable for s in ln.statements((fill,)) if isinstance(s, ln.Declare)}
    for statement in ln.statements((fill,)):
        if isinstance(statement, ln.Allocate):
            return f"the statement that fills it needs the buffer {statement.buffer.name}"
    for scalar in _scalars((fill,)):
        if scalar not in declared:
            return f"the statement that fills it uses the scalar {scalar.name}"
    for cell, stored in cells_of((fill,)):
        if stored and cell.buffer not in own:
            return f"the statement that fills it also stores to {cell.buffer.name}"
        if not stored and ln.key(cell.buffer) in changed:
            return f"the statement that fills it reads {cell.buffer.name}, which the kernel changes"
    return None


def _scalars(block: ln.Block) -> Iterator[ln.Scalar]:
    """Yield the scalar variables that statements read or store to."""
    for statement in ln.statements(block):
        match statement:
            case ln.Assign(target, value) | ln.Accumulate(target, _, value):
                yield from (each for each in (target, *sources(value)) if isinstance(each, ln.Scalar))
            case ln.Declare(_, initial):
                yield from (each for each in sources(initial) if isinstance(each, ln.Scalar))
            case ln.For() | ln.If() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                pass
            case _:
                assert_never(statement)


def _with_other_variables(block: ln.Block, ids: Iterator[int]) -> ln.Block:
    """Return the statements with other loop variables: a variable is unique in a kernel."""
    out: list[ln.Statement] = []
    for statement in block:
        match statement:
            case ln.For(variable):
                other = Var(next(ids), variable.name)
                body = _with_other_variables(ln.at_iteration(statement, index(other)), ids)
                out.append(replace(statement, variable=other, body=body))
            case ln.If(predicate, body):
                out.append(ln.If(predicate, _with_other_variables(body, ids)))
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather():
                out.append(statement)
            case _:
                assert_never(statement)
    return tuple(out)


def changed_in(block: ln.Block) -> frozenset[Hashable]:
    """Return the keys of the buffers that statements store to."""
    return frozenset(ln.key(cell.buffer) for cell, stored in cells_of(block) if stored)
