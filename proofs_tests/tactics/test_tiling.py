"""Tiling of several loops, buffers of tiles, and the choice among loops with one name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.core.marks import LoopMark
from atl.core.terms import Gen, Reduce
from atl.errors import InvalidArgument
from lowering import lower, print_nest
from proofs_tests.sessions.session_programs import assert_agrees, body, f, k, m, matmul, n, pipeline
from rewrites import DoesNotApply, Session, reschedule
from rewrites.cursors.cursor import binders

T = atl.sizes("T")
y = atl.tensor("y", n, m, k)
z = atl.tensor("z", n, n)


def loops_of(session: Session) -> list[str]:
    return [cursor.called[-1] for cursor in binders(session.goal)]


def three() -> atl.Program:
    return atl.program("three", [y], atl.gen(n, m, k, lambda b, i, j: 2 * y[b, i, j]))


def mixed() -> atl.Program:
    return atl.program(
        "mixed", [y], atl.gen(n, lambda b: atl.sum(m, lambda i: atl.gen(k, lambda j: y[b, i, j] * y[b, i, j])))
    )


NESTS: dict[str, tuple[Callable[[], atl.Program], list[str], list[Any], list[str]]] = {
    "three generations": (three, ["b", "i", "j"], [2, 4, 3], ["bo", "io", "jo", "bi", "ii", "ji"]),
    "of a size each": (three, ["b", "i", "j"], [T, T, T], ["bo", "io", "jo", "bi", "ii", "ji"]),
    "a sum inside": (matmul, ["i", "j", "p"], [2, 4, 3], ["io", "jo", "po", "ii", "ji", "pi"]),
    "a sum between": (mixed, ["b", "i", "j"], [2, 4, 3], ["bo", "io", "jo", "bi", "ii", "ji"]),
    "three sums": (
        lambda: atl.program("s", [y], atl.sum(n, lambda b: atl.sum(m, lambda i: atl.sum(k, lambda j: y[b, i, j])))),
        ["b", "i", "j"], [2, 4, 3], ["bo", "io", "jo", "bi", "ii", "ji"],
    ),
    "two generations": (three, ["b", "i"], [2, 4], ["bo", "io", "bi", "ii", "j"]),
    "a generation and a sum": (matmul, ["j", "p"], [2, 4], ["i", "jo", "po", "ji", "pi"]),
}  # fmt: skip


@pytest.mark.sampled
@pytest.mark.parametrize("name", NESTS)
def test_tile_loops_are_outermost(name: str) -> None:
    make, names, by, order = NESTS[name]
    s = reschedule(make(), given=[T >= 1] if any(size is T for size in by) else []).tile(names, by)
    assert loops_of(s) == order
    assert_agrees(s)


@pytest.mark.long
def test_four_loops_are_tiled_and_stay_in_order_when_lowered() -> None:
    four = atl.program("four", [y], atl.gen(5, n, m, k, lambda a, b, i, j: y[b, i, j]))
    s = reschedule(four).tile(["a", "b", "i", "j"], 3)
    order = ["ao", "bo", "io", "jo", "ai", "bi", "ii", "ji"]
    assert loops_of(s) == order
    nest = [line.split()[1] for line in print_nest(lower(s.goal)).split("\n") if line.lstrip().startswith("for ")]
    assert nest == order
    assert_agrees(s)


@pytest.mark.long
def test_loops_are_selected_by_name_handle_or_path() -> None:
    s = reschedule(three())
    expected = str(s.branch().tile(["b", "i", "j"], [2, 3, 4]).goal)
    assert str(s.branch().tile([s.find("b"), "i", (0, 0)], [2, 3, 4]).goal) == expected
    assert str(s.branch().tile([(), "⊞[i < _] _", s.find("j")], [2, 3, 4]).goal) == expected


def test_untileable_loops_are_named() -> None:
    triangle = atl.program("t", [y], atl.gen(n, lambda b: atl.sum(m, lambda i: atl.sum(i, lambda j: y[0, i, j]))))
    with pytest.raises(DoesNotApply, match="the loop j is not directly inside the loop b"):
        reschedule(three()).tile(["b", "j"], 4)
    with pytest.raises(DoesNotApply, match="tiling must interchange the loops ii and j, but cannot"):
        reschedule(triangle, given=[k >= m, n >= 1]).tile(["b", "i", "j"], 4)


def blur() -> atl.Program:
    return atl.program(
        "blur", [z], atl.gen(n, n, lambda r, c: z[r, c] + atl.guard(r >= 1, z[r - 1, c]))
    )  # fmt: skip


@pytest.mark.parametrize("what", ["z", "z[_, _]"])
def test_reads_of_a_tile_are_staged(what: str) -> None:
    s = reschedule(blur()).tile(["r", "c"], 4).stage(what, at="co", name="zt")
    assert "let zt := ⊞[i < 5] ⊞[j < 4] [1 <= 4*ro + i <= n ∧ 4*co + j < n] · z[4*ro + i - 1, 4*co + j] in" in body(s)
    assert "zt[ri + 1, ci] + [1 <= 4*ro + ri] · zt[ri, ci]" in body(s)
    assert_agrees(s)


def test_bound_input_can_be_staged() -> None:
    s = reschedule(blur()).tile(["r", "c"], 4).lbind("z", "zin", over=()).stage("zin", at="co", name="zt")
    assert "let zt := ⊞[i < 5] ⊞[j < 4]" in body(s)
    assert "zin" not in body(s)
    assert_agrees(s)


@pytest.mark.long
def test_accumulator_keeps_tile_padding() -> None:
    s = reschedule(matmul()).tile(["i", "j", "p"], [4, 4, 2]).stage("Σ[po < _] _", at="jo", name="acc")
    assert body(s).endswith("in transpose ⊞[ii < 4] ⊞[ji < 4] [4*jo + ji < m ∧ 4*io + ii < n] · acc[ii, ji]")
    assert_agrees(s)
    s.stage("A", at="po", name="At").stage("B", at="po", name="Bt")
    assert "At[ii, pi] * Bt[pi, ji]" in body(s)
    assert_agrees(s)


def test_buffer_has_no_dimension_for_independent_loops() -> None:
    """The guard of the rows does not concern the packed other matrix."""
    s = reschedule(matmul()).tile(["i", "j", "p"], [4, 4, 2]).stage("B[_, _]", at="po", name="Bt")
    assert "let Bt := ⊞[ji < 4] ⊞[pi < 2] [4*jo + ji < m] · [2*po + pi < k] · B[2*po + pi, 4*jo + ji] in" in body(s)
    assert_agrees(s)


@pytest.mark.long
def test_added_sums_keep_tile_padding() -> None:
    rows = atl.program("rows", [z], atl.gen(n, lambda i: atl.sum(n, lambda j: z[i, j])))
    s = reschedule(rows).tile("i", 8).interchange("ii").split_loop("j", n // 4 * 4)
    s.stage("_ + _", at="io", name="acc")
    assert body(s).endswith("in ⊞[ii < 8] [8*io + ii < n] · acc[ii]")
    assert_agrees(s)


def test_buffer_is_placed_below_its_lets() -> None:
    s = reschedule(
        atl.program("p", [z], atl.gen(n, lambda i: atl.let(
            atl.sum(n, lambda j: z[i, j]), lambda b: atl.gen(n, lambda j: z[i, j] * b), name="b")))
    ).stage("_ * _", at="i")  # fmt: skip
    assert body(s) == "⊞[i < n] let b := Σ[j < n] z[i, j] in let buf := ⊞[j < n] z[i, j] * b in ⊞[j < n] buf[j]"
    assert_agrees(s)


def two_stages() -> atl.Program:
    return atl.program("two", [f], atl.let(atl.gen(n, lambda r: 2 * f[r]), lambda s: atl.gen(
        n, lambda r: atl.guard(r >= 1, s[r - 1]) + s[r]), name="s"))  # fmt: skip


def softmax_rows() -> atl.Program:
    return atl.program("p", [z], atl.gen(n, lambda i: atl.let(atl.gen(n, lambda j: z[i, j]), lambda a: atl.let(
        atl.sum(n, lambda j: a[j]), lambda b: atl.gen(n, lambda j: a[j] + b), name="b"), name="a")))  # fmt: skip


def test_name_selects_the_first_applicable_loop() -> None:
    s = reschedule(two_stages()).stage("s", at="r")
    assert body(s).startswith("⊞[r < n] let s := ⊞[r1 < 2] [1 <= r + r1] · 2 * f[r + r1 - 1] in")
    assert_agrees(s)
    s = reschedule(softmax_rows()).tile("i", 8).hoist("a", out_of="ii").hoist("b", out_of="ii")
    assert "let b := ⊞[ii < 8] [8*io + ii < n] · Σ[j < n] a[ii, j] in" in body(s)
    assert_agrees(s)


def test_subterm_is_bound_below_the_given_place() -> None:
    twice = atl.program("p", [f], atl.let(atl.sum(n, lambda j: 2 * f[j]), lambda t: atl.gen(
        n, lambda i: 2 * f[i] + t), name="t"))  # fmt: skip
    s = reschedule(twice).lbind("2 * _", "d", over="_ + t")
    assert body(s).endswith("in ⊞[i < n] let d := 2 * f[i] in d + t")


def test_loop_pieces_keep_the_name() -> None:
    s = reschedule(atl.program("b", [z], atl.gen(n, n, lambda r, c: 2 * z[r, c])), given=[n >= 3])
    s.split_loop("c", 1, n - 1).split_loop("r", 1, n - 1)
    assert set(loops_of(s)) == {"r", "c"}
    assert "c1" not in str(s.goal)
    s.split_loop("r", 2)  # the prologue has no second row: the main loop is split
    assert "⊞[1 <= r < 2]" in str(s.goal)
    assert "⊞[2 <= r < n - 1]" in str(s.goal)


HANDLES: dict[str, Callable[[Session], Session]] = {
    "hoist": lambda s: s.hoist(s.find("row")),
    "hoist by a pattern": lambda s: s.hoist("let row := _ in _"),
    "inline": lambda s: s.inline(s.find("row")),
    "fuse": lambda s: s.fuse(s.find("row")),
    "unroll": lambda s: s.tile(s.find("p"), 2).unroll(s.find("pi")),
    "split_loop": lambda s: s.split_loop(s.find("p"), "k // 2"),
    "stage": lambda s: s.stage("B[_, _]", at=s.find("j")),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", HANDLES)
def test_tactics_accept_handles_for_names(name: str) -> None:
    s = HANDLES[name](reschedule(matmul()).stage("A[_, _]", at="i", name="row"))
    assert "Handle" not in repr(s.steps)
    assert str(s.goal)
    assert s.explain().text
    assert_agrees(s)


def marks_of(session: Session) -> list[str]:
    loops = [cursor.term for cursor in binders(session.goal)]
    return [loop.mark.value for loop in loops if isinstance(loop, Gen | Reduce) and loop.mark is not LoopMark.NONE]


def test_tiled_loops_become_blocks_and_threads() -> None:
    x = atl.tensor("x", n, m)
    sums = atl.gen(1, lambda i: atl.sum(n, m, lambda p, q: x[p, q]))
    doubled = atl.flatten(atl.gen(n, m, lambda i, j: 2 * x[i, j]))
    s = reschedule(atl.program("both", [x], atl.concat(sums, doubled)))
    assert marks_of(s.gpu_map(["i", "j"], [4, 8])) == ["block.y", "block.x", "thread.y", "thread.x"]


def test_loops_of_one_name_have_separate_axes() -> None:
    s = reschedule(atl.program("squares", [z], atl.gen(n, lambda i: atl.gen(n, lambda i1: z[i, i1])))).rename("i1", "i")
    assert marks_of(s.gpu_map(["i", "i1"], [4, 8])) == ["block.y", "block.x", "thread.y", "thread.x"]


def test_text_bound_uses_names_in_scope() -> None:
    def triangle() -> Session:
        return reschedule(atl.program("t", [z], atl.gen(n, n, lambda i, j: atl.guard(j <= i, z[i, j]))))

    s = triangle().split_loop("j", "i + 1")
    assert body(s) == "⊞[i < n] (⊞[j < i + 1] z[i, j]) ++ ⊞[i + 1 <= j < n] padding(float32)"
    assert "size" not in str(triangle().tile("j", "i + 1").goal).split(":=")[0]
    assert body(triangle().split_loop("i", "imin(4, n)")) == body(triangle().split_loop("i", "min(4, n)"))
    with pytest.raises(InvalidArgument, match="in 'j', j is the index of a loop that does not enclose this place"):
        triangle().split_loop("i", "j")
    with pytest.raises(InvalidArgument, match="in 'j', j is the index of a loop that does not enclose this place"):
        triangle().tile("i", "j")


def test_suggested_split_at_the_end_works() -> None:
    with pytest.raises(DoesNotApply, match="clamp the indices to the loop's range") as caught:
        reschedule(pipeline()).fuse("buf").split_loop("i", 5)
    assert "s.split_loop('i', 'min(n, 5)')" in str(caught.value)
    assert body(reschedule(pipeline()).fuse("buf").split_loop("i", "min(n, 5)")).startswith("(⊞[i < min(n, 5)]")
