"""From a loop nest to one for the systolic core: its inner loops become instructions, or are refused.

The core has no loops over elements. A host issues the instructions; its loops and conditions are over tiles. A copy
with zeros in place of padding becomes a `Clear` of its buffer, and a copy of the other elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from atl.checks.scope import initial_facts
from atl.core.index import ONE, ZERO, Var, constant, imax, imin, index
from atl.core.marks import LetMark, LoopMark
from atl.core.predicate import TRUE, Predicate, at_most, conjunction, conjuncts, expressions
from atl.errors import NoInstruction
from atl.prove import Facts, proves, simplify
from atl.text.printing import show_index, show_predicate
from lowering.instructions.instruction import OUT, Instruction
from lowering.instructions.matching import Mismatch
from lowering.instructions.registry import instructions
from lowering.instructions.sized import Place, sized_call
from lowering.instructions.systolic import MEMORIES, TARGET, CoreMemory
from lowering.nest import loopnest as ln
from lowering.nest.tiles import cells
from lowering.passes.control_flow import bounds_of

Leaf: TypeAlias = ln.Assign | ln.Accumulate


@dataclass(frozen=True, slots=True)
class Tile:
    """The place of a buffer: its memory, its first element in each partition, and the length of its rows."""

    memory: LetMark
    first: int
    width: int


@dataclass(frozen=True, slots=True)
class CoreNest:
    """A nest whose loops with a `call` are instructions; other loops run on the host. `tiles` are by number of buffer.

    The loops of an instruction remain in the nest, which computes the same.
    """

    nest: ln.LoopNest
    tiles: Mapping[int, Tile]
    instructions: Mapping[str, Instruction]

    @property
    def memories(self) -> dict[LetMark, CoreMemory]:
        """The parts of the memories that are used."""
        return {
            mark: replace(
                memory, elements=max((t.first + t.width for t in self.tiles.values() if t.memory is mark), default=0)
            )
            for mark, memory in MEMORIES.items()
        }


def core_nest(nest: ln.LoopNest) -> CoreNest:
    """Return the nest with an instruction in place of each inner loop. Raises `NoInstruction`."""
    lowering = _Lowering(nest)
    body = lowering.block(nest.body, initial_facts(nest.assumptions, nest.inputs))
    return CoreNest(replace(nest, body=body), lowering.tiles, lowering.known)


@dataclass(slots=True)
class _Lowering:
    nest: ln.LoopNest
    tiles: dict[int, Tile] = field(default_factory=dict)
    used: dict[LetMark, int] = field(default_factory=lambda: dict.fromkeys(MEMORIES, 0))
    # Own instructions first, which are declared later.
    known: Mapping[str, Instruction] = field(
        default_factory=lambda: {n: each for n, each in reversed([*instructions().items()]) if each.target == TARGET}
    )

    def block(self, block: ln.Block, facts: Facts) -> ln.Block:
        """Lower a block, at whose end its buffers are freed."""
        before = dict(self.used)
        found: list[ln.Statement] = []
        for statement in block:
            for each in self._statement(statement, facts):
                last = found[-1] if found else None
                if not (isinstance(each, ln.Clear) and isinstance(last, ln.Clear) and last.buffer == each.buffer):
                    found.append(each)
        self.used = before
        return tuple(found)

    def _statement(self, statement: ln.Statement, facts: Facts) -> Iterator[ln.Statement]:
        match statement:
            case ln.For():
                inner = _inner(statement)
                if inner is not None and len(inner.loops) <= self._most_loops(inner):
                    yield from self._instruction(inner, facts)
                else:
                    yield replace(statement, body=self.block(statement.body, facts.assume(statement.range)))
            case ln.If(predicate, body):
                yield ln.If(predicate, self.block(body, facts.assume(predicate)))
            case ln.Allocate():
                self.tiles[statement.buffer.uid] = self._tile(statement)
                yield replace(statement, zeroed=False)
                if statement.zeroed:
                    yield ln.Clear(statement.buffer, statement.capacity)
            case ln.Clear():
                if statement.zeroed:
                    yield statement
            case ln.Free():
                yield statement
            case ln.Assign() | ln.Accumulate() | ln.Declare() | ln.Gather():
                raise NoInstruction(
                    f"{self.nest.name} computes a scalar",
                    required="copies of tiles, and sums that are added to tiles",
                    suggestions=('s.accumulate("p", at=…) adds the sums of a tile in a let',),
                )

    def _most_loops(self, inner: _Inner) -> int:
        """Return the number of loops of the largest instruction that may compute these."""
        return max(len(_loops(each)) for each in self._candidates(inner))

    def _tile(self, statement: ln.Allocate) -> Tile:
        buffer, mark = statement.buffer, statement.mark
        if mark not in MEMORIES:
            raise NoInstruction(
                f"the let {buffer.name} is in no memory of the core",
                required=f"a mark: {' or '.join(each.value for each in MEMORIES)}",
                suggestions=(f's.mark("{buffer.name}", "{LetMark.SCRATCHPAD.value}")',),
            )
        memory, first = MEMORIES[mark], self.used[mark]
        rows, *rest = (extent.constant for extent in buffer.extents)
        width = 1
        for extent in rest:
            width *= 0 if extent is None else extent
        if buffer.dtype != "float32" or rows is None or not 0 < rows <= memory.partitions or width < 2 or not rest:
            shape = ", ".join(map(show_index, buffer.extents))
            raise NoInstruction(
                f"the let {buffer.name} has the shape [{shape}] of {buffer.dtype}",
                required=f"a constant shape of float32: at most {memory.partitions} partitions of 2 elements or more",
                suggestions=("choose smaller tiles",),
            )
        if first + width > memory.elements:
            raise NoInstruction(
                f"the let {buffer.name} does not fit in the {mark.value}",
                required=f"at most {memory.elements} elements of float32 in each partition; {first} are in use, and "
                f"it has {width}",
                suggestions=("choose smaller tiles",),
            )
        self.used[mark] = first + width
        return Tile(mark, first, width)

    # -- instructions -------------------------------------------------------------------------------------------------

    def _memory(self, cell: ln.Cell) -> LetMark | None:
        tile = self.tiles.get(cell.buffer.storage.uid)
        return None if tile is None else tile.memory

    def _candidates(self, inner: _Inner) -> list[Instruction]:
        """Return the instructions for operands in these memories. Raises `NoInstruction`."""
        is_sum = isinstance(inner.leaf, ln.Accumulate)
        read = sorted(str(self._memory(cell)) for cell in cells(inner.value))
        found = [
            each
            for each in self.known.values()
            if (each.form.sum is not None) == is_sum
            and each.memory(OUT) == self._memory(inner.target)
            and sorted(str(each.memory(cell.buffer.name)) for cell in cells(each.form.term)) == read
        ]
        if not found:
            raise NoInstruction(
                f"no instruction of the core {'adds to' if is_sum else 'stores in'} {self._where(inner.target)} from "
                f"{' and '.join(dict.fromkeys(map(self._where, cells(inner.value)))) or 'numbers'}",
                required="one of these\n" + "\n".join(map(_described, self.known.values())),
                suggestions=(
                    's.pack("A", at=…) and s.accumulate("p", at=…) make lets of operands and sums, which are marked',
                ),
            )
        return found

    def _where(self, cell: ln.Cell) -> str:
        memory = self._memory(cell)
        return f"{cell.buffer.name} in the {'main memory' if memory is None else memory.value}"

    def _instruction(self, inner: _Inner, facts: Facts) -> Iterator[ln.Statement]:
        outer, loops = self._tightened(inner, facts)
        facts = facts.assume(*outer)
        found: list[tuple[str, Mismatch]] = []
        for instruction in self._candidates(inner):
            try:
                call = self._matched(instruction, inner, loops, facts)
            except Mismatch as error:
                found.append((instruction.name, error))
                continue
            block: ln.Block = (replace(inner.leaf, value=inner.value),)
            for loop in reversed(loops):
                block = (replace(loop, body=block),)
            (whole,) = block
            assert isinstance(whole, ln.For)
            whole = replace(whole, call=call)
            if inner.zeros:
                yield self._cleared(inner)
            yield whole if not outer else ln.If(conjunction(outer), (whole,))
            return
        (_, first), *others = found
        also = "".join(f"\n{name}: {error.summary}; required: {error.required}" for name, error in others)
        raise NoInstruction(
            first.summary,
            required=f"{first.required}{also}",
            numbers=first.numbers,
            suggestions=tuple(dict.fromkeys(each for _, error in found for each in error.suggestions)),
        )

    def _tightened(self, inner: _Inner, facts: Facts) -> tuple[list[Predicate], list[ln.For]]:
        """Return the conditions that depend on no loop, and the loops, whose bounds express the others."""
        loops, outer = list(inner.loops), list[Predicate]()
        for condition in inner.conditions:
            free = frozenset().union(*(each.free for each in expressions(condition)))
            depends = [at for at, loop in enumerate(loops) if loop.variable.uid in free]
            if not depends:
                outer.append(condition)
                continue
            low, high = bounds_of(facts, loops[depends[0]], condition) if len(depends) == 1 else ([], [])
            if not low and not high:
                raise NoInstruction(
                    f"the copy to {inner.target.buffer.name} has the condition {show_predicate(condition)}",
                    required="conditions that limit the range of one loop",
                )
            loop = loops[depends[0]]
            loops[depends[0]] = replace(
                loop, low=simplify(facts, imax(loop.low, *low)), high=simplify(facts, imin(loop.high, *high))
            )
        return outer, loops

    def _cleared(self, inner: _Inner) -> ln.Clear:
        """Return the clearing of a buffer whose padding a copy stores. The copy must store all of its elements."""
        buffer = inner.target.buffer
        variables = {position.atom: loop for loop in inner.loops for position in (index(loop.variable),)}
        whole = len(inner.target.pairs) == len(inner.loops) and all(
            position.atom in variables
            and variables[position.atom].low == ZERO
            and variables[position.atom].high == extent
            for position, extent in inner.target.pairs
        )
        if not whole or any(condition not in inner.zeros for condition in inner.conditions):
            raise NoInstruction(
                f"the copy to {buffer.name} stores zeros to a part of it", required="a copy of all elements of a let"
            )
        count = ONE
        for extent in buffer.extents:
            count = count * extent
        return ln.Clear(buffer, count)

    def _matched(
        self, instruction: Instruction, inner: _Inner, loops: list[ln.For], facts: Facts
    ) -> ln.InstructionCall:
        """Return the call for these loops. Raises `Mismatch`."""
        summed = [loop for loop in loops if loop.variable.uid not in inner.target.address.free]
        covered = tuple(loop for loop in loops if loop not in summed)
        if len(summed) != (instruction.form.sum is not None) or len(covered) != len(instruction.form.loops):
            raise Mismatch(
                f"{inner.target.buffer.name} is computed by {len(covered)} loops and {len(summed)} sums",
                f"{instruction.program}, with sizes that are not constants below 2",
            )
        inside = facts.assume(*(loop.range for loop in loops))
        adds = instruction.form.sum is not None
        if adds and _adds_over_partitions(instruction):
            self._check_partitions(instruction, inner, loops, summed[0].variable)
        place = Place((), 0, 0, summed[0] if adds else None, inner.value, inner.target, adds, covered, inside)
        call = sized_call(instruction, place, facts)
        names = (OUT, *(array.name for array in instruction.program.inputs))
        for name, operand in zip(names, call.operands, strict=True):
            tile = self.tiles.get(operand.buffer.storage.uid)
            if instruction.memory(name) is not (None if tile is None else tile.memory):
                raise Mismatch(
                    f"the operand {name} of {instruction.name} is "
                    f"{operand.buffer.name} in the {'main memory' if tile is None else tile.memory.value}",
                    f"an operand in the {instruction.memories.get(name, 'main memory')}",
                )
        for operand, cell in self._operands(inner, call):
            width = constant(self.tiles[operand.buffer.storage.uid].width)
            along = [loop.variable for loop in loops if loop.variable.uid in cell.pairs[0][0].free]
            rest = cell.pairs[0][0] - (index(along[0]) if along else ZERO)
            if len(along) != 1 or rest.free & {loop.variable.uid for loop in loops} or operand.strides[0] != width:
                raise Mismatch(
                    f"the partitions of {cell.buffer.name} are its elements [{show_index(cell.pairs[0][0])}]",
                    "neighbouring partitions along the first dimension of the operand",
                )
        positive = {at_most(ONE, size) for size in call.values}
        left = [each for each in conjuncts(call.condition) if each not in positive]
        for condition in left:
            if not proves(facts.assume(*positive), condition):
                raise Mismatch(
                    f"{instruction.name} computes at most one tile of the core",
                    f"{show_predicate(condition)} (not proved)",
                    suggestions=(
                        "s.tile(…) makes smaller tiles",
                        'strides={"out": "out0 >= 1"} in a declaration allows partial tiles of a larger result',
                    ),
                )
        return replace(call, condition=conjunction(positive) if positive else TRUE)

    def _operands(self, inner: _Inner, call: ln.InstructionCall) -> Iterator[tuple[ln.CallOperand, ln.Cell]]:
        """Yield the operands in memories of the core, each with a cell that it is read off."""
        by_buffer = {cell.buffer.uid: cell for cell in (inner.target, *cells(inner.value))}
        for operand in call.operands:
            cell = by_buffer[operand.buffer.uid]
            if self._memory(cell) is not None:
                yield operand, cell

    def _check_partitions(self, instruction: Instruction, inner: _Inner, loops: list[ln.For], summed: Var) -> None:
        """Raise `Mismatch` if factors have another index than that of the sum on their partitions."""
        for cell in cells(inner.value):
            position = cell.pairs[0][0]
            if summed.uid in position.free:
                continue
            names = [loop.variable.name for loop in loops if loop.variable.uid in position.free]
            name, other = cell.buffer.name, names[0] if names else show_index(position)
            raise Mismatch(
                f"{name} has the index {other} on its partitions, and {instruction.name} adds over partitions",
                f"the index {summed.name} of the sum on the partitions, which are the first dimension",
                suggestions=(f's.pack("{name.removesuffix("t")}", at=…, order=["{summed.name}", "{other}"])',),
            )


@dataclass(frozen=True, slots=True)
class _Inner:
    """Loops directly within each other around a statement, with the conditions on it.

    `zeros` are those conditions without which the statement stores a zero.
    """

    loops: tuple[ln.For, ...]
    conditions: tuple[Predicate, ...]
    leaf: Leaf
    target: ln.Cell
    value: ln.ScalarExpr
    zeros: tuple[Predicate, ...]


def _inner(loop: ln.For) -> _Inner | None:
    loops, conditions = list[ln.For](), list[Predicate]()
    block: ln.Block = (loop,)
    while len(block) == 1:
        statement = block[0]
        if isinstance(statement, ln.For) and statement.mark is LoopMark.NONE:
            loops.append(statement)
            block = statement.body
        elif isinstance(statement, ln.If):
            conditions += conjuncts(statement.predicate)
            block = statement.body
        elif isinstance(statement, ln.Assign | ln.Accumulate) and isinstance(statement.target, ln.Cell):
            value, zeros = statement.value, tuple[Predicate, ...]()
            if isinstance(statement, ln.Assign) and isinstance(value, ln.Choose) and value.right == _ZERO:
                zeros, value = tuple(conjuncts(value.predicate)), value.left
            return _Inner(tuple(loops), (*conditions, *zeros), statement, statement.target, value, zeros)
        else:
            return None
    return None


def _adds_over_partitions(instruction: Instruction) -> bool:
    form = instruction.form
    return form.sum is not None and all(cell.pairs[0][0] == index(form.sum.variable) for cell in cells(form.term))


_ZERO: Final = ln.Number(0, "float32")


def _loops(instruction: Instruction) -> tuple[ln.For, ...]:
    return instruction.form.all_loops


def _described(instruction: Instruction) -> str:
    def memory(name: str) -> str:
        return "the " + instruction.memories.get(name, "main memory")

    read = ", ".join(f"{array.name} in {memory(array.name)}" for array in instruction.program.inputs)
    return f"{instruction.name}: out in {memory(OUT)}; {read}"
