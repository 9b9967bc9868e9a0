"""Operands packed into blocks in the order of their loops, with padding instead of guards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from lowering import compile as compiled
from lowering import lower, print_nest
from proofs_tests.sessions.session_programs import A, B, assert_agrees, body, f, k, m, matmul, n, pipeline
from rewrites import DoesNotApply, Session, reschedule

T = atl.sizes("T")
D = atl.tensor("D", m, k)


def register_tiles() -> Session:
    """Return a product tiled with 16 terms and a buffer, columns innermost."""
    s = reschedule(matmul())
    s.tile("p", 16).interchange("j").interchange("i").tile(["i", "j"], [2, 4])
    s.stage("Σ[pi < _] _", at="jo", name="acc")
    return s.interchange("ji").interchange("ii")


def transposed() -> atl.Program:
    return atl.program("t", [A, D], atl.let(
        atl.transpose(D), lambda t: atl.gen(n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * t[p, j])), name="Dt"
    ))  # fmt: skip


def gram() -> atl.Program:
    return atl.program("gram", [A], atl.gen(n, n, lambda i, j: atl.sum(k, lambda p: A[i, p] * A[j, p])))


def convolution() -> atl.Program:
    w = atl.tensor("w", m)
    return atl.program("convolution", [f, w], atl.gen(
        n, lambda i: atl.sum(m, lambda r: atl.guard(i + r < n, f[i + r] * w[r]))))  # fmt: skip


def quotients() -> atl.Program:
    return atl.program("quotients", [A, B], atl.gen(
        n, m, lambda i, j: atl.sum(k, lambda p: A[i, p] * -B[p, j] / 2)))  # fmt: skip


def banded() -> atl.Program:
    """Return a guard that relates loops of the right operand to another loop."""
    return atl.program("banded", [A, B], atl.gen(
        n, m, lambda i, j: atl.sum(k, lambda p: atl.guard(p <= i, A[i, p] * -B[p, j]))))  # fmt: skip


PACKED: dict[str, tuple[Callable[[], Session], str]] = {
    "before everything": (
        lambda: reschedule(matmul()).tile("j", 8).pack("B"),
        "let Bp := ⊞[jo < ⌈m / 8⌉] ⊞[ji < 8] ⊞[p < k] [8*jo + ji < m] · B[p, 8*jo + ji] in",
    ),
    "contiguous in the loop that is innermost then": (
        lambda: reschedule(matmul()).tile("j", 8).pack("B", order=["jo", "p", "ji"]),
        ("let Bp := ⊞[jo < ⌈m / 8⌉] ⊞[p < k] ⊞[ji < 8] [8*jo + ji < m] · B[p, 8*jo + ji] in ⊞[i < n] truncr "
        "(8*⌈m / 8⌉ - m) flatten ⊞[jo < ⌈m / 8⌉] ⊞[ji < 8] [8*jo + ji < m] · Σ[p < k] A[i, p] * Bp[jo, p, ji]"),
    ),
    "in tiles of a size": (
        lambda: reschedule(matmul(), given=[T >= 1]).tile("j", T).pack("B", order=["jo", "p", "ji"], name="panel"),
        "let panel := ⊞[jo < ⌈m / T⌉] ⊞[p < k] ⊞[ji < T] [jo*T + ji < m] · B[p, jo*T + ji] in",
    ),
    "within a loop": (
        lambda: reschedule(matmul()).tile(["i", "j"], [4, 8]).pack("B", at="jo"),
        "⊞[jo < ⌈m / 8⌉] let Bp := ⊞[ji < 8] ⊞[p < k] [8*jo + ji < m] · B[p, 8*jo + ji] in",
    ),
    "both operands of tiles in registers, without a guard in the innermost loop": (
        lambda: register_tiles().pack("B", at="po").pack("A", at="io"),
        "let acc := Σ[pi < 16] ⊞[ii < 2] ⊞[ji < 4] Ap[pi, ii] * Bp[jo, pi, ji] in",
    ),
    "one operand, with bounds for the other": (
        lambda: register_tiles().pack("B", at="po"),
        "[2*io + ii < n] · [16*po + pi < k] · A[2*io + ii, 16*po + pi] * Bp[jo, pi, ji] in",
    ),
    "a let": (
        lambda: reschedule(transposed()).tile(["i", "j"], [4, 8]).pack("Dt", order=["jo", "p", "ji"]),
        "let Dt := transpose D in let Dtp := ⊞[jo < ⌈m / 8⌉] ⊞[p < k] ⊞[ji < 8] [8*jo + ji < m] · Dt[p, 8*jo + ji] in",
    ),
    "a let, within a loop": (
        lambda: reschedule(transposed()).tile(["i", "j"], [4, 8]).pack("Dt", at="jo", name="block"),
        "let block := ⊞[ji < 8] ⊞[p < k] [8*jo + ji < m] · Dt[p, 8*jo + ji] in",
    ),
    "both reads of one input, one after the other": (
        lambda: reschedule(gram()).tile(["i", "j"], [4, 8]).pack("A", at="jo", name="P").pack("A", at="jo", name="Q"),
        ("let P := ⊞[ii < 4] ⊞[p < k] [4*io + ii < n] · A[4*io + ii, p] in "
        "transpose ⊞[ii < 4] ⊞[ji < 8] [8*jo + ji < n ∧ 4*io + ii < n] · Σ[p < k] P[ii, p] * Q[ji, p]"),
    ),
    "the second read": (
        lambda: reschedule(gram()).tile(["i", "j"], [4, 8]).pack("A[_, _]", at="jo", nth=1),
        "· Σ[p < k] A[4*io + ii, p] * Ap[ji, p]",
    ),
    "overlapping rows, copied": (
        lambda: reschedule(convolution()).tile("i", 8).pack("f", at="io"),
        "let fp := ⊞[ii < 8] ⊞[r < m] [8*io + ii + r < n] · f[8*io + ii + r] in",
    ),
    "unchanged order": (
        lambda: reschedule(atl.program("copy", [f], atl.gen(n, lambda i: f[i]))).tile("i", 8).pack("f"),
        ("let fp := ⊞[io < ⌈n / 8⌉] ⊞[ii < 8] [8*io + ii < n] · f[8*io + ii] in truncr (8*⌈n / 8⌉ - n) flatten "
        "⊞[io < ⌈n / 8⌉] ⊞[ii < 8] [8*io + ii < n] · fp[io, ii]"),
    ),
    "through signs, quotients and lets": (
        lambda: reschedule(quotients()).tile("j", 8).stage("Σ[p < _] _", at="jo", name="acc").interchange("ji")
        .lbind("A[_, _]", "a").pack("B", at="i"),
        "let acc := Σ[p < k] ⊞[ji < 8] (let a := A[i, p] in a) * -Bp[jo, p, ji] / 2 in",
    ),
    "below a let inside a guard": (
        lambda: reschedule(matmul()).tile("j", 8).stage("Σ[p < _] _", at="jo", name="acc")
        .lbind("A[i]", "a", over="Σ[p < k] _").pack("B", at="i"),
        "let acc := ⊞[ji < 8] let a := A[i] in Σ[p < k] a[p] * Bp[jo, ji, p] in",
    ),
    "a condition on other loops, too, stays at the product": (
        lambda: reschedule(banded()).pack("B"),
        "let Bp := ⊞[j < m] ⊞[p < k] B[p, j] in ⊞[i < n] ⊞[j < m] Σ[p < k] [p <= i] · A[i, p] * -Bp[j, p]",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", PACKED)
def test_operand_is_packed_in_read_order(name: str) -> None:
    make, expected = PACKED[name]
    s = make()
    assert expected in body(s)
    assert s.check()
    assert_agrees(s)


@pytest.mark.long
def test_packed_product_has_no_inner_conditions() -> None:
    s = register_tiles().pack("B", at="po").pack("A", at="io")
    assert len(s.steps[-1].steps) + len(s.steps[-2].steps) < 30
    shown = [line.strip() for line in print_nest(lower(s.goal)).split("\n")]
    at = shown.index("acc[ii, ji] += Ap[pi, ii] * Bp[jo, pi, ji]")
    assert shown[at - 3 : at] == ["for pi in 0..16:", "for ii in 0..2:", "for ji in 0..4:"]
    kernel = compiled(s.goal)
    numbers = np.random.default_rng(1)
    for size in (0, 1, 7, 64, 97):
        a, b = (numbers.integers(0, 9, (size, size)).astype("float32") for _ in range(2))
        np.testing.assert_array_equal(kernel(a, b), a @ b)


REFUSED: dict[str, tuple[Callable[[], Session], str]] = {
    "no read": (lambda: reschedule(pipeline()).pack("f", at="⊞[_ < n] _ + _"), "is not read there"),
    "a whole row":
        (lambda: reschedule(atl.program("p", [A], atl.gen(n, lambda i: atl.transpose(A)[0]), given=[k >= 1])).pack("A"),
        "no element of A is read there"),
    "packed twice":
        (lambda: reschedule(matmul()).pack("B").pack("B"), "no element of B is read there, except to copy it"),
    "an order that leaves a loop out":
        (lambda: reschedule(matmul()).pack("B", order=["p"]), "does not name each loop of the operand once"),
    "an order with another loop":
        (lambda: reschedule(matmul()).pack("B", order=["p", "i", "j"]), "does not name each loop of the operand once"),
    "nothing that is known": (lambda: reschedule(matmul()).pack("C"), "no loop, sum or let in the goal is named C"),
    "one read too many": (lambda: reschedule(matmul()).pack("B", nth=1), "B selects 1 place; nth=1 is out of range"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsuitable_operands_are_not_packed(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(DoesNotApply, match=message):
        call()


def test_invalid_order_is_refused_first() -> None:
    number: Any = 3
    for operand in ("B", "C"):
        with pytest.raises(InvalidArgument, match="order=3"):
            reschedule(matmul()).pack(operand, order=number)
