"""Stencils in C on an array stored in bricks: small cubes, each contiguous in memory (the last row of Table I)."""

from __future__ import annotations

from itertools import product
from typing import Final

from atl import sizes
from layouts.lego import GroupBy, Row
from layouts.templates import Filled, fill

TEMPLATE: Final = """\
#include <stdint.h>

enum { b = {{ b }} };
#define AT(a, i, j, k) a[{{ at("(i)", "(j)", "(k)") }}]

void stencil(const float *x, float *y, int64_t n)
{
    for (int64_t i = {{ reach }}; i < n - {{ reach }}; ++i)
        for (int64_t j = {{ reach }}; j < n - {{ reach }}; ++j)
            for (int64_t k = {{ reach }}; k < n - {{ reach }}; ++k)
                AT(y, i, j, k) = {{ sum }};
}
"""


def bricks(shape: str = "star", reach: int = 1, b: int = 4, *, in_bricks: bool = True) -> Filled:
    """Return a stencil over neighbours up to `reach` steps away, in a "star" or a "cube", stored in bricks of b."""
    n, side = sizes("n b")
    fact = [n % side == 0]
    cube = [n // side] * 3
    view = GroupBy([n, n, n], given=fact)
    view = view.TileOrderBy(Row(cube), Row(side, side, side)) if in_bricks else view.OrderBy(Row(n, n, n))
    steps = [step for step in product(range(-reach, reach + 1), repeat=3) if shape == "cube" or step.count(0) >= 2]
    read = (f"AT(x, i + {i}, j + {j}, k + {k})".replace("+ -", "- ") for i, j, k in steps)
    return fill(TEMPLATE, "c", {"at": view[:, :, :], "b": b, "reach": reach, "sum": " + ".join(read)}, given=[view])
