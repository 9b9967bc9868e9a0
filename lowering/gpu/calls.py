"""Calls of instructions by warps: sums marked `call NAME` in a kernel, with their operands in registers of the warp."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import assert_never

from atl.core.index import Index, index
from atl.core.marks import THREADS, CallMark, LoopMark
from atl.core.predicate import equal, expressions
from atl.prove import Facts, proves
from lowering.gpu import kernels as kn
from lowering.instructions.instruction import Instruction
from lowering.instructions.matching import Around, Locate, Mismatch, operands_of, refused, sum_at
from lowering.instructions.registry import instruction_named
from lowering.nest import loopnest as ln


@dataclass(frozen=True, slots=True)
class Calls:
    """The calls in a launch with blocks of `extents` threads."""

    nest: ln.LoopNest
    memories: Mapping[int, kn.Memory]
    extents: kn.Extents

    def of(self, steps: kn.Steps, facts: Facts) -> dict[int, ln.InstructionCall]:
        """Map the `uid` of the variable of each outermost covered loop to its call. Raises `IllegalMark`."""
        return dict(self._in_steps(steps, Around(facts)))

    def _in_steps(self, steps: kn.Steps, around: Around) -> Iterator[tuple[int, ln.InstructionCall]]:
        for step in steps:
            match step:
                case kn.Run(statement):
                    yield from self._in_block((statement,), around)
                case kn.Repeat(body=body):
                    yield from self._in_steps(body, replace(around, facts=around.facts.assume(step.range)))
                case kn.Branch(predicate, body):
                    yield from self._in_steps(body, replace(around, facts=around.facts.assume(predicate)))
                case kn.Barrier() | kn.Commit() | kn.Wait() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free():
                    pass
                case _:
                    assert_never(step)

    def _in_block(self, block: ln.Block, around: Around) -> Iterator[tuple[int, ln.InstructionCall]]:
        for statement in block:
            match statement:
                case ln.For(mark=CallMark(name)):
                    yield self._call(statement, block, name, around)
                case ln.For(body=body) | ln.If(body=body):
                    yield from self._in_block(body, around.within(statement))
                case (
                    ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Allocate() | ln.Clear() | ln.Free() | ln.Gather()
                ):
                    pass
                case _:
                    assert_never(statement)

    def _call(self, loop: ln.For, block: ln.Block, name: str, around: Around) -> tuple[int, ln.InstructionCall]:
        try:
            return self._matched(_of_warp(name), loop, block, around)
        except Mismatch as error:
            raise refused(self.nest, loop, error) from None

    def _matched(
        self, instruction: Instruction, loop: ln.For, block: ln.Block, around: Around
    ) -> tuple[int, ln.InstructionCall]:
        found = sum_at(instruction, loop, block, around)
        lanes = self._lanes(instruction, around, found.covered)
        _check_together(instruction, lanes, around)
        nest = found.nest(lanes, around)
        operands = operands_of(instruction, nest, self._locate(instruction, around, nest.facts))
        return found.covered[0].variable.uid, ln.InstructionCall(
            instruction.name, instruction.text, operands, instruction.requires
        )

    def _lanes(self, instruction: Instruction, around: Around, covered: tuple[ln.For, ...]) -> tuple[ln.For, ...]:
        """Return the loops over the lanes. Raises `Mismatch` unless they are the threads of a whole warp."""
        axes = _axes(instruction)
        names = " and ".join(kn.AXES[axis] for axis in axes)
        whole = tuple(self.extents[axis] for axis in axes)
        if whole != instruction.lanes or prod(whole) != kn.WARP:
            raise Mismatch(
                f"a block has {' × '.join(map(str, whole))} threads along {names}",
                f"{' × '.join(map(str, instruction.lanes))} threads along {names}, which are a warp",
            )
        found = {loop.mark: loop for loop in around.loops if loop not in covered}
        missing = next((THREADS[axis] for axis in axes if THREADS[axis] not in found), None)
        if missing is not None:
            raise _outside_of(instruction, missing)
        return tuple(found[THREADS[axis]] for axis in axes)

    def _locate(self, instruction: Instruction, around: Around, facts: Facts) -> Locate:
        """Return the function from operands to lanes and registers. It raises `Mismatch` for cells elsewhere."""
        threads = {kn.axis_of(loop.mark): index(loop.variable) - loop.low for loop in around.loops}
        axes = _axes(instruction)

        def locate(name: str, cell: ln.Cell) -> tuple[Index, ...]:
            where = self.memories.get(cell.buffer.uid, "global")
            if name in instruction.rows_in_memory or name in instruction.rows_of_lanes:
                if where != "shared":
                    raise Mismatch(f"{cell.buffer.name} is not in shared memory", "rows in shared memory")
                return (cell.address,)
            if not isinstance(where, kn.Distributed):
                raise Mismatch(f"{cell.buffer.name} is not in registers", "operands in registers of the warp")
            owners: dict[int, Index] = {}
            pairs: list[tuple[Index, Index]] = []
            for (position, _), share, extent in zip(cell.pairs, where.shares, where.extents, strict=True):
                local = position
                if share is not None:
                    owners[share.axis] = kn.owner(position, share)
                    local = kn.local_position(position, share, owners[share.axis])
                pairs.append((local, index(extent)))
            for axis, owner in owners.items():
                if axis not in axes and (axis not in threads or not proves(facts, equal(owner, threads[axis]))):
                    raise Mismatch(
                        f"{cell.buffer.name} is in registers of the threads {owner} along {kn.AXES[axis]}",
                        f"operands in registers of the same warp: {threads.get(axis, 'a loop of threads around it')}",
                    )
            missing = next((axis for axis in axes if axis not in owners), None)
            if missing is not None:
                raise Mismatch(
                    f"{cell.buffer.name} is the same in all threads along {kn.AXES[missing]}",
                    "operands that are distributed over the lanes",
                )
            return (*(owners[axis] for axis in axes), ln.flat(tuple(pairs)))

        return locate


def check_not_called(nest: ln.LoopNest, loop: ln.For) -> None:
    """Raise `IllegalMark` if a loop outside of all loops of threads is marked with an instruction."""
    if isinstance(loop.mark, CallMark):
        try:
            instruction = _of_warp(loop.mark.name)
            raise _outside_of(instruction, THREADS[_axes(instruction)[0]])
        except Mismatch as error:
            raise refused(nest, loop, error) from None


def _of_warp(name: str) -> Instruction:
    """Return an instruction of a warp. Raises `UnknownMark`, and `Mismatch` for other instructions."""
    instruction = instruction_named(name)
    if instruction.target != "cuda" or not instruction.lanes:
        raise Mismatch(f"{name} is not an instruction of a warp", "an instruction for cuda with lanes")
    return instruction


def _outside_of(instruction: Instruction, mark: LoopMark) -> Mismatch:
    names = " and ".join(kn.AXES[axis] for axis in _axes(instruction))
    return Mismatch(f"no loop around it is marked {mark.value}", f"loops over the threads along {names} around it")


def _axes(instruction: Instruction) -> tuple[int, ...]:
    """Return the axes of an instruction's lanes: y and x, or x."""
    return tuple(reversed(range(len(instruction.lanes))))


def _check_together(instruction: Instruction, lanes: tuple[ln.For, ...], around: Around) -> None:
    """Raise `Mismatch` unless all lanes of a warp reach the call together: nothing around it depends on a lane."""
    ranges = [(f"the range of {loop.variable.name}", (loop.low, loop.high)) for loop in around.loops]
    branches = [("a condition around it", tuple(expressions(predicate))) for predicate in around.branches]
    for what, evaluated in (*ranges, *branches):
        for lane in lanes:
            if any(lane.variable.uid in e.free for e in evaluated):
                raise Mismatch(
                    f"{what} depends on the lane {lane.variable.name}",
                    f"ranges and conditions that do not: all lanes of a warp execute {instruction.name} together",
                )
