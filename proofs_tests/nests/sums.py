"""A loop nest of sums after loops: some may be a part of the loop before them, and others may not."""

from __future__ import annotations

from itertools import count

from atl.core.index import ZERO, Index, Var, constant, index
from atl.core.predicate import TRUE
from lowering.nest.loopnest import (
    Accumulate,
    Allocate,
    Assign,
    Buffer,
    Declare,
    Free,
    If,
    Load,
    LoopNest,
    Number,
    Scalar,
    ScalarExpr,
    Statement,
)
from proofs_tests.nests.by_hand import at, binary, cell, loop, n, nest, output, tensor

_ids = count(50)
_NONE = Number(0, "float32")


def _after(
    stored: Statement, held: Buffer, value: ScalarExpr, *, first: ScalarExpr = _NONE, low: Index = ZERO
) -> tuple[Scalar, tuple[Statement, ...]]:
    """A loop over i that stores to a buffer, and a sum over j after it."""
    total = Scalar(next(_ids), "total", "float32")
    summing = loop(_J, n, Accumulate(total, "add", value), low=low)
    return total, (Allocate(held, n + 1), loop(_I, n, stored), Declare(total, first), summing)


_I, _J = Var(40, "i"), Var(41, "j")
i, j = index(_I), index(_J)


def nest_of_sums() -> LoopNest:
    """What each of the sums is, one cell for each."""
    x, of = tensor("x", n)
    out = output(constant(8))
    found: list[Statement] = []

    def cases(held: Buffer) -> tuple[tuple[Scalar, tuple[Statement, ...]], ...]:
        own, running = Assign(cell(held, i), at(of, i)), Scalar(next(_ids), "running", "float32")
        filled = loop(_I, n + 1, Assign(cell(held, i), Number(1, "float32")))
        summed = Scalar(next(_ids), "total", "float32")
        adding = loop(_I, n, Assign(cell(held, i), at(of, i)), Accumulate(running, "add", at(of, i)))
        of_running = loop(_J, n, Accumulate(summed, "add", Load(running)))
        last = Scalar(next(_ids), "last", "float32")
        of_last = loop(_J, n, Accumulate(summed, "add", binary("mul", Load(last), at(held, j))))
        return (
            _after(own, held, binary("mul", at(held, j), at(of, n - j - 1))),
            _after(own, held, at(held, n - j - 1)),
            _after(Accumulate(cell(held, ZERO), "add", at(of, i)), held, at(held, ZERO)),
            _after(own, held, at(held, j), low=constant(1)),
            (summed, (Allocate(held, n + 1), Declare(running, _NONE), adding, Declare(summed, _NONE), of_running)),
            (
                summed,
                (
                    *(Allocate(held, n + 1), filled, Declare(last, at(held, n))),
                    *(
                        loop(_I, n, Accumulate(cell(held, i), "add", at(of, i))),
                        Declare(summed, at(held, ZERO)),
                        of_last,
                    ),
                ),
            ),
        )

    for number in range(6):
        held = Buffer(next(_ids), "held", "float32", (n + 1,))
        total, block = cases(held)[number]
        found.append(If(TRUE, (*block, Assign(cell(out, constant(number)), Load(total)), Free(held))))
    return nest("sums", [x], out, *found, sizes="n", complete=False)
