"""Calls of instructions on CPUs: sums marked `call NAME`, with their operands in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from atl.checks.scope import initial_facts
from atl.core.marks import LANES, CallMark
from atl.errors import UnsupportedMark
from lowering.instructions.instruction import instruction_named
from lowering.instructions.matching import Around, NoMatch, operands_of, refused, sum_at
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, tiles_of
from lowering.targets.legality import place_of


def with_calls(nest: ln.LoopNest) -> ln.LoopNest:
    """Add the calls of instructions to the outermost loops that they compute.

    Raises `IllegalMark` for a sum that its instruction does not compute, `UnsupportedMark` for an instruction of a GPU.
    """
    marked = [s for s in ln.statements(nest.body) if isinstance(s, ln.For) and isinstance(s.mark, CallMark)]
    if not marked:
        return nest
    facts = initial_facts(nest.assumptions, nest.inputs)
    calls = dict(_Calls(nest, frozenset(tiles_of(nest))).of(nest.body, Around(facts)))
    return replace(nest, body=_with(nest.body, calls))


def _with(block: ln.Block, calls: Mapping[int, ln.Call]) -> ln.Block:
    """Add calls to the loops with these variables."""
    out: list[ln.Statement] = []
    for statement in block:
        if isinstance(statement, ln.For) and statement.variable.uid in calls:
            out.append(replace(statement, call=calls[statement.variable.uid]))
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

    def of(self, block: ln.Block, around: Around) -> Iterator[tuple[int, ln.Call]]:
        """Yield the variable of the outermost loop of each marked sum, and its call."""
        for statement in block:
            if isinstance(statement, ln.For) and isinstance(statement.mark, CallMark):
                try:
                    yield self._matched(statement, statement.mark.name, block, around)
                except NoMatch as error:
                    raise refused(self.nest, statement, error) from None
            elif isinstance(statement, ln.For | ln.If):
                yield from self.of(statement.body, around.within(statement))

    def _matched(self, loop: ln.For, name: str, block: ln.Block, around: Around) -> tuple[int, ln.Call]:
        instruction = instruction_named(name)
        if instruction.target != "c":
            raise UnsupportedMark(
                f"the loop {loop.variable.name} is marked {loop.mark.value}, which C does not have",
                binder=loop.variable.name,
                mark=loop.mark.value,
                place=place_of(self.nest, loop.binder),
                required="an instruction for the target c",
                suggestions=(f'use target="{instruction.target}", which has it',),
            )
        for cell, _ in cells_of(block):
            if cell.buffer.uid in self.tiles:
                raise NoMatch(
                    f"{cell.buffer.name} is in registers, which have no address",
                    f'operands in memory: s.mark("{cell.buffer.name}", "stack")',
                )
        found = sum_at(instruction, loop, block, around)
        lanes = next((each for each in around.loops if each.mark in LANES), None)
        if lanes is not None:
            raise NoMatch(f"the loop {lanes.variable.name} around it is vectorised", "no vectorised loop around it")
        operands = operands_of(instruction, found.nest((), around), lambda cell: (cell.address,))
        text = ln.Call(name, instruction.text, operands, instruction.requires)
        return found.covered[0].variable.uid, text
