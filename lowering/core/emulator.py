"""The emulated systolic core: it executes instructions cycle by cycle.

- Load and store move one element of each partition in a cycle; clearing too.
- A product of a K × M and a K × N tile takes K + M + N - 1 cycles. Cell (k, m) of the array holds element (k, m) of the
  first tile. Elements (k, n) of the second one enter row k at cycle k + n, and move to the next column in each cycle;
  partial sums move to the next row. A sum that left the last row is added to the accumulator in the cycle after.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.marks import LetMark
from lowering.instructions.systolic import MEMORIES, CoreMemory

Floats: TypeAlias = npt.NDArray[np.float32]
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


CLEAR: Final = "systolic_clear"
"""The instruction that sets a tile to zero."""


@dataclass(slots=True)
class Core:
    """A core: its memories, which are NaN until they are stored to, and the cycles that each instruction took."""

    main: Mapping[str, AnyArray]
    """Main memory: flat arrays."""
    of: Mapping[LetMark, CoreMemory] = field(default_factory=lambda: MEMORIES)
    memories: dict[LetMark, Floats] = field(init=False)
    cycles: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.memories = {
            mark: np.full((memory.partitions, memory.elements), np.nan, np.float32) for mark, memory in self.of.items()
        }

    def execute(self, issued: Issued) -> None:
        """Execute one instruction. Accesses beyond a memory raise `IndexError`."""
        match issued.name:
            case "systolic_clear":
                (out,), (_, count) = issued.operands, issued.sizes
                taken = self._moved(out, None, issued.sizes)
                assert taken == count
            case "systolic_load" | "systolic_store" | "systolic_move":
                out, read = issued.operands
                taken = self._moved(out, read, issued.sizes)
            case "systolic_product":
                taken = self._product(issued)
            case _:
                raise AssertionError(issued.name)
        self.cycles[issued.name] = self.cycles.get(issued.name, 0) + taken

    def _moved(self, out: At, read: At | None, sizes: tuple[int, ...]) -> int:
        """Move one column of a tile in each cycle."""
        count, columns = sizes
        for column in range(columns):
            values = np.zeros(count, np.float32) if read is None else self._column(read, count, column)[...].copy()
            self._column(out, count, column)[...] = values
        return columns

    def _column(self, at: At, count: int, column: int) -> AnyArray:
        if at.memory is not None:
            memory = self.memories[at.memory]
            if at.partition + count > memory.shape[0] or at.free + column >= memory.shape[1]:
                raise IndexError(f"{at} has no column {column} of {count} partitions")
            return memory[at.partition : at.partition + count, at.free + column]
        array, (down, across) = self.main[at.name], at.strides
        first = at.address + column * across
        if not 0 <= first <= first + (count - 1) * down < array.size:
            raise IndexError(f"{at} has no column {column} of {count} elements")
        return array[first : first + (count - 1) * down + 1 : max(down, 1)]

    def _tile(self, at: At, rows: int, columns: int) -> Floats:
        assert at.memory is not None
        memory = self.memories[at.memory]
        if at.partition + rows > memory.shape[0] or at.free + columns > memory.shape[1]:
            raise IndexError(f"{at} has no tile of {rows} x {columns} elements")
        return memory[at.partition : at.partition + rows, at.free : at.free + columns]

    def _product(self, issued: Issued) -> int:
        (out, left, right), (k, m, n) = issued.operands, issued.sizes
        weights, entering = self._tile(left, k, m), self._tile(right, k, n)
        result = self._tile(out, m, n)
        moving = np.zeros((k, m), np.float32)  # the element in each cell
        sums = np.zeros((k, m), np.float32)  # the partial sum that each cell computed
        rows, columns = np.arange(k), np.arange(m)
        cycle, left_over = 0, m * n
        while left_over:
            # Sums that the last row computed in the cycle before.
            number = cycle - k - columns
            done = (number >= 0) & (number < n)
            result[columns[done], number[done]] += sums[-1, done]
            left_over -= int(done.sum())
            moving[:, 1:] = moving[:, :-1]
            number = cycle - rows
            enters = (number >= 0) & (number < n)
            moving[:, 0] = np.where(enters, entering[rows, np.clip(number, 0, n - 1)], 0)
            sums[1:] = sums[:-1]
            sums[0] = 0
            with np.errstate(invalid="ignore", over="ignore"):  # idle cells multiply zeros by infinities
                sums += weights * moving
            cycle += 1
        return cycle
