"""Schedules in which the lanes of a warp exchange registers: sums of rows, softmax, and a transpose.

A read of another thread's register becomes a shuffle when it is lowered. The laws are rules of this file, which are
proved for all sizes. Each function returns a session.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Final

import atl
from rewrites.user_rules import Body, Equation, Index, Matrix, Rule, given, rule
from rewrites.user_rules import equation as equal

Expr = atl.IndexExpr
LANES: Final = 32
STEPS: Final = (16, 8, 4, 2, 1)

SUMS: Final = atl.parse("sums (x : float32[n, m]) : float32[n] := ⊞[i < n] Σ[j < m] x[i, j]")
SOFTMAX: Final = atl.parse(
    """softmax (x : float32[n, m]) : float32[n, m] given 1 <= m :=
      ⊞[i < n] let top := max[j < m] x[i, j] in let total := Σ[k < m] exp(x[i, k] - top) in
      ⊞[l < m] exp(x[i, l] - top) / total"""
)


def squares(side: int) -> atl.Program:
    """Return the transposes of some squares."""
    shape, loops = f"float32[n, {side}, {side}]", f"⊞[b < n] ⊞[r < {side}] ⊞[t < {side}]"
    return atl.parse(f"transposed (x : {shape}) : {shape} := {loops} x[b, t, r]")


@rule
def add_lanes(h: Index, lanes: Index, e: Body[Index]) -> Equation:
    """All lanes may compute what the first h lanes compute: the others add lanes in a circle."""
    wide = atl.gen(lanes, lambda u: e(u) + e((u + h) % lanes))
    pairs = atl.sum(h, lambda t: e(t) + e(t + h))
    return equal(pairs, atl.sum(h, lambda t: wide[t]), given((h >= 1) & (2 * h <= lanes)))


@rule
def compare_lanes(h: Index, lanes: Index, e: Body[Index]) -> Equation:
    """All lanes may compute the maximum that the first h lanes compute."""
    wide = atl.gen(lanes, lambda u: atl.maximum(e(u), e((u + h) % lanes)))
    pairs = atl.reduce("max", h, lambda t: atl.maximum(e(t), e(t + h)))
    return equal(pairs, atl.reduce("max", h, lambda t: wide[t]), given((h >= 1) & (2 * h <= lanes)))


@cache
def exchange_blocks(h: int, side: int) -> Rule:
    """Return the law that the blocks of 2h rows of a square are transposed by exchanging their blocks of h rows.

    Where i // h % 2 differs for the lane and the register, the element is that at the place where both are inverted.
    """

    def inverted(i: Expr) -> Expr:
        return i + h - 2 * h * (i // h % 2)

    def place(t: Expr, r: Expr, of: int) -> tuple[Expr, Expr]:
        """Return the place of the element (t, r) after blocks of this many rows are transposed."""
        if of == side:
            return r, t
        return (t, r) if of == 1 else (t // of * of + r % of, r // of * of + t % of)

    def square(element: Callable[[Expr, Expr], atl.Tensor]) -> atl.Tensor:
        return atl.gen(side, side, element)

    def exchanged(near: atl.Tensor) -> atl.Tensor:
        far = square(lambda t, r: near[inverted(t), inverted(r)])
        return atl.let(
            far, lambda far: square(lambda t, r: atl.select(t // h % 2 == r // h % 2, near[t, r], far[t, r]))
        )

    @rule
    def exchange(x: Matrix) -> Equation:  # type: ignore[type-arg]
        """Transposed blocks are exchanged."""
        smaller = square(lambda t, r: x[place(t, r, h)])
        return equal(square(lambda t, r: x[place(t, r, 2 * h)]), atl.let(smaller, exchanged))

    return exchange


def _in_steps(s: atl.Session, word: str, name: str) -> atl.Session:
    """Fold over the loop t by the lanes of a warp: in each of five steps, each combines its part with that of another.

    The parts are in the lets name0, …, name5. Afterwards, all lanes have the whole value.
    """
    law, operation = (add_lanes, "{0}[_] + {0}[_]") if word == "Σ" else (compare_lanes, "max({0}[_], {0}[_])")
    for step, h in enumerate(STEPS):
        s.tile("t", h).interchange("to").unroll("to").rw(law, lanes=LANES)
        s.lbind(f"⊞[_ < 32] {operation.format(f'{name}{step}')}", f"{name}{step + 1}", over=f"{word}[_ < {h}] _")
    s.unroll(f"{word}[_ < 1] _")
    for step in range(len(STEPS) + 1):
        s.mark(f"{name}{step}", "registers")
    return s


def sums() -> atl.Session:
    """Add each row by the lanes of a warp."""
    s = atl.reschedule(SUMS)
    s.tile("j", LANES).interchange("jo").stage("jo", at="i", name="part0").rename("Σ[ji < 32] _", "t")
    return _in_steps(s, "Σ", "part").mark("i", "block.x").mark("⊞[_ < 32] _", "thread.x")


def softmax() -> atl.Session:
    """Normalize each row by a warp: its maximum and its sum are folded by shuffles."""
    s = atl.reschedule(SOFTMAX)
    s.tile("j", LANES).interchange("jo").stage("jo", at="i", name="high0").rename("max[ji < 32] _", "t")
    _in_steps(s, "max", "high")
    s.tile("k", LANES).interchange("ko").stage("ko", at="i", name="part0").rename("Σ[ki < 32] _", "t")
    _in_steps(s, "Σ", "part").tile("l", LANES)
    return s.mark("i", "block.x").mark("⊞[_ < 32] _", "thread.x")


def transpose(side: int = LANES) -> atl.Session:
    """Transpose squares in registers: each lane loads a column and stores a column. The side is a power of two.

    The register that a lane needs of another one would depend on the lane, so no single shuffle makes the exchange. In
    five steps for 32 lanes, all lanes shuffle the same register, and select whether to use it.
    """
    s = atl.reschedule(squares(side)).stage("x[_, _, _]", at="b", name="loaded")
    s.interchange(f"⊞[r < {side}] ⊞[t < {side}] loaded[_, _]")
    for h in STEPS:
        if h < side:
            s.rw(exchange_blocks(h, side))
    s.inline("loaded").mark("near", "registers").mark("far", "registers")
    return s.mark("b", "block.x").mark("t", "thread.x")
