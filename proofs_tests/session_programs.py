"""The small programs that sessions are tested on."""

from __future__ import annotations

import atl

n, m, k = atl.sizes("n m k")
f = atl.tensor("f", n)
A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)


def pipeline() -> atl.Program:
    """The two-stage pipeline of §4.1."""
    return atl.program(
        "pipeline",
        [f],
        atl.let(
            atl.gen(n, lambda i: f[i]),
            lambda buf: atl.gen(n, lambda i: atl.guard(i >= 1, buf[i - 1]) + buf[i]),
        ),
    )


def matmul() -> atl.Program:
    return atl.program("matmul", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))
