"""Programs whose steps add elements of the state before, at several distances, inside of a border that is kept."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

import atl
from atl import IndexExpr, Program, Tensor, gen, iterate, rec, select
from lowering.lower import lower_unchecked
from lowering.nest.interpreter import AnyArray
from lowering.nest.loopnest import LoopNest

DTYPE: Final = "float64"
n = atl.sizes("n", min=3)
T = atl.sizes("T")
a = atl.tensor("a", n, dtype=DTYPE)
A = atl.tensor("A", n, n, dtype=DTYPE)


def inside(*indices: IndexExpr) -> Any:
    """Return the condition that no index is at a border."""
    out: Any = True
    for i in indices:
        out = (i >= 1) & (i < n - 1) & out
    return out


def stencil(reads: Sequence[tuple[int, int]], *, by_rows: bool) -> Program:
    """Return a program whose step adds elements of the state before at some distances.

    With `by_rows`, the new rows are also a recurrence, and an element reads the new one on its left.
    """

    def element(u: Tensor, i: IndexExpr, j: IndexExpr, others: Any = 0) -> Any:
        total: Any = others
        for k, (di, dj) in enumerate(reads):
            total = total + (k + 1) * u[i + di, j + dj]
        return select(inside(i, j), total / 7, u[i, j])

    def step(s: IndexExpr, u: Tensor) -> Tensor:
        if not by_rows:
            return gen(n, n, lambda i, j: element(u, i, j))
        return rec(n, lambda i, _: rec(n, lambda j, r: element(u, i, j, r[j - 1]), dtype=DTYPE), of=(n,), dtype=DTYPE)

    return atl.program("steps", [A], iterate(T, A, step))


def fibonacci() -> Program:
    """Return a program that keeps three rows."""

    def last(i: IndexExpr) -> Tensor:
        return rec(n + 2, lambda p, y: select(p >= 2, y[p - 1] + a[i] * y[p - 2], 1), dtype=DTYPE)[n]

    return atl.program("fibonacci", [a], gen(n, last))


def reversal() -> Program:
    """Return a program that reverses all elements but two, of an array that may be shorter."""
    m = atl.sizes("m")
    b = atl.tensor("b", m, dtype=DTYPE)
    step = iterate(T, b, lambda s, u: gen(m, lambda i: select(i < 2, u[i] / 2, u[m - 1 - i])))
    return atl.program("reversal", [b], step)


def shift() -> Program:
    """Return a program that moves the elements by one place in each step."""
    moved = iterate(T, a, lambda s, u: gen(n, lambda i: select(i + 1 < n, u[i + 1], u[i])))
    return atl.program("shift", [a], moved)


def backwards() -> Program:
    """Return a program that reads the elements of the last row in another order."""
    last = iterate(T, a, lambda s, u: gen(n, lambda i: u[i] + 1))
    return atl.program("last", [a], atl.let(last, lambda x: gen(n, lambda i: x[n - 1 - i] + a[i]), name="x"))


def retreat() -> Program:
    """Return a program in two rows, each step of which keeps one element more."""

    def step(s: IndexExpr, u: Tensor) -> Tensor:
        return gen(n, lambda i: select((s <= i) & (i >= 1) & (i + 1 < n), u[i - 1] + u[i + 1], u[i]))

    return atl.program("retreat", [a], iterate(T, a, step))


def shortest_paths() -> Program:
    """Return the program of Floyd and Warshall, in place."""

    def step(k: IndexExpr, u: Tensor) -> Tensor:
        def length(i: IndexExpr, j: IndexExpr, rows: Tensor, row: Tensor) -> Tensor:
            first, second = select(j > k, row[k], u[i, k]), select(i > k, rows[k, j], u[k, j])
            return atl.minimum(u[i, j], first + second)

        return rec(
            n,
            lambda i, rows: rec(n, lambda j, row: length(i, j, rows, row), dtype=DTYPE),
            of=(n,),
            dtype=DTYPE,
        )

    return atl.program("shortest", [A], iterate(n, A, step))


def windows(steps: int) -> Program:
    """Return a program that makes some steps in overlapping windows, which shrink by one element on both sides."""
    size = 2 + 2 * steps

    def tile(t: IndexExpr) -> Tensor:
        def inside(q: IndexExpr, row: IndexExpr | int) -> Any:
            return (row <= q) & (q < size - row) & (steps <= 2 * t + q) & (2 * t + q - steps < n)

        first = gen(size, lambda q: atl.guard(inside(q, 0), a[2 * t + q - steps]))

        def step(s: IndexExpr, u: Tensor) -> Tensor:
            def cell(q: IndexExpr) -> Tensor:
                is_at_border = (2 * t + q == steps) | (2 * t + q == n + steps - 1)
                return atl.guard(inside(q, s + 1), select(is_at_border, u[q], u[q - 1] + 2 * u[q + 1]))

            return gen(size, cell)

        return gen(2, lambda q: atl.guard(2 * t + q < n, iterate(steps, first, step)[q + steps]))

    return atl.program("windows", [a], gen(atl.ceildiv(n, 2), tile))


def padding_read() -> Program:
    """Return a program that adds the padding at the end of the row before, in the iterations of a loop."""

    def row(_: IndexExpr, u: Tensor) -> Tensor:
        return gen(n, lambda i: atl.guard(i < n - 1, select(i >= 1, u[i - 1] + 2 * u[i + 1], u[i])))

    return atl.program("padding_read", [a], gen(2, lambda _: iterate(T, a, row)))


def recurrence_nests() -> Iterator[tuple[LoopNest, Mapping[str, int], Mapping[str, AnyArray]]]:
    """Yield calls of nests that keep two rows, three rows, and one row in place."""
    numbers = np.random.default_rng(3)
    programs = (
        stencil([(-1, 0), (0, 1)], by_rows=False),
        stencil([(0, 0), (1, -1)], by_rows=False),
        stencil([(1, -1)], by_rows=True),
        fibonacci(),
        shift(),
        retreat(),
        backwards(),
        reversal(),
        shortest_paths(),
        windows(3),
        windows(2),
        padding_read(),
    )
    for program in programs:
        for size, steps in ((3, 0), (4, 1), (5, 3), *([(1, 2)] if "m" in program.sizes else [])):
            sizes = {name: value for name, value in {"n": size, "m": size, "T": steps}.items() if name in program.sizes}
            arrays = {array.name: numbers.random((size,) * len(array.shape)) for array in program.inputs}
            yield lower_unchecked(program), sizes, arrays
