"""Random loop nests with a marked loop, of which many may not run as they are marked.

An iteration does a few things to an output, a buffer and a scalar variable, at indices drawn from a short list, so that
iterations often meet. Whether they do is known to nobody: the prover and the loop-nest interpreter each have to say.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from atl.core.index import ONE, Array, Index, Var, constant, floordiv, index, read, size
from atl.core.marks import LoopMark
from atl.core.predicate import within
from atl.core.terms import BinaryOp
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Buffer,
    Cell,
    Choose,
    Declare,
    For,
    Free,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
)

AnyArray = npt.NDArray[Any]

MARKS: Final = (LoopMark.PARALLEL, LoopMark.VECTOR, LoopMark.STREAM, LoopMark.BLOCK_X, LoopMark.THREAD_Y)
N, M = size("n"), size("m")
ROW, COLUMN = Var(1, "i"), Var(2, "j")
I, J = index(ROW), index(COLUMN)  # noqa: E741
ZERO: Final = constant(0)
AT: Final = Array("at", (N,), "int64")
X: Final = Buffer(10, "x", "float32", (N, M), "input")
OUT: Final = Buffer(11, "out", "float32", (N, M), "output")
OUTSIDE, INSIDE = Buffer(12, "outside", "float32", (N, M)), Buffer(13, "inside", "float32", (N, M))
TOTAL: Final = Scalar(20, "total", "float32")
ONE_MORE: Final = Number(1, "float32")


@dataclass(frozen=True, slots=True)
class Planted:
    """A nest, whose outer loop is the marked one."""

    nest: LoopNest
    loop: For

    def arrays(self, sizes: Mapping[str, int], at: AnyArray | None = None) -> dict[str, AnyArray]:
        """Inputs of a call; `at` says where the elements of the array of indices point."""
        n, m = sizes["n"], sizes["m"]
        return {"x": np.ones((n, m), np.float32), "at": np.zeros(n, np.int64) if at is None else at}


def planted(seed: int) -> Planted:
    """The nest of this number."""
    return _Maker(Random(f"marks:{seed}")).nest()


class _Maker:
    def __init__(self, random: Random) -> None:
        self.random = random

    def nest(self) -> Planted:
        inner = [self.statement() for _ in range(self.random.choice((1, 1, 2)))]
        body: list[Statement] = [For(COLUMN, ZERO, M, tuple(inner))]
        if self.random.random() < 0.3:
            body.append(self.statement(COLUMN))
        loop = For(ROW, ZERO, N, self.with_inside(body), self.random.choice(MARKS))
        stored = Accumulate(self.cell(OUT, ZERO, ZERO), "add", Load(TOTAL))
        room = N * M
        outside: tuple[Statement, ...] = (
            Declare(TOTAL, ONE_MORE),
            Allocate(OUTSIDE, room),
            loop,
            If(within(ONE, N, N + 1), (If(within(ONE, M, M + 1), (stored,)),)),
            Free(OUTSIDE),
        )
        inputs = (Array("x", (N, M), "float32"), AT)
        return Planted(LoopNest("planted", ("n", "m"), inputs, OUT, outside), loop)

    def with_inside(self, body: list[Statement]) -> tuple[Statement, ...]:
        return (Allocate(INSIDE, N * M), *body, Free(INSIDE))

    def index(self, without: Var | None) -> Index:
        choices = [I, I, I, N - 1 - I, 2 * I, floordiv(I, constant(2)), I % 2, ZERO, I + 1, I - 1, read(AT, (I,))]
        if without is None:
            choices += [J, J, I + J, I * M + J]
        return self.random.choice(choices)

    def cell(self, buffer: Buffer, row: Index, column: Index) -> Cell:
        return Cell(buffer, ((row, N), (column, M)))

    def access(self, without: Var | None, *buffers: Buffer) -> Cell:
        buffer = self.random.choice(buffers)
        return self.cell(buffer, self.index(without), self.random.choice([J, J, ZERO, self.index(without)]))

    def statement(self, without: Var | None = None) -> Statement:
        if self.random.random() < 0.25:
            ops: tuple[BinaryOp, ...] = ("add", "add", "sub", "max", "mul")
            kind = self.random.random()
            if kind < 0.75:
                return Accumulate(TOTAL, self.random.choice(ops), ONE_MORE)
            return Assign(TOTAL, Load(TOTAL) if kind < 0.9 else ONE_MORE)
        target = self.access(without, OUT, OUTSIDE, OUTSIDE, INSIDE)
        target = _closed(target) if without is not None else target
        return _where_it_is(target, Accumulate(target, "add", self.value(without)))

    def value(self, without: Var | None) -> ScalarExpr:
        if self.random.random() < 0.6:
            return ONE_MORE
        source = self.access(without, X, OUT, OUTSIDE, INSIDE)
        source = _closed(source) if without is not None else source
        rows, columns = (within(ZERO, position, extent) for position, extent in source.pairs)
        return Choose(rows, Choose(columns, Load(source), ONE_MORE), ONE_MORE)


def _closed(cell: Cell) -> Cell:
    """The cell in a column that needs no inner loop."""
    (row, n), (column, m) = cell.pairs
    return Cell(cell.buffer, ((row, n), (ZERO if COLUMN.uid in column.free else column, m)))


def _where_it_is(cell: Cell, statement: Statement) -> Statement:
    """The statement, where the cell is one of its buffer."""
    rows, columns = (within(ZERO, position, extent) for position, extent in cell.pairs)
    return If(rows, (If(columns, (statement,)),))
