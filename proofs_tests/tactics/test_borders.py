"""Zero-padded copies of operands, which remove guards and tails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import atl
from atl import Program
from atl.core.terms import Guard
from examples.schedules import convolution, everyday
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import A, assert_agrees, body, f, k, m, matmul, n, pipeline
from rewrites import DoesNotApply, Session, reschedule
from rewrites.cursors.cursor import cursors
from rewrites.tactics.storage import borders

w = atl.tensor("w", m)


def neighbours() -> Program:
    return atl.program("neighbours", [f], atl.gen(
        n, lambda i: atl.guard(i >= 1, f[i - 1]) + f[i] - atl.guard(i + 2 < n, f[i + 2])))  # fmt: skip


def windows() -> Program:
    return atl.program("windows", [f, w], atl.gen(
        n, lambda i: atl.sum(m, lambda r: atl.guard(i + r < n, f[i + r] * w[r]))))  # fmt: skip


def corners() -> Program:
    return atl.program("corners", [A], atl.gen(
        n, k, lambda i, j: A[i, j] + atl.guard((i >= 1) & (j >= 1), A[i - 1, j - 1])))  # fmt: skip


def half_meant() -> Program:
    """Return a program with a guard stronger than the bounds."""
    return atl.program("half", [f], atl.gen(n, lambda i: atl.guard(i >= 2, f[i - 1]) + atl.guard(i >= 1, f[i - 1])))


def summed(text: str) -> Session:
    return reschedule(atl.parse(f"sums (f : float32[n], w : float32[3], v : float32[3]) : float32[n] := {text}"))


PADDED: dict[str, tuple[Callable[[], Session], str]] = {
    "on both sides": (
        lambda: reschedule(neighbours()).pad("f"),
        "let fp := ⊞[i < n + 3] [1 <= i <= n] · f[i - 1] in ⊞[i < n] fp[i] + fp[i + 1] - fp[i + 3]",
    ),
    "in two dimensions": (
        lambda: reschedule(corners()).pad("A"),
        ("let Ap := ⊞[i < n + 1] ⊞[j < k + 1] [1 <= i ∧ 1 <= j] · A[i - 1, j - 1] in "
        "⊞[i < n] ⊞[j < k] Ap[i + 1, j + 1] + Ap[i, j]"),
    ),
    "of a factor, as far as is read": (
        lambda: reschedule(windows()).pad("f"),
        ("let fp := ⊞[i < max(0, m + n - 1)] [i < n] · f[i] in "
        "⊞[i < n] Σ[r < m] fp[i + r] * w[r]"),
    ),
    "what a tile reads": (
        lambda: reschedule(windows()).tile("i", 8).accumulate("r").pad("f", at="io", name="near"),
        ("⊞[io < ⌈n / 8⌉] let near := ⊞[i < m + 7] [8*io + i < n] · f[8*io + i] in "
        "let acc := Σ[r < m] ⊞[ii < 8] near[r + ii] * w[r] in ⊞[ii < 8] [8*io + ii < n] · acc[ii]"),
    ),
    "what sticks out, where the result is guarded anyway": (
        lambda: reschedule(matmul()).tile("j", 4).accumulate("p").pad("B"),
        "let acc := Σ[p < k] ⊞[ji < 4] A[i, p] * Bp[p, 4*jo + ji] in ⊞[ji < 4] [4*jo + ji < m] · acc[ji]",
    ),
    "a let": (
        lambda: reschedule(pipeline()).pad("buf"),
        "let bufp := ⊞[i < n + 1] [1 <= i] · f[i - 1] in ⊞[i < n] bufp[i] + bufp[i + 1]",
    ),
    "a let, within a loop": (
        lambda: reschedule(pipeline()).tile("⊞[_ < _] _ + _", 8).pad("buf", at="io"),
        "let bufp := ⊞[i < 9] [1 <= 8*io + i <= n] · f[8*io + i - 1] in ⊞[ii < 8] [8*io + ii < n] · (bufp[ii]",
    ),
    "one of several dimensions": (
        lambda: reschedule(everyday.gaussian()).pad("picture"),
        "let row := ⊞[y < n] ⊞[x < m] Σ[t < 5] taps[t] * picturep[y, x + t] in",
    ),
    "and what was padded before it was tiled, beyond that": (
        lambda: reschedule(windows()).pad("f").tile("⊞[i < n] Σ[r < m] _", 8).accumulate("r")
        .pad("fp", at="io", name="near"),
        ("let acc := Σ[r < m] ⊞[ii < 8] near[r + ii] * w[r] in ⊞[ii < 8] [8*io + ii < n] · acc[ii]"),
    ),
    "around a sum of products": (
        lambda: summed("⊞[i < n] Σ[r < 3] [i + r < n] · (f[i + r] * w[r] - f[i + r] * v[r])").pad("f"),
        "let fp := ⊞[i < n + 2] [i < n] · f[i] in ⊞[i < n] Σ[r < 3] fp[i + r] * w[r] - fp[i + r] * v[r]",
    ),
    "around a factor that is a sum": (
        lambda: summed("⊞[i < n] Σ[r < 3] [i + r < n] · (f[i + r] + 2 * f[i + r]) * v[r]").pad("f"),
        "⊞[i < n] Σ[r < 3] (fp[i + r] + 2 * fp[i + r]) * v[r]",
    ),
    "one operand of a sum after the other": (
        lambda: reschedule(atl.program("both", [f, atl.tensor("g", n)], atl.gen(
            n, lambda i: atl.guard(i + 3 < n, f[i + 3] + atl.tensor("g", n)[i + 3])))).pad("f").pad("g"),
        "⊞[i < n] fp[i] + gp[i]",
    ),
    "around a sum of which addends are guarded too": (
        lambda: summed("⊞[i < n] [2 <= i] · (f[i - 2] * v[0] + ([i < 8] · f[i - 2] * w[0]))").pad("f"),
        "⊞[i < n] fp[i] * v[0] + [i < 8] · fp[i] * w[0]",
    ),
    "bounds only": (
        lambda: reschedule(half_meant()).pad("f"),
        "⊞[i < n] [2 <= i] · fp[i] + fp[i]",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", PADDED)
def test_padding_replaces_guards(name: str) -> None:
    make, expected = PADDED[name]
    s = make()
    assert expected in body(s)
    assert s.check()
    assert_agrees(s)


def test_convolution_is_padded_at_every_size() -> None:
    s = reschedule(convolution.gather()).pad("x")
    assert not any(isinstance(cursor.term, Guard) for cursor in cursors(s.goal) if cursor.path[:1] == (1,))
    kernel, numbers = compiled(s.goal), np.random.default_rng(3)
    for b, c, width, channels, r in (
        (0, 0, 0, 0, 0),
        (1, 1, 1, 1, 3),
        (2, 3, 7, 4, 0),
        (2, 3, 0, 4, 2),
        (1, 2, 9, 3, 4),
    ):
        x = numbers.integers(-9, 9, (b, c, width)).astype("float32")
        taps = numbers.integers(-9, 9, (channels, c, r)).astype("float32")
        wide = np.pad(x, ((0, 0), (0, 0), (0, r)))
        wanted = np.zeros((b, channels, width), "float32")
        for at in range(r):
            wanted += np.einsum("bcp,kc->bkp", wide[:, :, at : at + width], taps[:, :, at])
        np.testing.assert_array_equal(kernel(x, taps), wanted)


REFUSED: dict[str, tuple[Callable[[], Session], str]] = {
    "an unguarded operand": (
        lambda: reschedule(matmul()).pad("B"), "no guard around a read of B only states that the element is in range",
    ),
    "a tail that a truncation needs": (
        lambda: reschedule(matmul()).tile("j", 8).pad("B"), "no guard around a read of B only states",
    ),
    "a stronger guard": (
        lambda: reschedule(atl.program("p", [f], atl.gen(n, lambda i: atl.guard(i >= 2, f[i - 1])))).pad("f"),
        "no guard around a read of f only states",
    ),
    "a guard that is needed for an addend": (
        lambda: summed("⊞[i < n] [1 <= i ∧ i + 1 < n] · (f[i - 1] + f[i] + f[i + 1])").pad("f"),
        "no guard around a read of f only states",
    ),
    "no read": (lambda: reschedule(pipeline()).pad("f"), "f is not read there"),
    "nothing that is known": (lambda: reschedule(matmul()).pad("C"), "no loop, sum or let in the goal is named C"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsuitable_padding_is_refused(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(DoesNotApply, match=message):
        call()


def test_guard_needed_by_a_truncation_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault treats new obstacles as old."""
    monkeypatch.setattr(borders, "new_diagnostics", lambda before, after: [])
    s = reschedule(matmul()).tile("j", 8).pad("B")
    assert not s.check()
