"""Judgement of results up to rounding, random inputs, and counts of operations."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import permutations
from typing import Final

import numpy as np
import pytest

import atl
from atl import Program
from atl.errors import ArgumentError, InvalidArgument
from examples.schedules import anchors
from lowering import Kernel, measure
from lowering.timing.comparison import RIGHT, KernelComparison
from lowering.timing.inputs import random_inputs
from lowering.timing.operations import operations
from proofs_tests.search.by_hand import SIZES, TWICE
from rewrites import reschedule


@pytest.mark.long
def test_result_wrong_anywhere_is_found() -> None:
    contest = measure(TWICE, SIZES)
    right = contest.candidate(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] + x[i]"))
    assert contest.judgement_of(right) == RIGHT
    last = "f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i] + ([i = n - 1] · 0.001)"
    fault = contest.judgement_of(contest.candidate(atl.parse(last)))
    assert fault.outcome == "wrong"
    assert "the element at (999)" in fault.note
    middle = "f (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i] + ([i = 500] · 0.001)"
    assert "the element at (500)" in str(contest.judgement_of(contest.candidate(atl.parse(middle))))
    none = contest.candidate(atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] / 0.0 - x[i] / 0.0"))
    assert "nan" in str(contest.judgement_of(none))


CENTRED: Final = "(x : float32[m, n], c : float32) : float32[m] := ⊞[j < m] "
SQUARES: Final = {
    "differences": "(Σ[i < n] (x[j, i] - c) * (x[j, i] - c))",
    "cancelling": "(Σ[i < n] x[j, i] * x[j, i] - 2 * c * x[j, i] + c * c)",
}


def _centred(body: str) -> Program:
    return atl.parse(f"f {CENTRED} {body}")


def _far_from_zero(body: str) -> KernelComparison:
    """Return a program whose results are small differences of large elements."""
    x = 1000 + np.random.default_rng(1).random((200, 8), np.float32)
    return partial(measure, inputs={"x": x, "c": np.array(1000, np.float32)})(_centred(body), {"m": 200, "n": 8})


@pytest.mark.long
@pytest.mark.parametrize(("left", "right"), list(permutations(SQUARES.values())), ids=list(SQUARES))
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "{0} * {0}",
        "1 / {}",
        "sqrt({})",
        "exp({})",
        "log({})",
        "tanh({})",
        "erf({})",
        "sin({})",
        "cos({})",
    ],
)
def test_cancellation_is_not_an_error(left: str, right: str, around: str) -> None:
    contest = _far_from_zero(around.format(left))
    assert contest.judgement_of(contest.candidate(_centred(around.format(right)))) == RIGHT


def test_small_error_among_cancelling_elements_is_found() -> None:
    contest = _far_from_zero(SQUARES["differences"])
    fault = contest.judgement_of(contest.candidate(_centred(f"{SQUARES['cancelling']} + [j = 7] · 0.01")))
    assert "the element at (7)" in str(fault)


def test_difference_beyond_rounding_is_found() -> None:
    contest = _far_from_zero(SQUARES["differences"])
    right, wrong = (_centred(f"{SQUARES['cancelling']} + [j = 7] · {more}") for more in (0, 1000))
    candidate = contest.candidate(right)
    assert contest.judgement_of(candidate) == RIGHT
    assert "the element at (7)" in str(contest.judgement_of(replace(candidate, run=contest.candidate(wrong).run)))


def _corners(response: str, dtype: str, *, by_columns: bool) -> Program:
    """Return the detector of Harris and Stephens, with windows of 3 x 3 summed row by row or column by column."""

    def window(a: str, b: str) -> str:
        rows = [[f"{a}[i + {r}, j + {c}] * {b}[i + {r}, j + {c}]" for c in range(3)] for r in range(3)]
        rows = [list(column) for column in zip(*rows, strict=True)] if by_columns else rows
        return " + ".join(f"({' + '.join(row)})" for row in rows)

    across = "x[i, j + 2] - x[i, j] + 2 * (x[i + 1, j + 2] - x[i + 1, j]) + x[i + 2, j + 2] - x[i + 2, j]"
    down = "x[i + 2, j] - x[i, j] + 2 * (x[i + 2, j + 1] - x[i, j + 1]) + x[i + 2, j + 2] - x[i, j + 2]"
    lets = [(name, f"⊞[i < n + 2] ⊞[j < m + 2] ({of}) / 12") for name, of in (("gx", across), ("gy", down))]
    pairs = (("xx", "gx", "gx"), ("xy", "gx", "gy"), ("yy", "gy", "gy"))
    lets += [(name, f"⊞[i < n] ⊞[j < m] {window(a, b)}") for name, a, b in pairs]
    body = "".join(f"let {name} := {of} in " for name, of in lets) + f"⊞[i < n] ⊞[j < m] {response}"
    return atl.parse(f"harris (x : {dtype}[n + 4, m + 4]) : {dtype}[n, m] := {body}")


XX, XY, YY = (f"{name}[i, j]" for name in ("xx", "xy", "yy"))
RESPONSES: Final = (
    f"{XX} * {YY} - {XY} * {XY} - 0.04 * ({XX} + {YY}) * ({XX} + {YY})",
    f"{XX} * (0.92 * {YY} - 0.04 * {XX}) - {XY} * {XY} - 0.04 * {YY} * {YY}",
)


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("judged", [False, True], ids=["by the start", "by the first candidate"])
def test_cancelling_corner_response_is_not_an_error(dtype: str, *, judged: bool) -> None:
    x = (1000 + np.random.default_rng(1).random((304, 304))).astype(dtype)
    contest = measure(_corners(RESPONSES[0], dtype, by_columns=False), {"n": 300, "m": 300}, inputs={"x": x})
    others = [contest.candidate(_corners(each, dtype, by_columns=True)) for each in RESPONSES]
    if judged:
        assert contest.judge_by(others[0]) == RIGHT
    assert [contest.judgement_of(each) for each in others] == [RIGHT, RIGHT]
    wrong = _corners(f"{RESPONSES[1]} + [i = 7 ∧ j = 9] · 0.01", dtype, by_columns=True)
    assert "the element at (7, 9)" in str(contest.judgement_of(contest.candidate(wrong)))


def test_wrong_judge_is_found_at_small_sizes_or_by_the_interpreter() -> None:
    wrong = "⊞[i < n] 2 * x[i] + ([i % 64 = 63] · 0.001)"
    contest = measure(TWICE, SIZES)
    fault = contest.judge_by(contest.candidate(atl.parse(f"f (x : float32[n]) : float32[n] := {wrong}")))
    assert "the element at (63)" in str(fault)
    assert "at n = 67" in str(fault)
    # No small size meets this assumption. The interpreter computes elements from the first to the last.
    start = atl.parse(f"f (x : float32[n]) : float32[n] given 500 <= n := {wrong.replace('% 64 = 63', '= 0 - 1')}")
    contest = measure(start, SIZES)
    assert contest.judge_by(contest.candidate(start)) == RIGHT
    last = str(start).replace("i = -1", "i = n - 1")
    assert last != str(start)
    assert "the element at (999)" in str(contest.judge_by(contest.candidate(atl.parse(last))))


def test_judge_whose_results_agree_needs_no_error_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "error_bound", None)  # its kernels take seconds to compile
    contest = measure(TWICE, SIZES)
    assert contest.judge_by(contest.candidate(reschedule(TWICE).tile("i", 8).goal)) == RIGHT


def test_integers_are_compared_exactly() -> None:
    start = atl.parse("f (x : int64[n]) : int64[n] := ⊞[i < n] 1000000007 * x[i]")
    contest = measure(start, SIZES)
    assert contest.judgement_of(contest.candidate(start)) == RIGHT
    off = atl.parse("f (x : int64[n]) : int64[n] := ⊞[i < n] 1000000007 * x[i] + ([i = 5] · 1)")
    assert "the element at (5)" in str(contest.judgement_of(contest.candidate(off)))


def test_result_extent_may_be_a_quotient() -> None:
    halves = atl.parse("f (x : float32[n]) : float32[n // 2] := ⊞[i < n // 2] Σ[p < 2] x[2*i + p]")
    contest = measure(halves, {"n": 1001})
    assert contest.judgement_of(contest.candidate(halves)) == RIGHT


def test_inputs_satisfy_their_declarations() -> None:
    n, m = atl.sizes("n m")
    keys = atl.tensor("keys", 3, n, dtype="int64", range=(0, m), monotonic="increasing")
    at = atl.tensor("at", n, dtype="int32", range=(0, m))
    body = atl.gen(n, lambda i: atl.value(keys[0, i]) + atl.value(at[i]))
    program = atl.program("f", [keys, at], body)
    made = random_inputs(program, {"n": 5, "m": 9})
    assert (np.diff(made["keys"]) > 0).all()
    assert made["keys"].min() >= 0
    assert made["keys"].max() < 9
    assert made["at"].dtype == np.int32
    with pytest.raises(ArgumentError, match="no random elements for keys"):
        random_inputs(program, {"n": 5, "m": 4})
    with pytest.raises(ArgumentError, match="no value for the size m"):
        random_inputs(program, {"n": 5})


def test_custom_inputs_are_accepted_and_checked() -> None:
    x = np.zeros(1000, np.float32)
    contest = partial(measure, inputs={"x": x})(TWICE, SIZES)
    assert contest.judgement_of(contest.candidate(TWICE)) == RIGHT
    with pytest.raises(atl.ATLError):
        measure(TWICE, {"n": 999}, inputs={"x": x})
    with pytest.raises(InvalidArgument, match="sizes="):
        measure(TWICE, {"n": 1.5})  # type: ignore[dict-item]
    with pytest.raises(InvalidArgument, match="sizes="):
        measure(TWICE, {"n": -1})


def test_random_positions_of_sparse_operands_cover_all_entries() -> None:
    n, m = atl.sizes("n m")
    a, x = atl.tensor("A", n, m), atl.tensor("x", m)
    product = atl.program("spmv", [a, x], atl.gen(n, lambda i: atl.sum(m, lambda j: a[i, j] * x[j])))
    made = random_inputs(reschedule(product).sparsify("A", atl.CSR).goal, {"n": 40, "m": 30, "A_nnz": 99})
    assert (np.diff(made["A_pos"]) >= 0).all()
    assert (made["A_pos"][0], made["A_pos"][-1]) == (0, 99)


def test_operations_are_counted_with_the_lengths_of_sparse_rows() -> None:
    assert operations(anchors.product(), {"n": 20, "m": 30, "k": 40}, {}) == 20 * 30 * (2 * 40 + 1)
    triangle = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] Σ[k < i] 2 * x[k]")
    assert operations(triangle, {"n": 7}, {}) == 7 + 2 * (7 * 6 / 2)
    shared = atl.parse("f (x : float32[n]) : float32[n] := let y := ⊞[i < n] x[i] * x[i] in ⊞[i < n] y[i] + y[0]")
    assert operations(shared, {"n": 10}, {}) == 40
    assert operations(anchors.transpose(), {"n": 10, "m": 3}, {}) == 30
    rows = "(pos : int32[n + 1] in [0, k + 1), x : float32[k]) : float32[n]"
    sparse = atl.parse(f"f {rows} := ⊞[i < n] Σ[pos[i] <= p < pos[i + 1]] x[p]")
    steps = atl.parse(
        "f (x : float32, n : size) : float32 := (rec[1 <= p < n + 1] y from ⊞[i < 1] x in 2 * y[p - 1])[n]"
    )
    assert operations(steps, {"n": 10}, {}) == 1 + 10 * 2
    assert operations(sparse, {"n": 3, "k": 9}, {"pos": np.array([0, 5, 5, 9])}) == 3 + 9


def test_an_element_of_a_row_of_a_recurrence_counts_as_all_rows() -> None:
    rows = "(rec[1 <= p < n + 1] y from ⊞[i < 1] x in ⊞[j < m] 2 * y[p - 1, j])[n, 0]"
    steps = atl.parse(f"f (x : float32[m], n : size) : float32 given 1 <= m := {rows}")
    assert operations(steps, {"n": 10, "m": 5}, {}) >= 10 * 5


@pytest.mark.parametrize("n", [128, 130, 1024])
def test_iterations_of_which_every_other_one_is_shorter_are_sampled_alike(n: int) -> None:
    """The sum has no term for even iterations, and one for odd ones."""
    strided = atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] Σ[k < i % 2] x[k]")
    assert operations(strided, {"n": n}, {}) == pytest.approx(1.5 * n, rel=0.1)


def test_result_whose_bound_takes_too_long_is_reported() -> None:
    contest = measure(TWICE, SIZES)
    candidate = contest.candidate(TWICE)

    def off() -> object:
        result = candidate.kernel(*contest._arrays, out=contest._outs[0], n=1000)
        contest._outs[0][7] *= 1.01
        return result

    planted = replace(candidate, run=off)
    found = contest.judgement_of(planted, 0)
    assert (found.outcome, found.note) == ("unjudged", "its error bound takes more than 0 s")
    assert contest.judgement_of(planted).outcome == "wrong"


def test_result_without_a_bound_is_not_judged() -> None:
    start, other = (
        atl.parse(f"f (x : float32[n]) : float32[n] := ⊞[i < n] where({test}, 1.0, 0.0)")
        for test in ("x[i] + 1.0 - 1.0 < x[i]", "x[i] < x[i] + 1.0 - 1.0")
    )
    contest = measure(start, SIZES)
    judged = contest.judgement_of(contest.candidate(other))
    assert judged == RIGHT, judged  # each result may be 0 or 1: the bound is 1
