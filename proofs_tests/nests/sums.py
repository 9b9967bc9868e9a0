"""A loop nest with sums after loops: some can be fused into the loop before them, others cannot."""

from __future__ import annotations

from itertools import count

from atl.core.index import ZERO, Index, Var, constant, index
from atl.core.predicate import TRUE
from lowering.nest import loopnest as ln
from proofs_tests.nests.by_hand import at, binary, cell, loop, n, nest, output, tensor

_ids = count(50)
_NONE = ln.Number(0, "float32")


def _after(
    stored: ln.Statement, held: ln.Buffer, value: ln.ScalarExpr, *, first: ln.ScalarExpr = _NONE, low: Index = ZERO
) -> tuple[ln.Scalar, tuple[ln.Statement, ...]]:
    """Return a loop over i that stores to a buffer, and a sum over j after it."""
    total = ln.Scalar(next(_ids), "total", "float32")
    summing = loop(_J, n, ln.Accumulate(total, "add", value), low=low)
    return total, (ln.Allocate(held, n + 1), loop(_I, n, stored), ln.Declare(total, first), summing)


_I, _J = Var(40, "i"), Var(41, "j")
i, j = index(_I), index(_J)


def nest_of_sums() -> ln.LoopNest:
    """Return a nest that stores each of the sums in a cell of the output."""
    x, of = tensor("x", n)
    out = output(constant(8))
    found: list[ln.Statement] = []

    def cases(held: ln.Buffer) -> tuple[tuple[ln.Scalar, tuple[ln.Statement, ...]], ...]:
        own, running = ln.Assign(cell(held, i), at(of, i)), ln.Scalar(next(_ids), "running", "float32")
        filled = loop(_I, n + 1, ln.Assign(cell(held, i), ln.Number(1, "float32")))
        summed = ln.Scalar(next(_ids), "total", "float32")
        adding = loop(_I, n, ln.Assign(cell(held, i), at(of, i)), ln.Accumulate(running, "add", at(of, i)))
        of_running = loop(_J, n, ln.Accumulate(summed, "add", ln.Load(running)))
        last = ln.Scalar(next(_ids), "last", "float32")
        of_last = loop(_J, n, ln.Accumulate(summed, "add", binary("mul", ln.Load(last), at(held, j))))
        fused = loop(_I, n, ln.Accumulate(cell(held, i), "add", at(of, i))), ln.Declare(summed, at(held, ZERO)), of_last
        return (
            _after(own, held, binary("mul", at(held, j), at(of, n - j - 1))),
            _after(own, held, at(held, n - j - 1)),
            _after(ln.Accumulate(cell(held, ZERO), "add", at(of, i)), held, at(held, ZERO)),
            _after(own, held, at(held, j), low=constant(1)),
            (
                summed,
                (ln.Allocate(held, n + 1), ln.Declare(running, _NONE), adding, ln.Declare(summed, _NONE), of_running),
            ),
            (summed, (ln.Allocate(held, n + 1), filled, ln.Declare(last, at(held, n)), *fused)),
        )

    for number in range(6):
        held = ln.Buffer(next(_ids), "held", "float32", (n + 1,))
        total, block = cases(held)[number]
        found.append(ln.If(TRUE, (*block, ln.Assign(cell(out, constant(number)), ln.Load(total)), ln.Free(held))))
    return nest("sums", [x], out, *found, sizes="n", complete=False)
