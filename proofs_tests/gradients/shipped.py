"""The table of shipped gradients in docs/gradients.md: `python -m proofs_tests.gradients.shipped` prints it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

import atl
from examples.gradients import SHIPPED, Shipped
from lowering.timing.operations import operations

SIZES: Final = {
    **dict.fromkeys(("n", "m", "k", "W", "H", "L", "S"), 64), **dict.fromkeys(("E", "F", "C", "K"), 16),
    "b": 4, "B": 4, "R": 3, "T": 3, "v": 100,
}  # fmt: skip
"""Sizes for which operations are counted."""


def gathered(shipped: Shipped) -> atl.Session:
    """Return a session in which the scatters of a gradient are gathers, as in the first call of its schedule."""
    s = atl.reschedule(shipped.gradient().program)
    return s.gather() if "place" in str(s.goal) else s


def cost(shipped: Shipped, goal: atl.Program) -> float:
    """Return the operations of a gradient over those of its program."""
    arrays: dict[str, Any] = {"word": np.arange(SIZES["n"])}
    return operations(goal, SIZES, arrays) / operations(shipped.program(), SIZES, arrays)


def row(name: str) -> str:
    """Return the row of a shipped gradient."""
    shipped = SHIPPED[name]
    gradient, s = shipped.gradient(), gathered(shipped)
    steps = len(s.theorem.steps) if s.steps else "-"
    by = ", ".join(f"`{each}`" for each in shipped.wrt)
    kept = ", ".join(f"`{each}`" for each in shipped.keep)
    return f"| {name} | {by} | {kept} | {len(gradient.theorem.steps)} | {steps} | {cost(shipped, s.goal):.1f} |"


def table() -> str:
    """Return the table."""
    head = "| program | gradient by | keeps | steps | of `gather` | cost |\n|---|---|---|---|---|---|"
    return "\n".join([head, *map(row, SHIPPED)])


if __name__ == "__main__":
    print(table())
