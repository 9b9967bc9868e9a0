"""Matrix products of §8.2.1: naive, tiled, and tiled with peeled tails (with E10 and E11)."""

from __future__ import annotations

import atl
from atl import IndexExpr, Program, Tensor

M, N, K = atl.sizes("M N K")
C = atl.sizes("C", min=1)
m1, m2 = atl.tensor("m1", M, K), atl.tensor("m2", K, N)


def product(i: IndexExpr, j: IndexExpr) -> Tensor:
    return atl.sum(K, lambda k: m1[i, k] * m2[k, j])


def naive() -> Program:
    return atl.program("matmul", [m1, m2], atl.gen(M, N, product))


def _tiles(low: IndexExpr | int, high: IndexExpr, io: IndexExpr, guarded: str) -> Tensor:
    """Return the tiles jo of C columns of the row tile io, in the order jo, ji, ii (E11), with guards if needed."""

    def element(jo: IndexExpr, ji: IndexExpr, ii: IndexExpr) -> Tensor:
        i, j = io * C + ii, jo * C + ji
        match guarded:
            case "rows and columns":
                return atl.guard((j < N) & (i < M), product(i, j))
            case "columns":
                return atl.guard(j < N, product(i, j))
            case _:
                return product(i, j)

    return atl.gen((low, high), lambda jo: atl.gen(C, C, lambda ji, ii: element(jo, ji, ii)))


def tiled() -> Program:
    """Return a product in tiles of C x C. Partial tiles are guarded, and their padding is truncated. For C >= 1."""
    rows, columns = atl.ceildiv(M, C), atl.ceildiv(N, C)
    body = atl.gen(
        rows,
        lambda io: atl.transpose(atl.truncr(columns * C - N, atl.flatten(_tiles(0, columns, io, "rows and columns")))),
    )
    return atl.program("matmul_tiled", [m1, m2], atl.truncr(rows * C - M, atl.flatten(body)))


def tiled_with_tails() -> Program:
    """Return a product in tiles without guards, with separate loops for the last columns and rows."""
    rows, columns = atl.ceildiv(M, C), atl.ceildiv(N, C)

    def whole_rows(io: IndexExpr) -> Tensor:
        tiles = atl.concat(_tiles(0, N // C, io, ""), _tiles(N // C, columns, io, "columns"))
        return atl.transpose(atl.truncr(columns * C - N, atl.flatten(tiles)))

    def last_rows(io: IndexExpr) -> Tensor:
        return atl.gen(C, N, lambda ii, j: atl.guard(io * C + ii < M, product(io * C + ii, j)))

    body = atl.concat(atl.gen(M // C, whole_rows), atl.gen((M // C, rows), last_rows))
    return atl.program("matmul_tiled_tails", [m1, m2], atl.truncr(rows * C - M, atl.flatten(body)))
