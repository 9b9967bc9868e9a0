"""Instructions of an emulated systolic core, and its memories.

Both memories have two axes: 128 partitions (P), and the elements of a partition (F). The first dimension of a buffer is
along the partitions. The array of the core multiplies two tiles of the scratchpad, whose partitions are the terms of
the sums, and adds to a tile of the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from atl.core.marks import LetMark
from atl.parsing.parse import parse
from lowering.instructions.instruction import OUT, Instruction

TARGET: Final = "systolic"
CLEAR: Final = "systolic_clear"
"""The instruction that sets a tile to zero. Loop nests have a statement for it."""


@dataclass(frozen=True, slots=True)
class CoreMemory:
    """A memory with the axes `P`, of this many partitions, and `F`, of this many elements of float32 each."""

    partitions: int
    elements: int

    @property
    def axes(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The axes with their extents."""
        return ("P", self.partitions), ("F", self.elements)


MEMORIES: Final[Mapping[LetMark, CoreMemory]] = {
    LetMark.SCRATCHPAD: CoreMemory(128, 49_152),
    LetMark.ACCUMULATOR: CoreMemory(128, 4096),
}
"""The memories of the core, by the mark of their lets: 192 and 16 KiB for each partition."""

_MOST: Final = MEMORIES[LetMark.SCRATCHPAD].partitions
Floats: TypeAlias = npt.NDArray[np.float32]


def move(out: Floats, read: Floats | float) -> int:
    """Move one element of each partition in a cycle."""
    out[...] = read
    return int(out.shape[1])


def multiply(out: Floats, left: Floats, right: Floats) -> int:
    """Add the product of a K × M and a K × N tile, in K + M + N - 1 cycles.

    Cell (k, m) of the array holds element (k, m) of the first tile. Elements (k, n) of the second one enter row k at
    cycle k + n, and move to the next column in each cycle; partial sums move to the next row. A sum that left the last
    row is added to the accumulator in the cycle after.
    """
    (k, m), (_, n) = left.shape, right.shape
    moving = np.zeros((k, m), np.float32)  # the element in each cell
    sums = np.zeros((k, m), np.float32)  # the partial sum that each cell computed
    rows, columns = np.arange(k), np.arange(m)
    cycle, left_over = 0, m * n
    while left_over:
        # Sums that the last row computed in the cycle before.
        number = cycle - k - columns
        done = (number >= 0) & (number < n)
        out[columns[done], number[done]] += sums[-1, done]
        left_over -= int(done.sum())
        moving[:, 1:] = moving[:, :-1]
        number = cycle - rows
        enters = (number >= 0) & (number < n)
        moving[:, 0] = np.where(enters, right[rows, np.clip(number, 0, n - 1)], 0)
        sums[1:] = sums[:-1]
        sums[0] = 0
        with np.errstate(invalid="ignore", over="ignore"):  # idle cells multiply zeros by infinities
            sums += left * moving
        cycle += 1
    return cycle


INSTRUCTIONS: Final = (
    Instruction(
        "systolic_load",
        parse(f"systolic_load (a : float32[p, f]) : float32[p, f] given p <= {_MOST} := ⊞[i < p] ⊞[j < f] a[i, j]"),
        TARGET,
        strides={"a": "a0 >= 1"},
        result="stored",
        memories={OUT: "scratchpad"},
        emulate=move,
    ),
    Instruction(
        "systolic_store",
        parse(f"systolic_store (a : float32[p, f]) : float32[p, f] given p <= {_MOST} := ⊞[i < p] ⊞[j < f] a[i, j]"),
        TARGET,
        strides={OUT: f"{OUT}0 >= 1"},
        result="stored",
        memories={"a": "accumulator"},
        emulate=move,
    ),
    Instruction(
        "systolic_move",
        parse(f"systolic_move (a : float32[p, f]) : float32[p, f] given p <= {_MOST} := ⊞[i < p] ⊞[j < f] a[i, j]"),
        TARGET,
        result="stored",
        memories={OUT: "scratchpad", "a": "accumulator"},
        emulate=move,
    ),
    Instruction(
        "systolic_product",
        parse(
            "systolic_product (a : float32[k, m], b : float32[k, n]) : float32[m, n] "
            f"given k <= {_MOST} ∧ m <= {_MOST} ∧ n <= 512 := ⊞[i < m] ⊞[j < n] Σ[p < k] a[p, i] * b[p, j]"
        ),
        TARGET,
        memories={OUT: "accumulator", "a": "scratchpad", "b": "scratchpad"},
        emulate=multiply,
    ),
)
"""Instructions: copies to the scratchpad, from the accumulator, and between both; products of tiles that are added."""
