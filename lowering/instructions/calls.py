"""Calls of instructions on CPUs: sums marked `call NAME`, with their operands in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from atl.checks.scope import initial_facts
from atl.core.dtypes import FLOATS
from atl.core.marks import LANES, CallMark
from lowering.instructions.instruction import Instruction
from lowering.instructions.matching import Around, Mismatch, operands_of, refused, sum_at
from lowering.instructions.registry import instruction_named
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, tiles_of
from lowering.targets.legality import NOT_STRICT


def with_calls(nest: ln.LoopNest) -> ln.LoopNest:
    """Add the calls of instructions to the outermost loops that they compute.

    Instructions of a GPU are left to `lowering.gpu`. Raises `IllegalMark` for a sum that its instruction does not
    compute.
    """
    marked = [s for s in ln.statements(nest.body) if isinstance(s, ln.For) and isinstance(s.mark, CallMark)]
    if not marked:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    calls = dict(_Calls(nest, frozenset(tiles_of(nest))).of(nest.body, Around(facts)))
    return replace(nest, body=_with(nest.body, calls))


def _with(block: ln.Block, calls: Mapping[int, ln.For]) -> ln.Block:
    """Replace the loops with these variables by loops with calls."""
    out: list[ln.Statement] = []
    for statement in block:
        if isinstance(statement, ln.For) and statement.variable.uid in calls:
            called = calls[statement.variable.uid]
            if called.body != statement.body:  # it adds to a buffer, not to the variable that the block declares
                return (called,)
            out.append(called)
        elif isinstance(statement, ln.For | ln.If):
            out.append(ln.with_body(statement, _with(statement.body, calls)))
        else:
            out.append(statement)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class _Calls:
    """The calls in a nest, whose buffers `tiles` are in registers."""

    nest: ln.LoopNest
    tiles: Collection[int]

    def of(self, block: ln.Block, around: Around) -> Iterator[tuple[int, ln.For]]:
        """Yield the variable of the outermost loop of each marked sum, and this loop with its call."""
        for statement in block:
            if isinstance(statement, ln.For) and isinstance(statement.mark, CallMark):
                instruction = instruction_named(statement.mark.name)
                if instruction.target != "c":
                    continue  # printers for C refuse it
                try:
                    yield self._matched(statement, instruction, block, around)
                except Mismatch as error:
                    raise refused(self.nest, statement, error) from None
            elif isinstance(statement, ln.For | ln.If):
                yield from self.of(statement.body, around.within(statement))

    def _matched(self, loop: ln.For, instruction: Instruction, block: ln.Block, around: Around) -> tuple[int, ln.For]:
        if self.nest.in_order and instruction.form.sum is not None and instruction.program.dtype in FLOATS:
            raise Mismatch(
                f"{instruction.name} may add and round its floats in another way than the program",
                "no calls that sum floats, because strict code keeps the order of each sum",
                suggestions=(NOT_STRICT,),
            )
        for cell, _ in cells_of(block):
            if cell.buffer.uid in self.tiles:
                raise Mismatch(
                    f"{cell.buffer.name} is in registers, which have no address",
                    f'operands in memory: s.mark("{cell.buffer.name}", "stack")',
                )
        found = sum_at(instruction, loop, block, around)
        lanes = next((each for each in around.loops if each.mark in LANES), None)
        if lanes is not None:
            raise Mismatch(f"the loop {lanes.variable.name} around it is vectorised", "no vectorised loop around it")
        operands = operands_of(instruction, found.nest((), around), lambda _, cell: (cell.address,))
        call = ln.InstructionCall(instruction.name, instruction.text, operands, instruction.requires)
        outermost = found.covered[0] if found.covered else found.direct
        return outermost.variable.uid, replace(outermost, call=call)
