"""Short schedules of the programs in `examples.schedules.everyday`.

Each function returns a session; `.done()` returns its theorem. Sizes are symbolic, without assumptions. Innermost loops
have no guards. In C, the last tile guards its rows in registers.
"""

from __future__ import annotations

import atl
from examples.schedules import everyday
from examples.tiles import register_tile


def gaussian_by_strips(rows: int = 32) -> atl.Session:
    """Compute strips of rows, with the filtered rows that each reads in a buffer, and columns as the inner loop."""
    s = atl.reschedule(everyday.gaussian())
    s.tile("⊞[y < n] Σ[t < 5] _", rows)
    s.stage("row", at="yo")
    s.interchange("x")
    s.tails()
    return s


def triangular_by_rows() -> atl.Session:
    """Make the columns the innermost loop, so that rows of the right operand are accumulated."""
    s = atl.reschedule(everyday.triangular_product())
    s.interchange("j")
    return s


def mttkrp_factored() -> atl.Session:
    """Factor `second` out of the inner sum, which leaves one product for each element of the cube."""
    s = atl.reschedule(everyday.mttkrp())
    s.factor_out("second[_, _]")
    s.interchange("r")
    return s


def product_packed(rows: int = 0, columns: int = 0) -> atl.Session:
    """Compute register tiles over packed panels of the right operand, by default of a shape for this machine.

    With more than eight rows the left operand is packed too, because of the associativity of the L1 cache.
    """
    rows, columns = register_tile(rows, columns)
    s = atl.reschedule(everyday.product())
    s.tile(["i", "j"], [rows, columns])
    s.accumulate("p")
    s.mark("acc", "registers")
    s.pack("B")
    if rows > 8:
        s.pack("A")
    s.tails(strategy="split")
    return s


def perceptron_in_blocks(rows: int = 8) -> atl.Session:
    """Compute blocks of samples, whose hidden units fit into the cache."""
    s = atl.reschedule(everyday.perceptron())
    s.tile("⊞[s < S] _ + bias2", rows)
    s.stage("hidden", at="so")
    s.tails()
    return s


def softmax_by_rows() -> atl.Session:
    """Compute one row at a time, with one division per row: x / t = x * (1 / t), and 1 / t hoisted out of the loop.

    A vector division takes as long as ten products. It made this loop as slow as that of the exponentials.
    """
    s = atl.reschedule(everyday.softmax())
    s.rw("mul_one", at="_ / _", around="power[_, _]", reverse=True).rw("mul_div")
    row = s.find("⊞[i < n] ⊞[j < m] power[_, _] * _")
    for name in ("total", "power", "top"):
        s.stage(name, at=row)
    s.lbind("1 / _", "share").hoist("share", out_of="j")
    return s


def two_steps_in_tiles(x: int = 8, y: int = 8, z: int = 64) -> atl.Session:
    """Use overlapped tiles: each computes the cells of the first step that its second step reads."""
    s = atl.reschedule(everyday.two_steps())
    s.tile(["⊞[x < X] _", "⊞[y < Y] _", "⊞[z < Z] _"], [x, y, z])
    s.stage("once", at="zo")
    s.stage("wide", at="zo")
    s.tails()
    return s


def histogram_by_elements() -> atl.Session:
    """Turn the gather form, where each bin reads every element, into a scatter of each element to its bin."""
    s = atl.reschedule(everyday.histogram())
    s.rw("sum_gen_swap")
    s.rw("gen_as_place")
    return s
