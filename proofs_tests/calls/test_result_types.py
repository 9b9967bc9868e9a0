"""Results of different element types: a buffer for each, in the nest, in C, in calls and in exported folders."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import atl
from lowering import print_nest
from lowering.kernel_text import interface
from lowering.nest.interpreter import run
from lowering.nest.loopnest import LoopNest
from lowering.pipeline import lower
from lowering.timing.comparison import RIGHT
from lowering.validation.validate import validate

n, m = atl.sizes("n m", min=1)
A = atl.tensor("A", n, m, dtype="float32")
K = atl.tensor("K", n, m, dtype="int32")
x = atl.tensor("x", m, dtype="float32")
FLOATS = (np.arange(12, dtype="float32").reshape(4, 3) - 5) / 4
INTEGERS = np.array([[2**31 - 1, 1, 0], [-7, 3, 2], [0, 0, 0], [5, -(2**31), 1]], "int32")


def rows(body: Callable[[Any], Any]) -> atl.Tensor:
    return atl.gen(n, body)


def sums(of: atl.Tensor) -> atl.Tensor:
    return rows(lambda i: atl.sum(m, lambda j: of[i, j]))


def statistics() -> atl.Program:
    return atl.program(
        "statistics", [A, K], atl.results(count=sums(K), mean=sums(A), twice=A + A, positive=A > 0, one=1)
    )


PROGRAMS = {
    "statistics": statistics(),
    "guarded": atl.program("guarded", [A, K], {"a": rows(lambda i: atl.guard(i < 2, A[i, 0])), "k": K}),
    "let": atl.program(
        "shared", [A, K], atl.let(sums(A), lambda total: atl.results(a=total, k=K, h=atl.cast("float16", total / 3)))
    ),
    "least": atl.program("least", [A, K], {"least": atl.reduce("min", n, lambda i: K[i, 0]), "a": A * A}),
    "sum": atl.program("summed", [A, K], {"a": sums(A), "k": K}),
    "signs": atl.program("signs", [A, K], {"bytes": atl.cast("int8", K), "doubles": atl.cast("float64", A) / 3}),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("strict", [False, True])
def test_results_have_buffers_of_their_types(name: str, strict: bool) -> None:
    program = PROGRAMS[name]
    kernel = atl.compile(program, strict=strict)
    assert [each.dtype for each in kernel.nest.results] == [each.type_in(program).dtype for each in program.results]
    expected = atl.evaluate(program, FLOATS, INTEGERS)
    for one, other in zip(kernel(FLOATS, INTEGERS), expected, strict=True):
        assert one.dtype == other.dtype
        assert one.shape == other.shape
        assert np.allclose(one, other, rtol=1e-6, atol=0)
    assert np.allclose(interpreted(kernel.nest), kernel.whole(FLOATS, INTEGERS), rtol=1e-6, atol=0)


def interpreted(nest: LoopNest) -> Any:
    return run(nest, {"n": 4, "m": 3}, {"A": FLOATS, "K": INTEGERS})


def test_stores_are_not_converted() -> None:
    text = print_nest(atl.compile(statistics()).nest)
    assert text.startswith("statistics(A[n, m], K[n, m]) -> count[n], mean[n], twice[m*n], positive[m*n], one[1]\n")
    assert "count[i] = total" in text
    assert "twice[i*m + j] = A[i, j] + A[i, j]" in text
    assert "float64(" not in text


def test_stores_to_a_wrong_result_are_found() -> None:
    program = atl.program("swapped", [A, K], {"a": A + A, "k": K})
    nest = lower(program, own_buffers=True)
    expected = atl.evaluate(program, FLOATS, INTEGERS)
    right = np.concatenate([each.reshape(-1) for each in expected])
    assert np.array_equal(interpreted(nest), right)
    first, second = nest.results
    assert not np.array_equal(interpreted(replace(nest, results=(second, first))), right)


def test_results_of_sparse_operands() -> None:
    program = atl.program("spmv", [A, K, x], {"y": rows(lambda i: atl.sum(m, lambda j: A[i, j] * x[j])), "k": sums(K)})
    vector = np.ones(3, "float32")
    for form in (atl.CSR, atl.COO):
        kernel = atl.reschedule(program).sparsify("A", form).sparsify("K", atl.CSR).compile()
        found = kernel(scipy.sparse.csr_array(FLOATS), scipy.sparse.csr_array(INTEGERS), vector)
        assert found.y.dtype == np.float32
        assert found.k.tolist() == INTEGERS.sum(1, dtype="int32").tolist()
        assert np.allclose(found.y, FLOATS @ vector)


def test_marks_of_results() -> None:
    s = atl.reschedule(atl.program("marked", [A, K], {"a": A + A, "k": sums(K)}))
    s = s.mark("i", "parallel")
    found = s.compile()(FLOATS, INTEGERS)
    assert np.array_equal(found.a, 2 * FLOATS)
    assert found.k.tolist() == INTEGERS.sum(1, dtype="int32").tolist()


def test_results_that_are_not_apart_are_converted() -> None:
    text = """mixed (x : float64[n], k : int32[n]) : (a : int32[n], b : float64[n]) :=
      ⊞[i < 2*n] select(i % 2 < 1, cast(float64, k[i // 2]), cast(float64, k[i // 2]))"""
    program = atl.parse(text)
    kernel = atl.compile(program)
    assert not kernel.nest.results
    values = np.zeros(3), np.array([1, 2, 3], "int32")
    for found, expected in zip(kernel(*values), atl.evaluate(program, *values), strict=True):
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected)


def test_out_is_a_tuple_of_arrays() -> None:
    kernel = atl.compile(statistics())
    expected = kernel(FLOATS, INTEGERS)
    out = tuple(np.full_like(each, 7) for each in expected)
    found = kernel(FLOATS, INTEGERS, out=out)
    assert all(one is other for one, other in zip(found, out, strict=True))
    fresh = tuple(np.full_like(each, 7) for each in expected)
    kernel.prepared(FLOATS, INTEGERS, out=fresh)()
    for one, other, third in zip(out, fresh, expected, strict=True):
        assert np.array_equal(one, third)
        assert np.array_equal(other, third)
    for wrong, why in (
        (np.zeros(3), r"out is a NumPy array of float64 of shape \(3,\) \[ATL402"),
        (out[:2], "out is a tuple of 2 elements"),
        ((*out[:4], [1.0]), "out.one is a list of 1 elements"),
        ((*out[:4], np.zeros((), "float32")), r"out.one has float32 of shape \(\)"),
        ((out[0], out[1], FLOATS, *out[3:]), r"out.twice shares memory with an input"),
        ((out[0], out[1], np.zeros((3, 4), "float32").T, *out[3:]), r"out.twice is not C-contiguous"),
    ):
        with pytest.raises(atl.ArrayError, match=why):
            kernel(FLOATS, INTEGERS, out=wrong)
    with pytest.raises(atl.ArrayError, match="copy=False"):
        kernel(np.asfortranarray(FLOATS), INTEGERS, copy=False)


def test_texts_with_several_outputs_are_validated() -> None:
    kernel = atl.compile(atl.program("two", [A, K], {"k": sums(K), "a": A + A}))
    right = kernel.source
    kernel.validate([{"n": 3, "m": 2}])
    for one, other in (("k[i] = total", "k[i] = total + 1"), ("a[i * m + j] =", "a[i * m + j + 1] =")):
        assert one in right
        wrong = interface(kernel.program, kernel.nest, right.replace(one, other), "two")
        with pytest.raises(atl.TextDiffers):
            validate(wrong, [{"n": 3, "m": 2}])


def test_bounds_of_results_of_different_types() -> None:
    program = atl.program("bounded", [A, K], {"mean": sums(A), "k": K, "third": atl.cast("float64", A) / 3})
    kernel = atl.compile(program)
    bound = kernel.error_bound(FLOATS, INTEGERS)
    assert [each.dtype for each in bound] == ["float64"] * 3
    alone = atl.compile(atl.program("alone", [A], sums(A))).error_bound(FLOATS)
    assert bound.mean.tolist() == alone.tolist()
    assert (bound.k == 0).all()
    assert 0 < bound.third.max() < 1e-15
    compared = atl.reschedule(program).compare_errors(program, FLOATS, INTEGERS)
    assert compared.bounds[0].tolist() == np.concatenate([each.reshape(-1) for each in bound]).tolist()
    assert "K = m roundings, u = 2^-24" in str(atl.compile(PROGRAMS["sum"]).error_bound())


LARGE = np.array([2**53 + 1, -(2**62) - 1, 2**63 - 1], "int64")


def labelled() -> atl.Program:
    marks, labels = atl.tensor("marks", n, dtype="float32"), atl.tensor("labels", n, dtype="int64")
    sums = rows(lambda i: atl.guard(i < 2, atl.sum(n, lambda j: atl.guard(j <= i, labels[j]))))
    return atl.program("labelled", [marks, labels], atl.results(twice=2 * marks, labels=labels, sums=sums))


def test_int64_beside_floats_is_exact_in_kernels(tmp_path: Path) -> None:
    program, marks = labelled(), np.array([1, 2, 3], "float32")
    assert atl.parse(str(program)) == program
    kernel = atl.compile(program)
    for found in (kernel(marks, LARGE), atl.reschedule(program).tile("i", 2).compile()(marks, LARGE)):
        assert [each.dtype for each in found] == ["float32", "int64", "int64"]
        assert found.labels.tolist() == LARGE.tolist()
        assert found.sums.tolist() == [LARGE[0], LARGE[0] + LARGE[1], 0]
    assert kernel.error_bound(marks, LARGE).sums.tolist() == [0, 0, 0]
    kernel.validate([{"n": 3}])
    contest = atl.measure(program, {"n": 20})
    assert contest.judgement_of(contest.candidate(program)) == RIGHT
    kernel.write(tmp_path / "made")
    small = LARGE >> 12
    assert [each.tolist() for each in atl.evaluate(program, marks, small)] == [
        each.tolist() for each in kernel(marks, small)
    ]


def test_int64_beside_floats_is_refused_where_it_would_be_rounded() -> None:
    program = labelled()
    marks = np.zeros(3, "float32")
    with pytest.raises(atl.ArrayError, match="an element of labels may have been rounded to 9007199254740992"):
        atl.evaluate(program, marks, LARGE)
    with pytest.raises(atl.InvalidArgument, match=r"(?s)need separate arrays.*atl.cast\(\"int32\", labels\)"):
        atl.compile(program, target="cuda")
    with pytest.raises(atl.InvalidArgument, match="need separate arrays"):
        atl.compile(program).whole  # noqa: B018 (a property)
    text = """mixed (k : int64[n], x : float64[n]) : (a : int64[n], b : float64[n]) :=
      ⊞[i < 2*n] select(i < n, cast(float64, k[i % n]) + {0}, {1})"""
    for other in ("1", "cast(float64, k[i // 3])"):
        with pytest.raises(atl.InvalidArgument, match="need separate arrays"):
            atl.compile(atl.parse(text.format(other, "x[i % n]")))


def test_tuning_runs_kernels_with_separate_results() -> None:
    contest = atl.measure(statistics(), {"n": 70, "m": 40})
    candidate = contest.candidate(atl.reschedule(statistics()).tile("j", 8).goal)
    assert [each.dtype for each in candidate.kernel.nest.results] == ["int32", "float32", "float32", "bool", "float64"]
    assert contest.judgement_of(candidate) == contest.judge_by(candidate) == RIGHT
    assert contest.run_start() is not None
    text = str(statistics())
    for right, wrong, place in (
        ("Σ[j < m] K[i, j]", "Σ[j < m] K[i, j] + [i = 7] · 1", r"\(7\) of count"),
        ("Σ[j < m] A[i, j]", "Σ[j < m] A[i, j] + [i = 5] · 0.001", r"\(5\) of mean"),
        ("A ⊕ A", "A ⊕ A ⊕ (⊞[i < n] ⊞[j < m] [i = 2 ∧ j = 3] · 0.1)", r"\(2, 3\) of twice"),
    ):
        assert text.count(right) == 1
        found = contest.judgement_of(contest.candidate(atl.parse(text.replace(right, wrong))))
        assert re.search(place, found.note)


@pytest.mark.long
def test_exported_results_are_checked_one_by_one(tmp_path: Path) -> None:
    theorem = atl.reschedule(statistics()).done()
    folder = atl.compile(theorem.rhs).write(tmp_path / "made", theorem=theorem)
    header = (folder / "statistics.h").read_text()
    assert "twice[n, m] of float: the result twice." in header

    def check() -> subprocess.CompletedProcess[str]:
        command = ["make", "-C", str(folder), "check", "CFLAGS=-Wall -Wextra -Werror"]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert check().returncode == 0
    source = folder / "statistics.c"
    right = source.read_text()
    for one, other in (("count[i] = total", "count[i] = total + 1"), ("one[0] = 1.0", "one[1] = 1.0")):
        assert one in right
        source.write_text(right.replace(one, other))
        assert check().returncode != 0


CONVERTED: dict[str, Callable[[atl.Tensor], Any]] = {
    "recurrence": lambda v: atl.rec(atl.gen(1, lambda i: v[i]), n, lambda p, y: y[p - 1] + v[p]),
    "sum": lambda v: rows(lambda i: atl.sum(n, lambda j: v[i] + v[j])),
    "maximum": lambda v: rows(lambda i: atl.reduce("max", n, lambda j: v[i] + v[j])),
    "let": lambda v: atl.let(v + v, lambda y: rows(lambda i: y[i] + y[0])),
    "concatenation": lambda v: atl.concat(v, v + v),
}
CHANGES = {
    ("float32", "int32"): [0.9, 0.9, 0.9],
    ("float32", "float64"): [3e38, 3e38, 5],
    ("float64", "float32"): [0.1, 0.2, 0.3],
    ("int32", "float64"): [2**30, 2**30, 5],
}
"""Element types of which the second one would give other values, and elements."""


@pytest.mark.sampled
@pytest.mark.thinned(11)
@pytest.mark.parametrize("change", CHANGES, ids=" to ".join)
@pytest.mark.parametrize("name", CONVERTED)
def test_converted_results_are_computed_in_their_own_type(name: str, change: tuple[str, str]) -> None:
    """The rows of a recurrence are read again, and must not be stored in the converted type."""
    of, to = change
    v, flags = atl.tensor("v", n, dtype=of), atl.tensor("flags", n, dtype="bool")
    values = atl.cast(to, CONVERTED[name](v))
    program = atl.program("converted", [v, flags], atl.results(values=values, flags=flags))
    arrays = np.array(CHANGES[change]).astype(of), np.array([True, False, True])
    with np.errstate(over="ignore"):
        expected = atl.evaluate(program, *arrays)
    found = atl.compile(program)(*arrays)
    assert found.values.dtype == to
    assert np.array_equal(found.values, expected.values)
    assert np.array_equal(found.flags, expected.flags)
