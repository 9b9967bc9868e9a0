"""Register tiles: accumulation of tiles in buffers, unroll-and-jam, multi-level tiling."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
import padtypes
from atl.errors import InvalidArgument
from lowering import lower, print_nest
from proofs_tests.sessions.session_programs import A, B, assert_agrees, body, k, m, matmul, n, pipeline
from rewrites import DoesNotApply, Session, reschedule
from rewrites.diagnostics import diagnostics
from rewrites.tactics.nests import accumulation
from rewrites.tactics.storage import padding

pytestmark = pytest.mark.sampled

z = atl.tensor("z", n, m)
square = atl.tensor("square", n, n)


def biased() -> atl.Program:
    return atl.program("biased", [A, B, z], atl.gen(
        n, m, lambda i, j: z[i, j] + atl.sum(k, lambda p: A[i, p] * B[p, j])))  # fmt: skip


def triangular() -> atl.Program:
    return atl.program("triangular", [square, z], atl.gen(
        n, m, lambda i, j: atl.sum(i + 1, lambda p: square[i, p] * z[p, j])))  # fmt: skip


def twice_summed() -> atl.Program:
    return atl.program("cubes", [A, B], atl.gen(
        n, m, lambda i, j: atl.sum(k, n, lambda p, q: A[i, p] * B[p, j] * A[q, p])))  # fmt: skip


def whole_tiles() -> atl.Program:
    x = atl.tensor("x", 8 * n, m)
    return atl.program("sums", [x], atl.gen(8 * n, lambda i: atl.sum(m, lambda j: x[i, j])))


def rows() -> atl.Program:
    return atl.program("rows", [A, B], atl.gen(n, lambda i: atl.sum(k, lambda p: A[i, p] * B[p])))


def shrinking() -> atl.Program:
    """Return a program whose divisor is zero after the last row."""
    return atl.program("shrinking", [square], atl.gen(
        n, lambda i: atl.sum(n, lambda p: atl.value(p // (n - i)) * square[i, p])))  # fmt: skip


def maxima() -> atl.Program:
    return atl.program("maxima", [z], atl.gen(n, lambda i: atl.reduce("max", m, lambda j: z[i, j])), given=[m >= 1])


def halves() -> atl.Program:
    half = atl.gen(n, m, lambda y, x: z[y, x] / 2)
    return atl.program("halves", [z], atl.let(half, lambda buf: atl.gen(
        n, m, lambda y, x: buf[y, x] + atl.guard(y >= 1, buf[y - 1, x])), name="buf"))  # fmt: skip


ACCUMULATED: dict[str, tuple[Callable[[], Session], str]] = {
    "what sticks out is computed where all reads are safe": (
        lambda: reschedule(whole_tiles()).tile("i", 8).accumulate("j"),
        "let acc := Σ[j < m] ⊞[ii < 8] x[8*io + ii, j] in ⊞[ii < 8] acc[ii]",
    ),
    "and is guarded where they are not": (
        lambda: reschedule(matmul()).tile("j", 4).accumulate("p"),
        ("let acc := Σ[p < k] ⊞[ji < 4] [4*jo + ji < m] · A[i, p] * B[p, 4*jo + ji] in "
        "⊞[ji < 4] [4*jo + ji < m] · acc[ji]"),
    ),
    "until the operands are padded": (
        lambda: reschedule(matmul()).tile(["i", "j"], [2, 4]).accumulate("p").pack("A", at="io").pack("B", at="jo"),
        "let acc := Σ[p < k] ⊞[ii < 2] ⊞[ji < 4] Ap[p, ii] * Bp[p, ji] in",
    ),
    "a block of terms that the size does not fill is cut short": (
        lambda: reschedule(matmul()).tile(["j", "p"], [4, 8]).interchange("jo").accumulate("pi").pack("B", at="po"),
        "let acc := Σ[pi < min(k - 8*po, 8)] ⊞[ji < 4] A[i, 8*po + pi] * Bp[jo, pi, ji] in",
    ),
    "two sums": (
        lambda: reschedule(twice_summed()).tile("j", 4).accumulate("p"),
        "let acc := Σ[p < k] Σ[q < n] ⊞[ji < 4] [4*jo + ji < m] · A[i, p] * B[p, 4*jo + ji] * A[q, p] in",
    ),
    "the inner of two sums": (
        lambda: reschedule(twice_summed()).tile("j", 4).interchange("ji").accumulate("q", name="part"),
        "Σ[p < k] let part := Σ[q < n] ⊞[ji < 4] [4*jo + ji < m] · A[i, p] * B[p, 4*jo + ji] * A[q, p] in",
    ),
    "at a loop, over one that grows": (
        lambda: reschedule(matmul()).accumulate("p", at="i", name="row"),
        "⊞[i < n] let row := Σ[p < k] ⊞[j < m] A[i, p] * B[p, j] in ⊞[j < m] row[j]",
    ),
    "at a loop where an operand is staged": (
        lambda: reschedule(matmul()).stage("A", at="i", name="row").accumulate("p", at="i"),
        "in let acc := Σ[p < k] ⊞[j < m] row[0, p] * B[p, j] in ⊞[j < m] acc[j]",
    ),
    "at a loop where something is staged that the sum does not read": (
        lambda: reschedule(biased()).stage("z", at="i", name="row").accumulate("p", at="i"),
        "⊞[i < n] let acc := Σ[p < k] ⊞[j < m] A[i, p] * B[p, j] in let row :=",
    ),
    "at one of several loops over tiles": (
        lambda: reschedule(whole_tiles()).tile("i", [8, 4]).accumulate("j", at="iio"),
        "flatten ⊞[iio < 2] let acc := Σ[j < m] ⊞[iii < 4] x[8*io + 4*iio + iii, j] in ⊞[iii < 4] acc[iii]",
    ),
    "a sum that is added to something": (
        lambda: reschedule(biased()).tile("j", 4).accumulate("p"),
        "in ⊞[ji < 4] [4*jo + ji < m] · (z[i, 4*jo + ji] + acc[ji])",
    ),
    "what means nothing where it sticks out": (
        lambda: reschedule(shrinking()).tile("i", 4).accumulate("p"),
        "let acc := Σ[p < n] ⊞[ii < 4] [4*io + ii < n] · value(p // (n - 4*io - ii)) * square[4*io + ii, p] in",
    ),
    "rows of tiles, of which a truncation cuts the padding": (
        lambda: reschedule(matmul()).unroll_and_jam("j", 3).accumulate("p", at="i"),
        ("let acc := Σ[p < k] ⊞[jo < ⌈m / 3⌉] ⊞[ji < 3] [3*jo + ji < m] · A[i, p] * B[p, 3*jo + ji] in "
        "truncr (3*⌈m / 3⌉ - m) flatten ⊞[jo < ⌈m / 3⌉] ⊞[ji < 3] [3*jo + ji < m] · acc[jo, ji]"),
    ),
    "a sum of rows": (
        lambda: reschedule(rows()).tile("i", 4).accumulate("p"),
        "let acc := Σ[p < k] ⊞[ii < 4] [4*io + ii < n] · ⊞[i < m] A[4*io + ii, p] * B[p, i] in",
    ),
    "a sum whose range depends on the tile's loop": (
        lambda: reschedule(triangular()).tile(["i", "j"], [2, 4]).accumulate("p"),
        "let acc := Σ[p < min(n, 2*io + 2)] padl max(0, p - 2*io) ⊞[max(0, p - 2*io) <= ii < 2]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCUMULATED)
def test_sums_of_a_tile_are_accumulated_together(name: str) -> None:
    make, expected = ACCUMULATED[name]
    s = make()
    assert expected in body(s)
    assert s.check()
    assert_agrees(s)


def test_tile_loops_are_innermost_in_the_kernel() -> None:
    s = reschedule(matmul()).tile(["i", "j"], [2, 4]).accumulate("p").pack("A", at="io").pack("B", at="jo")
    shown = [line.strip() for line in print_nest(lower(s.goal)).split("\n")]
    at = next((at for at, line in enumerate(shown) if line.startswith("acc[ii, ji] +=")), 0)
    assert shown[at - 3 : at] == ["for p in 0..k:", "for ii in 0..2:", "for ji in 0..4:"]


def test_misplaced_sum_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault disables loop interchange."""
    monkeypatch.setattr(accumulation, "interchange_at", lambda work, path: None)
    with pytest.raises(AssertionError):
        test_tile_loops_are_innermost_in_the_kernel()


JAMMED: dict[str, tuple[Callable[[], Session], str]] = {
    "rows inside of the columns": (
        lambda: reschedule(matmul()).unroll_and_jam("i", 2),
        "flatten ⊞[io < ⌈n / 2⌉] transpose ⊞[j < m] ⊞[ii < 2] [2*io + ii < n] · Σ[p < k] A[2*io + ii, p] * B[p, j]",
    ),
    "columns inside of a sum": (
        lambda: reschedule(matmul()).unroll_and_jam("j", 2),
        "⊞[jo < ⌈m / 2⌉] Σ[p < k] ⊞[ji < 2] [2*jo + ji < m] · A[i, p] * B[p, 2*jo + ji]",
    ),
    "with what they read of a stage": (
        lambda: reschedule(halves()).unroll_and_jam("⊞[y < n] ⊞[x < m] _ + _", 4, share="buf"),
        ("⊞[x < m] let buf := ⊞[y < 5] ⊞[i < 1] [1 <= 4*yo + y <= n] · z[4*yo + y - 1, x] / 2 in "
        "⊞[yi < 4] [4*yo + yi < n] · (buf[yi + 1, 0] + [1 <= 4*yo + yi] · buf[yi, 0])"),
    ),
    "with what they read of an operand": (
        lambda: reschedule(matmul()).unroll_and_jam("i", 2, share="B[_, _]"),
        "let buf := ⊞[p < k] B[p, j] in ⊞[ii < 2] [2*io + ii < n] · Σ[p < k] A[2*io + ii, p] * buf[p]",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JAMMED)
def test_jammed_rows_share_loads(name: str) -> None:
    make, expected = JAMMED[name]
    s = make()
    assert expected in body(s)
    assert s.check()
    assert_agrees(s)


LEVELS: dict[str, tuple[Callable[[], Session], list[str]]] = {
    "of one loop": (lambda: reschedule(matmul()).tile("i", [4, 2]), ["io", "iio", "iii", "j", "p"]),
    "of one loop at a path": (
        lambda: reschedule(matmul()).tile((), [4, 4, 2]),
        ["io", "iiio", "iiii", "j", "p"],
    ),
    "of the first of two": (
        lambda: reschedule(matmul()).tile(["i", "j"], [[4, 2], 8]), ["io", "jo", "iio", "iii", "ji", "p"],
    ),
    "of both": (
        lambda: reschedule(matmul()).tile(["i", "j"], [[4, 2], [8, 4]]), ["io", "jo", "iio", "jio", "iii", "jii", "p"],
    ),
    "of a sum as well": (
        lambda: reschedule(matmul()).tile(["i", "j", "p"], [[4, 2], [8], [8, 2]]),
        ["io", "jo", "po", "iio", "iii", "ji", "pio", "pii"],
    ),
    "of a maximum": (lambda: reschedule(maxima()).tile("j", [4, 2]), ["i", "jo", "jio", "jii"]),
}  # fmt: skip


@pytest.mark.parametrize("name", LEVELS)
def test_multilevel_tiles(name: str) -> None:
    make, order = LEVELS[name]
    s = make()
    lines = print_nest(lower(s.goal)).split("\n")
    assert [line.split()[1] for line in lines if line.lstrip().startswith("for ")] == order
    padtypes.check(s.goal)
    assert_agrees(s)


def test_dividing_tiles_have_no_tails() -> None:
    shown = body(reschedule(matmul()).tile(["i", "j"], [[8, 4], 2]).interchange("iii").interchange("ji"))
    assert "truncr 0" not in shown
    assert "transpose transpose" not in shown


def shifted() -> Session:
    """Return tiles whose padding follows from lengths of loops in the sum."""
    s = reschedule(atl.parse(
        "f (x : float32[n], w : float32[m]) : float32[n] := ⊞[i < n] Σ[q < m] [i + q < n] · x[i + q] * w[q]"
    ))  # fmt: skip
    return s.tile("i", 4).interchange("ii").tile("io", 4)


@pytest.mark.long
def test_padding_of_any_term_bounds_buffer_reads() -> None:
    s = shifted().tails().accumulate("q", at="ioo")
    assert "⊞[ii < 4] [ii < min(n - 16*ioo - 4*ioi, 4)] · acc[ioi, ii]" in body(s)
    assert s.check()
    assert_agrees(s)
    assert shifted().tile("q", 8).tails().accumulate("qo", at="ioo").check()


@pytest.mark.long
def test_truncated_buffer_is_refused_with_a_suggestion(monkeypatch: pytest.MonkeyPatch) -> None:
    """The planted fault finds no bound without the index of the sum."""
    monkeypatch.setattr(padding, "_add_outer_condition", lambda *_: None)
    with pytest.raises(DoesNotApply, match="with the sum q in a buffer the goal would not compile") as refused:
        shifted().tails().accumulate("q", at="ioo")
    assert "s.accumulate(…) before s.tails()" in str(refused.value)
    assert shifted().accumulate("q", at="ioo").tails().check()
    # The planted fault treats new obstacles as old.
    monkeypatch.setattr(accumulation, "new_diagnostics", lambda before, after: [])
    assert not shifted().tails().accumulate("q", at="ioo").check()


def test_refusal_names_only_new_obstacles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(padding, "_add_outer_condition", lambda *_: None)
    s = shifted().tails().mark("ioo", "block.x")
    (before,) = diagnostics(s.goal)
    with pytest.raises(DoesNotApply, match="would not compile: the truncation of the last") as refused:
        s.accumulate("q", at="ioo")
    assert before.summary not in str(refused.value)


@pytest.mark.parametrize("monoid", ["max", "min"])
def test_maxima_of_a_tile_are_accumulated(monoid: str) -> None:
    text = f"f (x : float32[n, k], y : float32[k]) : float32[n] := ⊞[i < n] {monoid}[p < k] x[i, p] + y[p]"
    s = reschedule(atl.parse(text)).tile("i", 4).accumulate("p", name="acc")
    assert f"let acc := {monoid}[p < k] ⊞[ii < 4]" in str(s.goal)
    arrays = atl.random_inputs(s.goal, {"n": 7, "k": 3})
    np.testing.assert_array_equal(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays))


def test_rest_after_whole_tiles_is_accumulated() -> None:
    text = "f (x : float32[k, n], y : float32[k]) : float32[n] := ⊞[i < n] Σ[p < k] x[p, i] * y[p]"
    s = reschedule(atl.parse(text)).split_loop("i", "8*(n // 8)", names=["i", "last"])
    s.accumulate("Σ[p < k] x[p, last] * _", name="rest")
    assert "let rest := Σ[p < k] ⊞[8*(n // 8) <= last < n] x[p, last] * y[p]" in str(s.goal)
    arrays = atl.random_inputs(s.goal, {"n": 13, "k": 3})
    np.testing.assert_allclose(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays), rtol=1e-6)


REFUSED: dict[str, tuple[Callable[[], Session], str]] = {
    "a generation": (lambda: reschedule(matmul()).tile("j", 4).accumulate("ji"), "is not a reduction"),
    "a sum without a tile": (
        lambda: reschedule(matmul()).accumulate("p"), "no loop of constant extent is directly around the sum p",
    ),
    "a loop inside of the sum": (
        lambda: reschedule(twice_summed()).accumulate("p", at="q"), "that loop is not around the sum p",
    ),
    "the loop directly around": (
        lambda: reschedule(matmul()).accumulate("p", at="j"), "no loop is between that loop and the sum p",
    ),
    "rows of a vector": (
        lambda: reschedule(pipeline()).unroll_and_jam("⊞[_ < _] _ + _", 2), "no loop is directly inside the loop ii",
    ),
    "what nobody shares": (
        lambda: reschedule(matmul()).unroll_and_jam("i", 2, share="C"), "no loop, sum or let in the goal is named C",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_unsuitable_loops_are_not_accumulated(name: str) -> None:
    call, message = REFUSED[name]
    with pytest.raises(DoesNotApply, match=message):
        call()


def test_unroll_factors_are_counted_by_loop() -> None:
    s = reschedule(matmul())
    wrong: list[tuple[Any, Any, str]] = [
        ("i", [], "a loop without a factor"),
        (["i", "j"], [[4, 2]], "2 loops and 1 factors"),
        (["i", "j"], [[4, 2], []], "a loop without a factor"),
        ("i", [4, 0], "a tile of 0 iterations"),
    ]
    for loops, by, message in wrong:
        with pytest.raises(InvalidArgument, match=message):
            s.tile(loops, by)
