"""Parallel, vectorised and unrolled loops in one call each, with tails."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from lowering import compile as compiled
from proofs_tests.sessions.session_programs import A, assert_agrees, body, k, matmul, n, pipeline
from rewrites import DoesNotApply, Session, reschedule


def rows() -> Session:
    return reschedule(atl.program("rows", [A], atl.gen(n, lambda i: atl.sum(k, lambda p: A[i, p]))))


def twice() -> Session:
    return reschedule(atl.program("twice", [A], 2 * A)).normalize()


MADE: dict[str, tuple[Callable[[], Session], str]] = {
    "a loop by threads": (lambda: reschedule(matmul()).parallelize("i"), "⊞[i < n | parallel] ⊞[j < m] Σ[p < k]"),
    "a parallel loop with chunks": (
        lambda: reschedule(matmul()).parallelize("i", 4),
        "⊞[io < ⌈n / 4⌉ | parallel] ⊞[ii < 4] [4*io + ii < n] · ⊞[j < m]",
    ),
    "a sum of scalars by threads": (lambda: rows().parallelize("p"), "⊞[i < n] Σ[p < k | parallel] A[i, p]"),
    "a loop in lanes": (lambda: twice().vectorize("⊞[_ < k] _"), "< k | vector] 2 * A["),
    "a loop in lanes, tails tested for": (
        lambda: reschedule(matmul()).interchange("j").vectorize("j", 8),
        "⊞[ji < 8 | vector] [8*jo + ji < m] · A[i, p] * B[p, 8*jo + ji]",
    ),
    "a loop in lanes, tails bounded": (
        lambda: reschedule(matmul()).interchange("j").vectorize("j", 8, tails="min"),
        "⊞[ji < min(m - 8*jo, 8) | vector] A[i, p] * B[p, 8*jo + ji]",
    ),
    "a loop in lanes, tails cut off": (
        lambda: reschedule(matmul()).interchange("j").vectorize("j", 8, tails="split"),
        "((⊞[jo < m // 8] ⊞[ji < 8 | vector] A[i, p] * B[p, 8*jo + ji])",
    ),
    "a sum of scalars in lanes": (
        lambda: rows().vectorize("p", 8, tails="split"), "Σ[po < k // 8] Σ[pi < 8 | vector] A[i, 8*po + pi]",
    ),
    "lanes of a loop that threads share": (
        lambda: twice().parallelize("⊞[_ < n] _").vectorize("⊞[_ < n] _", 4), "< ⌈n / 4⌉ | parallel]",
    ),
    "threads for a loop that runs in lanes": (
        lambda: twice().vectorize("⊞[_ < k] _").parallelize("⊞[_ < k] _", 4), "< ⌈k / 4⌉ | parallel]",
    ),
    "tiles written out in C": (
        lambda: rows().unroll("p", 4), "Σ[po < ⌈k / 4⌉] Σ[pi < 4 | unroll] [4*po + pi < k] · A[i, 4*po + pi]",
    ),
    "full tiles of a maximum written out in C": (
        lambda: reschedule(atl.parse("f (x : float32[n, 8*k]) : float32[n] := ⊞[i < n] max[p < 8*k] x[i, p]"))
        .unroll("p", 4),
        "⊞[i < n] max[po < 2*k] max[pi < 4 | unroll] x[i, 4*po + pi]",
    ),
    "full tiles written out in C, and a tail that is not": (
        lambda: rows().unroll("p", 4).tails(strategy="split"),
        "(Σ[po < k // 4] Σ[pi < 4 | unroll] A[i, 4*po + pi]) + Σ[k // 4 <= po < ⌈k / 4⌉] Σ[pi < k - 4*po] A[",
    ),
    "nothing is left over": (
        lambda: reschedule(atl.parse("f (x : float32[8*n]) : float32[8*n] := ⊞[i < 8*n] x[i]"))
        .vectorize("i", 8, tails="split"),
        "flatten ⊞[io < n] ⊞[ii < 8 | vector] x[8*io + ii]",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", MADE)
def test_loops_run_as_requested(name: str) -> None:
    make, expected = MADE[name]
    s = make()
    assert expected in body(s)
    assert s.check()
    assert_agrees(s)


def test_both_marks_of_a_loop_are_kept() -> None:
    for s in (
        twice().parallelize("⊞[_ < k] _").vectorize("⊞[_ < k] _", 4),
        twice().vectorize("⊞[_ < k] _").parallelize("⊞[_ < k] _", 4),
    ):
        assert "< ⌈k / 4⌉ | parallel] ⊞[" in body(s)
        assert "< 4 | vector]" in body(s)


def test_repeating_a_mark_changes_nothing() -> None:
    s = reschedule(matmul()).parallelize("i")
    assert body(s.branch().parallelize("i")) == body(s)


def test_running_tactics_are_single_calls() -> None:
    s = reschedule(matmul())
    s.interchange("j").vectorize("j", 8, tails="split").parallelize("i", 4)
    assert [call.text for call in s.steps] == [
        "interchange('j')",
        "vectorize('j', 8, tails='split')",
        "parallelize('i', 4)",
    ]
    assert "parallel" not in body(s.undo())


def test_vector_loop_is_one_c_loop() -> None:
    s = twice().vectorize("⊞[_ < k] _", 8, tails="split").parallelize("⊞[_ < n] _", 2)
    kernel = compiled(s.goal)
    assert "#pragma omp parallel for" in kernel.source
    assert "#pragma omp simd" in kernel.source
    a = np.arange(7 * 21, dtype=np.float32).reshape(7, 21)
    np.testing.assert_array_equal(kernel(a), 2 * a)


REFUSED: dict[str, tuple[Callable[[], Session], str, str]] = {
    "a sum of tensors by threads": (
        lambda: reschedule(matmul()).interchange("j").parallelize("p"),
        "the sum p of tensors cannot be parallel", "s.interchange('p')",
    ),
    "a sum of tensors in lanes": (
        lambda: reschedule(matmul()).interchange("j").vectorize("p", 8),
        "the sum p of tensors cannot be vectorized", "s.interchange('p')",
    ),
    "a loop within one of threads": (
        lambda: reschedule(matmul()).parallelize("i").parallelize("j"),
        "the loop i, around the loop j, is already parallel", 's.mark("i", None)',
    ),
    "a loop around one of threads": (
        lambda: reschedule(matmul()).parallelize("j").parallelize("i", 4),
        "the loop j, inside the loop i, is already parallel", 's.mark("j", None)',
    ),
    "a loop of vectors by threads": (
        lambda: twice().vectorize("⊞[_ < k] _").parallelize("⊞[_ < k] _"),
        "is already marked vector, and a loop has only one mark", '"parallel") replaces the mark',
    ),
    "a loop of threads in lanes": (
        lambda: reschedule(matmul()).parallelize("i").vectorize("i"),
        "the loop i is already marked parallel, and a loop has only one mark", 's.mark("i", "vector")',
    ),
    "not a loop": (lambda: reschedule(pipeline()).vectorize("buf"), "buf is not a loop", ""),
    "a loop of no constant extent": (
        lambda: rows().unroll("p"), "the loop p runs from 0 to k", "s.unroll('p', 8) tiles the loop",
    ),
    "a tile that is cut short": (
        lambda: reschedule(atl.parse("f (x : float32[n]) : float32 := max[i < n] x[i]")).unroll("i", 4),
        "the last tile of i would be shorter, and could not be unrolled", "a number that divides the extent",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsuitable_loops_are_refused_with_a_suggestion(name: str) -> None:
    call, message, advice = REFUSED[name]
    with pytest.raises(DoesNotApply, match=message) as refused:
        call()
    assert advice in str(refused.value)


def test_running_arguments_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="tails='pad'"):
        twice().vectorize("⊞[_ < k] _", 8, tails="pad")  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="a tile of 0 iterations"):
        twice().parallelize("⊞[_ < k] _", 0)
