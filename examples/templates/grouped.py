"""Grouped matrix products of different sizes in one Triton launch, where each program loops over tiles."""

from __future__ import annotations

from typing import Final

from atl import sizes
from layouts.lego import GroupBy, Row, TileBy, TileInto
from layouts.templates import Filled, fill

TEMPLATE: Final = """\
import triton
import triton.language as tl


@triton.jit
def grouped(a_ptr, b_ptr, c_ptr, extents_ptr, starts_ptr, G, P, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    tile = tl.program_id(0)
    done = 0
    for g in range(G):
        M = tl.load(extents_ptr + {{ extent_m }})
        N = tl.load(extents_ptr + {{ extent_n }})
        K = tl.load(extents_ptr + {{ extent_k }})
        a_of = tl.load(starts_ptr + {{ extent_m }})
        b_of = tl.load(starts_ptr + {{ extent_n }})
        c_of = tl.load(starts_ptr + {{ extent_k }})
        nt_m = tl.cdiv(M, BM)
        nt_n = tl.cdiv(N, BN)
        last = done + {{ tiles }}
        while tile >= done and tile < last:
            at = tile - done
            i = {{ row }}
            j = {{ column }}
            total = tl.zeros((BM, BN), dtype=tl.float32)
            for k in range(0, tl.cdiv(K, BK)):
                a = tl.load(a_ptr + a_of + {{ a }})
                b = tl.load(b_ptr + b_of + {{ b }})
                total = tl.dot(a, b, total)
            tl.store(c_ptr + c_of + {{ c }}, total.to(tl.float16))
            tile += P
        done = last
"""


def grouped() -> Filled:
    """Return the kernel. Its tables have three extents and three offsets per product; P programs run.

    >>> print(grouped().text.splitlines()[19].strip(), "|", grouped().text.splitlines()[20].strip())
    at = tile - done | i = at // nt_n
    """
    M, N, K, BM, BN, BK = sizes("M N K BM BN BK")
    G, g, at, i, j, k, nt_m, nt_n = sizes("G g at i j k nt_m nt_n")
    table, tiles = GroupBy([G, 3]), TileBy([nt_m, nt_n])
    row, column = tiles.inv(at)
    places = {
        "extent_m": table.apply(g, 0), "extent_n": table.apply(g, 1), "extent_k": table.apply(g, 2),
        "tiles": tiles.size, "row": row, "column": column,
        "a": TileInto([M, K], [BM, BK]).OrderBy(Row(M, K))[i, k, :, :],
        "b": TileInto([K, N], [BK, BN]).OrderBy(Row(K, N))[k, j, :, :],
        "c": TileInto([M, N], [BM, BN]).OrderBy(Row(M, N))[i, j, :, :],
    }  # fmt: skip
    return fill(TEMPLATE, "triton", places, given=[tiles])
