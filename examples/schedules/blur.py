"""The unnormalised 3x3 box blur of §8.1.1, in the schedules of Figs. 8.1, 8.2 and 8.6.

Pixels outside of the image count as zero. E14 and E31 are corrected: the tails of the tiled schedule start where its
main loops end, and the truncated columns are transposed.
"""

from __future__ import annotations

from collections.abc import Callable

import atl
from atl import IndexExpr, Program, Tensor

n, m = atl.sizes("n m", min=1)
k_n, k_m = atl.sizes("k_n k_m", min=1)
v = atl.tensor("v", n, m)


def row_sum(y: IndexExpr, x: IndexExpr) -> Tensor:
    """Return the sum of three neighbours in a row (blur_x), with zeros outside of the image."""
    return atl.guard(x >= 1, v[y, x - 1]) + v[y, x] + atl.guard(x + 1 < m, v[y, x + 1])


def inner_row_sum(y: IndexExpr, x: IndexExpr) -> Tensor:
    """Return the sum of three neighbours in a row, for a pixel that is neither the first nor the last."""
    return v[y, x - 1] + v[y, x] + v[y, x + 1]


def two_stage() -> Program:
    """Return the breadth-first schedule (Fig. 8.1 without tails): all row sums in a buffer with zero rows around it."""
    rows = atl.gen(n + 2, m, lambda y, x: atl.guard((y >= 1) & (y - 1 < n), row_sum(y - 1, x)))
    body = atl.let(
        rows,
        lambda buf: atl.gen(n, m, lambda y, x: buf[y, x] + buf[y + 1, x] + buf[y + 2, x]),
        name="buf",
    )
    return atl.program("blur_two_stage", [v], body)


def fused() -> Program:
    """Return a single loop nest with nine guarded reads per pixel."""

    def nine(y: IndexExpr, x: IndexExpr) -> Tensor:
        above, below = atl.guard(y >= 1, row_sum(y - 1, x)), atl.guard(y + 1 < n, row_sum(y + 1, x))
        return above + row_sum(y, x) + below

    return atl.program("blur_fused", [v], atl.gen(n, m, nine))


def first_row() -> Tensor:
    """Return the first row of the result."""
    return atl.gen(1, m, lambda y, x: row_sum(y, x) + row_sum(y + 1, x))


def last_row() -> Tensor:
    """Return the last row of the result."""
    return atl.gen((n - 1, n), lambda y: atl.gen(m, lambda x: row_sum(y - 1, x) + row_sum(y, x)))


def first_pixel(y: IndexExpr) -> Tensor:
    """Return the first pixel of an inner row."""
    return atl.gen(1, lambda x: sum_of(lambda row: v[row, x] + v[row, x + 1], y))


def last_pixel(y: IndexExpr) -> Tensor:
    """Return the last pixel of an inner row."""
    return atl.gen((m - 1, m), lambda x: sum_of(lambda row: v[row, x - 1] + v[row, x], y))


def sum_of(of_row: Callable[[IndexExpr], Tensor], y: IndexExpr) -> Tensor:
    """Return the sum of a function of the rows y - 1, y and y + 1."""
    return of_row(y - 1) + of_row(y) + of_row(y + 1)


def fused_with_tails() -> Program:
    """Return the fused schedule with the border peeled, so that the interior has no guards. For n, m >= 2."""

    def row(y: IndexExpr) -> Tensor:
        inside = atl.gen((1, m - 1), lambda x: sum_of(lambda at: inner_row_sum(at, x), y))
        return atl.concat(first_pixel(y), inside, last_pixel(y))

    body = atl.concat(first_row(), atl.gen((1, n - 1), row), last_row())
    return atl.program("blur_fused_tails", [v], body, given=[n >= 2, m >= 2])


def row_of_three(y: IndexExpr, x: IndexExpr) -> Tensor:
    """Return the sum of v[y, x], v[y, x + 1] and v[y, x + 2]."""
    return v[y, x] + v[y, x + 1] + v[y, x + 2]


def tile(yo: IndexExpr, xo: IndexExpr, *, last: bool) -> Tensor:
    """Return a transposed tile of k_n rows of the interior. Only the columns of the last tile need a guard."""

    def column(e: Tensor, xi: IndexExpr) -> Tensor:
        return atl.guard(xo * k_m + xi < m - 2, e) if last else e

    def staged_row(yi: IndexExpr, xi: IndexExpr) -> Tensor:
        y, x = yo * k_n + yi, xo * k_m + xi
        if not last:
            return row_of_three(y, x)
        return atl.guard(x + 1 < m, v[y, x] + v[y, x + 1] + atl.guard(x + 2 < m, v[y, x + 2]))

    staged = atl.gen(k_n + 2, k_m, staged_row)
    return atl.let(
        staged,
        lambda buf: atl.transpose(
            atl.gen(k_n, k_m, lambda yi, xi: column(buf[yi, xi] + buf[yi + 1, xi] + buf[yi + 2, xi], xi))
        ),
        name="buf",
    )


def row_of_no_tile(yo: IndexExpr) -> Tensor:
    """Return the remaining rows of the interior, over the whole width."""
    rows, columns = n - 2, m - 2
    staged = atl.gen(k_n + 2, columns, lambda yi, x: atl.guard(yo * k_n + yi < n, row_of_three(yo * k_n + yi, x)))
    return atl.let(
        staged,
        lambda buf: atl.gen(
            k_n,
            columns,
            lambda yi, x: atl.guard(yo * k_n + yi < rows, buf[yi, x] + buf[yi + 1, x] + buf[yi + 2, x]),
        ),
        name="buf",
    )


def tiled_staged_with_tails() -> Program:
    """Return Fig. 8.2: the border peeled, and the interior in tiles of k_n x k_m with buffers of row sums.

    For n, m >= 2 and any tile sizes. The last tile of rows and the last of columns are guarded.
    """
    rows, columns = n - 2, m - 2

    def tile_row(yo: IndexExpr) -> Tensor:
        whole, all_tiles = columns // k_m, atl.ceildiv(columns, k_m)
        tiles = atl.concat(
            atl.gen(whole, lambda xo: tile(yo, xo, last=False)),
            atl.gen((whole, all_tiles), lambda xo: tile(yo, xo, last=True)),
        )
        return atl.transpose(atl.truncr(all_tiles * k_m - columns, atl.flatten(tiles)))

    whole, all_tiles = rows // k_n, atl.ceildiv(rows, k_n)
    interior = atl.truncr(
        all_tiles * k_n - rows,
        atl.flatten(atl.concat(atl.gen(whole, tile_row), atl.gen((whole, all_tiles), row_of_no_tile))),
    )
    left, right = atl.gen((1, n - 1), first_pixel), atl.gen((1, n - 1), last_pixel)
    middle = atl.transpose(atl.concat(atl.transpose(left), atl.transpose(interior), atl.transpose(right)))
    body = atl.concat(first_row(), middle, last_row())
    return atl.program("blur_tiled", [v], body, given=[n >= 2, m >= 2])
