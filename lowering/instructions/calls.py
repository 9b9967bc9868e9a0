"""Calls of instructions on CPUs: sums marked `call NAME`, with their operands in memory."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from dataclasses import dataclass, replace

from atl.checks.scope import initial_facts
from atl.core.dtypes import FLOATS
from atl.core.index import Var
from atl.core.marks import LANES, CallMark, LoopMark
from lowering.instructions.instruction import Instruction
from lowering.instructions.matching import Around, Mismatch, operands_of, refused, sum_at
from lowering.instructions.registry import definition_of, instruction_named
from lowering.instructions.sized import marked_loops, place_of_call, sized_call
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells_of, tiles_of
from lowering.targets.legality import NOT_STRICT


def with_calls(nest: ln.LoopNest) -> ln.LoopNest:
    """Add the calls of instructions to the outermost loops that they compute.

    Instructions of a GPU are left to `lowering.gpu`. Raises `IllegalMark` for a sum that its instruction does not
    compute.
    """
    calls: dict[int, Placed] = {}
    for loop, name, block, around in marked_loops(nest.body, Around(initial_facts(nest.assumptions, nest.inputs))):
        instruction = instruction_named(name)
        if instruction.target != "c":
            continue  # printers for C refuse it
        try:
            placed = Calls(nest, frozenset(tiles_of(nest))).matched(instruction, loop, block, around)
        except Mismatch as error:
            raise refused(nest, loop, error) from None
        calls[placed.variable.uid] = placed
    return replace(nest, body=_with(nest.body, calls))


def without_calls(nest: ln.LoopNest, buffers: Collection[Hashable]) -> ln.LoopNest:
    """Remove the calls with an operand in storage with one of these keys. Their loops remain, without the marks."""

    def changed(block: ln.Block, *, unmark: bool) -> ln.Block:
        out: list[ln.Statement] = []
        for statement in block:
            if isinstance(statement, ln.For):
                call = statement.call
                removes = call is not None and any(ln.key(operand.buffer) in buffers for operand in call.operands)
                within = ln.with_body(statement, changed(statement.body, unmark=unmark or removes))
                if removes:
                    within = replace(within, call=None)
                if (unmark or removes) and isinstance(statement.mark, CallMark):
                    within = replace(within, mark=LoopMark.NONE)
                out.append(within)
            elif isinstance(statement, ln.If):
                out.append(ln.with_body(statement, changed(statement.body, unmark=unmark)))
            else:
                out.append(statement)
        return tuple(out)

    return replace(nest, body=changed(nest.body, unmark=False))


def libraries_of(nest: ln.LoopNest) -> tuple[str, ...]:
    """Return the names of the libraries that the calls of a nest need."""
    calls = [s.call for s in ln.statements(nest.body) if isinstance(s, ln.For) and s.call is not None]
    return tuple(dict.fromkeys(library for call in calls for library in call.libraries))


@dataclass(frozen=True, slots=True)
class Placed:
    """Loops with a call. `block` replaces the loop of this variable and its neighbours.

    These are the number `before` of statements before it, and the number `after` of statements after it.
    """

    variable: Var
    block: ln.Block
    before: int = 0
    after: int = 0


def _with(block: ln.Block, calls: Mapping[int, Placed]) -> ln.Block:
    """Replace the loops with these variables by loops with calls."""
    out: list[ln.Statement] = []
    skipped = 0
    for statement in block:
        if skipped:
            skipped -= 1
        elif isinstance(statement, ln.For) and statement.variable.uid in calls:
            placed = calls[statement.variable.uid]
            out[len(out) - placed.before :] = placed.block
            skipped = placed.after
        elif isinstance(statement, ln.For | ln.If):
            out.append(ln.with_body(statement, _with(statement.body, calls)))
        else:
            out.append(statement)
    return tuple(out)


@dataclass(frozen=True, slots=True)
class Calls:
    """Matching of instructions in a nest, whose buffers `tiles` are in registers."""

    nest: ln.LoopNest
    tiles: Collection[int]

    def matched(self, instruction: Instruction, loop: ln.For, block: ln.Block, around: Around) -> Placed:
        """Return the loops of a marked sum or copy with the call of an instruction. Raises `Mismatch`."""
        self._check_storage(instruction, block)
        lanes = next((each for each in around.loops if each.mark in LANES), None)
        if lanes is not None:
            raise Mismatch(f"the loop {lanes.variable.name} around it is vectorised", "no vectorised loop around it")
        if instruction.is_sized:
            return _sized(instruction, loop, block, around)
        found = sum_at(instruction, loop, block, around)
        operands = operands_of(instruction, found.nest((), around), lambda _, cell: (cell.address,))
        call = ln.InstructionCall(instruction.name, definition_of(instruction), operands, instruction.requires)
        if found.covered:
            return Placed(found.covered[0].variable, (replace(found.covered[0], call=call),))
        direct = replace(found.direct, call=call)
        declared = direct.body != loop.body  # it adds to a buffer, not to the variable that the block declares
        return Placed(direct.variable, (direct,), int(declared), int(declared))

    def _check_storage(self, instruction: Instruction, block: ln.Block) -> None:
        form = instruction.form
        if self.nest.in_order and form.kind != "copies" and instruction.program.dtype in FLOATS:
            raise Mismatch(
                f"{instruction.name} may add and round its floats in another way than the program",
                "no calls that compute floats, because strict code keeps the order of each sum",
                suggestions=(NOT_STRICT,),
            )
        for cell, _ in cells_of(block):
            if cell.buffer.uid in self.tiles:
                raise Mismatch(
                    f"{cell.buffer.name} is in registers, which have no address",
                    f'operands in memory: s.mark("{cell.buffer.name}", "stack")',
                )
            if self.nest.assembly is not None and ln.key(cell.buffer) == ln.key(self.nest.output):
                raise Mismatch(
                    f"the result {cell.buffer.name} is assembled: only its entries are stored", "a dense result"
                )


def _sized(instruction: Instruction, loop: ln.For, block: ln.Block, around: Around) -> Placed:
    place = place_of_call(instruction, loop, block, around)
    inside = around if place.loop is not None else around.within(loop)
    outside = inside.outwards(len(place.covered))
    made = place.with_call(sized_call(instruction, place, outside.facts))
    if place.covered:
        return Placed(place.covered[0].variable, made)
    at = block.index(loop)
    return Placed(loop.variable, made, at - place.first, place.last - at)
