"""The emulated systolic core: it executes instructions and counts their cycles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.index import value_at
from atl.core.marks import LetMark
from atl.errors import InvalidArgument, brief
from lowering.instructions.instruction import Instruction
from lowering.instructions.systolic import CLEAR, INSTRUCTIONS, MEMORIES, CoreMemory, Floats, move

AnyArray: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class At:
    """An operand: in a memory of the core, element `free` of `partition`; in main memory, an address and strides."""

    name: str
    memory: LetMark | None
    partition: int = 0
    free: int = 0
    address: int = 0
    strides: tuple[int, ...] = ()

    def __str__(self) -> str:
        if self.memory is not None:
            return f"{self.memory.value}[{self.partition}, {self.free}]"
        return f"{self.name}[{self.address}; {', '.join(map(str, self.strides))}]"


@dataclass(frozen=True, slots=True)
class Issued:
    """An instruction with its operands, the result first, and its sizes, in the order of the declaration."""

    name: str
    operands: tuple[At, ...]
    sizes: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.name} {' '.join(map(str, self.operands))} {' x '.join(map(str, self.sizes))}"


@dataclass(slots=True)
class Core:
    """A core: its memories, which are NaN until they are stored to, and the cycles that each instruction took."""

    main: Mapping[str, AnyArray]
    """Main memory: flat arrays."""
    of: Mapping[LetMark, CoreMemory] = field(default_factory=lambda: MEMORIES)
    instructions: Mapping[str, Instruction] = field(default_factory=lambda: {each.name: each for each in INSTRUCTIONS})
    memories: dict[LetMark, Floats] = field(init=False)
    cycles: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memories = {
            mark: np.full((memory.partitions, memory.elements), np.nan, np.float32) for mark, memory in self.of.items()
        }

    def execute(self, issued: Issued) -> None:
        """Execute one instruction. Accesses beyond a memory raise `IndexError`."""
        if issued.name == CLEAR:
            (cleared,) = issued.operands
            taken = move(self.view(cleared, issued.sizes), 0)
        else:
            declared = self.instructions[issued.name]
            assert declared.emulate is not None
            out, *read = map(self.view, issued.operands, operand_shapes(declared, issued.sizes))
            for each in read:
                each.flags.writeable = False
            taken = declared.emulate(out, *read)
            if not isinstance(taken, int) or isinstance(taken, bool) or taken < 0:
                raise InvalidArgument(
                    f"the function that emulates {issued.name} returned {brief(taken)}",
                    required="the number of cycles, an int of at least 0",
                )
        self.cycles[issued.name] = self.cycles.get(issued.name, 0) + taken

    def view(self, at: At, shape: tuple[int, ...]) -> AnyArray:
        """Return an operand of this shape, in place."""
        if at.memory is not None:
            memory, (rows, columns) = self.memories[at.memory], shape
            if at.partition + rows > memory.shape[0] or at.free + columns > memory.shape[1]:
                raise IndexError(f"{at} has no tile of {rows} x {columns} elements")
            return memory[at.partition : at.partition + rows, at.free : at.free + columns]
        array = self.main[at.name]
        reached = [(count - 1) * stride for count, stride in zip(shape, at.strides, strict=True)]
        first, last = (at.address + sum(bound(0, each) for each in reached) for bound in (min, max))
        if not 0 <= first <= last < array.size:
            raise IndexError(f"{at} has no {' x '.join(map(str, shape))} elements")
        strides = tuple(stride * array.itemsize for stride in at.strides)
        return np.lib.stride_tricks.as_strided(array[at.address :], shape, strides)


def operand_shapes(instruction: Instruction, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Return the shapes of the result and of each input for sizes in the order of the declaration."""
    program = instruction.program
    named = dict(zip(program.sizes, sizes, strict=True))
    shapes = [program.shape, *(array.shape for array in program.inputs)]
    return [tuple(value_at(extent, named) for extent in shape) for shape in shapes]
