"""Loop nests with scatters: into each cell once, into some cells twice, or not into all cells."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from atl.core.index import ZERO, Index, ceildiv, constant
from atl.core.predicate import at_most, less
from lowering.nest.loopnest import Accumulate, Allocate, Assign, Buffer, Clear, Free, If, LoopNest
from proofs_tests.nests.by_hand import at, cell, i, j, k, l, loop, m, n, nest, output, tensor, vi, vj, vk

x, X = tensor("x", n, m)

ONCE: Final[dict[str, tuple[tuple[Index, ...], tuple[Index, ...]]]] = {
    "transposed": ((m, n), (j, i)),
    "in tiles": ((n, ceildiv(m, constant(4)), constant(4)), (i, j // 4, j % 4)),
    "turned": ((n, m), (i, (i + j) % m)),
    "backwards": ((n, m), (n - 1 - i, m - 1 - j)),
    "with gaps": ((n, 2 * m), (i, 2 * j)),
    "in one row": ((n * m,), (i * m + j,)),
    "on a diagonal": ((n + m, n), (i + j, i)),
    "by an exclusive or": ((n, 4 * ceildiv(m, constant(4))), (i, 4 * (j // 4) + ((j % 4) ^ (i % 4)))),
}
"""Extents of the output and the cell of an element; no two elements have one cell."""
TWICE: Final[dict[str, tuple[tuple[Index, ...], tuple[Index, ...]]]] = {
    "in pairs": ((n, m), (i, j // 2)),
    "sums of indices": ((n + m,), (i + j,)),
    "rows that overlap": ((n * m + n,), (2 * i + j,)),
    "without the row": ((m,), (j,)),
}


def scatters() -> tuple[tuple[LoopNest, Mapping[str, int], Mapping[str, Any]], ...]:
    """Return all of these nests, each at two sizes."""
    numbers = np.random.default_rng(3)
    return tuple(
        (of, {"n": rows, "m": columns, "k": 2}, {"x": numbers.integers(1, 9, (rows, columns)).astype(np.float32)})
        for of in (*_to_the_output(), _under_a_test(), _in_tiles(), *_of_buffers())
        for rows, columns in ((3, 5), (4, 8))
    )


def _to_the_output() -> Iterator[LoopNest]:
    for name, (extents, place) in (ONCE | TWICE).items():
        out = output(*extents)
        adding = Accumulate(cell(out, *place), "add", at(X, i, j))
        yield nest(name.replace(" ", "_"), [x], out, loop(vi, n, loop(vj, m, adding)), sizes="n m k", complete=False)


def _under_a_test() -> LoopNest:
    out = output(n, m)
    adding = If(less(j, m - k), (Accumulate(cell(out, i, j + k), "add", at(X, i, j)),))
    return nest("tested", [x], out, loop(vi, n, loop(vj, m, adding)), sizes="n m k", complete=False)


def _in_tiles() -> LoopNest:
    """Return a nest with rows in tiles of three and a tail; every cell is reached."""
    out, row = output(n, m), 3 * i + l
    adding = If(less(row, n), (loop(vj, m, Accumulate(cell(out, row, j), "add", at(X, row, j))),))
    tiles = loop(vi, ceildiv(n, constant(3)), loop(vk, constant(3), adding))
    return nest("tiles", [x], out, tiles, sizes="n m k", complete=False)


def _of_buffers() -> Iterator[LoopNest]:
    """Yield nests with a buffer filled in each row, or accumulated over all rows."""
    for name, each in (("each", True), ("all", False)):
        out, held = output(n, m), Buffer(7, "held", "float32", (m,))
        filled = loop(vj, m, Accumulate(cell(held, m - 1 - j), "add", at(X, i, j)))
        read = loop(vj, m, Assign(cell(out, i, j), at(held, j)))
        emptied = (Clear(held, m),) if each else ()
        body = (Allocate(held, m, zeroed=not each), loop(vi, n, *emptied, filled, read), Free(held))
        yield nest(f"buffer_for_{name}", [x], out, *body, sizes="n m k")
    out, held = output(n, m), Buffer(8, "held", "float32", (n, m))
    half = loop(vi, n, loop(vj, m, If(at_most(i, j), (Accumulate(cell(held, i, j), "add", at(X, i, j)),))))
    read = loop(vi, n, loop(vj, m, Accumulate(cell(out, i, ZERO), "add", at(held, i, j))))
    yield nest("half", [x], out, Allocate(held, n * m), half, read, Free(held), sizes="n m k", complete=False)
