"""What is counted of a program: operations, lines of a memory, nodes. Values, one of which a cost model is given.

All are told of a nest of loops at given sizes, and answer with a cost for each candidate.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from lowering.targets.capabilities import FULLY_UNROLLED
from rewrites.egraph.pricing.extents import Nest
from rewrites.egraph.pricing.extraction import Costs

LINE: Final = 64
"""Bytes of a line of a cache."""
VECTOR: Final = 32
"""Bytes of a vector."""
BEGUN: Final = 8.0
"""What it costs to begin an innermost loop, in operations."""
LEVELS: Final = ((32 * 1024, 2.0), (512 * 1024, 4.0), (16 * 1024 * 1024, 12.0))
"""The levels of a memory: how many bytes fit, and what a line that does not fit costs, in operations."""


class Tariff(Protocol):
    """What a cost model counts, in nests of loops."""

    @property
    def written_out(self) -> int:
        """Of so few iterations an innermost loop counts as operations of the loop around."""
        ...

    def moved(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """What it costs that the loops from each level on touch so many lines."""
        ...

    def done(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:
        """What so many operations in each iteration of the innermost of some loops cost, so many of them at a time."""
        ...

    def begun(self, nest: Nest) -> Costs:
        """What it costs to begin an innermost loop within these."""
        ...

    def streamed(self, nest: Nest, elements: Costs, *, width: int) -> Costs:
        """What it costs to go through so many elements of so many bytes in order, in a nest of loops."""
        ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """Operations, and lines that miss each level of a memory."""

    levels: Sequence[tuple[int, float]] = LEVELS
    written_out: int = FULLY_UNROLLED

    def moved(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """A third of a level is for one array."""
        total = np.zeros_like(nest.total)
        for capacity, price in self.levels:
            missed = lines[0]
            fits = lines[0] * LINE <= capacity / 3
            for level in range(1, len(lines)):
                outside = np.prod(nest.trips[:level], axis=0)
                missed = np.where(fits, missed, outside * lines[level])
                fits = fits | (lines[level] * LINE <= capacity / 3)
            total = total + price * missed
        return total

    def done(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:
        """Those that are done together count as one."""
        return nest.total * operations / lanes

    def begun(self, nest: Nest) -> Costs:
        """The same each time."""
        return nest.total * BEGUN

    def streamed(self, nest: Nest, elements: Costs, *, width: int) -> Costs:
        """Each is read and written, and comes through all levels."""
        lines = width / LINE * sum(price for _, price in self.levels)
        return nest.total * elements * (2.0 * width / VECTOR + lines)


@dataclass(frozen=True, slots=True)
class Lines:
    """Operations, and the lines that each level of loops touches each time that it runs, whatever the memory is."""

    operations: Traffic = Traffic()
    """Also for what is gone through in order."""

    @property
    def written_out(self) -> int:
        """As where traffic is counted."""
        return self.operations.written_out

    def moved(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """The lines of all levels."""
        total = np.zeros_like(nest.total)
        for level, touched in enumerate(lines):
            total = total + np.prod(nest.trips[:level], axis=0) * touched
        return total

    def done(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:
        """As where traffic is counted."""
        return self.operations.done(nest, operations, lanes=lanes)

    def begun(self, nest: Nest) -> Costs:
        """As where traffic is counted."""
        return self.operations.begun(nest)

    def streamed(self, nest: Nest, elements: Costs, *, width: int) -> Costs:
        """As where traffic is counted."""
        return self.operations.streamed(nest, elements, width=width)


@dataclass(frozen=True, slots=True)
class Nodes:
    """How many nodes a program has, whatever its sizes."""

    written_out: int = 0

    def moved(self, nest: Nest, lines: Sequence[Costs]) -> Costs:  # noqa: ARG002 (the same for all)
        """Nothing."""
        return np.zeros_like(nest.total)

    def done(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:  # noqa: ARG002 (the same for all)
        """Each once, however often it is done."""
        return operations

    def begun(self, nest: Nest) -> Costs:
        """Nothing."""
        return np.zeros_like(nest.total)

    def streamed(self, nest: Nest, elements: Costs, *, width: int) -> Costs:  # noqa: ARG002 (the same for all)
        """One node, however many elements."""
        return np.ones_like(nest.total)
