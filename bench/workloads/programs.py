"""Programs as they are written down, for workloads of which the examples ship none."""

from __future__ import annotations

import atl
from atl import IndexExpr, Program, Tensor

n, m, k = atl.sizes("n m k", min=1)


def transpose() -> Program:
    """The element at (j, i) is the one at (i, j)."""
    x = atl.tensor("x", n, m)
    return atl.program("transposed", [x], atl.gen(m, n, lambda j, i: x[i, j]))


def addition() -> Program:
    """The sum of two matrices."""
    a, b = atl.tensor("a", n, m), atl.tensor("b", n, m)
    return atl.program("added", [a, b], atl.gen(n, m, lambda i, j: a[i, j] + b[i, j]))


def matrix_vector() -> Program:
    """A matrix times a vector."""
    a, x = atl.tensor("a", n, m), atl.tensor("x", m)
    return atl.program("applied", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))


def product_float64() -> Program:
    """A matrix product in double precision."""
    a, b = atl.tensor("A", n, k, dtype="float64"), atl.tensor("B", k, m, dtype="float64")
    return atl.program("product", [a, b], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: a[i, p] * b[p, j])))


def stencil() -> Program:
    """A cell and its six neighbours in space; what lies outside counts as zero."""
    v = atl.tensor("v", n, m, k)

    def cell(x: IndexExpr, y: IndexExpr, z: IndexExpr) -> Tensor:
        def beside(dx: int, dy: int, dz: int) -> Tensor:
            a, b, c = x + dx, y + dy, z + dz
            inside = (a >= 0) & (a < n) & (b >= 0) & (b < m) & (c >= 0) & (c < k)
            return atl.guard(inside, v[a, b, c])

        sides = beside(-1, 0, 0) + beside(1, 0, 0) + beside(0, -1, 0) + beside(0, 1, 0)
        return 0.4 * v[x, y, z] + 0.1 * (sides + beside(0, 0, -1) + beside(0, 0, 1))

    return atl.program("stencil", [v], atl.gen(n, m, k, cell))


def layer_norm() -> Program:
    """Each row less its mean, over its standard deviation."""
    x = atl.tensor("x", n, m)
    count = atl.cast("float32", atl.value(m))
    means = atl.gen(n, lambda i: atl.sum(m, lambda j: x[i, j]) / count)

    def scaled(mean: Tensor) -> Tensor:
        def square(i: IndexExpr, j: IndexExpr) -> Tensor:
            return (x[i, j] - mean[i]) * (x[i, j] - mean[i])

        deviations = atl.gen(n, lambda i: atl.sqrt(atl.sum(m, lambda j: square(i, j)) / count + 1e-5))
        return atl.let(deviations, lambda by: atl.gen(n, m, lambda i, j: (x[i, j] - mean[i]) / by[i]), name="deviation")

    return atl.program("layer_norm", [x], atl.let(means, scaled, name="mean"))


def conv2d() -> Program:
    """A convolution in two dimensions of an input that is long enough for every window."""
    samples, outer, inner, high, wide, r = atl.sizes("B K C H W R")
    x, w = atl.tensor("x", samples, inner, high + r, wide + r), atl.tensor("w", outer, inner, r, r)

    def element(b: IndexExpr, o: IndexExpr, y: IndexExpr, z: IndexExpr) -> Tensor:
        return atl.sum(inner, r, r, lambda c, dy, dx: w[o, c, dy, dx] * x[b, c, y + dy, z + dx])

    return atl.program("conv2d", [x, w], atl.gen(samples, outer, high, wide, element))
