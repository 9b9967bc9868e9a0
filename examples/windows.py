"""Sliding sums of k elements. k is not the extent of an array, so each call passes it."""

import atl

n, k = atl.sizes("n"), atl.sizes("k", min=1)
x = atl.tensor("x", n, dtype="float64")

windows = atl.program(
    "windows", [x], atl.gen(n, lambda i: atl.sum(k, lambda j: atl.guard(i - j >= 0, x[i - j]))), given=[k <= n]
)
