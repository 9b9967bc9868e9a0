"""Matrix product in Triton in groups of GM rows of tiles, of which the last may have fewer, as in Triton's tutorial."""

from __future__ import annotations

from atl import imin, sizes
from atl.surface.values import IndexExpr
from examples.templates.matmul import matmul
from layouts.lego import GenP, GroupBy
from layouts.templates import Filled


def in_groups() -> GroupBy:
    """Return the order of the programs. Its inverse is proved for all numbers of tiles.

    >>> pid = sizes("pid")
    >>> print(in_groups().inv(pid)[1])
    (pid % (GM*nt_n)) // min(nt_m - (pid // (GM*nt_n))*GM, GM)
    """
    nt_m, nt_n, GM = sizes("nt_m nt_n GM")

    def rows(group: IndexExpr) -> IndexExpr:
        return imin(nt_m - group * GM, GM)

    def program(i: IndexExpr, j: IndexExpr) -> IndexExpr:
        place: IndexExpr = i // GM * GM * nt_n + j * rows(i // GM) + i % GM
        return place

    def tile(pid: IndexExpr) -> tuple[IndexExpr, IndexExpr]:
        group, at = pid // (GM * nt_n), pid % (GM * nt_n)
        return group * GM + at % rows(group), at // rows(group)

    return GroupBy([nt_m, nt_n]).OrderBy(GenP([nt_m, nt_n], program, tile, given=[GM >= 1]))


def matmul_in_groups(a: str = "row", b: str = "row") -> Filled:
    """Return the kernel for row-major or column-major operands.

    >>> print(matmul_in_groups().text.splitlines()[10].strip())
    pid_n = (pid % (GM*nt_n)) // tl.minimum(nt_m - ((pid // (GM*nt_n))*GM), GM)
    """
    return matmul(a, b, in_groups())
