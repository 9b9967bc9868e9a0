"""Convolutions of §8.1.2 and §8.1.3: as scatter, as gather, and through an im2col buffer."""

from __future__ import annotations

import atl
from atl import Program

B, K, C, W, R = atl.sizes("B K C W R")
x, w = atl.tensor("x", B, C, W), atl.tensor("w", K, C, R)
padded = atl.tensor("x", B, C, W + R)


def gather() -> Program:
    """Each output reads the inputs of its window."""
    body = atl.gen(
        B, K, W, lambda n, k, p: atl.sum(C, R, lambda c, r: atl.guard(p + r < W, x[n, c, p + r] * w[k, c, r]))
    )
    return atl.program("gather", [x, w], body)


def scatter() -> Program:
    """Each input adds to the outputs that it reaches: the sum over inputs is outermost (E15)."""
    body = atl.sum(
        W,
        lambda i: atl.gen(
            B,
            K,
            W,
            lambda n, k, p: atl.sum(C, lambda c: x[n, c, i] * atl.guard((i - p < R) & (i - p >= 0), w[k, c, i - p])),
        ),
    )
    return atl.program("scatter", [x, w], body)


def direct() -> Program:
    """The convolution of an input that is long enough for every window."""
    body = atl.gen(B, K, W, lambda n, k, p: atl.sum(C, R, lambda c, r: w[k, c, r] * padded[n, c, p + r]))
    return atl.program("convolution", [padded, w], body)


def im2col() -> Program:
    """The windows marshalled into a matrix first; what is left is a matrix product."""
    body = atl.let(
        atl.gen(B, W, C, R, lambda n, p, c, r: padded[n, c, p + r]),
        lambda a: atl.gen(B, K, W, lambda n, k, p: atl.sum(C, R, lambda c, r: w[k, c, r] * a[n, p, c, r])),
        name="windows",
    )
    return atl.program("im2col", [padded, w], body)
