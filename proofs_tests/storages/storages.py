"""Storages of a matrix for tests, and comparison of kernels with programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np

import atl
import layouts
from atl.core.index import Index, Leaf, Size, Var, index, value_at, value_of
from atl.core.program import Program
from lowering.pipeline import lower
from proofs_tests.programs.agreement import own_cache
from proofs_tests.programs.batch import Call, Sanitized, compile_many
from rewrites import Session

T = atl.sizes("T", min=1)


def turning(shape: Sequence[Any]) -> layouts.IndexFunction:
    """Return a storage with every second row reversed."""
    m = shape[1]

    def turned(i: Any, j: Any) -> tuple[Any, Any]:
        return i, j + (i % 2) * (m - 1 - 2 * j)

    return layouts.IndexFunction(
        tuple(shape), turned, turned, onto=layouts.Box(tuple(shape), row_major=True), name="turning"
    )


def pitch(shape: Sequence[Any]) -> layouts.Layout:
    """Return rows padded by three elements, as strides."""
    n, m = shape
    return layouts.Layout((n, m), (m + 3, 1))


STORAGES: Final[dict[str, Callable[[Any], Any]]] = {
    "column-major": layouts.column_major,
    "blocked": layouts.blocked(4, 8),
    "blocked by a size": layouts.blocked(T, 4),
    "padded": layouts.padded(1),
    "pitch by strides": pitch,
    "skewed": layouts.skewed,
    "swizzled": layouts.swizzled(8),
    "swizzled in chunks": layouts.swizzled(4, 2),
    "morton": layouts.morton(4),
    "backwards": layouts.backwards,
    "antidiagonal": layouts.antidiagonal,
    "compact antidiagonal": layouts.compact_antidiagonal,
    "sheared": layouts.sheared,
    "turning": turning,
}
"""Storages of a matrix of any shape."""

SIZES: Final = tuple(
    {"n": a, "k": b, "m": c, "T": d}
    for a, b, c, d in ((3, 8, 16, 2), (5, 9, 13, 3), (1, 1, 1, 4), (2, 0, 3, 2), (0, 4, 2, 5))
)
"""Sizes that are and are not multiples of tiles, some of them zero."""


def faults_in_c(sessions: Sequence[Session], sizes: Sequence[Mapping[str, int]] = SIZES) -> list[str]:
    """Return the differences between kernels of goals and the original programs, with and without sanitizers."""
    goals = [session.goal for session in sessions]
    found: list[str] = []
    with own_cache():
        nests = [lower(goal) for goal in goals]
        sanitized, kernels = Sanitized(goals, nests), compile_many(goals, nests=nests)
        calls = [(at, arguments(session.theorem.lhs, each)) for at, session in enumerate(sessions) for each in sizes]
        results = sanitized.run([Call(at, given) for at, given in calls])
        for (at, given), result in zip(calls, results, strict=True):
            wanted = atl.evaluate(sessions[at].theorem.lhs, **given)
            found += [
                f"{goals[at]}\n{given}: {got}, not {wanted}"
                for got in (result, kernels[at](**given))
                if not isinstance(got, np.ndarray) or not np.array_equal(got, wanted)
            ]
    return found


def arguments(program: Program, sizes: Mapping[str, int]) -> dict[str, Any]:
    """Return arguments of a call at these sizes, with integer elements for exact sums."""
    generator = np.random.default_rng(sum(sizes.values()))
    given: dict[str, Any] = {}
    for array in program.inputs:
        extents = tuple(value_at(extent, sizes) for extent in array.shape)
        given[array.name] = generator.integers(-4, 5, extents).astype(array.dtype)
    return given | {name: sizes[name] for name in program.free_sizes}


def at_sizes(formula: Index, sizes: dict[str, int], at: tuple[int, ...] = ()) -> int:
    """Evaluate a formula over variables 0, 1, … at these sizes and indices."""

    def leaf(known: Leaf) -> int:
        return sizes[known.name] if isinstance(known, Size) else at[known.uid] if isinstance(known, Var) else 0

    return value_of(formula, leaf, lambda *_: 0)


def variables(count: int) -> list[Index]:
    return [index(Var(k, f"x{k}")) for k in range(count)]
