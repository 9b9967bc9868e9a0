"""The unnormalised 3x3 box blur of §8.1.1, in the schedules of Figs. 8.1, 8.2 and 8.6.

What lies outside of the picture counts as zero. The corrections of E14 and E31 are made: the tails of the tiled
schedule start where its main loops end, and a transpose stands around the truncated columns.
"""

from __future__ import annotations

import atl
from atl import IndexExpr, Program, Tensor

n, m = atl.sizes("n m", min=1)
v = atl.tensor("v", n, m)


def row_sum(y: IndexExpr, x: IndexExpr) -> Tensor:
    """Three neighbours in a row (blur_x), zero outside of the picture."""
    inner = atl.guard(x >= 1, v[y, x - 1]) + v[y, x] + atl.guard(x + 1 < m, v[y, x + 1])
    return atl.guard((y >= 0) & (y < n), inner)


def nine(y: IndexExpr, x: IndexExpr) -> Tensor:
    """The nine neighbours of a pixel, zero outside of the picture."""
    return row_sum(y - 1, x) + row_sum(y, x) + row_sum(y + 1, x)


def nine_inside(y: IndexExpr, x: IndexExpr) -> Tensor:
    """The nine neighbours of a pixel that is not on the border."""
    total = v[y - 1, x - 1] + v[y - 1, x] + v[y - 1, x + 1]
    for row in (y, y + 1):
        total = total + v[row, x - 1] + v[row, x] + v[row, x + 1]
    return total


def two_stage() -> Program:
    """Breadth-first (Fig. 8.1 without tails): all row sums into a buffer with a row of zeros above and below."""
    rows = atl.gen(n + 2, m, lambda y, x: row_sum(y - 1, x))
    body = atl.let(
        rows,
        lambda buf: atl.gen(n, m, lambda y, x: buf[y, x] + buf[y + 1, x] + buf[y + 2, x]),
        name="buf",
    )
    return atl.program("blur_two_stage", [v], body)


def fused() -> Program:
    """All in one loop nest, nine guarded reads a pixel."""
    return atl.program("blur_fused", [v], atl.gen(n, m, nine))


def fused_with_tails() -> Program:
    """Fused, with the border split off: the interior is computed without a test. For n, m >= 2."""

    def inner_row(y: IndexExpr) -> Tensor:
        return atl.concat(
            atl.gen(1, lambda x: nine(y, x)),
            atl.gen((1, m - 1), lambda x: nine_inside(y, x)),
            atl.gen((m - 1, m), lambda x: nine(y, x)),
        )

    inside = atl.gen((1, n - 1), inner_row)
    body = atl.concat(atl.gen(1, m, nine), inside, atl.gen((n - 1, n), lambda y: atl.gen(m, lambda x: nine(y, x))))
    return atl.program("blur_fused_tails", [v], body, given=[n >= 2, m >= 2])


def tiled_staged_with_tails() -> Program:
    """Fig. 8.2: the border split off, the interior in tiles of k_n x k_m, each with a buffer of its row sums.

    For n, m >= 2 and any tile sizes; the last tile of rows and the last of columns are guarded.
    """
    k_n, k_m = atl.sizes("k_n k_m", min=1)
    rows, columns = n - 2, m - 2

    def inner_row(y: IndexExpr, x: IndexExpr) -> Tensor:
        """Three neighbours of the interior pixel (y, x - 1), counted from the corner of the picture."""
        return v[y, x] + v[y, x + 1] + v[y, x + 2]

    def tile(yo: IndexExpr, xo: IndexExpr, *, last: bool) -> Tensor:
        """A tile of k_n rows, transposed; only the columns of the last one need a guard."""

        def column(e: Tensor, xi: IndexExpr) -> Tensor:
            return atl.guard(xo * k_m + xi < columns, e) if last else e

        staged = atl.gen(k_n + 2, k_m, lambda yi, xi: column(inner_row(yo * k_n + yi, xo * k_m + xi), xi))
        return atl.let(
            staged,
            lambda buf: atl.transpose(
                atl.gen(k_n, k_m, lambda yi, xi: column(buf[yi, xi] + buf[yi + 1, xi] + buf[yi + 2, xi], xi))
            ),
            name="buf",
        )

    def tile_row(yo: IndexExpr) -> Tensor:
        whole, all_tiles = columns // k_m, atl.ceildiv(columns, k_m)
        tiles = atl.concat(
            atl.gen(whole, lambda xo: tile(yo, xo, last=False)),
            atl.gen((whole, all_tiles), lambda xo: tile(yo, xo, last=True)),
        )
        return atl.transpose(atl.truncr(all_tiles * k_m - columns, atl.flatten(tiles)))

    def last_row(yo: IndexExpr) -> Tensor:
        """The rows that fill no tile, over the whole width."""
        staged = atl.gen(k_n + 2, columns, lambda yi, x: atl.guard(yo * k_n + yi < n, inner_row(yo * k_n + yi, x)))
        return atl.let(
            staged,
            lambda buf: atl.gen(
                k_n,
                columns,
                lambda yi, x: atl.guard(yo * k_n + yi < rows, buf[yi, x] + buf[yi + 1, x] + buf[yi + 2, x]),
            ),
            name="buf",
        )

    whole, all_tiles = rows // k_n, atl.ceildiv(rows, k_n)
    interior = atl.truncr(
        all_tiles * k_n - rows,
        atl.flatten(atl.concat(atl.gen(whole, tile_row), atl.gen((whole, all_tiles), last_row))),
    )
    left = atl.gen((1, n - 1), lambda y: atl.gen(1, lambda x: nine(y, x)))
    right = atl.gen((1, n - 1), lambda y: atl.gen((m - 1, m), lambda x: nine(y, x)))
    middle = atl.transpose(atl.concat(atl.transpose(left), atl.transpose(interior), atl.transpose(right)))
    body = atl.concat(atl.gen(1, m, nine), middle, atl.gen((n - 1, n), lambda y: atl.gen(m, lambda x: nine(y, x))))
    return atl.program("blur_tiled", [v], body, given=[n >= 2, m >= 2])
