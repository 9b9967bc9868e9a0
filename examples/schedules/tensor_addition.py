"""Addition of 4-dimensional tensors (§8.2.2): four loops, or one flat loop that is split in storage (E12).

The paper says addition but prints a product.
"""

from __future__ import annotations

import atl
from atl import Program

M, N, K, C = atl.sizes("M N K C")
t1, t2 = atl.tensor("t1", M, N, K, C), atl.tensor("t2", M, N, K, C)


def nested() -> Program:
    return atl.program("add", [t1, t2], atl.gen(M, N, K, C, lambda i, j, k, c: t1[i, j, k, c] + t2[i, j, k, c]))


def flat() -> Program:
    """Return one loop over all elements, split three times into four dimensions. For N, K, C >= 1."""

    def element(i: atl.IndexExpr) -> atl.Tensor:
        at = (i // (N * K * C), i // (K * C) % N, i // C % K, i % C)
        return t1[at] + t2[at]

    body = atl.split(N, atl.split(K, atl.split(C, atl.gen(M * N * K * C, element))))
    return atl.program("add_flat", [t1, t2], body, given=[N >= 1, K >= 1, C >= 1])
