"""Tests of elements, choices by them, bits and integer quotients: their values in every way to run a program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl import Tensor
from atl.core.operations import BINARY, OPERATIONS, UNARY
from lowering import compile as compiled
from lowering import lower
from lowering.nest.interpreter import run

Array = npt.NDArray[Any]

pytestmark = pytest.mark.usefixtures("each_compiler")

n = atl.sizes("n", min=1)
INF, NAN = np.inf, np.nan
FLOATS = np.array([0, -0.0, 1, -1, 0.5, 1.5, 2.5, -0.5, -1.5, 3e38, -3e38, 1e-45, INF, -INF, NAN], np.float32)


def pairs(values: Array) -> tuple[Array, Array]:
    """Return all pairs of values."""
    left, right = np.meshgrid(values, values)
    return left.ravel().copy(), right.ravel().copy()


def every_way(program: atl.Program, *arrays: Array) -> Array:
    """Return the result of a program, after comparing the interpreters and C bit by bit, but for the sign of zero."""
    reference = np.asarray(atl.evaluate(program, *arrays))
    for other in (atl.evaluate_fast(program, *arrays), compiled(program)(*arrays)):
        assert np.asarray(other).dtype == reference.dtype
        np.testing.assert_array_equal(other, reference)
    assert atl.parse(str(program)) == program
    return reference


def of_two(dtype: str, body: Callable[[Tensor, Tensor], Tensor]) -> atl.Program:
    x, y = atl.tensor("x", n, dtype=dtype), atl.tensor("y", n, dtype=dtype)
    return atl.program("f", [x, y], atl.gen(n, lambda i: body(x[i], y[i])))


COMPARED: dict[str, Callable[[Any, Any], Any]] = {
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "==": lambda x, y: x == y,
    "!=": lambda x, y: x != y,
    "not <": lambda x, y: ~(x < y),
    "and": lambda x, y: (x < y) & (x != 0),
    "or": lambda x, y: (x < y) | ~(y == 1),
    "xor": lambda x, y: (x < y) ^ (x < 1),
    "and True": lambda x, y: (x < y) & True,
}


@pytest.mark.parametrize("test", COMPARED)
@pytest.mark.parametrize("dtype", ["float32", "int64"])
def test_comparisons_agree_with_numpy_for_nan_and_infinities(test: str, dtype: str) -> None:
    x, y = pairs(FLOATS if dtype == "float32" else INTEGERS["int64"])
    found = every_way(of_two(dtype, COMPARED[test]), x, y)
    assert found.dtype == np.bool_
    np.testing.assert_array_equal(found, COMPARED[test](x, y))


def test_where_chooses_nan_and_infinities_as_numpy() -> None:
    x, y = pairs(FLOATS)
    found = every_way(of_two("float32", lambda x, y: atl.where(x < y, x, y)), x, y)
    np.testing.assert_array_equal(found, np.where(x < y, x, y))


INTEGERS = {
    dtype: np.array(
        [
            0,
            1,
            -1,
            2,
            -2,
            3,
            -3,
            7,
            31,
            32,
            33,
            63,
            64,
            -64,
            *(np.iinfo(dtype).min + k for k in (0, 1)),
            np.iinfo(dtype).max,
        ],
        dtype,
    )
    for dtype in ("int32", "int64")
}
ON_INTEGERS: dict[str, Callable[[Any, Any], Any]] = {
    "//": lambda x, y: x // y,
    "%": lambda x, y: x % y,
    "<<": lambda x, y: x << y,
    ">>": lambda x, y: x >> y,
    "&": lambda x, y: x & y,
    "|": lambda x, y: x | y,
    "^": lambda x, y: x ^ y,
    "~": lambda x, y: ~x,
}


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("operation", ON_INTEGERS)
@np.errstate(all="ignore")
def test_operations_on_integers_agree_with_numpy_at_extremes(operation: str, dtype: str) -> None:
    x, y = pairs(INTEGERS[dtype])
    found = every_way(of_two(dtype, ON_INTEGERS[operation]), x, y)
    np.testing.assert_array_equal(found, ON_INTEGERS[operation](x, y))


@pytest.mark.parametrize("name", ["floor", "ceil", "round", "sign", "isfinite"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@np.errstate(all="ignore")
def test_rounding_agrees_with_numpy(name: str, dtype: str) -> None:
    x = atl.tensor("x", n, dtype=dtype)
    values = FLOATS.astype(dtype)
    found = every_way(atl.program("f", [x], getattr(atl, name)(x)), values)
    np.testing.assert_array_equal(found, getattr(np, "rint" if name == "round" else name)(values))


def test_numpy_functions_make_terms() -> None:
    x = atl.tensor("x", n)
    for made, wanted in (
        (np.floor(x), atl.floor(x)),
        (np.log1p(x), atl.log1p(x)),
        (np.sign(x), atl.sign(x)),
        (np.greater(x, 0), x > 0),
        (np.where(x > 0, x, 0), atl.where(x > 0, x, 0)),
    ):
        assert isinstance(made, Tensor)
        assert made.node == wanted.node


def test_clip_limits_to_a_range() -> None:
    x = atl.tensor("x", n)
    found = every_way(atl.program("f", [x], atl.clip(x, -1, 1)), FLOATS)
    np.testing.assert_array_equal(found, np.clip(FLOATS, -1, 1))


@pytest.mark.parametrize("values", [[1, 3, 3, 0], [0, NAN, 5, NAN], [-INF, -INF], [INF, 1, INF], [2]])
def test_argmax_and_argmin_are_the_first_positions(values: list[float]) -> None:
    x = atl.tensor("x", n)
    given = np.array(values, np.float32)
    assert every_way(atl.program("f", [x], atl.argmax(x)), given) == given.argmax()
    assert every_way(atl.program("f", [x], atl.argmin(x)), given) == given.argmin()


def test_argmax_along_an_axis() -> None:
    x = atl.tensor("x", n, 3)
    given = np.array([[1, 5, 5], [7, 2, 1], [0, 0, 0]], np.float32)
    for axis in (0, 1):
        found = every_way(atl.program("f", [x], atl.argmax(x, axis)), given)
        np.testing.assert_array_equal(found, given.argmax(axis))
        assert found.dtype == np.int64
    with pytest.raises(atl.InvalidArgument, match="several axes"):
        atl.argmax(x, (0, 1))  # type: ignore[arg-type]


def test_booleans_are_values() -> None:
    mask, x = atl.tensor("mask", n, dtype="bool"), atl.tensor("x", n)
    given, values = np.array([True, False, True]), np.array([1, 2, -3], np.float32)
    both = atl.program("f", [mask, x], atl.where(mask & (x > 0), x, 0))
    np.testing.assert_array_equal(every_way(both, given, values), [1, 0, 0])
    np.testing.assert_array_equal(every_way(atl.program("f", [mask], ~mask), given), ~given)
    np.testing.assert_array_equal(every_way(atl.program("f", [mask], atl.cast("int32", mask)), given), [1, 0, 1])
    np.testing.assert_array_equal(every_way(atl.program("f", [x], atl.cast("bool", x)), FLOATS), FLOATS != 0)
    assert every_way(atl.program("f", [mask], atl.reduce("max", n, lambda i: mask[i])), given)
    assert not every_way(atl.program("f", [mask], atl.reduce("min", n, lambda i: mask[i])), given)


def test_loop_nest_interpreter_chooses() -> None:
    program = of_two("float32", lambda x, y: atl.where(x < y, x, 0))
    x, y = np.array([1, 4], np.float32), np.array([2, 3], np.float32)
    np.testing.assert_array_equal(run(lower(program), {"n": 2}, {"x": x, "y": y}), [1, 0])


def test_relu_is_a_vector_select_in_c() -> None:
    x = atl.tensor("x", n)
    kernel = compiled(atl.program("relu", [x], atl.gen(n, lambda i: atl.where(x[i] > 0, x[i], 0))))
    assert "out[i] = 0.0f < x[i] ? x[i] : 0.0f;" in kernel.source
    assert kernel(FLOATS).tobytes() == np.where(FLOATS > 0, FLOATS, np.float32(0)).tobytes()


@np.errstate(all="ignore")
def test_table_has_a_row_for_each_operation() -> None:
    assert set(OPERATIONS) == {*UNARY, *BINARY}
    assert len({row.rocq for row in OPERATIONS.values()}) == len(OPERATIONS)
    for op, row in OPERATIONS.items():
        operands = [np.zeros(1, {"float": "float64", "integer": "int64", "bool": "bool"}[row.kinds[0]])] * (
            1 + (op in BINARY)
        )
        if op not in ("erf", "div"):
            assert (getattr(np, row.numpy[0])(*operands) == 0).all() == row.at_zero


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "said", "remedy"),
    [
        (lambda x, i: atl.guard(x[i] > 0, x[i]), "used as a condition on indices", "atl.where(test, a, b)"),
        (lambda x, i: atl.select(x[i] > 0, x[i], 0), "compares values", "atl.where(test, a, b)"),
        (lambda x, i: atl.guard((x[i] > 0) & (i > 0), x[i]), "compares values", "atl.where(test, a, b)"),
        (lambda x, i: atl.where(i > 0, x[i], 0), "on indices is used as the test of where", "atl.select(p, a, b)"),
        (lambda x, i: atl.where(x[i], x[i], 0), "has elements of type float32", "where(x != 0, a, b)"),
        (lambda x, i: x[i] if x[i] > 0 else 1, "has no truth value", "of values, atl.where(p, e, other)"),
        (lambda x, i: atl.where(x[i] > 0 and x[i] < 1, x[i], 0), "has no truth value", "as &, |, ~"),
        (lambda x, i: atl.where(not x[i] > 0, x[i], 0), "has no truth value", "as &, |, ~"),
        (lambda x, i: x[i] < i, "is used as an index or compared", "atl.value(i) < x[i]"),
        (lambda x, i: x[i] + (x[i] > 0), "operands of type float32 and bool", "cast one of them"),
        (lambda x, i: x[i] // 2, "'floordiv' is not defined on float32 elements", 'atl.cast("int64", …)'),
        (lambda x, i: x[i] & x[i], "'and' is not defined on float32 elements", 'atl.cast("int64", …)'),
        (lambda x, i: atl.floor(atl.cast("int32", x[i])), "'floor' is not defined on int32", ""),
        (lambda x, i: atl.isfinite(atl.cast("int32", x[i])), "isfinite of int32 elements", ""),
        (lambda x, i: atl.sum(n, lambda k: x[k] > 0), "'add' is not defined on bool elements", "cast first"),
        (lambda x, i: atl.where(atl.value(i), x[i], 0), "an index is used as a truth value", "atl.value(i) != 0"),
    ],
    ids=["guard", "select", "mixed", "index in where", "number in where", "if", "and", "not", "index",
        "sum of both", "quotient", "bits", "floor", "isfinite", "sum", "value"],
)  # fmt: skip
def test_misused_tests_are_refused_with_a_remedy(body: Callable[..., Any], said: str, remedy: str) -> None:
    x = atl.tensor("x", n)
    with pytest.raises(atl.ATLError) as refused:
        atl.program("f", [x], atl.gen(n, lambda i: body(x, i)))
    assert said in str(refused.value)
    assert remedy in str(refused.value)


def test_accesses_in_both_branches_of_where_must_be_safe() -> None:
    x = atl.tensor("x", n)
    program = atl.program("f", [x], atl.gen(n, lambda i: atl.where(x[i] > 0, x[i + 1], 0)))
    with pytest.raises(atl.UnsafeAccess):
        atl.check_safe(program)


def test_tests_of_integer_elements_are_conditions_too() -> None:
    k = atl.tensor("k", n, dtype="int32")
    guarded = atl.program("f", [k], atl.gen(n, lambda i: atl.guard((k[i] // 2 < 3) & ~(k[i] == 1) & (i > 0), k[i])))
    assert "[k[i] // 2 < 3 ∧ k[i] ≠ 1 ∧ 1 <= i]" in str(guarded).replace("  ", " ")
    np.testing.assert_array_equal(atl.evaluate(guarded, np.array([2, 2, 1, 9], np.int32)), [0, 2, 0, 0])


# -- programs that need tests of elements -----------------------------------------------------------------------------


def test_threshold() -> None:
    x, level = atl.tensor("x", n), atl.tensor("level")
    program = atl.program("threshold", [x, level], atl.where(x >= level, 1, 0))
    np.testing.assert_array_equal(
        every_way(program, FLOATS, np.array(0.5, np.float32)), np.where(FLOATS >= 0.5, np.float32(1), np.float32(0))
    )


def test_non_maximum_suppression() -> None:
    m = atl.sizes("m", min=1)
    response = atl.tensor("response", n + 2, m + 2)

    def suppressed(i: atl.IndexExpr, j: atl.IndexExpr) -> Tensor:
        middle = response[i + 1, j + 1]
        greatest = atl.reduce("max", 3, lambda a: atl.reduce("max", 3, lambda b: response[i + a, j + b]))
        return atl.where((middle == greatest) & (middle > 0.25), middle, 0)

    program = atl.program("suppressed", [response], atl.gen(n, m, suppressed))
    given = np.random.default_rng(1).random((7, 9)).astype(np.float32)
    windows = np.lib.stride_tricks.sliding_window_view(given, (3, 3)).max((2, 3))
    middle = given[1:-1, 1:-1]
    np.testing.assert_array_equal(
        every_way(program, given), np.where((middle == windows) & (middle > 0.25), middle, np.float32(0))
    )


def test_double_threshold_of_canny() -> None:
    x = atl.tensor("x", n)
    program = atl.program("edges", [x], atl.where(x >= 0.75, 2, atl.where(x >= 0.25, 1, 0)))
    given = np.random.default_rng(2).random(40).astype(np.float32)
    np.testing.assert_array_equal(every_way(program, given), (given >= 0.75) * 1.0 + (given >= 0.25) * 1.0)


def test_assignment_of_k_means() -> None:
    k, d = atl.sizes("k d", min=1)
    points, centres = atl.tensor("points", n, d), atl.tensor("centres", k, d)
    distances = ((points[:, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
    program = atl.program("assigned", [points, centres], atl.argmin(distances, axis=1))
    numbers = np.random.default_rng(3)
    given, means = (numbers.integers(-9, 9, shape).astype(np.float32) for shape in ((20, 2), (5, 2)))
    wanted = ((given[:, None] - means[None]) ** 2).sum(2).argmin(1)
    np.testing.assert_array_equal(every_way(program, given, means), wanted)
