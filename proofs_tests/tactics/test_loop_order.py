"""Loop interchange past reshape operators and in triangles, and tiled maxima."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import atl
import padtypes
from atl import Program
from atl.core.terms import Monoid
from lowering import compile as compiled
from lowering import lower, print_nest
from proofs_tests.sessions.session_programs import assert_agrees, body, m, matmul, n
from rewrites import Session, reschedule

z = atl.tensor("z", n, m)
square = atl.tensor("square", n, n)
SIZES = [{"n": 0, "m": 2, "k": 1}, {"n": 1, "m": 1, "k": 1}, {"n": 5, "m": 7, "k": 3}, {"n": 8, "m": 4, "k": 11}]


def loops_run(session: Session) -> list[str]:
    """Return the loops of the kernel, outermost first."""
    lines = print_nest(lower(session.goal)).split("\n")
    return [line.split()[1] for line in lines if line.lstrip().startswith("for ")]


def doubled() -> Program:
    return atl.program("doubled", [z], atl.gen(n, m, lambda i, j: 2 * z[i, j]))


PAST: dict[str, tuple[Callable[[], Session], list[str]]] = {
    "tiles, the columns first": (
        lambda: reschedule(doubled()).tile(["i", "j"], 4).interchange("io"), ["jo", "io", "ii", "ji"],
    ),
    "and back": (
        lambda: reschedule(doubled()).tile(["i", "j"], 4).interchange("io").interchange("jo"),
        ["io", "jo", "ii", "ji"],
    ),
    "a loop, and tiles of the other one": (
        lambda: reschedule(doubled()).tile("j", 4).interchange("i"), ["jo", "i", "ji"],
    ),
    "tiles, and a loop that is whole": (
        lambda: reschedule(doubled()).tile("i", 4).interchange("ii").interchange("io"), ["j", "io", "ii"],
    ),
    "generations that are not flattened": (
        lambda: reschedule(atl.program("p", [z], atl.gen(2, n, m, lambda b, i, j: z[i, j])), given=[n > 0]).interchange(
            "i").interchange("b"),
        ["j", "b", "i"],
    ),
    "a sum over tiles, out of both": (
        lambda: reschedule(matmul()).tile(["i", "j", "p"], [2, 3, 4]).interchange("jo").interchange("io"),
        ["po", "io", "jo", "ii", "ji", "pi"],
    ),
    "a sum over tiles, back inside": (
        lambda: reschedule(matmul()).tile(["i", "j", "p"], [2, 3, 4]).interchange("jo").interchange("po"),
        ["io", "jo", "po", "ii", "ji", "pi"],
    ),
    "a product with its columns outermost": (
        lambda: reschedule(matmul()).tile(["i", "j", "p"], [2, 3, 4]).interchange("io").interchange("io"),
        ["jo", "po", "io", "ii", "ji", "pi"],
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", PAST)
def test_loop_moves_past_terms_between_tiles(name: str) -> None:
    make, order = PAST[name]
    session = make()
    assert loops_run(session) == order
    assert_agrees(session, SIZES) if name != "generations that are not flattened" else padtypes.check(session.goal)


def test_guard_moves_into_reshape_operators() -> None:
    s = reschedule(atl.program("p", [z], atl.gen(n, lambda i: atl.guard(i >= 1, atl.gen(m, lambda j: z[i, j])))))
    s.tile("j", 4).interchange("i")
    assert body(s).endswith("⊞[i < n] [1 <= i] · ⊞[ji < 4] [4*jo + ji < m] · z[i, 4*jo + ji]")
    assert_agrees(s, SIZES)


def test_loops_past_a_transpose_keep_their_marks() -> None:
    s = reschedule(doubled()).tile(["i", "j"], 4).mark("io", "parallel").mark("jo", "unroll").interchange("io")
    assert "⊞[jo < ⌈m / 4⌉ | unroll]" in str(s.goal)
    assert "⊞[io < ⌈n / 4⌉ | parallel]" in str(s.goal)


TRIANGLES: dict[str, tuple[Callable[[], Session], str]] = {
    "the lower one": (
        lambda: reschedule(atl.program("t", [square], atl.sum(n, lambda i: atl.sum(i + 1, lambda j: square[i, j])))),
        "Σ[j < n] Σ[j <= i < n] square[i, j]",
    ),
    "the upper one": (
        lambda: reschedule(atl.program("t", [square], atl.sum(n, lambda i: atl.sum((i, n), lambda j: square[i, j])))),
        "Σ[j < n] Σ[i < j + 1] square[i, j]",
    ),
    "sums of rows": (
        lambda: reschedule(atl.program("t", [square], atl.gen(n, lambda i: atl.sum(i + 1, lambda j: square[i, j])))),
        "Σ[j < n] padl j ⊞[j <= i < n] square[i, j]",
    ),
    "a product": (
        lambda: reschedule(atl.program("t", [square], atl.gen(n, n, lambda i, j: atl.sum(
            i + 1, lambda p: square[i, p] * square[p, j])))).interchange("j"),
        "Σ[p < n] padl p ⊞[p <= i < n] ⊞[j < n] square[i, p] * square[p, j]",
    ),
    "a band": (
        lambda: reschedule(atl.program("t", [square], atl.sum(n, lambda i: atl.sum(
            (i, atl.imin(i + 2, n)), lambda j: square[i, j])))),
        "Σ[j < n] Σ[max(0, j - 1) <= i < j + 1] square[i, j]",
    ),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", TRIANGLES)
def test_triangular_loops_interchange(name: str) -> None:
    make, expected = TRIANGLES[name]
    s = make().interchange("i")
    assert body(s) == expected
    assert_agrees(s, SIZES)


def test_triangular_loops_interchange_back() -> None:
    s = TRIANGLES["sums of rows"][0]().interchange("i").interchange("j")
    assert body(s) == "⊞[i < n] Σ[j < i + 1] square[i, j]"
    assert_agrees(s, SIZES)


MAXIMA: dict[str, tuple[list[str], str]] = {
    "the maximum": (
        ["j"], "⊞[i < n] max[jo < ⌈m / 4⌉] max[ji < min(m - 4*jo, 4)] z[i, 4*jo + ji]",
    ),
    "rows of maxima": (
        ["i", "j"],
        ("truncr (4*⌈n / 4⌉ - n) flatten ⊞[io < ⌈n / 4⌉] padr (4 - min(n - 4*io, 4)) max[jo < ⌈m / 4⌉] "
        "⊞[ii < min(n - 4*io, 4)] max[ji < min(m - 4*jo, 4)] z[4*io + ii, 4*jo + ji]"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MAXIMA)
def test_maximum_is_tiled(name: str) -> None:
    loops, expected = MAXIMA[name]
    rows = atl.program("top", [z], atl.gen(n, lambda i: atl.reduce("max", m, lambda j: z[i, j])))
    s = reschedule(rows).tile(loops, 4)
    assert body(s) == expected
    assert_agrees(s, SIZES)
    negative = -1 - np.arange(15, dtype="float32").reshape(3, 5)
    np.testing.assert_array_equal(compiled(s.goal)(z=negative), negative.max(1))


@pytest.mark.parametrize("monoid", ["min", "product"])
def test_other_folds_are_tiled(monoid: Monoid) -> None:
    rows = atl.program("fold", [z], atl.gen(n, lambda i: atl.reduce(monoid, m, lambda j: z[i, j])))
    assert_agrees(reschedule(rows).tile("j", 3), SIZES)


@pytest.mark.parametrize("by", [[4, 4], [4, 1], [1, 3]])
def test_generation_and_maximum_are_tiled_together(by: list[int]) -> None:
    w = atl.tensor("w", 8 * n, m)
    rows = atl.program("whole", [w], atl.gen(8 * n, lambda i: atl.reduce("max", m, lambda j: w[i, j])))
    s = reschedule(rows).tile(["i", "j"], by)
    assert s.check()
    assert_agrees(s, SIZES)


@pytest.mark.parametrize("monoid", ["max", "min"])
def test_last_block_of_an_extremum_repeats_its_last_term(monoid: Monoid) -> None:
    rows = atl.program("rows", [z], atl.gen(n, lambda i: atl.reduce(monoid, m, lambda j: z[i, j])))
    s = reschedule(rows).tile("j", 4).interchange("jo")
    assert str(body(s)) == f"⊞[i < n] {monoid}[ji < 4] {monoid}[jo < ⌈m / 4⌉] z[i, 4*jo + min(m - 4*jo, ji + 1) - 1]"
    assert_agrees(s, SIZES)
    kernel = compiled(s.goal)
    for size in SIZES:
        sign = -1 if monoid == "max" else 1
        array = sign * (1 + np.random.default_rng(3).random((size["n"], size["m"]), np.float32))
        assert np.array_equal(kernel(array), atl.evaluate(rows, z=array)), "no zero comes in from beyond the end"


@pytest.mark.parametrize("monoid", ["max", "min"])
def test_triangular_extrema_interchange(monoid: Monoid) -> None:
    rows = atl.program("rows", [square], atl.gen(n, lambda i: atl.reduce(monoid, i + 1, lambda j: square[i, j])))
    s = reschedule(rows).interchange("i")
    assert str(body(s)) == f"{monoid}[j < n] ⊞[i < n] square[i, min(j + 1, i + 1) - 1]"
    assert_agrees(s, SIZES)
