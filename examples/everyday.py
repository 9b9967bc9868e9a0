"""The programs of `examples.schedules.everyday`, scheduled in sessions: what a person would call, and no more.

Every function returns the session at its end; `.done()` is the theorem. Sizes are symbolic, and any will do. No loop
that has no other loop inside tests anything; in C, the rows of a tile in registers are tested in the last tile.
"""

from __future__ import annotations

from examples.schedules import everyday
from rewrites import Session, reschedule


def gaussian_by_strips(rows: int = 32) -> Session:
    """Strips of rows, each with the filtered rows that it reads in a buffer; taps outside, columns inside."""
    s = reschedule(everyday.gaussian())
    s.tile("⊞[y < n] Σ[t < 5] _", rows)
    s.stage("row", at="yo")
    s.interchange("x")
    s.tails()
    return s


def triangular_by_rows() -> Session:
    """Row by row: each row of the right operand is added to those below, the columns innermost."""
    s = reschedule(everyday.triangular_product())
    s.interchange("j")
    return s


def mttkrp_factored() -> Session:
    """One product for each element of the cube: the factor that does not depend on q leaves the inner sum."""
    s = reschedule(everyday.mttkrp())
    s.factor_out("second[_, _]")
    s.interchange("r")
    return s


def product_packed(rows: int = 8, columns: int = 32) -> Session:
    """Tiles in registers, over panels of the right operand, packed as they are read.

    Of more than eight rows at a time the left operand is packed too: the first cache keeps no more lines of one place.
    """
    s = reschedule(everyday.product())
    s.tile(["i", "j"], [rows, columns])
    s.accumulate("p")
    s.mark("acc", "registers")
    s.pack("B")
    if rows > 8:
        s.pack("A")
    s.tails(strategy="split")
    return s


def perceptron_in_blocks(rows: int = 8) -> Session:
    """Blocks of samples, each with its hidden units in a buffer that stays in the cache."""
    s = reschedule(everyday.perceptron())
    s.tile("⊞[s < S] _ + bias2", rows)
    s.stage("hidden", at="so")
    s.tails()
    return s


def softmax_by_rows() -> Session:
    """Everything for one row at a time, and one division in it: x / t = x * (1 / t), with 1 / t before the loop.

    A division of vectors takes as long as ten products, and made this loop as long as that of the exponentials.
    """
    s = reschedule(everyday.softmax())
    s.rw("mul_one", at="_ / _", around="power[_, _]", reverse=True).rw("mul_div")
    row = s.find("⊞[i < n] ⊞[j < m] power[_, _] * _")
    for name in ("total", "power", "top"):
        s.stage(name, at=row)
    s.lbind("1 / _", "share").hoist("share", out_of="j")
    return s


def two_steps_in_tiles(x: int = 8, y: int = 8, z: int = 64) -> Session:
    """Overlapped tiles: each computes what its second step reads of the first, and copies what that reads."""
    s = reschedule(everyday.two_steps())
    s.tile(["⊞[x < X] _", "⊞[y < Y] _", "⊞[z < Z] _"], [x, y, z])
    s.stage("once", at="zo")
    s.stage("wide", at="zo")
    s.tails()
    return s


def histogram_by_elements() -> Session:
    """From each bin looking at every element to each element going to its bin."""
    s = reschedule(everyday.histogram())
    s.rw("sum_gen_swap")
    s.rw("gen_as_place")
    return s
