"""Interactive sessions: tactics on small programs, places, undo, handles and printing.

Whatever a tactic makes is compared with the program that it started from, element by element at several sizes, and is
checked for safe accesses and truncations.
"""

from __future__ import annotations

import inspect
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import atl
import padtypes
from atl.core.index import value_at
from atl.errors import InvalidArgument
from examples.schedules import blur
from proofs_tests.sessions.session_programs import A, f, k, m, matmul, n, pipeline
from rewrites import Derivation, DoesNotApply, Session, reschedule, rules
from rewrites.cursors.cursor import cursors
from rewrites.cursors.text_pattern import fits, pattern


def body(session: Session) -> str:
    """Return the goal without its first line and common indentation."""
    _, _, shown = str(session.goal).partition(":=\n")
    return "\n".join(line.removeprefix("  ") for line in shown.split("\n"))


def assert_agrees(session: Session, *, least: int = 0, safe: bool = True) -> None:
    """Check that the goal equals the start at small sizes, and is safe."""
    start, goal = session.theorem.lhs, session.goal
    if safe:
        atl.check_safe(goal)
        padtypes.check(goal)
    for size in (0, 1, 2, 3, 5, 8, 9):
        if size < least:
            continue
        values = {"n": size, "m": size + 1, "k": max(size - 1, least)}
        numbers = np.random.default_rng(size)
        arrays: dict[str, Any] = {
            array.name: numbers.integers(0, 9, tuple(value_at(extent, values) for extent in array.shape)).astype(
                array.dtype
            )
            for array in start.inputs
        }
        free = {name: values[name] for name in start.free_sizes}
        given: dict[str, Any] = {**arrays, **free}
        np.testing.assert_array_equal(atl.evaluate(goal, **given), atl.evaluate(start, **given))


# -- the derivations of the paper -------------------------------------------------------------------------------------


def test_pipeline_is_fused_in_three_steps() -> None:
    """§4.2.3: unfold_let, then get_gen at each of the two uses."""
    s = reschedule(pipeline()).rw("unfold_let").rw("get_gen").rw("get_gen")
    assert body(s) == "⊞[i < n] [1 <= i] · f[i - 1] + f[i]"
    assert [repr(call) for call in s.steps] == ["rw('unfold_let')", "rw('get_gen')", "rw('get_gen')"]
    assert [step.rule.name for step in s.done().steps] == ["unfold_let", "get_gen", "get_gen"]
    assert_agrees(s)


def test_pipeline_is_tiled_by_the_thesis_script() -> None:
    """§4.1, with the guard around the buffer's elements that its text shows and its script loses (erratum E13)."""
    s = reschedule(pipeline())
    s.inline("buf")
    s.rw("get_gen").rw("get_gen")
    s.rw("truncr_flatten_split", around="⊞[_ < _] _", reverse=True, k=8)
    s.inline("split")
    s.rw("get_gen")
    s.rw("guard_true", around="_ + _", reverse=True, p="8*i + j < n")
    s.lbind("[_ < n] · (_ + _)", "v", over="[_ < n] · [_ < n] · _")
    s.rw("ll_gen")
    assert body(s) == (
        "truncr (8*⌈n / 8⌉ - n) flatten ⊞[i < ⌈n / 8⌉]\n"
        "  let v := ⊞[j < 8] [8*i + j < n] · ([1 <= 8*i + j] · f[8*i + j - 1] + f[8*i + j]) in\n"
        "  ⊞[j < 8] [8*i + j < n] · v[j]"
    )
    assert_agrees(s)


def test_the_same_tiling_by_composite_tactics() -> None:
    s = reschedule(pipeline()).fuse("buf").tile("i", 8).stage("_ + _", at="io", name="v")
    assert body(s) == (
        "truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉]\n"
        "  let v := ⊞[ii < 8] [8*io + ii < n] · ([1 <= 8*io + ii] · f[8*io + ii - 1] + f[8*io + ii]) in\n"
        "  ⊞[ii < 8] [8*io + ii < n] · v[ii]"
    )
    assert_agrees(s)


def test_loop_is_split_at_its_borders() -> None:
    """§4.5.2: guards that become true drop, one that becomes false leaves the node that stores nothing (E24, E29)."""
    s = reschedule(pipeline(), given=[n > 1]).fuse("buf").split_loop("i", 1, n - 1)
    assert body(s) == (
        "(⊞[i < 1] padding(float32) + f[i])\n"
        "++ (⊞[1 <= i < n - 1] f[i - 1] + f[i])\n"
        "++ ⊞[n - 1 <= i < n] f[i - 1] + f[i]"
    )
    assert_agrees(s, least=2)


def test_loop_pieces_are_found_by_name() -> None:
    s = reschedule(pipeline(), given=[n > 1]).fuse("buf").split_loop("i", 1, names=["first", "rest"])
    assert body(s) == "(⊞[first < 1] padding(float32) + f[first]) ++ ⊞[1 <= rest < n] f[rest - 1] + f[rest]"
    s.tile("rest", 8)
    assert "⊞[resto < (n + 6) // 8] ⊞[resti < 8]" in body(s)
    assert_agrees(s, least=2)


def test_blur_is_tiled_and_buffered_in_two_calls() -> None:
    """§8.1.1 without its tails: 4 x 4 tiles, each with the 6 x 4 elements of the first stage that it reads."""
    s = reschedule(blur.two_stage()).tile(("⊞[y < n] _", "x"), (4, 4)).stage("buf", at="xo")
    assert body(s).startswith(
        "truncr (4*⌈n / 4⌉ - n) flatten ⊞[yo < ⌈n / 4⌉] transpose truncr (4*⌈m / 4⌉ - m) flatten\n"
        "⊞[xo < ⌈m / 4⌉]\n"
        "  let buf :=\n"
        "    ⊞[y < 6] ⊞[x < 4] [4*xo + x < m ∧ 1 <= 4*yo + y <= n] ·\n"
    )
    assert_agrees(s, least=1)


# -- each tactic ------------------------------------------------------------------------------------------------------

TACTICS: dict[str, tuple[Callable[[], Session], str]] = {
    "inline unfolds a let": (
        lambda: reschedule(pipeline()).inline("buf"),
        "⊞[i < n] [1 <= i] · (⊞[i1 < n] f[i1])[i - 1] + (⊞[i1 < n] f[i1])[i]",
    ),
    "inline unfolds a reshape operator": (
        lambda: reschedule(atl.program("t", [A], atl.transpose(A))).inline("transpose"),
        "⊞[i < k] ⊞[j < n] A[j, i]",
    ),
    "fuse": (lambda: reschedule(pipeline()).fuse("buf"), "⊞[i < n] [1 <= i] · f[i - 1] + f[i]"),
    "simpl_guard drops implied conjuncts": (
        lambda: reschedule(
            atl.program("g", [f], atl.gen(n, lambda i: atl.guard((i < n) & (i < 4) & (i < 9), f[i])))
        ).simpl_guard(),
        "⊞[i < n] [i < 4] · f[i]",
    ),
    "simpl_guard decides selections": (
        lambda: reschedule(
            atl.program("g", [f], atl.gen(n, lambda i: atl.select(i < n, f[i], 0.0) + atl.select(i < 0, 1.0, f[i])))
        ).simpl_guard(),
        "⊞[i < n] f[i] + f[i]",
    ),
    "tile a reduction": (
        lambda: reschedule(matmul()).tile("p", 4),
        "⊞[i < n] ⊞[j < m] Σ[po < ⌈k / 4⌉] Σ[pi < 4] [4*po + pi < k] · A[i, 4*po + pi] * B[4*po + pi, j]",
    ),
    "tile two loops": (
        lambda: reschedule(matmul()).tile(("i", "j"), (4, 8)),
        ("truncr (4*⌈n / 4⌉ - n) flatten ⊞[io < ⌈n / 4⌉] transpose truncr (8*⌈m / 8⌉ - m) flatten\n"
        "⊞[jo < ⌈m / 8⌉] transpose ⊞[ii < 4] ⊞[ji < 8] [8*jo + ji < m ∧ 4*io + ii < n] · Σ[p < k]\n"
        "  A[4*io + ii, p] * B[p, 8*jo + ji]"),
    ),
    "the last tile is shorter": (
        lambda: reschedule(matmul()).tile("p", 4).tails(),
        "⊞[i < n] ⊞[j < m] Σ[po < ⌈k / 4⌉] Σ[pi < min(k - 4*po, 4)] A[i, 4*po + pi] * B[4*po + pi, j]",
    ),
    "full tiles and a tail": (
        lambda: reschedule(matmul()).tile("p", 4).tails(strategy="split"),
        ("⊞[i < n] ⊞[j < m]\n  (Σ[po < k // 4] Σ[pi < 4] A[i, 4*po + pi] * B[4*po + pi, j])\n"
         "  + Σ[k // 4 <= po < ⌈k / 4⌉] Σ[pi < k - 4*po] A[i, 4*po + pi] * B[4*po + pi, j]"),
    ),
    "interchange generations": (
        lambda: reschedule(matmul()).interchange("i"),
        "transpose ⊞[j < m] ⊞[i < n] Σ[p < k] A[i, p] * B[p, j]",
    ),
    "interchange a generation and a sum": (
        lambda: reschedule(matmul()).interchange("j"),
        "⊞[i < n] Σ[p < k] ⊞[j < m] A[i, p] * B[p, j]",
    ),
    "interchange and back": (
        lambda: reschedule(matmul()).interchange("j").interchange("p"),
        "⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]",
    ),
    "stage at a loop": (
        lambda: reschedule(matmul()).stage("A[_, _]", at="i", name="row"),
        "⊞[i < n]\n  let row := ⊞[p < k] A[i, p] in\n  ⊞[j < m] Σ[p < k] row[p] * B[p, j]",
    ),
    "stage before everything": (
        lambda: reschedule(matmul()).stage("A[_, _] * B[_, _]", name="terms"),
        ("let terms := ⊞[i < n] ⊞[j < m] ⊞[p < k] A[i, p] * B[p, j] in\n"
        "⊞[i < n] ⊞[j < m] Σ[p < k] terms[i, j, p]"),
    ),
    "stage what a tile reads of a producer": (
        lambda: reschedule(pipeline()).tile("⊞[_ < _] _ + _", 8).stage("buf", at="io"),
        ("truncr (8*⌈n / 8⌉ - n) flatten ⊞[io < ⌈n / 8⌉]\n"
        "  let buf := ⊞[i < 9] [1 <= 8*io + i <= n] · f[8*io + i - 1] in\n"
        "  ⊞[ii < 8] [8*io + ii < n] · ([1 <= 8*io + ii] · buf[ii] + buf[ii + 1])"),
    ),
    "pack": (
        lambda: reschedule(matmul()).pack("B"),
        "let Bp := ⊞[j < m] ⊞[p < k] B[p, j] in\n⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * Bp[j, p]",
    ),
    "factor_out": (
        lambda: reschedule(
            atl.program("g", [f], atl.gen(n, lambda i: atl.sum(n, lambda p: f[p] * f[i] * f[p])))
        ).factor_out("f[i]"),
        "⊞[i < n] f[i] * Σ[p < n] f[p] * f[p]",
    ),
    "lbind and hoist": (
        lambda: reschedule(matmul()).lbind("A[_, _]", "a").hoist("a").hoist("a"),
        "⊞[i < n]\n  let a := ⊞[p < k] A[i, p] in\n  ⊞[j < m] Σ[p < k] a[p] * B[p, j]",
    ),
    "hoist out of a chosen loop": (
        lambda: reschedule(matmul()).lbind("A[_, _]", "a").hoist("a", out_of="i"),
        "let a := ⊞[i < n] ⊞[p < k] A[i, p] in\n⊞[i < n] ⊞[j < m] Σ[p < k] a[i, p] * B[p, j]",
    ),
    "flatten_loops": (
        lambda: reschedule(matmul(), given=[m > 0]).flatten_loops("i"),
        "split m ⊞[ij < m*n] Σ[p < k] A[ij // m, p] * B[p, ij % m]",
    ),
    "unroll a generation": (
        lambda: reschedule(atl.program("u", [f], atl.gen(2, lambda i: 2 * f[i])), given=[n > 1]).unroll("i"),
        "(⊞[i < 1] 2 * f[0]) ++ ⊞[i < 1] 2 * f[1]",
    ),
    "unroll a sum": (
        lambda: reschedule(atl.program("u", [f], atl.sum(3, lambda i: f[i])), given=[n > 2]).unroll("i"),
        "f[0] + f[1] + f[2]",
    ),
    "solve_for_index finds digits": (
        lambda: reschedule(
            atl.program(
                "s",
                [f],
                atl.gen(n, lambda i: atl.sum(n, lambda j: atl.sum(4, lambda q: atl.guard(i == 4 * j + q, f[j])))),
            )
        ).solve_for_index(),
        "⊞[i < n] Σ[j < n] Σ[q < 4] [j = i // 4 ∧ q = i % 4] · f[j]",
    ),
    "solve_for_index joins bounds": (
        lambda: reschedule(
            atl.program(
                "s",
                [f],
                atl.gen(n, lambda i: atl.sum(n, lambda j: atl.guard((i - j * 4 >= 0) & (i - j * 4 < 4), f[j]))),
            )
        ).solve_for_index("j"),
        "⊞[i < n] Σ[j < n] [j = i // 4] · f[j]",
    ),
    "normalize": (
        lambda: reschedule(
            atl.program(
                "s", [f], (f + f) * 2 + atl.gen(n, lambda i: atl.let(f[i], lambda x: x * x) * atl.guard(i < 3, f[i]))
            )
        ).normalize(),
        ("⊞[i < n]\n"
        "  let x := f[i] in\n"
        "  let x1 := [i < 3] · x in (x + x) * 2 + x * x * x1"),
    ),
}  # fmt: skip


def test_simpl_guard_keeps_guards_of_reads() -> None:
    """t[c[i]] = 1 implies the guard, since elements outside t are zero, but memory has none there."""
    text = """g (c : int32[n] in [-1, n), t : int32[n] in [0, 2), f : float32[n]) : float32[n] :=
      gen[i < n] [0 <= c[i] ∧ i < n ∧ t[c[i]] = 1] · f[i]"""
    s = reschedule(atl.parse(text)).simpl_guard()
    assert "[0 <= c[i] ∧ t[c[i]] = 1]" in str(s.goal)
    atl.check_safe(s.goal)


@pytest.mark.sampled
@pytest.mark.parametrize("name", TACTICS)
def test_tactics_give_the_documented_equal_program(name: str) -> None:
    make, expected = TACTICS[name]
    session = make()
    assert body(session) == expected
    assert_agrees(session, least=3 if session.goal.assumptions else 0)


def test_derivations_are_reproducible() -> None:
    one, two = (reschedule(pipeline()).fuse("buf").tile("i", 8).stage("_ + _", at="io") for _ in range(2))
    assert str(one.goal) == str(two.goal)
    assert repr(one.steps) == repr(two.steps)
    assert [(s.rule, s.path, dict(s.arguments)) for s in one.done().steps] == [
        (s.rule, s.path, dict(s.arguments)) for s in two.done().steps
    ]


def test_custom_tactic_is_one_call() -> None:
    def fused_and_split(work: Derivation, name: str) -> None:
        work.rewrite("unfold_let", work.cursor().path)
        work.sweep(["get_gen"])
        assert name

    s = reschedule(pipeline()).do(fused_and_split, "buf")
    assert body(s) == "⊞[i < n] [1 <= i] · f[i - 1] + f[i]"
    assert repr(s.steps) == "  0  fused_and_split('buf')   -- 3 steps: unfold_let, get_gen ×2"


# -- where to rewrite -------------------------------------------------------------------------------------------------


def test_bottom_up_and_nth_select_places() -> None:
    s = reschedule(pipeline()).inline("buf")
    assert len(s.cursors("get_gen")) == 2
    assert body(s.branch().rw("get_gen")) == "⊞[i < n] [1 <= i] · f[i - 1] + (⊞[i1 < n] f[i1])[i]"
    assert body(s.branch().rw("get_gen", nth=1)) == "⊞[i < n] [1 <= i] · (⊞[i1 < n] f[i1])[i - 1] + f[i]"
    assert body(s.branch().rw("get_gen", all=True)) == "⊞[i < n] [1 <= i] · f[i - 1] + f[i]"


@pytest.mark.parametrize(
    "chosen",
    [
        {"at": "[_] · _"}, {"at": "[1 <= i] . _"}, {"around": "_[i - 1]"}, {"around": "(gen[_ < n] _)[i - _]"},
        {"k": "i - 1"}, {"at": (0, 0)},
    ],
)  # fmt: skip
def test_places_are_selected_by_path_pattern_or_parameter(chosen: dict[str, Any]) -> None:
    s = reschedule(pipeline()).inline("buf").rw("get_gen", **chosen)
    assert body(s) == "⊞[i < n] [1 <= i] · f[i - 1] + (⊞[i1 < n] f[i1])[i]"


def test_top_down_selects_the_outermost_place() -> None:
    nested = atl.program("t", [A], atl.gen(n, k, lambda i, j: A[i, j]))
    below = reschedule(nested).rw("gen_eta")
    above = reschedule(nested).rw("gen_eta", top_down=True, nth=0)
    assert body(below) == "⊞[i < n] A[i]"
    assert body(above) == "⊞[i < n] A[i]"
    assert below.steps[0].steps[0].path == (0,)
    assert body(below.rw("gen_eta")) == "A"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("_", 12), ("⊞[_ < _] _", 2), ("⊞[i < n] _", 1), ("gen[_ < m] _", 1), ("⊞[_ < k] _", 0), ("Σ[p < k] _", 1),
        ("A[i, p]", 1), ("A[_, _]", 1), ("A[_]", 1), ("_ * _", 1), ("_ + _", 0), ("A", 1), ("B[p, j]", 1),
        ("B[_, i]", 0),
        ("max[_ < _] _", 0), ("let _ := _ in _", 0), ("transpose _", 0), ("sqrt(_)", 0), ("2.0", 0),
    ],
)  # fmt: skip
def test_patterns_match_printed_terms(text: str, count: int) -> None:
    wanted = pattern(text)
    found = [cursor for cursor in cursors(matmul()) if fits(wanted, cursor)]
    assert len(found) == (count if text != "_" else len(list(cursors(matmul()))))


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("let buf := _ in _", 1), ("let _ := ⊞[_ < _] _ in _", 1), ("let v := _ in _", 0), ("[_] · _", 1),
        ("[1 <= _] · _", 1), ("[_ <= i] · _", 1), ("[2 <= _] · _", 0), ("buf[_]", 2), ("buf[i - _]", 1), ("buf[i]", 1),
        ("[_] · buf[_] + _", 1), ("f[_]", 1),
    ],
)  # fmt: skip
def test_patterns_contain_let_names_and_index_parts(text: str, count: int) -> None:
    assert len([cursor for cursor in cursors(pipeline()) if fits(pattern(text), cursor)]) == count


def test_sites_are_listed_with_their_terms() -> None:
    s = reschedule(pipeline()).inline("buf")
    assert repr(s.cursors("get_gen")) == ("[[0, 0, 0]  (⊞[i1 < n] f[i1])[i - 1], [0, 1]  (⊞[i1 < n] f[i1])[i]]")


def test_all_rewrites_each_place_once() -> None:
    twice = reschedule(matmul()).rw("transpose_transpose", around="⊞[_ < _] _", reverse=True, all=True)
    assert str(twice.goal).count("transpose transpose") == 1  # rank one has no transpose
    assert_agrees(twice)


# -- the state --------------------------------------------------------------------------------------------------------


def test_undo_redo_and_branch_are_identities() -> None:
    s = reschedule(pipeline()).fuse("buf")
    fused = s.goal
    s.tile("i", 8)
    tiled = s.goal
    assert s.undo().goal is fused
    assert s.redo().goal is tiled
    assert s.undo(2).goal.body == pipeline().body
    assert s.redo(2).goal is tiled
    other = s.branch().undo()
    assert (other.goal, s.goal) == (fused, tiled)
    other.tile("i", 4)
    with pytest.raises(InvalidArgument, match=r"redo\(1\) of 0 undone"):
        other.redo()
    with pytest.raises(InvalidArgument, match=r"undo\(9\) of 2 calls"):
        s.undo(9)


def test_long_derivation_does_not_slow_down() -> None:
    s = reschedule(pipeline()).fuse("buf")
    times = []
    for _ in range(150):
        start = time.thread_time()
        s.rw("truncr_padr", around="⊞[_ < _] _", reverse=True, k=1).rw("truncr_padr")
        times.append(time.thread_time() - start)
    assert len(s.done().steps) == 303
    assert statistics.median(times[-50:]) < 3 * statistics.median(times[:50])


def test_refused_call_leaves_the_session_unchanged() -> None:
    s = reschedule(pipeline()).fuse("buf")
    before = s.goal, len(s.steps)
    with pytest.raises(DoesNotApply):
        s.tile("i", m)
    assert (s.goal, len(s.steps)) == before


def test_a_handle_follows_its_place() -> None:
    s = reschedule(pipeline())
    read = s.find("f[_]")
    assert list(read.path) == [0, 0]
    s.inline("buf")
    assert list(read.path) == [0, 0, 0, 0, 0]
    s.rw("get_gen", all=True).tile("i", 8)
    assert repr(read) == f"Handle('f[_]', at {list(read.path)})"
    s.rw("access_guard", around=read)
    assert "[1 <= 8*io + ii <= n] · f[8*io + ii - 1]" in str(s.goal)
    assert s.find("f[8*io + ii - 1]").path == read.path
    s.undo(2)
    assert s.find("f[i - 1]").path == read.path


def test_a_handle_follows_the_binder_it_names() -> None:
    s = reschedule(matmul()).lbind("A[_, _]", "a", over="_ * _")
    a, j = s.find("a"), s.find("j")
    s.rw("ll_sum").hoist("a", out_of=j)
    assert body(s).startswith("⊞[i < n]\n  let a := ⊞[p < k] A[i, p] in")
    assert (a.path, j.path) == ((0,), (0, 1))


def test_handle_reports_a_removed_place() -> None:
    s = reschedule(pipeline())
    buf = s.find("buf")
    s.inline("buf")
    assert repr(buf) == "Handle('buf', gone)"
    with pytest.raises(DoesNotApply, match=r"buf no longer exists: unfold_let removed it, in inline\('buf'\)"):
        s.rw("get_gen", at=buf)
    s.undo()
    assert buf.path == ()


# -- what is printed --------------------------------------------------------------------------------------------------


def test_session_prints_goal_and_diff() -> None:
    s = reschedule(pipeline()).inline("buf").rw("get_gen")
    assert repr(s) == str(s.goal)
    assert str(s.diff()) == (
        "  pipeline (f : float32[n]) : float32[n] :=\n"
        "-   ⊞[i < n] [1 <= i] · (⊞[i1 < n] f[i1])[i - 1] + (⊞[i1 < n] f[i1])[i]\n"
        "                        ^^^^^^^^^^^^^^^^^\n"
        "+   ⊞[i < n] [1 <= i] · f[i - 1] + (⊞[i1 < n] f[i1])[i]\n"
        "                        ^"
    )
    assert "-   let buf := ⊞[i < n] f[i] in" in str(s.diff(0))
    assert "\x1b" not in repr(s.diff())
    assert "\x1b[32m+" in s.diff().text(colour=True)
    assert str(reschedule(pipeline()).diff()) == "nothing has changed"


def test_explain_shows_rule_place_arguments_and_premises() -> None:
    s = reschedule(pipeline()).fuse("buf")
    text = str(s.explain())
    assert text.startswith("fuse('buf')\n1. unfold_let (§4.2.1, unfold_let): ")
    assert "2. get_gen (§4.2.1): Reading an element in the range of a generation computes only that element." in text
    assert "  with k = i - 1\n" in text
    assert "  with e = (i1) ↦ f[i1]\n" in text
    assert "  premise 1 <= i: known at this place\n" in text
    assert "  premise i < n: known at this place" in text
    assert "^^^^^^^^^^^^^^^^^^^^^^" in text
    with pytest.raises(InvalidArgument, match="call 3 is out of range"):
        s.explain(3)


def test_a_notebook_shows_folded_states_and_mathematics() -> None:
    s = reschedule(pipeline()).inline("buf").rw("get_gen", all=True)
    html = s._repr_html_()
    assert html.count("<details>") == html.count("</details>") == 4
    assert "$$\\begin{aligned}" in html
    assert "⊞[i &lt; n] [1 &lt;= i] · f[i - 1] + f[i]" in html
    assert (s._repr_latex_() or "").startswith("$$\\begin{aligned}")
    assert "<pre>" in s.diff()._repr_html_()


def test_changed_lines_are_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    s = reschedule(pipeline()).fuse("buf")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert repr(s).split("\n")[1] == "\x1b[32m  ⊞[i < n] [1 <= i] · f[i - 1] + f[i]\x1b[0m"
    assert repr(s.diff()).count("\x1b[31m") == 2
    monkeypatch.setenv("NO_COLOR", "1")
    assert repr(s) == str(s.goal)


def test_rule_parameters_do_not_clash_with_rw() -> None:
    own = set(inspect.signature(Session.rw).parameters)
    assert not [(rule.name, name) for rule in rules.values() for name in rule.metavariables if name in own]


def test_rules_are_looked_up_by_name() -> None:
    assert rules["get_gen"].law.startswith("Reading an element")
