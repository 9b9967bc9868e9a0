"""Fragments: layouts in which the lanes of a warp hold the operands of a matrix instruction in registers.

A warp is 8 × 4 threads: lane 4*y + x. A fragment stores an element of a tile at (y, x, …), where the further positions
number the registers of the lane in row-major order. `s.store` takes a fragment, and `lowering.instructions` uses them.

Source: PTX ISA, "Matrix Fragments for mma.m16n8k16" (floating point) and "… for mma.m16n8k32".

>>> from layouts import fragments
>>> fragments.PRODUCTS(9, 3) == ((1 * 4 + 1) * 2 + 1) * 2 + 1
True
"""

from __future__ import annotations

from math import gcd
from typing import Any, Final

from layouts.foundation.box import Box
from layouts.foundation.function import IndexFunction

WARP: Final = (8, 4)
"""Threads of a warp along y and x."""

PRODUCTS: Final = IndexFunction(
    (16, 8),
    lambda i, j: (i % 8, j // 2, i // 8, j % 2),
    lambda y, x, c, d: (8 * c + y, 2 * x + d),
    onto=Box((*WARP, 2, 2), row_major=True),
    name="products",
)
"""The 16 × 8 sums: 4 registers of 32 bits."""

LEFT: Final = IndexFunction(
    (16, 16),
    lambda i, p: (i % 8, p // 2 % 4, p // 8, i // 8, p % 2),
    lambda y, x, e, c, d: (8 * c + y, 8 * e + 2 * x + d),
    onto=Box((*WARP, 2, 2, 2), row_major=True),
    name="left",
)
"""The left operand, 16 × 16 elements of 16 bits: 4 registers with 2 elements each."""

RIGHT: Final = IndexFunction(
    (16, 8),
    lambda p, j: (j, p // 2 % 4, p // 8, p % 2),
    lambda y, x, e, d: (8 * e + 2 * x + d, y),
    onto=Box((*WARP, 2, 2), row_major=True),
    name="right",
)
"""The right operand, 16 × 8 elements of 16 bits: 2 registers with 2 elements each."""

LEFT_BYTES: Final = IndexFunction(
    (16, 32),
    lambda i, p: (i % 8, p // 4 % 4, p // 16, i // 8, p % 4),
    lambda y, x, e, c, d: (8 * c + y, 16 * e + 4 * x + d),
    onto=Box((*WARP, 2, 2, 4), row_major=True),
    name="left of bytes",
)
"""The left operand, 16 × 32 elements of 8 bits: 4 registers with 4 elements each."""

RIGHT_BYTES: Final = IndexFunction(
    (32, 8),
    lambda p, j: (j, p // 4 % 4, p // 16, p % 4),
    lambda y, x, e, d: (16 * e + 4 * x + d, y),
    onto=Box((*WARP, 2, 4), row_major=True),
    name="right of bytes",
)
"""The right operand, 32 × 8 elements of 8 bits: 2 registers with 4 elements each."""


def swizzled(rows: int, columns: int, count: int) -> IndexFunction:
    """Return the layout of a tile in pieces of `count` elements, 16 bytes, without bank conflicts.

    Element (i, p) is in piece number `columns/count * i + (p // count xor f(i))`, where f numbers the rows that begin
    in the same of the 8 groups of banks, each of 16 bytes. So for any columns, the pieces of 8 rows i from a multiple
    of 8 on are in 8 groups: a load of a fragment (`ldmatrix`) and a copy of a row take one round for 8 lanes.

    >>> from layouts.fragments import swizzled
    >>> [swizzled(8, 64, 8).to(i, 8)[0] % 8 for i in range(8)]
    [1, 0, 3, 2, 5, 4, 7, 6]
    """
    each_row = columns // count
    groups = gcd(each_row, 8)

    def number(i: Any) -> Any:
        return i // (8 // groups) % groups

    def to(i: Any, p: Any) -> tuple[Any, ...]:
        return each_row * i + ((p // count) ^ number(i)), p % count

    def inverse(t: Any, e: Any) -> tuple[Any, ...]:
        return t // each_row, count * ((t % each_row) ^ number(t // each_row)) + e

    box = Box((rows * each_row, count), row_major=True)
    return IndexFunction((rows, columns), to, inverse, onto=box, name="swizzled")
