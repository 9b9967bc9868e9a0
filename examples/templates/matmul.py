"""Matrix product in Triton for four layouts of its operands, from one template (Figs. 1 and 10).

Programs run in groups of GM rows of tiles. The layout printed in the paper loses tiles if GM does not divide their
number. Here the layout requires that GM divides it; `partial_groups.py` does not.
"""

from __future__ import annotations

from typing import Final

from atl import sizes
from layouts.lego import Col, GroupBy, Row, TileBy, TileInto
from layouts.templates import Filled, fill

TEMPLATE: Final = """\
import triton
import triton.language as tl


@triton.jit
def matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GM: tl.constexpr):
    pid = tl.program_id(axis=0)
    nt_m = tl.cdiv(M, BM)
    nt_n = tl.cdiv(N, BN)
    pid_m = {{ pid_m }}
    pid_n = {{ pid_n }}
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptr + {{ a }})
        b = tl.load(b_ptr + {{ b }})
        total = tl.dot(a, b, total)
    tl.store(c_ptr + {{ c }}, total.to(tl.float16))
"""


def matmul(a: str = "row", b: str = "row", programs: GroupBy | None = None) -> Filled:
    """Return the kernel for row-major or column-major operands, with programs in whole groups or another order.

    >>> print(matmul("row", "column").text.splitlines()[14].strip())
    b = tl.load(b_ptr + K*(BN*pid_n + tl.arange(0, BN)[None, :]) + BK*k + tl.arange(0, BK)[:, None])
    """
    M, N, K, BM, BN, BK, GM = sizes("M N K BM BN BK GM")
    nt_m, nt_n, pid, pid_m, pid_n, k = sizes("nt_m nt_n pid pid_m pid_n k")
    programs = programs or TileBy([nt_m, nt_n], given=[nt_m % GM == 0]).OrderBy(Col(nt_m // GM, 1), Col(GM, nt_n))
    row, column = programs.inv(pid)
    places = {
        "pid_m": row,
        "pid_n": column,
        "a": TileInto([M, K], [BM, BK]).OrderBy((Row if a == "row" else Col)(M, K))[pid_m, k, :, :],
        "b": TileInto([K, N], [BK, BN]).OrderBy((Row if b == "row" else Col)(K, N))[k, pid_n, :, :],
        "c": TileInto([M, N], [BM, BN]).OrderBy(Row(M, N))[pid_m, pid_n, :, :],
    }
    return fill(TEMPLATE, "triton", places, given=[programs])
