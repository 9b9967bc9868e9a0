"""Random loop nests with a marked loop whose mark is often illegal.

An iteration accesses an output, a buffer and a scalar a few times, at indices from a short list, so that iterations
often conflict. The prover and the loop-nest interpreter decide independently whether they do.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core import index as ix
from atl.core.marks import LoopMark
from atl.core.operations import Arithmetic
from atl.core.predicate import within
from lowering.nest import loopnest as ln

AnyArray = npt.NDArray[Any]

MARKS: Final = (LoopMark.PARALLEL, LoopMark.VECTOR, LoopMark.STREAM, LoopMark.BLOCK_X, LoopMark.THREAD_Y)
N, M = ix.size("n"), ix.size("m")
ROW, COLUMN = ix.Var(1, "i"), ix.Var(2, "j")
I, J = ix.index(ROW), ix.index(COLUMN)  # noqa: E741
ZERO: Final = ix.constant(0)
AT: Final = ix.Array("at", (N,), "int64")
X: Final = ln.Buffer(10, "x", "float32", (N, M), "input")
OUT: Final = ln.Buffer(11, "out", "float32", (N, M), "output")
OUTSIDE, INSIDE = ln.Buffer(12, "outside", "float32", (N, M)), ln.Buffer(13, "inside", "float32", (N, M))
TOTAL: Final = ln.Scalar(20, "total", "float32")
ONE_MORE: Final = ln.Number(1, "float32")


@dataclass(frozen=True, slots=True)
class Planted:
    """A nest whose outer loop is marked."""

    nest: ln.LoopNest
    loop: ln.For

    def arrays(self, sizes: Mapping[str, int], at: AnyArray | None = None) -> dict[str, AnyArray]:
        """Return the inputs of a call; `at` has the elements of the index array."""
        n, m = sizes["n"], sizes["m"]
        return {"x": np.ones((n, m), np.float32), "at": np.zeros(n, np.int64) if at is None else at}


def planted(seed: int) -> Planted:
    """Return the nest with this seed."""
    return _Maker(Random(f"marks:{seed}")).nest()


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def nest(self) -> Planted:
        inner = [self.statement() for _ in range(self.random.choice((1, 1, 2)))]
        body: list[ln.Statement] = [ln.For(COLUMN, ZERO, M, tuple(inner))]
        if self.random.random() < 0.3:
            body.append(self.statement(COLUMN))
        loop = ln.For(ROW, ZERO, N, self.with_inside(body), self.random.choice(MARKS))
        stored = ln.Accumulate(self.cell(OUT, ZERO, ZERO), "add", ln.Load(TOTAL))
        guarded = ln.If(within(ix.ONE, N, N + 1), (ln.If(within(ix.ONE, M, M + 1), (stored,)),))
        outside = (ln.Declare(TOTAL, ONE_MORE), ln.Allocate(OUTSIDE, N * M), loop, guarded, ln.Free(OUTSIDE))
        inputs = (ix.Array("x", (N, M), "float32"), AT)
        return Planted(ln.LoopNest("planted", ("n", "m"), inputs, OUT, outside), loop)

    def with_inside(self, body: list[ln.Statement]) -> tuple[ln.Statement, ...]:
        return (ln.Allocate(INSIDE, N * M), *body, ln.Free(INSIDE))

    def index(self, without: ix.Var | None) -> ix.Index:
        choices = [I, I, I, N - 1 - I, 2 * I, ix.floordiv(I, ix.constant(2))]
        choices += [I % 2, ZERO, I + 1, I - 1, ix.read(AT, (I,))]
        if without is None:
            choices += [J, J, I + J, I * M + J]
        return self.random.choice(choices)

    def cell(self, buffer: ln.Buffer, row: ix.Index, column: ix.Index) -> ln.Cell:
        return ln.Cell(buffer, ((row, N), (column, M)))

    def access(self, without: ix.Var | None, *buffers: ln.Buffer) -> ln.Cell:
        buffer = self.random.choice(buffers)
        return self.cell(buffer, self.index(without), self.random.choice([J, J, ZERO, self.index(without)]))

    def statement(self, without: ix.Var | None = None) -> ln.Statement:
        if self.random.random() < 0.25:
            ops: tuple[Arithmetic, ...] = ("add", "add", "sub", "max", "mul")
            kind = self.random.random()
            if kind < 0.75:
                return ln.Accumulate(TOTAL, self.random.choice(ops), ONE_MORE)
            return ln.Assign(TOTAL, ln.Load(TOTAL) if kind < 0.9 else ONE_MORE)
        target = self.access(without, OUT, OUTSIDE, OUTSIDE, INSIDE)
        target = _closed(target) if without is not None else target
        return _where_it_is(target, ln.Accumulate(target, "add", self.value(without)))

    def value(self, without: ix.Var | None) -> ln.ScalarExpr:
        if self.random.random() < 0.6:
            return ONE_MORE
        source = self.access(without, X, OUT, OUTSIDE, INSIDE)
        source = _closed(source) if without is not None else source
        rows, columns = (within(ZERO, position, extent) for position, extent in source.pairs)
        return ln.Choose(rows, ln.Choose(columns, ln.Load(source), ONE_MORE), ONE_MORE)


def _closed(cell: ln.Cell) -> ln.Cell:
    """Return the cell in a column that needs no inner loop."""
    (row, n), (column, m) = cell.pairs
    return ln.Cell(cell.buffer, ((row, n), (ZERO if COLUMN.uid in column.free else column, m)))


def _where_it_is(cell: ln.Cell, statement: ln.Statement) -> ln.Statement:
    """Return the statement, guarded so that the cell is inside its buffer."""
    rows, columns = (within(ZERO, position, extent) for position, extent in cell.pairs)
    return ln.If(rows, (ln.If(columns, (statement,)),))
