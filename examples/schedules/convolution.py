"""Convolutions of §8.1.2 and §8.1.3: as scatter, as gather, and through an im2col buffer."""

from __future__ import annotations

import atl
from atl import Program

B, K, C, W, R = atl.sizes("B K C W R")
x, w = atl.tensor("x", B, C, W), atl.tensor("w", K, C, R)
padded = atl.tensor("x", B, C, W + R)


def gather() -> Program:
    """Return the gather form: each output reads the inputs of its window."""
    body = atl.gen(
        B, K, W, lambda n, k, p: atl.sum(C, R, lambda c, r: atl.guard(p + r < W, x[n, c, p + r] * w[k, c, r]))
    )
    return atl.program("gather", [x, w], body)


def scatter() -> Program:
    """Return the scatter form: each input is added to its outputs, with the sum over inputs outermost (E15)."""
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
    """Return the convolution of an input that contains every window."""
    body = atl.gen(B, K, W, lambda n, k, p: atl.sum(C, R, lambda c, r: w[k, c, r] * padded[n, c, p + r]))
    return atl.program("convolution", [padded, w], body)


def im2col() -> Program:
    """Return the im2col form: the windows are copied to a matrix, which leaves a matrix product."""
    body = atl.let(
        atl.gen(B, W, C, R, lambda n, p, c, r: padded[n, c, p + r]),
        lambda a: atl.gen(B, K, W, lambda n, k, p: atl.sum(C, R, lambda c, r: w[k, c, r] * a[n, p, c, r])),
        name="windows",
    )
    return atl.program("im2col", [padded, w], body)
