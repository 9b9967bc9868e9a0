"""Small programs for tests of sessions, and checks of goals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np

import atl
import padtypes
from atl.core.index import value_at
from lowering import compile as compiled
from rewrites import Session

n, m, k = atl.sizes("n m k")
f = atl.tensor("f", n)
A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)


def pipeline() -> atl.Program:
    """Return the two-stage pipeline of §4.1."""
    return atl.program(
        "pipeline",
        [f],
        atl.let(atl.gen(n, lambda i: f[i]), lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i])),
    )


def matmul() -> atl.Program:
    return atl.program("matmul", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))


SIZES: Final = tuple({"n": a, "m": b, "k": c, "T": 3} for a, b, c in ((1, 2, 3), (4, 6, 8), (9, 5, 7)))
"""Sizes that are and are not multiples of tiles."""


def body(session: Session) -> str:
    """Return the goal without its first line, as one line."""
    _, _, shown = str(session.goal).partition(":=\n")
    return " ".join(shown.split())


def assert_agrees(session: Session, sizes: Iterable[Mapping[str, int]] = SIZES) -> None:
    """Check that the goal is safe, and that its kernel agrees with the start at these sizes."""
    start, goal = session.theorem.lhs, session.goal
    atl.check_safe(goal)
    padtypes.check(goal)
    kernel = compiled(goal)
    for values in sizes:
        numbers = np.random.default_rng(values["n"])
        given: dict[str, Any] = {
            array.name: numbers.integers(-9, 9, tuple(value_at(extent, values) for extent in array.shape)).astype(
                array.dtype
            )
            for array in start.inputs
        }
        given |= {name: values[name] for name in start.free_sizes}
        np.testing.assert_array_equal(kernel(**given), atl.evaluate(start, **given))
