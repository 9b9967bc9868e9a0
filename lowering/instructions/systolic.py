"""Instructions of an emulated systolic core, and its memories.

Both memories have two axes: 128 partitions (P), and the elements of a partition (F). The first dimension of a buffer is
along the partitions. The array of the core multiplies two tiles of the scratchpad, whose partitions are the terms of
the sums, and adds to a tile of the accumulator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from atl.core.marks import LetMark
from atl.parsing.parse import parse
from lowering.instructions.instruction import OUT, Instruction

TARGET: Final = "systolic"


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
_ADJACENT: Final = "{0}1 = 1"

INSTRUCTIONS: Final = (
    Instruction(
        "systolic_load",
        parse(f"systolic_load (a : float32[p, f]) : float32[p, f] given p <= {_MOST} := ⊞[i < p] ⊞[j < f] a[i, j]"),
        TARGET,
        "systolic_load(out, a)",
        strides={OUT: _ADJACENT.format(OUT), "a": "a0 >= 1"},
        result="stored",
        memories={OUT: LetMark.SCRATCHPAD},
    ),
    Instruction(
        "systolic_store",
        parse(f"systolic_store (a : float32[p, f]) : float32[p, f] given p <= {_MOST} := ⊞[i < p] ⊞[j < f] a[i, j]"),
        TARGET,
        "systolic_store(out, a)",
        strides={OUT: f"{OUT}0 >= 1", "a": _ADJACENT.format("a")},
        result="stored",
        memories={"a": LetMark.ACCUMULATOR},
    ),
    Instruction(
        "systolic_move",
        parse(f"systolic_move (a : float32[p, f]) : float32[p, f] given p <= {_MOST} := ⊞[i < p] ⊞[j < f] a[i, j]"),
        TARGET,
        "systolic_move(out, a)",
        strides={name: _ADJACENT.format(name) for name in (OUT, "a")},
        result="stored",
        memories={OUT: LetMark.SCRATCHPAD, "a": LetMark.ACCUMULATOR},
    ),
    Instruction(
        "systolic_product",
        parse(
            "systolic_product (a : float32[k, m], b : float32[k, n]) : float32[m, n] "
            f"given k <= {_MOST} ∧ m <= {_MOST} ∧ n <= 512 := ⊞[i < m] ⊞[j < n] Σ[p < k] a[p, i] * b[p, j]"
        ),
        TARGET,
        "systolic_product(out, a, b)",
        strides={name: _ADJACENT.format(name) for name in (OUT, "a", "b")},
        memories={OUT: LetMark.ACCUMULATOR, "a": LetMark.SCRATCHPAD, "b": LetMark.SCRATCHPAD},
    ),
)
"""Instructions: copies to the scratchpad, from the accumulator, and between both; products of tiles that are added."""
