"""The product of two matrices."""

import atl

n, m, k = atl.sizes("n m k")
A, B = atl.tensor("A", n, k), atl.tensor("B", k, m)

matmul = atl.program("matmul", [A, B], atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * B[p, j])))
