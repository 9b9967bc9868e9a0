"""Bounds on the rounding errors of kernels: no result is outside, faults are found, and bounds are not too large."""

from __future__ import annotations

import math
from collections.abc import Callable
from ctypes import CDLL
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.index import value_at
from atl.core.program import Program
from atl.errors import InvalidArgument, NoErrorBound
from atl.meaning.arguments import bind
from atl.meaning.interpret import denote
from lowering import Kernel, kernel_text
from lowering.rounding.bound_nest import bound_nest
from lowering.rounding.expressions import ZERO
from lowering.rounding.numbers import RANGES
from lowering.rounding.operations import Operations
from proofs_tests.programs import bounds
from proofs_tests.programs.bounds import Reals, Report, outside
from rewrites import reschedule

n, m, k = atl.sizes("n m k")
x, y = atl.tensor("x", n), atl.tensor("y", n)
A, B = atl.tensor("A", n, m), atl.tensor("B", m, k)
TOTAL = atl.program("total", [x], atl.sum(n, lambda i: x[i]))
DOT = atl.program("dot", [x, y], atl.sum(n, lambda i: x[i] * y[i]))
PRODUCT = atl.program("product", [A, B], atl.gen(n, k, lambda i, j: atl.sum(m, lambda p: A[i, p] * B[p, j])))
COMPENSATED = atl.program("total", [x], atl.compensated_sum(n, lambda i: x[i]))
PAIRWISE = atl.program("total", [x], atl.pairwise_sum(n, lambda i: x[i], levels=6))
BLOCKED = atl.program("total", [x], atl.blocked_sum(n, lambda i: x[i], block=64))
IN_DOUBLE = atl.program("total", [x], atl.sum(n, lambda i: x[i], accumulate="float64"))


def uniform(*shape: int, seed: int = 0, low: float = 0, dtype: str = "float32") -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).uniform(low, 1, shape).astype(dtype)


def alternating(count: int) -> np.ndarray[Any, Any]:
    """Return large numbers of both signs, whose sum is the sum of the small ones between them."""
    numbers = np.ones(count, np.float32)
    numbers[0::3], numbers[2::3] = 1e8, -1e8
    return numbers[: count // 3 * 3]


def fault(program: Program, kernel: Kernel, *arrays: Any, report: Report | None = None) -> str | None:
    """Return the first element of a result that is outside of its bound."""
    exact = rational(program, *arrays)
    return outside(np.asarray(kernel(*arrays)), exact, np.asarray(kernel.error_bound(*arrays)), report or Report())


def rational(program: Program, *arrays: Any) -> np.ndarray[Any, Any]:
    """Return the exact result."""
    call = bind(program, arrays, {})
    meaning = denote(program, call.sizes, call.arrays, Reals())
    exact = np.empty(meaning.shape, object)
    for at in np.ndindex(meaning.shape):
        value = meaning.at(at)
        exact[at] = value if isinstance(value, Fraction) else Fraction(0)
    return exact


@pytest.mark.long
def test_random_schedules_are_within_their_bounds() -> None:
    report = bounds.run(range(16), 5)
    assert not report.findings, report.findings[0]
    assert report.kernels > 6
    assert report.finite > report.elements / 2


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("program", [TOTAL, PAIRWISE, BLOCKED, IN_DOUBLE, COMPENSATED], ids=range(5))
def test_sums_with_cancellation_are_within_their_bounds(program: Program, *, strict: bool) -> None:
    kernel = atl.compile(program, strict=strict)
    for numbers in (alternating(3000), uniform(3000, low=-1), np.full(3000, 1e-45, np.float32)):
        assert fault(program, kernel, numbers) is None


@pytest.mark.long
def test_sum_of_many_ones_is_within_its_bound() -> None:
    ones = np.ones(1 << 25, np.float32)
    kernel = atl.compile(TOTAL, strict=True)
    error = ones.size - float(kernel(ones))
    assert error == 1 << 24  # adding one to 2^24 has no effect
    assert error <= kernel.error_bound(ones) < math.inf


@pytest.mark.parametrize(
    ("channel", "numbers"),
    [("roundings", np.full(1000, 0.1, np.float32)), ("underflow", np.full(4, 1e-30, np.float32))],
)
def test_bound_that_counts_too_little_is_refuted(
    channel: str, numbers: np.ndarray[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = TOTAL if channel == "roundings" else DOT
    arrays = (numbers,) * len(program.inputs)
    assert fault(program, atl.compile(program), *arrays) is None
    if channel == "roundings":
        monkeypatch.setattr(Operations, "_weight", lambda *_: ZERO)
    else:
        for of in RANGES:
            monkeypatch.setitem(RANGES, of, replace(RANGES[of], underflow=0.0))
    assert "the error is" in str(fault(program, atl.compile(program), *arrays))


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_intermediate_results_may_overflow_and_underflow(dtype: str, *, strict: bool) -> None:
    a, b, c = (atl.tensor(name, n, dtype=dtype) for name in "abc")
    great = float(np.finfo(dtype).max) ** 0.75
    numbers = np.array([great, 1 / great, 1.0, 0.0, -great, 3 / great], dtype)
    arrays = [each.reshape(-1).astype(dtype) for each in np.meshgrid(numbers, numbers, numbers)]
    for body in (a * b * c, (a * b) / c, atl.sqrt(a * b + c), atl.exp(a - b) * c, atl.maximum(a * b, c) - a):
        program = atl.program("f", [a, b, c], body)
        kernel = atl.compile(program, strict=strict)
        found, limits = kernel(*arrays), kernel.error_bound(*arrays)
        assert not np.isnan(limits).any()
        assert np.isfinite(found[np.isfinite(limits)]).all()


@pytest.mark.parametrize("program", [TOTAL, DOT, PRODUCT, BLOCKED], ids=range(4))
def test_bound_of_uniform_data_is_within_1000_times_the_error(program: Program) -> None:
    report = Report()
    kernel = atl.compile(program)
    for seed in range(1 if program.shape else 20):
        shapes = {"x": (200,), "y": (200,), "A": (8, 200), "B": (200, 8)}
        arrays = [uniform(*shapes[array.name], seed=seed + 50 * at) for at, array in enumerate(program.inputs)]
        assert fault(program, kernel, *arrays, report=report) is None
    assert np.median(report.ratios) < 1000


def test_cancelling_operands_have_small_bounds() -> None:
    program = atl.program("f", [x, y], atl.gen(n, lambda i: (x[i] - y[i]) * (x[i] + 1 - y[i])))
    numbers = uniform(100, low=0.5)
    kernel = atl.compile(program)
    close = (numbers * np.float32(1.0001)).astype(np.float32)
    assert fault(program, kernel, numbers, close) is None
    assert kernel.error_bound(numbers, close).max() < 1e-6


# -- quotients, functions and choices ---------------------------------------------------------------------------------


def test_quotient_has_a_bound_where_the_divisor_is_not_zero() -> None:
    program = atl.program("f", [x, y], atl.gen(n, lambda i: x[i] / (x[i] - y[i])))
    kernel = atl.compile(program)
    ones = np.ones(3, np.float32)
    limits = kernel.error_bound(ones, np.array([0, 1, 1 - 2**-20], np.float32))
    assert np.isfinite(limits).tolist() == [True, False, True]


@pytest.mark.parametrize("op", ["sqrt", "exp", "log", "tanh", "erf", "sin", "cos", "log1p", "expm1", "floor", "round"])
def test_functions_are_within_their_bounds(op: str) -> None:
    function: Callable[[Any], Any] = getattr(atl, op)
    program = atl.program("f", [x, y], atl.gen(n, lambda i: function(x[i] * y[i] + x[i])))
    kernel = atl.compile(program)
    first, second = uniform(60, low=0.01), uniform(60, seed=1)
    assert fault(program, kernel, first, second) is None
    assert np.isfinite(kernel.error_bound(first, second)).mean() > 0.9


def test_choice_between_close_numbers_has_the_larger_error() -> None:
    choice = atl.gen(n, lambda i: atl.where(x[i] + y[i] - y[i] <= x[i], 1.0, 3.0))
    kernel = atl.compile(atl.program("f", [x, y], choice))
    limits = kernel.error_bound(np.array([0.1, 0.0], np.float32), np.array([1e6, 0.0], np.float32))
    assert limits[0] >= 2


@pytest.mark.parametrize("half", ["float16", "bfloat16"])
def test_conversions_to_16_bits_are_counted(half: str) -> None:
    program = atl.program("f", [x], atl.gen(n, lambda i: atl.cast("float32", atl.cast(half, x[i] * x[i])) + x[i]))
    kernel = atl.compile(program)
    numbers = np.concatenate([uniform(50, low=-1), np.array([1e-4, 255, 1e-8], np.float32)])
    report = Report()
    assert fault(program, kernel, numbers, report=report) is None
    assert report.finite == numbers.size
    assert math.isinf(kernel.error_bound(np.array([3e38], np.float32))[0])


def test_results_without_a_bound_are_refused_with_their_place() -> None:
    rounded = atl.program("f", [x], atl.gen(n, lambda i: atl.cast("int32", 3 * x[i])))
    with pytest.raises(NoErrorBound, match="a rounded number is converted to int32 in f") as raised:
        atl.compile(rounded).error_bound(np.ones(2, np.float32))
    assert "out[i] = int32(3.0 * x[i])" in str(raised.value)
    quotient = atl.compile(atl.program("f", [x], 1 / x), fast_math=True)
    with pytest.raises(NoErrorBound, match="reciprocal"):
        quotient.error_bound(np.ones(2, np.float32))


def test_call_of_an_instruction_has_no_bound_and_the_error_says_to_omit_it() -> None:
    marked = reschedule(PRODUCT).dispatch().goal
    with pytest.raises(NoErrorBound, match=r"sgemm rounds in its own way(.|\n)*compile without the call"):
        bound_nest(atl.lower(marked))


@pytest.mark.parametrize("option", ["out", "copy"])
def test_bound_has_no_options(option: str) -> None:
    kernel, numbers = atl.compile(TOTAL), uniform(10)[::2]
    for value in (np.empty((), np.float64), np.empty((), np.float32)) if option == "out" else (False, True):
        with pytest.raises(InvalidArgument, match=f"error_bound of total with {option}="):
            kernel.error_bound(numbers, **{option: value})
    assert kernel.error_bound(numbers) > 0


# -- formulas ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "strict", "sizes", "expected"),
    [
        (TOTAL, False, {"n": 100}, 100),
        (DOT, False, {"n": 100}, 101),
        (PRODUCT, True, {"m": 7}, 9),
        (BLOCKED, True, {"n": 1000}, 64 + 16 + 1),
        (PAIRWISE, False, {"n": 4096}, 6 + 64),
    ],
    ids=["total", "dot", "product", "blocked", "pairwise"],
)
def test_formula_counts_roundings(program: Program, sizes: dict[str, int], expected: int, *, strict: bool) -> None:
    bound = atl.compile(program, strict=strict).error_bound()
    assert value_at(bound.roundings, sizes) == expected
    assert bound.unit == 2.0**-24


def test_formula_is_not_below_the_bound_of_the_elements() -> None:
    s = reschedule(PRODUCT).tile("j", 8).tile("p", 4)
    kernel = s.compile()
    arrays = uniform(5, 30, low=-1), uniform(30, 7, low=-1, seed=1)
    bound = kernel.error_bound()
    magnitude = atl.evaluate(bound.magnitude, *(each.astype(float) for each in arrays))
    roundings = value_at(bound.roundings, {"n": 5, "m": 30, "k": 7})
    limits = kernel.error_bound(*arrays)
    assert roundings == 33
    formula = ((1 + bound.unit) ** roundings - 1) * magnitude
    assert (limits <= formula * (1 + 1e-5)).all()
    assert (limits >= formula * 0.8).all()


MEAN = atl.program("mean", [x], x.mean())
HALVES = atl.program("halves", [x], x / 2)
BOX = atl.parse("""box (x : float32[n]) : float32[n] :=
  let r := ⊞[i < n] (Σ[j < 3] [i + j < n] · x[i + j]) / 3 in ⊞[i < n] r[i] * r[i] - x[i]""")
BOX_OF_SUMS = atl.parse("""box (x : float32[n]) : float32[n] :=
  let r := ⊞[i < n] Σ[j < 3] [i + j < n] · x[i + j] in ⊞[i < n] r[i] * r[i] - x[i]""")
VARIANCE = atl.parse("""variance (x : float32[n]) : float32 :=
  let m := (Σ[i < n] x[i]) / value(n) in (Σ[i < n] (x[i] - m) * (x[i] - m)) / (value(n) * -0.1)""")


@pytest.mark.parametrize(
    ("program", "expected"),
    [(MEAN, 103), (HALVES, 1), (BOX, 10), (BOX_OF_SUMS, 8), (VARIANCE, 514)],
    ids=["mean", "halves", "box", "box of sums", "variance"],
)
def test_formula_of_quotients_by_constants_and_sizes_is_a_bound(program: Program, expected: int) -> None:
    numbers = uniform(100, low=-1)
    kernel = atl.compile(program)
    bound = kernel.error_bound()
    roundings = value_at(bound.roundings, {"n": 100})
    assert roundings == expected
    limit = ((1 + bound.unit) ** roundings - 1) * np.asarray(atl.evaluate(bound.magnitude, numbers.astype(float)))
    assert outside(np.asarray(kernel(numbers)), rational(program, numbers), limit, Report()) is None


def test_formula_of_quotients_by_elements_or_zero_is_refused() -> None:
    for program in (
        atl.program("f", [x], 1 / x),
        atl.program("f", [x], x / 0),
        atl.parse("f (x : float32[n]) : float32[n] := ⊞[i < n] x[i] / value(i)"),
    ):
        with pytest.raises(NoErrorBound, match="depends on elements: div"):
            atl.compile(program).error_bound()


def test_steps_of_a_stencil_are_counted() -> None:
    def step(_: object, u: Any) -> Any:
        return atl.gen(n, lambda i: atl.select((i >= 1) & (i < n - 1), u[i - 1] + u[i] + u[i + 1], u[i]))

    bound = atl.compile(atl.program("heat", [x], atl.iterate(m, x, step))).error_bound()
    assert value_at(bound.roundings, {"n": 50, "m": 10}) == 20


def test_recurrence_of_squares_has_no_formula() -> None:
    squares = atl.rec(n, lambda p, w: atl.select(p >= 1, w[p - 1] * w[p - 1], 0) + x[p])
    kernel = atl.compile(atl.program("squares", [x], squares))
    with pytest.raises(NoErrorBound, match="faster than linearly"):
        kernel.error_bound()
    assert fault(kernel.program, kernel, uniform(9)) is None


# -- sums -------------------------------------------------------------------------------------------------------------


def relative_error(kernel: Kernel, numbers: np.ndarray[Any, Any]) -> float:
    exact = sum(map(Fraction, numbers.tolist()))
    return float(abs(Fraction(float(kernel(numbers))) - exact) / sum(abs(Fraction(each)) for each in numbers.tolist()))


def within_two_roundings(kernel: Kernel, numbers: np.ndarray[Any, Any]) -> bool:
    u, exact = Fraction(1, 1 << 24), sum(map(Fraction, numbers.tolist()), Fraction(0))
    sizes = sum((abs(Fraction(each)) for each in numbers.tolist()), Fraction(0))
    return bool(abs(Fraction(float(kernel(numbers))) - exact) <= u * abs(exact) + (len(numbers) * u) ** 2 * sizes)


@pytest.mark.parametrize("strict", [False, True])
def test_compensated_sum_is_as_exact_as_twice_the_digits(*, strict: bool) -> None:
    kernel = atl.compile(COMPENSATED, strict=strict)
    assert all(within_two_roundings(kernel, each) for each in (alternating(999), uniform(4000), uniform(9, low=-1)))


def test_compensation_that_the_compiler_removes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_text, "cancels", lambda _: False)
    assert not within_two_roundings(atl.compile(COMPENSATED), alternating(999))
    assert not within_two_roundings(atl.compile(TOTAL), alternating(999))


def test_sum_in_float64_rounds_once() -> None:
    kernel = atl.compile(IN_DOUBLE)
    assert within_two_roundings(kernel, alternating(999))
    numbers = uniform(1000)
    assert kernel.error_bound(numbers) < 1.01 * 2**-24 * float(numbers.sum(dtype=float))
    dot = atl.sum(n, lambda i: -(x[i] * y[i]) + 1, accumulate="float64")
    assert "cast(float64, x[i]) * cast(float64, y[i])" in str(atl.program("dot", [x, y], dot))


@pytest.mark.parametrize("wide", ["float32", "bfloat16", "int64"])
def test_sum_in_a_type_without_more_digits_is_refused(wide: str) -> None:
    with pytest.raises(InvalidArgument, match=f"accumulate={wide}"):
        atl.sum(n, lambda i: x[i], accumulate=wide)


def test_arguments_of_sums_are_checked() -> None:
    with pytest.raises(InvalidArgument, match="levels=0"):
        atl.pairwise_sum(n, lambda i: x[i], levels=0)
    with pytest.raises(InvalidArgument, match="block=0"):
        atl.blocked_sum(n, lambda i: x[i], block=0)
    with pytest.raises(InvalidArgument, match="a function of an index"):
        atl.compensated_sum(n, x)  # type: ignore[arg-type]


def test_pairwise_sum_rounds_once_for_each_level() -> None:
    numbers = np.full(64, 0.1, np.float32)
    assert atl.compile(PAIRWISE).error_bound(numbers) <= 7.01 * 2**-24 * float(numbers.sum())
    assert relative_error(atl.compile(PAIRWISE), numbers) <= 7 * 2**-24


def test_blocked_sum_has_the_same_bits_for_any_number_of_threads() -> None:
    numbers = uniform(10_000, low=-1)
    parallel = reschedule(BLOCKED, strict=True).mark("b", "parallel").compile()
    expected = atl.evaluate(BLOCKED, numbers)
    library = CDLL(str(parallel.path))
    before = library.omp_get_max_threads()
    try:
        for threads in (1, 2, 3, 7):
            library.omp_set_num_threads(threads)
            assert parallel(numbers).tobytes() == expected.tobytes()
    finally:
        library.omp_set_num_threads(before)


def test_error_bounds_of_schedules_are_compared() -> None:
    found = reschedule(TOTAL).compare_errors(reschedule(BLOCKED), np.ones(640, np.float32))
    assert 0.1 < found.ratio < 0.13
    assert "median ratio" in str(found)
    with pytest.raises(InvalidArgument, match="is not a schedule"):
        reschedule(TOTAL).compare_errors(3, np.ones(640, np.float32))  # type: ignore[arg-type]
