"""Cost metrics: operations, cache lines, or nodes. A cost model takes one of them.

Each method takes a loop nest at given sizes and returns a cost for each candidate.
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
"""Bytes of a cache line."""
VECTOR: Final = 32
"""Bytes of a vector register."""
LOOP_START: Final = 8.0
"""Cost of starting an innermost loop, in operations."""
LEVELS: Final = ((32 * 1024, 2.0), (512 * 1024, 4.0), (16 * 1024 * 1024, 12.0))
"""Memory levels: the capacity in bytes, and the cost of a missed line in operations."""


class Metric(Protocol):
    """The quantities that a cost model counts."""

    @property
    def max_unrolled(self) -> int:
        """Maximum trip count of an innermost loop that is counted as unrolled."""
        ...

    def memory(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """Return the cost of touching `lines[k]` cache lines in the loops from each level k on."""
        ...

    def arithmetic(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:
        """Return the cost of operations per iteration of the nest, vectorized by `lanes`."""
        ...

    def loop_start(self, nest: Nest) -> Costs:
        """Return the cost of starting an innermost loop in this nest."""
        ...

    def copy(self, nest: Nest, elements: Costs, *, width: int) -> Costs:
        """Return the cost of copying elements of `width` bytes in order, in a loop nest."""
        ...


@dataclass(frozen=True, slots=True)
class Traffic:
    """Operations, and cache lines that miss each memory level."""

    levels: Sequence[tuple[int, float]] = LEVELS
    max_unrolled: int = FULLY_UNROLLED

    def memory(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """Count misses, assuming that one array may use a third of a level."""
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

    def arithmetic(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:
        """Count vector operations."""
        return nest.total * operations / lanes

    def loop_start(self, nest: Nest) -> Costs:
        """Count a constant per start."""
        return nest.total * LOOP_START

    def copy(self, nest: Nest, elements: Costs, *, width: int) -> Costs:
        """Count a read and a write of each element, through all levels."""
        lines = width / LINE * sum(price for _, price in self.levels)
        return nest.total * elements * (2.0 * width / VECTOR + lines)


@dataclass(frozen=True, slots=True)
class Lines:
    """Operations, and the cache lines that each level of loops touches each time it runs, for any cache."""

    operations: Traffic = Traffic()
    """The metric for operations and copies."""

    @property
    def max_unrolled(self) -> int:
        """Limit of `operations`."""
        return self.operations.max_unrolled

    def memory(self, nest: Nest, lines: Sequence[Costs]) -> Costs:
        """Add the lines of all levels."""
        total = np.zeros_like(nest.total)
        for level, touched in enumerate(lines):
            total = total + np.prod(nest.trips[:level], axis=0) * touched
        return total

    def arithmetic(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:
        """Delegate to `operations`."""
        return self.operations.arithmetic(nest, operations, lanes=lanes)

    def loop_start(self, nest: Nest) -> Costs:
        """Delegate to `operations`."""
        return self.operations.loop_start(nest)

    def copy(self, nest: Nest, elements: Costs, *, width: int) -> Costs:
        """Delegate to `operations`."""
        return self.operations.copy(nest, elements, width=width)


@dataclass(frozen=True, slots=True)
class Nodes:
    """The number of nodes of a program, at any size."""

    max_unrolled: int = 0

    def memory(self, nest: Nest, lines: Sequence[Costs]) -> Costs:  # noqa: ARG002 (interface)
        """Return zero."""
        return np.zeros_like(nest.total)

    def arithmetic(self, nest: Nest, operations: Costs, *, lanes: int) -> Costs:  # noqa: ARG002 (interface)
        """Count each operation once, whatever the trip count."""
        return operations

    def loop_start(self, nest: Nest) -> Costs:
        """Return zero."""
        return np.zeros_like(nest.total)

    def copy(self, nest: Nest, elements: Costs, *, width: int) -> Costs:  # noqa: ARG002 (interface)
        """Count one node, whatever the number of elements."""
        return np.ones_like(nest.total)
