"""Programs with recurrences and with choices between values, in a few lines each.

Each function returns a program. `python -m bench prefix-sum biquad gru` measures three of them.
"""

from __future__ import annotations

import atl
from atl import IndexExpr, Tensor, gen, select, where


def prefix_sum() -> atl.Program:
    """Return the sums of the first elements: out[p] = x[0] + … + x[p]."""
    n = atl.sizes("n")
    x = atl.tensor("x", n)
    return atl.program("prefix_sum", [x], atl.rec(n, lambda p, y: select(p >= 1, y[p - 1], 0) + x[p]))


def biquad() -> atl.Program:
    """Return a recursive filter of second order, with the coefficients of `scipy.signal.lfilter(b, a, x)`, a[0] = 1."""
    n = atl.sizes("n")
    b, a, x = (atl.tensor(name, extent, dtype="float64") for name, extent in (("b", 3), ("a", 3), ("x", n)))

    def before(u: Tensor, p: IndexExpr, by: int) -> Tensor:
        return select(p >= by, u[p - by], 0)

    def row(p: IndexExpr, y: Tensor) -> Tensor:
        read = b[0] * x[p] + b[1] * before(x, p, 1) + b[2] * before(x, p, 2)
        return read - a[1] * before(y, p, 1) - a[2] * before(y, p, 2)

    return atl.program("biquad", [b, a, x], atl.rec(n, row))


def gru() -> atl.Program:
    """Return the states of a gated recurrent unit over T inputs, the first state included.

    The gates are in the order of `torch.nn.GRU`: reset, update, new. `W` and `U` contain a matrix for each.
    """
    steps, inputs, units = atl.sizes("T I H")
    x, w, u = (
        atl.tensor(name, *shape)
        for name, shape in (("x", (steps, inputs)), ("W", (3, units, inputs)), ("U", (3, units, units)))
    )
    bw, bu, start = atl.tensor("bw", 3, units), atl.tensor("bu", 3, units), atl.tensor("start", units)

    def sigmoid(v: Tensor) -> Tensor:
        return 1 / (1 + atl.exp(-v))

    def step(t: IndexExpr, h: Tensor) -> Tensor:
        def of_input(gate: int, i: IndexExpr) -> Tensor:
            return atl.sum(inputs, lambda j: w[gate, i, j] * x[t, j]) + bw[gate, i]

        def of_state(gate: int, i: IndexExpr) -> Tensor:
            return atl.sum(units, lambda j: u[gate, i, j] * h[j]) + bu[gate, i]

        def unit(i: IndexExpr) -> Tensor:
            reset = sigmoid(of_input(0, i) + of_state(0, i))
            new = atl.tanh(of_input(2, i) + reset * of_state(2, i))
            return atl.let(sigmoid(of_input(1, i) + of_state(1, i)), lambda z: (1 - z) * new + z * h[i])

        return gen(units, unit)

    return atl.program("gru", [x, w, u, bw, bu, start], atl.scan(steps, start, step))


def alignment() -> atl.Program:
    """Return the scores of the best alignments of all prefixes of two sequences (Needleman and Wunsch).

    Two letters score 1 if they are equal, otherwise -1. A gap scores -1.
    """
    n, m = atl.sizes("n m")
    a, b = atl.tensor("a", n, dtype="int32"), atl.tensor("b", m, dtype="int32")

    def row(i: IndexExpr, above: Tensor) -> Tensor:
        def best(j: IndexExpr, left: Tensor) -> Tensor:
            pair = where(a[i - 1] == b[j - 1], 1, -1)
            gap = atl.maximum(above[i - 1, j], left[j - 1]) - 1
            inside = atl.maximum(above[i - 1, j - 1] + pair, gap)
            return select(j >= 1, select(i >= 1, inside, atl.value(-j)), atl.value(-i))

        return atl.rec(m + 1, best, dtype="int32")

    return atl.program("alignment", [a, b], atl.rec(n + 1, row, of=(m + 1,), dtype="int32"))


def shortest_paths() -> atl.Program:
    """Return the lengths of the shortest paths between all nodes (Floyd and Warshall)."""
    n = atl.sizes("n")
    d = atl.tensor("d", n, n)
    step = lambda k, u: gen(n, n, lambda i, j: atl.minimum(u[i, j], u[i, k] + u[k, j]))  # noqa: E731
    return atl.program("shortest_paths", [d], atl.iterate(n, d, step))
