"""`s.optimize()`: script, report, recipes of users, refusals, threads and measuring."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import InvalidArgument
from examples.schedules import blur
from lowering import lower, print_c, print_nest
from lowering.timing.operations import operations
from proofs_tests.recipes.machines import AVX2, TINY
from proofs_tests.search.by_hand import Clock
from proofs_tests.search.test_autotune import TWICE, ByHand
from rewrites import Session, reschedule
from rewrites.errors import DoesNotApply
from rewrites.recipes import Context, contractions, fusion, movement, preparation
from rewrites.recipes.optimize import worth_trying

PRODUCT = "(A : float32[n, k], B : float32[k, m]) : float32[n, m] := ⊞[i < n] ⊞[j < m] Σ[p < k] A[i, p] * B[p, j]"


def product() -> Session:
    return reschedule(atl.parse(f"product {PRODUCT}"))


@atl.recipe(by=lambda context: (4 * context.machine.lanes(context.dtype), 2, 4, 8))
def vectors(s: Any, by: int) -> None:
    """Vectorize a single loop: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by | vector] e."""
    s.vectorize("i", by, tails="split")


def by_lanes(context: Context) -> tuple[int, ...]:
    """Return the choices of a parameter."""
    return (context.machine.lanes(context.dtype),)


@atl.recipe()
def fails_midway(s: Any) -> None:
    """Make a call, and fail: e → ."""
    s.tile("i", 7).mark("nothing", "registers")


@atl.recipe()
def divides_by_zero(s: Any) -> None:
    """Fail with an error of Python: e → ."""
    s.tile("i", 7 // (len(s.steps) - len(s.steps)))


def test_exception_in_a_recipe_names_the_recipe_and_its_line() -> None:
    s = product()
    line = divides_by_zero.schedule.__code__.co_firstlineno + 3
    message = rf"the recipe divides_by_zero raised ZeroDivisionError: .* at .*test_optimize\.py:{line} \[ATL102\]"
    with pytest.raises(InvalidArgument, match=message):
        divides_by_zero(s, Context(AVX2))
    s.optimize(machine=AVX2, recipes=[divides_by_zero])
    assert not s.steps
    assert "divides_by_zero: the recipe divides_by_zero raised ZeroDivisionError" in str(s.report)


def test_exception_in_choices_names_the_recipe() -> None:
    divided = declared(by=lambda context: (8 // (context.machine.cores - AVX2.cores),))
    with pytest.raises(InvalidArgument, match=r"the recipe mine raised ZeroDivisionError: .* at .*test_optimize\.py"):
        product().optimize(machine=AVX2, recipes=[divided])


def declared(*, document: str | None = "Tile: e → e.", parameters: str = "s, by", **choices: Any) -> atl.Recipe:
    """Declare a recipe with these parameters."""
    names: dict[str, Any] = {}
    exec(f"def mine({parameters}): ...", names)
    names["mine"].__doc__ = document
    return atl.recipe(**choices)(names["mine"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"document": "Tile."}, "the docstring of the recipe mine has no →"),
        ({}, "missing argument 'by' of the recipe mine"),
        ({"by": by_lanes, "rows": by_lanes}, "the recipe mine has no parameter 'rows'"),
        ({"by": by_lanes, "parameters": ""}, "the recipe mine"),
        ({"by": 8}, "the choices by=8 of a recipe"),
        ({"context": by_lanes, "parameters": "s, context"}, "the choices context= of the recipe mine"),
    ],
)
def test_wrong_declarations_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        declared(**options)
    assert message in str(refused.value)


def test_context_is_not_a_choice() -> None:
    assert not declared(parameters="s, context").choices


@pytest.mark.long
def test_all_transposes_are_tiled() -> None:
    """A loop of the second nest has the name that tiling gives to one of the first."""
    text = (
        "two (a : float32[m, n], b : float32[m, n]) : float32[n, m] := "
        "let t := ⊞[y < n] ⊞[x < m] a[x, y] in ⊞[yo < n] ⊞[xo < m] t[yo, xo] * b[xo, yo]"
    )
    s = reschedule(atl.parse(text))
    s.optimize(machine=AVX2, recipes=[movement.transpose_in_tiles])
    assert s.script().count("'registers'") == 2
    assert s.check()
    arrays = atl.random_inputs(s.theorem.lhs, {"n": 19, "m": 37})
    np.testing.assert_array_equal(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays))


def test_a_read_along_a_diagonal_is_not_a_transposition() -> None:
    text = "f (w : float32[n, n]) : float32[n, n] := ⊞[i < n] ⊞[j < n] [i + j < n] · w[i + j, i]"
    assert not reschedule(atl.parse(text)).optimize(machine=AVX2, recipes=[movement.transpose_in_tiles]).steps


def test_a_recurrence_along_skewed_lines_is_not_computed_in_tiles() -> None:
    text = (
        "paths (x : float64[n, m]) : float64[n, m] := rec[i < n] v from padding(float64[0, m]) in "
        "rec[j < m] r from padding(float64[0]) in "
        "x[i, j] + select(1 <= i ∧ 1 <= j, max(v[i - 1, j], r[j - 1]), 0)"
    )
    s = reschedule(atl.parse(text)).wavefront("v")
    before = len(s.steps)
    assert len(s.optimize(machine=AVX2, recipes=[movement.transpose_in_tiles]).steps) == before


def test_transposed_let_with_sums_is_not_computed_in_tiles() -> None:
    text = (
        "f (a : float32[n, m, k]) : float32[m, n] := "
        "let t := ⊞[y < n] ⊞[x < m] Σ[p < k] a[y, x, p] in ⊞[x < m] ⊞[y < n] 2 * t[y, x]"
    )
    assert not reschedule(atl.parse(text)).optimize(machine=AVX2, recipes=[movement.transpose_in_tiles]).steps


@pytest.mark.parametrize("read", ["A[i, p]", "A[p, i]"])
def test_iterations_after_whole_tiles_have_no_conditions(read: str) -> None:
    text = f"f (A : float64[n, n], x : float64[n]) : float64[n] := ⊞[i < n] 2 * Σ[p < n] {read} * x[p]"
    s = reschedule(atl.parse(text)).optimize(machine=AVX2)
    nest = print_nest(lower(s.goal))
    assert "registers" in nest
    assert "if" not in nest
    assert "for i in (" in nest
    for n in (5, 19, 40):
        arrays = atl.random_inputs(s.goal, {"n": n})
        np.testing.assert_allclose(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays), rtol=1e-12)


@pytest.mark.long
def test_last_rows_of_a_window_are_kept_in_registers() -> None:
    s = reschedule(blur.two_stage()).optimize(machine=AVX2, recipes=[fusion.jam_rows, movement.guards_to_bounds])
    text = print_c(lower(s.goal))
    assert "buf_2 = v[" in text
    assert "[8]" not in text  # an array where each row reads its part by a variable index
    for n, m in ((4, 9), (10, 33), (12, 1)):
        arrays = atl.random_inputs(s.goal, {"n": n, "m": m})
        np.testing.assert_allclose(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays), rtol=1e-5)


@pytest.mark.long
def test_script_makes_the_same_goal() -> None:
    s = product().optimize(machine=AVX2)
    names: dict[str, Any] = {}
    exec(s.script(), names)
    assert names["s"].goal == s.goal


def test_script_of_a_loop_named_like_a_size_makes_the_same_goal() -> None:
    n, k = atl.sizes("n k")
    x = atl.tensor("X", n, k)
    # The loop k is printed as k1; its tiles are called ko and ki.
    s = reschedule(atl.program("p", [x], atl.gen(n, 2 * k, lambda i, k: x[i, k // 2]))).tile("k1", 2)
    assert "ki" in str(s.goal)
    assert "k1i" not in str(s.goal)
    s.unroll("ki")
    names: dict[str, Any] = {}
    exec(s.script(), names)
    assert names["s"].goal == s.goal
    assert str(names["s"].goal) == str(s.goal)


def test_report_lists_recipes_that_fit_and_others() -> None:
    s = product().optimize(machine=AVX2)
    text = str(s.report)
    assert text.startswith("recipes that fit:\n  tile_sums(tile=(6, 16), depth=None): s.interchange('i')")
    assert "\nrecipes that do not:\n" in text
    assert all(f"{recipe.name}" in text for recipe in atl.RECIPES)
    plain = reschedule(atl.parse("same (x : float32[n]) : float32[n] := x")).optimize(machine=AVX2)
    assert str(plain.report).startswith("no recipe fits: the goal is left as it was written")
    assert not plain.steps


def test_recipe_of_a_user_comes_first() -> None:
    s = reschedule(TWICE).optimize(machine=AVX2, recipes=[vectors, *atl.RECIPES])
    assert s.steps[0].text == "vectorize('i', 32, tails='split')"


def test_failing_recipe_leaves_the_session_unchanged() -> None:
    s = product()
    with pytest.raises(atl.ATLError, match="nothing"):
        fails_midway(s, Context(AVX2))
    assert not s.steps
    s.optimize(machine=AVX2, recipes=[fails_midway])
    assert not s.steps
    assert s.report is not None
    assert [outcome.error is not None for outcome in s.report.outcomes] == [True]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": {"q": 3}}, "product has no size q"),
        ({"sizes": {"n": -1}}, "sizes="),
        ({"sizes": {"n": 2.5}}, "sizes="),
        ({"sizes": 7}, "sizes=7"),
        ({"seconds": 3}, "seconds= without sizes="),
        ({"sizes": {"n": 3, "m": 3, "k": 3}, "seconds": "soon"}, "soon"),
        ({"sizes": {"n": 3, "m": 3, "k": 3}, "seconds": -1}, "-1"),
        ({"sizes": {"n": 3, "m": 3, "k": 3}, "seconds": float("nan")}, "seconds=nan"),
        ({"sizes": {"n": 3, "m": 3, "k": 3}, "seconds": float("inf")}, "seconds=inf"),
        ({"sizes": {"n": 3, "m": 3, "k": 3}, "seconds": 10**400}, "below 1e6"),
        ({"machine": "avx2"}, "machine='avx2'"),
        ({"recipes": [print]}, "recipes="),
        ({"recipes": "all"}, "recipes='all'"),
        ({"parallel": 1}, "parallel=1"),
        ({"noise": 3}, "noise"),
    ],
)
def test_wrong_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    s = product()
    with pytest.raises(InvalidArgument) as refused:
        s.optimize(**{"machine": AVX2} | options)
    assert message in str(refused.value)
    assert not s.steps


def test_wrong_arguments_of_kernels_are_refused() -> None:
    with pytest.raises(InvalidArgument, match="optimize='yes'"):
        atl.compile(TWICE, optimize="yes")  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="cuda"):
        atl.compile(TWICE, optimize=True, target="cuda")
    with pytest.raises(InvalidArgument, match="kernel of 3"):
        atl.kernel(3)  # type: ignore[call-overload]
    with pytest.raises(InvalidArgument, match="optimize=2"):
        atl.kernel(optimize=2)(print)  # type: ignore[call-overload]


@pytest.mark.parametrize("name", ["acc", "tile", "io"])
def test_inputs_may_have_the_names_of_buffers(name: str) -> None:
    text = f"product {PRODUCT}".replace("A", name)
    s = reschedule(atl.parse(text)).optimize(machine=AVX2)
    assert "accumulate(" in s.script()


@pytest.mark.long
@pytest.mark.parametrize("right", ["B[p, j]", "A[j, p]"])
def test_threads_share_the_outermost_loops(right: str) -> None:
    text = PRODUCT if "B" in right else PRODUCT.replace(", B : float32[k, m]", "").replace("m", "n")
    s = reschedule(atl.parse(f"t {text.replace('B[p, j]', right)}")).optimize(machine=TINY, parallel=True)
    assert "'parallel'" in s.script()
    a, b = (np.arange(77, dtype=np.float32).reshape(shape) % 7 for shape in ((11, 7), (7, 11)))
    np.testing.assert_array_equal(
        s.compile()(a, b) if "B" in right else s.compile()(a), a @ (b if "B" in right else a.T)
    )


@pytest.mark.parametrize(("size", "marks"), [("n", 1), ("3", 2)])
def test_short_parts_of_a_nest_are_not_shared(size: str, marks: int) -> None:
    rows = f"⊞[y < {size}] ⊞[j < m] [y >= 1] · x[y - 1, j] + x[y, j]"
    s = reschedule(atl.parse(f"f (x : float32[{size}, m]) : float32[{size}, m] := {rows}"))
    s.optimize(machine=AVX2, parallel=True)
    assert str(s.goal).count("⊞[") == 4, s.goal
    assert str(s.goal).count("parallel") == marks, s.goal


@pytest.mark.parametrize(("sizes", "marks"), [(None, 0), ({"n": 64, "T": 1000}, 0), ({"n": 1_000_000, "T": 100}, 1)])
def test_short_rows_of_a_recurrence_are_not_shared(sizes: dict[str, int] | None, marks: int) -> None:
    n, steps = atl.sizes("n T")
    x = atl.tensor("x", n)
    body = atl.iterate(steps, x, lambda p, u: atl.gen(n, lambda i: 0.5 * u[i] + x[i]))
    s = reschedule(atl.program("decay", [x], body)).optimize(sizes, machine=AVX2, parallel=True)
    assert str(s.goal).count("parallel") == marks, s.goal


def test_fastest_choice_is_taken_and_reported(tmp_path: Path) -> None:
    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 2.5, 32: 3.0})
    s = reschedule(TWICE).optimize({"n": 1000}, 60, machine=AVX2, recipes=[vectors], measure=contest)
    assert s.report is not None
    assert s.report.tuned is not None
    assert s.steps[0].text == "vectorize('i', 4, tails='split')"
    assert s.report.applied[0].parameters == {"by": 4}


def test_choice_of_the_model_is_derived_once(tmp_path: Path) -> None:
    derived: list[int] = []

    @atl.recipe(by=lambda _: (1, 2))
    def counted(s: Any, by: int) -> None:
        """Vectorize a single loop: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by | vector] e."""
        derived.append(by)
        s.vectorize("i", by, tails="split")

    contest = ByHand(tmp_path, {1: 8.0, 2: 4.0})
    s = reschedule(TWICE).optimize({"n": 1000}, 60, machine=AVX2, recipes=[counted], measure=contest)
    assert s.report is not None
    assert s.report.applied[0].parameters == {"by": 2}
    assert derived == [1, 2]


def test_no_recipe_begins_after_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr("rewrites.recipes.optimize.monotonic", lambda: clock.now)
    begun: list[int] = []

    @atl.recipe(by=lambda _: (2, 4, 8))
    def slow_after_the_first(s: Any, by: int) -> None:
        """Vectorize a single loop: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by | vector] e."""
        s.vectorize("i", by, tails="split")
        clock.now += 0 if by == 2 else 100

    @atl.recipe()
    def later(s: Any) -> None:
        """Fit nothing: e → e."""
        begun.append(len(s.steps))
        raise DoesNotApply("never", required="nothing")

    contest, recipes = ByHand(tmp_path, {1: 8.0, 2: 4.0, 4: 2.0, 8: 1.0}), [slow_after_the_first, later]
    for contest.builds_ahead, outcome in ((False, "measured"), (True, "remembered")):
        clock.now = 0
        s = reschedule(TWICE).optimize({"n": 1000}, 60, machine=AVX2, recipes=recipes, measure=contest)
        assert s.report is not None
        assert s.report.tuned is not None
        tried = [(one.parameters["slow_after_the_first_by"], one.outcome) for one in s.report.tuned.tried]
        assert (tried, s.report.tuned.stopped) == ([(2, outcome)], "budget")
        assert 100 <= clock.now < 101
    assert begun == [1, 1]


def test_first_derivation_ends_at_the_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(monkeypatch)
    monkeypatch.setattr("rewrites.recipes.optimize.monotonic", lambda: clock.now)

    @atl.recipe()
    def slow(s: Any) -> None:
        """Vectorize a single loop: ⊞[i < n] e → ⊞[io < _] ⊞[ii < 4 | vector] e."""
        s.vectorize("i", 4, tails="split")
        clock.now += 12

    @atl.recipe()
    def unrolled(s: Any) -> None:
        """Unroll the vectors: ⊞[io < _] e → ⊞[ioo < _] ⊞[ioi < 2] e."""
        s.tile("io", 2)

    contest = ByHand(tmp_path, {1: 8.0, 4: 2.0})
    s = reschedule(TWICE).optimize({"n": 1000}, 10, machine=AVX2, recipes=[slow, unrolled], measure=contest)
    assert s.report is not None
    assert [outcome.recipe.name for outcome in s.report.applied] == ["slow"]
    assert [outcome.tried for outcome in s.report.outcomes] == [True, False]
    assert "unrolled: not tried, because the time was up" in str(s.report)
    assert clock.now < 13


def test_script_after_sparsify_derives_the_same_goal() -> None:
    n, m = atl.sizes("n m")
    a, x = atl.tensor("A", n, m), atl.tensor("x", m)
    spmv = atl.program("spmv", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))
    s = reschedule(spmv).sparsify("A", atl.CSR).optimize(machine=AVX2)
    names: dict[str, Any] = {}
    exec(s.script(), names)
    assert names["s"].goal == s.goal


def test_goal_is_lowered_once_if_it_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    checked: list[Session] = []
    check = Session.check

    def counted(s: Session) -> Any:
        checked.append(s)
        return check(s)

    monkeypatch.setattr(Session, "check", counted)
    s = product().optimize(machine=AVX2)
    assert s.report is not None
    assert len(s.report.applied) > 1
    assert len(checked) == 1


def test_candidates_that_do_the_same_are_left_out() -> None:
    tiles: list[Any] = [(8, 32), (4, 64)]
    given = {
        "fuse_epilogues_tile": tiles, "tile_sums_tile": tiles, "fuse_rows_rows": [8, 4],
        "fuse_rows": [True, False], "fuse_epilogues": [True, False],
    }  # fmt: skip
    made = worth_trying(given)
    assert len(made) == 2 * 3 + 2 * 3  # with fuse_epilogues one shape for both, and without; fuse_rows by 8, 4 or not
    assert made[0] == {name: values[0] for name, values in given.items()}
    assert all(each["fuse_rows_rows"] == 8 for each in made if not each["fuse_rows"])
    assert all(each["fuse_epilogues_tile"] == each["tile_sums_tile"] for each in made if each["fuse_epilogues"])


CONVOLUTION = "⊞[o < k] ⊞[y < n] ⊞[z < m] Σ[p < c] Σ[r < 3] Σ[q < 3] {} * w[o, p, r, q]"
BORDER = "x[p, min(n - 1, max(0, y - 1)), min(m - 1, max(0, z - 1))]"


@pytest.mark.long
@pytest.mark.parametrize(
    "body",
    [
        CONVOLUTION.format("x[p, min(n - 1, max(0, y + r - 1)), min(m - 1, max(0, z + q - 1))]"),
        CONVOLUTION.format("[1 <= y + r] . [y + r <= n] . [1 <= z + q] . [z + q <= m] . x[p, y + r - 1, z + q - 1]"),
        f"let b := ⊞[p < c] ⊞[y < n + 2] ⊞[z < m + 2] {BORDER} in {CONVOLUTION.format('b[p, y + r, z + q]')}",
    ],
    ids=("clamped", "guarded", "bordered"),
)
def test_convolution_of_channels_is_tiled_with_its_taps_and_border(body: str) -> None:
    program = f"f (x : float32[c, n, m], w : float32[k, c, 3, 3]) : float32[k, n, m] given 1 <= n, 1 <= m := {body}"
    s = reschedule(atl.parse(program)).optimize(machine=AVX2)
    assert s.report is not None
    applied = [outcome.recipe.name for outcome in s.report.applied]
    assert applied == ["tile_sums", "guards_to_bounds"]  # not unroll_taps, nor inline_copies


def applied_to(text: str) -> tuple[Session, list[str]]:
    s = reschedule(atl.parse(text)).optimize(machine=AVX2)
    assert s.report is not None
    return s, [outcome.recipe.name for outcome in s.report.applied]


@pytest.mark.parametrize(
    ("body", "kept"),
    [
        ("let y := ⊞[i < n] ⊞[j < m] x[i, j] - c[i] in ⊞[i < n] Σ[j < m] y[i, j] * y[i, j]", False),
        ("let y := ⊞[i < n] ⊞[j < m] x[i, j] / c[i] in ⊞[i < n] Σ[j < m] y[i, j] * y[i, j]", False),
        # Not cheap: a quotient for each element, two elements of x, too many reads, and elements that a sum repeats.
        ("let y := ⊞[i < n] ⊞[j < m] c[i] / x[i, j] in ⊞[i < n] Σ[j < m] y[i, j] * y[i, j]", True),
        ("let y := ⊞[i < n] ⊞[j < m] x[i, j] - x[i, m - 1 - j] in ⊞[i < n] Σ[j < m] y[i, j] * y[i, j]", True),
        (
            "let y := ⊞[i < n] ⊞[j < m] 3 * x[i, j] - c[i] * c[i] in ⊞[i < n] Σ[j < m] y[i, j] * y[i, j] + y[i, j]",
            True,
        ),
        ("let y := ⊞[i < n] ⊞[j < m] x[i, j] - c[i] in ⊞[i < n] Σ[k < n] Σ[j < m] y[k, j] * y[i, j]", True),
    ],
    ids=("difference", "reciprocal", "quotient", "two elements", "reads", "repeated"),
)
def test_cheap_lets_are_inlined(body: str, kept: bool) -> None:
    s, _ = applied_to(f"f (x : float32[n, m], c : float32[n]) : float32[n] := {body}")
    assert s.report is not None
    fused = any("fuse('y')" in outcome.calls for outcome in s.report.applied)
    assert fused is not kept


@pytest.mark.long
def test_inlined_lets_do_not_grow_without_limit() -> None:
    lets = "".join(f"let y{k + 1} := ⊞[i < n] y{k}[i] * y{k}[i] + 1.0 in " for k in range(20))
    s, _ = applied_to(f"f (x : float32[n]) : float32[n] := let y0 := ⊞[i < n] x[i] in {lets} ⊞[i < n] y20[i]")
    assert len(str(s.goal)) < 3000


@pytest.mark.long
def test_lets_in_the_value_of_a_let_are_bound_before_it() -> None:
    s, names = applied_to(
        "f (x : float32[n, m]) : float32[n, m] := "
        "let a := (let b := ⊞[i < n] Σ[j < m] x[i, j] in ⊞[i < n] ⊞[j < m] x[i, j] * b[i]) in "
        "let b := ⊞[i < n] max[j < m] a[i, j] in ⊞[i < n] ⊞[j < m] exp(a[i, j] - b[i])"
    )
    assert names == ["bind_outside", "inline_copies", "fuse_rows"]
    x = np.random.default_rng(0).random((5, 7), np.float32)
    a = x * x.sum(1, keepdims=True)
    np.testing.assert_allclose(s.compile()(x), np.exp(a - a.max(1, keepdims=True)), rtol=1e-5)


@pytest.mark.parametrize(("right", "tiled"), [("w[p, j]", True), ("w[i, p]", False)])
def test_sums_in_a_let_of_a_number_are_tiled_if_rows_share_an_operand(right: str, tiled: bool) -> None:
    text = (
        f"f (x : float32[n, k], w : float32[{'k, m' if tiled else 'n, k'}], b : float32[m]) : float32[n, m] := "
        f"⊞[i < n] ⊞[j < m] let v := tanh(Σ[p < k] x[i, p] * {right}) in b[j] - v * v"
    )
    s = reschedule(atl.parse(text)).optimize(machine=AVX2)
    assert s.report is not None
    names = [outcome.recipe.name for outcome in s.report.applied]
    assert ({"bind_outside", "fuse_epilogues", "tile_sums"} <= set(names)) == tiled, names
    arrays = atl.random_inputs(s.goal, {"n": 7, "m": 17, "k": 5})
    np.testing.assert_allclose(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays), rtol=1e-4, atol=1e-5)


def test_parts_of_the_result_are_computed_where_they_are_stored() -> None:
    s, names = applied_to(
        "f (x : float32[n, m]) : float32[n*m + n] := "
        "let a := ⊞[i < n] ⊞[j < m] 2 * x[i, j] in let b := ⊞[i < n] Σ[j < m] x[i, j] in flatten a ++ b"
    )
    assert names == ["compute_in_result"]
    assert "aligned_storage" not in s.compile().source
    x = np.random.default_rng(0).random((5, 7), np.float32)
    np.testing.assert_allclose(s.compile()(x), np.concatenate([2 * x.ravel(), x.sum(1)]), rtol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("taps", ["5", "R"])
def test_sums_with_short_columns_are_tiled_by_the_loops_around_them(taps: str) -> None:
    program = atl.parse(
        f"f (x : float32[B, C, {taps} + W - 1], d : float32[B, K, W]) : float32[K, C, {taps}] := "
        f"⊞[k < K] ⊞[c < C] ⊞[r < {taps}] Σ[n < B] Σ[p < W] d[n, k, p] * x[n, c, r + p]"
    )
    sizes = {"B": 2, "C": 18, "K": 32, "W": 11, "R": 5}  # whole tiles; the arrays below are larger
    s = reschedule(program).optimize({name: sizes[name] for name in program.sizes}, machine=AVX2)
    assert s.report is not None
    (tiles,) = [outcome for outcome in s.report.applied if outcome.recipe.name == "tile_sums"]
    assert tiles.calls[0] == "tile(['k', 'c'], [16, 6])"
    assert "pack('d', at='ko')" in tiles.calls
    draw = np.random.default_rng(0)
    x, d = draw.random((2, 19, 15), np.float32), draw.random((2, 35, 11), np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(x, 11, axis=2)
    unknown = {"R": 5} if taps == "R" else {}
    np.testing.assert_allclose(s.compile()(x, d, **unknown), np.einsum("nkp,ncrp->kcr", d, windows), rtol=1e-5)
    assert reschedule(program).optimize(machine=AVX2).steps[0].text.startswith("tile(['k', 'c']") is (taps == "5")


def test_lets_of_rows_are_not_staged_in_tiles_of_elements() -> None:
    _, names = applied_to(
        "f (x : float32[n, m], b : float32[m]) : float32[n] given 8 <= n, 8 <= m := "
        "let g := ⊞[i < n] ⊞[j < m] exp(x[i, j]) in "
        "let d := ⊞[i < n] ⊞[j < m] g[i, j] * ([1 <= i] · g[i - 1, j]) in ⊞[i < n] Σ[j < m] d[i, j] * b[j]"
    )
    assert "stage_windows" not in names


@pytest.mark.long
@pytest.mark.parametrize(
    ("body", "call"),
    [
        ("⊞[j < m] Σ[p < d] x[i, p] * x[j, p]", "pack('x', nth=1, at='jo')"),
        ("⊞[k < 4] ⊞[j < m] b[j] - Σ[p < d] y[i, k, p] * x[j, p]", "pack('x', nth=1)"),
    ],
    ids=("with itself", "read before"),
)
def test_the_read_along_the_columns_is_packed_if_its_operand_is_read_elsewhere(body: str, call: str) -> None:
    result = "m, 4, m" if "k" in body else "m, m"
    s = reschedule(
        atl.parse(
            f"f (x : float32[m, d], y : float32[m, 4, d]) : float32[{result}] := "
            f"let b := ⊞[i < m] Σ[p < d] x[i, p] in ⊞[i < m] {body}"
        )
    )
    contractions.tile_sums(s, Context(AVX2))
    assert s.steps[-1].text == call
    width = AVX2.register_tile("float32")[1]
    assert f"⊞[p < d] ⊞[ji < {width}] [{width}*jo + ji < m] · x[{width}*jo + ji, p] in" in str(s.goal)


@pytest.mark.long
@pytest.mark.parametrize(("right", "bound"), [("w[k, p]", True), ("w[i, p]", False)])
def test_products_of_matrices_in_the_terms_of_a_sum_are_tiled(right: str, bound: bool) -> None:
    text = (
        "f (x : float32[n, d], w : float32[m, d], u : float32[m]) : float32[n] given n <= m := "
        f"⊞[i < n] Σ[k < m] u[k] * tanh(Σ[p < d] x[i, p] * {right})"
    )
    s = reschedule(atl.parse(text)).optimize(machine=AVX2)
    assert s.report is not None
    names = {outcome.recipe.name for outcome in s.report.applied}
    assert ({"bind_sums", "tile_sums"} <= names) is bound, names
    arrays = atl.random_inputs(s.goal, {"n": 13, "m": 37, "d": 5})
    np.testing.assert_allclose(s.compile()(**arrays), atl.compile(s.theorem.lhs)(**arrays), rtol=1e-4, atol=1e-5)


CHAINS: Final[dict[str, Callable[..., Any]]] = {
    "(A @ B) @ C": lambda a, b, c: (a @ b) @ c,
    "A @ (B @ C)": lambda a, b, c: a @ (b @ c),
    "(A @ B) @ (C @ B)": lambda a, b, c: (a @ b) @ (c @ b),
}


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_product_in_a_product_is_computed_once(chain: Callable[..., Any]) -> None:
    n = atl.sizes("n")
    inputs = [atl.tensor(name, n, n) for name in "ABC"]
    s = reschedule(atl.program("chain", inputs, chain(*inputs)))
    preparation.bind_sums(s, Context(AVX2), rows=8)
    # Work grows with n^3, not n^4: fourfold sizes take at most 64 times as many operations.
    assert operations(s.goal, {"n": 128}, {}) <= 65 * operations(s.goal, {"n": 32}, {})
    assert operations(s.theorem.lhs, {"n": 128}, {}) > 200 * operations(s.theorem.lhs, {"n": 32}, {})


@pytest.mark.parametrize(
    "body",
    [
        "Σ[k < n] (Σ[p < n] A[i, p] * B[k, i]) * C[k, i]",  # each sum is needed once
        "⊞[j < n] C[i, j] * Σ[p < n] A[i, p] * B[p, i]",  # no sum is around it
        "⊞[j < n] Σ[k < i] (Σ[p < n] A[i, p] * B[k, p]) * C[k, j]",  # a range depends on a loop
        "⊞[j < n] Σ[k < n] (Σ[p < j] A[i, p] * B[k, p]) * C[k, j]",  # so do the sums
        "⊞[j < n] let y := A[i, j] in Σ[k < n] (Σ[p < n] A[i, p] * B[k, p] * y) * C[k, j]",  # a number is bound between
    ],
)
def test_other_sums_in_the_terms_of_a_sum_are_not_computed_before_all_loops(body: str) -> None:
    result = "n, n" if "j" in body else "n"
    s = reschedule(
        atl.parse(f"f (A : float32[n, n], B : float32[n, n], C : float32[n, n]) : float32[{result}] := ⊞[i < n] {body}")
    )
    with pytest.raises(DoesNotApply, match="no term of a sum has a product of matrices"):
        preparation.bind_sums(s, Context(AVX2), rows=8)


@pytest.mark.long
@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_chain_of_products_is_tiled(chain: Callable[..., Any]) -> None:
    n, m = atl.sizes("n m")
    inputs = [atl.tensor("A", n, m), atl.tensor("B", m, n), atl.tensor("C", n, m)]
    s = reschedule(atl.program("chain", inputs, chain(*inputs))).optimize(machine=AVX2)
    assert s.report is not None
    assert {"bind_sums", "tile_sums"} <= {outcome.recipe.name for outcome in s.report.applied}
    arrays = atl.random_inputs(s.goal, {"n": 13, "m": 37})
    np.testing.assert_allclose(s.compile()(**arrays), chain(*arrays.values()), rtol=1e-4, atol=1e-4)
