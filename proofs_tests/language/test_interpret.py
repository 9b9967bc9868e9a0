"""The reference interpreter: constructs compared with NumPy, padding, exactness and laziness."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl.core import predicate
from atl.core.index import Quotient, Var, constant, index, size
from atl.core.operations import FLOAT_ONLY, BinaryOp
from atl.core.program import Program
from atl.core.substitution import strengthen
from atl.core.terms import Guard, Monoid, Padding, Reduce, TensorVar, Type, Value
from atl.errors import ArgumentError, EscapedIndex, ExtentError, NotExact, TooLarge
from atl.meaning.interpret import PAD, Meaning, denote
from atl.meaning.scalars import Exact, Machine, Scalars
from atl.surface.values import IndexExpr, TensorLike, as_tensor

Array = npt.NDArray[Any]
n, m, k, z = atl.sizes("n m k z")
x, y = atl.tensor("x", n, dtype="float64"), atl.tensor("y", n, dtype="float64")
A, B = atl.tensor("A", n, m, dtype="float64"), atl.tensor("B", n, m, dtype="float64")
T = atl.tensor("T", n, m, k, dtype="float64")
idx = atl.tensor("idx", n, dtype="int32")
u = atl.tensor("u", n, dtype="int32")

generator = np.random.default_rng(7)
ARRAYS: dict[str, Array] = {
    "x": generator.normal(size=5),
    "y": generator.normal(size=5),
    "A": generator.normal(size=(5, 3)),
    "B": generator.normal(size=(5, 3)),
    "T": generator.normal(size=(5, 3, 2)),
    "idx": np.array([3, 0, 4, -1, 5], dtype=np.int32),
    "u": np.array([7, -3, 2**31 - 1, -(2**31), 0], dtype=np.int32),
}
SIZES = {"n": 5, "m": 3, "k": 2, "z": 0}
INPUTS = (x, y, A, B, T, idx, u)


def unchecked(body: TensorLike) -> Program:
    """Return a program that was not checked."""
    return Program("p", tuple(tensor.node.array for tensor in INPUTS), strengthen(as_tensor(body).node, "float64"))  # type: ignore[union-attr]


def meaning(
    body: TensorLike,
    scalars: Scalars[Any] | None = None,
    *,
    sizes: Mapping[str, int] = SIZES,
    arrays: Mapping[str, Array] = ARRAYS,
) -> Meaning[Any]:
    return denote(unchecked(body), sizes, arrays, scalars or Machine())


def value(body: TensorLike, **how: Any) -> Array:
    program = unchecked(body)
    return meaning(body, **how).to_numpy(program.dtype)


def a(name: str) -> Array:
    return ARRAYS[name]


count = atl.gen(n, lambda i: 1.0 + atl.value(i))
CONSTRUCTS: dict[str, tuple[Any, Callable[[], Any]]] = {
    "an input": (x, lambda: a("x")),
    "a literal": (atl.gen(n, lambda i: 2.5), lambda: np.full(5, 2.5)),
    "the value of an index": (atl.gen(n, lambda i: atl.value(2 * i - 3)), lambda: 2 * np.arange(5) - 3),
    "the value of a size": (atl.value(n * m), lambda: 15),
    "gen": (atl.gen(n, lambda i: x[n - 1 - i]), lambda: a("x")[::-1]),
    "gen from a lower bound": (atl.gen((2, n), lambda i: x[i]), lambda: a("x")[2:]),
    "gen of two indices": (atl.gen(m, n, lambda i, j: A[j, i]), lambda: a("A").T),
    "gen of tensors": (atl.gen(m, lambda i: T[0, i]), lambda: a("T")[0]),
    "sum": (atl.sum(n, lambda i: x[i]), lambda: a("x").sum()),
    "sum from a lower bound": (atl.sum((1, n - 1), lambda i: x[i]), lambda: np.sum(a("x")[1:-1])),
    "sum of tensors": (atl.sum(n, lambda i: A[i]), lambda: a("A").sum(0)),
    "sum of sums": (atl.sum(n, m, lambda i, j: A[i, j]), lambda: a("A").sum()),
    "product": (atl.reduce("product", n, lambda i: x[i]), lambda: a("x").prod()),
    "max": (atl.reduce("max", n, lambda i: x[i]), lambda: a("x").max()),
    "max of negatives": (atl.reduce("max", n, lambda i: x[i] - 100.0), lambda: a("x").max() - 100),
    "min": (atl.reduce("min", n, lambda i: x[i] + 100.0), lambda: a("x").min() + 100),
    "guard": (atl.gen(n, lambda i: atl.guard(i >= 2, x[i])), lambda: np.where(np.arange(5) >= 2, a("x"), 0)),
    "guard of a disjunction": (
        atl.gen(n, lambda i: atl.guard((i < 1) | ~(i != 3), x[i])),
        lambda: np.where(np.isin(np.arange(5), (0, 3)), a("x"), 0),
    ),
    "let of a scalar": (atl.let(x[1] * 2.0, lambda s: s * s), lambda: 4 * a("x")[1] ** 2),
    "let of a tensor": (
        atl.let(atl.gen(n, lambda i: x[i] * x[i]), lambda b: atl.gen(n, lambda i: b[n - 1 - i] + b[i])),
        lambda: (a("x") ** 2)[::-1] + a("x") ** 2,
    ),
    "a let around an index": (
        atl.gen(n, lambda i: atl.let(A[i], lambda r: atl.sum(m, lambda j: r[j] * r[m - 1 - j]))),
        lambda: (a("A") * a("A")[:, ::-1]).sum(1),
    ),
    "a let in a let": (
        atl.let(x, lambda b: atl.gen(n, lambda i: atl.let(b[i] + 1.0, lambda c: c * A[i, 0] + b[0]))),
        lambda: (a("x") + 1) * a("A")[:, 0] + a("x")[0],
    ),
    "access": (A[2, 1], lambda: a("A")[2, 1]),
    "partial access": (T[3, 1], lambda: a("T")[3, 1]),
    "access of a gen": (atl.gen(n, lambda i: x[i] * 2.0)[3], lambda: 2 * a("x")[3]),
    "access of a tensor sum": (atl.sum(n, lambda i: A[i])[1], lambda: a("A").sum(0)[1]),
    "access of a let": (atl.let(A, lambda b: b)[4, 2], lambda: a("A")[4, 2]),
    "gather": (atl.gen((1, 3), lambda i: x[idx[i]]), lambda: a("x")[[0, 4]]),
    "negation": (-A, lambda: -a("A")),
    "abs": (abs(A), lambda: np.abs(a("A"))),
    "sqrt": (atl.sqrt(abs(A)), lambda: np.sqrt(np.abs(a("A")))),
    "exp": (atl.exp(A), lambda: np.exp(a("A"))),
    "log": (atl.log(abs(A)), lambda: np.log(np.abs(a("A")))),
    "tanh": (atl.tanh(A), lambda: np.tanh(a("A"))),
    "erf": (atl.erf(A), lambda: np.vectorize(math.erf)(a("A"))),
    "sin": (atl.sin(A), lambda: np.sin(a("A"))),
    "cos": (atl.cos(A), lambda: np.cos(a("A"))),
    "addition": (A + B, lambda: a("A") + a("B")),
    "subtraction": (A - B, lambda: a("A") - a("B")),
    "multiplication": (A * B, lambda: a("A") * a("B")),
    "division": (A / B, lambda: a("A") / a("B")),
    "minimum": (atl.minimum(A, B), lambda: np.minimum(a("A"), a("B"))),
    "maximum": (atl.maximum(A, B), lambda: np.maximum(a("A"), a("B"))),
    "a scalar with a tensor": (3.0 - A, lambda: 3 - a("A")),
    "select": (
        atl.gen(n, lambda i: atl.select(i % 2 == 0, x[i], y[i])),
        lambda: np.where([1, 0, 1, 0, 1], a("x"), a("y")),
    ),
    "select of tensors": (atl.gen(n, lambda i: atl.select(i < 2, A[i], B[i])), lambda: np.r_[a("A")[:2], a("B")[2:]]),
    "cast to single precision": (atl.cast("float32", x), lambda: a("x").astype(np.float32)),
    "cast of integers": (atl.cast("float64", u), lambda: a("u").astype(np.float64)),
    "cast to integers": (atl.cast("int32", 10.0 * x), lambda: np.trunc(10 * a("x")).astype(np.int32)),
    "concat": (atl.concat(x, y, x), lambda: np.r_[a("x"), a("y"), a("x")]),
    "concat of matrices": (atl.concat(A, B), lambda: np.r_[a("A"), a("B")]),
    "transpose": (atl.transpose(T), lambda: a("T").transpose(1, 0, 2)),
    "flatten": (atl.flatten(A), lambda: a("A").reshape(-1)),
    "flatten of higher rank": (atl.flatten(T), lambda: a("T").reshape(15, 2)),
    "split": (atl.split(2, x), lambda: np.r_[a("x"), 0].reshape(3, 2)),
    "split of higher rank": (atl.split(2, A), lambda: np.r_[a("A"), np.zeros((1, 3))].reshape(3, 2, 3)),
    "split by more than there is": (atl.split(7, x), lambda: np.r_[a("x"), 0, 0].reshape(1, 7)),
    "padl": (atl.padl(k, x), lambda: np.r_[0, 0, a("x")]),
    "padr": (atl.padr(k, x), lambda: np.r_[a("x"), 0, 0]),
    "padr of higher rank": (atl.padr(1, A), lambda: np.r_[a("A"), np.zeros((1, 3))]),
    "truncl drops": (atl.truncl(k, x), lambda: a("x")[2:]),
    "truncr drops": (atl.truncr(k, x), lambda: a("x")[:-2]),
    "truncl of higher rank": (atl.truncl(1, A), lambda: a("A")[1:]),
    "truncations of all": (atl.truncl(n - m, atl.truncr(m, x)), lambda: np.zeros(0)),
    "tiles undone": (atl.truncr(1, atl.flatten(atl.split(2, x))), lambda: a("x")),
    "reads beyond a vector": (atl.gen(n + 4, lambda i: x[i - 2]), lambda: np.r_[0, 0, a("x"), 0, 0]),
    "reads beyond a matrix": (atl.gen(n + 2, m + 2, lambda i, j: A[i - 1, j - 1]), lambda: np.pad(a("A"), 1)),
    "reads beyond a gen": (atl.gen(n + 2, lambda i: count[i - 1]), lambda: [0, 1, 2, 3, 4, 5, 0]),
    "reads beyond a let": (atl.let(count, lambda b: atl.gen(n + 2, lambda i: b[i - 1])), lambda: [0, 1, 2, 3, 4, 5, 0]),
    "a read beyond a sum": (atl.sum(n, lambda i: A[i])[m], lambda: 0),
    "a read beyond a truncation": (atl.truncr(1, x)[n - 1], lambda: 0),
    "an indirect read beyond the tensor": (atl.gen(n, lambda i: x[idx[i]]), lambda: [*a("x")[[3, 0, 4]], 0, 0]),
    "matrix product": (atl.gen(n, n, lambda i, j: atl.sum(m, lambda q: A[i, q] * B[j, q])), lambda: a("A") @ a("B").T),
}


@pytest.mark.parametrize("construct", CONSTRUCTS)
def test_construct_matches_numpy(construct: str) -> None:
    body, expected = CONSTRUCTS[construct]
    result = value(body)
    assert result.shape == np.shape(expected())
    np.testing.assert_allclose(result, expected(), rtol=1e-12, strict=False)


@pytest.mark.parametrize("construct", [name for name in CONSTRUCTS if name not in FLOAT_ONLY])
def test_exact_and_machine_numbers_agree_up_to_rounding(construct: str) -> None:
    body, expected = CONSTRUCTS[construct]
    exact = meaning(body, Exact()).to_numpy(object)
    assert all(isinstance(element, Fraction) for element in exact.flat)
    np.testing.assert_allclose(exact.astype(np.float64), expected(), rtol=1e-7)


INDICES: dict[str, tuple[Callable[[IndexExpr], Any], Callable[[int], int]]] = {
    "floor division rounds down below zero": (lambda i: (i - 7) // 3, lambda i: (i - 7) // 3),
    "a remainder is never negative": (lambda i: (i - 7) % 3, lambda i: (i - 7) % 3),
    "a ceiling rounds up": (lambda i: atl.ceildiv(i - 7, 3), lambda i: -((7 - i) // 3)),
    "division by a size": (lambda i: (i - 7) // n, lambda i: (i - 7) // 5),
    "a minimum": (lambda i: atl.imin(2 * i, n, 7), lambda i: min(2 * i, 5)),
    "a maximum": (lambda i: atl.imax(2 * i - 4, m), lambda i: max(2 * i - 4, 3)),
    "a polynomial": (lambda i: (i - n) * (i + m) + 1, lambda i: (i - 5) * (i + 3) + 1),
    "an element of an integer array": (lambda i: i * u[0] - idx[2], lambda i: 7 * i - 4),
    "an element before the array": (lambda i: i + u[i - 9], lambda i: i),
    "an element after the array": (lambda i: 1 + atl.imax(u[i + n], 0), lambda i: 1),
}


@pytest.mark.parametrize("what", INDICES)
def test_index_expression_value(what: str) -> None:
    expression, expected = INDICES[what]
    result = value(atl.gen(n, lambda i: atl.value(expression(i))))
    np.testing.assert_array_equal(result, [expected(i) for i in range(5)])


padded = atl.padr(1, x)
false = atl.guard(n < 0, x)
PADDING: dict[str, tuple[Any, Sequence[int]]] = {
    "padl": (atl.padl(2, x), [1, 1, 0, 0, 0, 0, 0]),
    "padr": (padded, [0, 0, 0, 0, 0, 1]),
    "a false guard around a stored expression": (atl.gen(n, lambda i: atl.guard(i != 1, x[i] * 0.0)), [0, 1, 0, 0, 0]),
    "a split tail": (atl.flatten(atl.split(2, x)), [0, 0, 0, 0, 0, 1]),
    "an empty sum": (atl.gen(3, lambda i: atl.sum(i, lambda j: x[j])), [1, 0, 0]),
    "an empty product": (atl.gen(3, lambda i: atl.reduce("product", i, lambda j: x[j])), [1, 0, 0]),
    "a sum of nothing but padding": (atl.gen(3, lambda i: atl.sum(n, lambda j: atl.guard(j + i < 1, x[j]))), [0, 1, 1]),
    "the node that stores nothing": (atl.concat(x, x), [0] * 10),
    "a guard in a guard": (atl.gen(n, lambda i: atl.guard(i < 3, atl.guard(i > 0, x[i]))), [1, 0, 0, 1, 1]),
    "padding through a truncation": (atl.truncl(1, padded), [0, 0, 0, 0, 1]),
    "padding through a concat": (atl.concat(padded, atl.padl(1, x)), [0] * 5 + [1, 1] + [0] * 5),
    "padding through a transpose": (atl.flatten(atl.transpose(atl.split(3, x))), [0, 0, 0, 0, 0, 1]),
    "padding through a let's body": (atl.let(x, lambda b: atl.padr(1, b)), [0, 0, 0, 0, 0, 1]),
    "a literal zero": (atl.gen(2, lambda i: 0.0), [0, 0]),
    "an index zero": (atl.gen(2, lambda i: atl.value(0 * i)), [0, 0]),
    "an input that holds zero": (atl.gen(2, lambda i: x[i] * 0.0), [0, 0]),
    "a read of padding": (atl.gen(n + 1, lambda i: padded[i]), [0] * 6),
    "a read beyond the tensor": (atl.gen(n + 2, lambda i: x[i - 1]), [0] * 7),
    "a row read beyond the tensor": (A[n + 2], [0, 0, 0]),
    "a let-bound tensor that holds padding": (atl.let(padded, lambda b: b), [0] * 6),
    "a read of let-bound padding": (atl.let(padded, lambda b: atl.gen(n + 1, lambda i: b[i])), [0] * 6),
    "a guard inside a product": (atl.gen(n, lambda i: atl.guard(i < 2, x[i]) * y[i]), [0] * 5),
    "a sum of two paddings": (false + false, [0] * 5),
    "a negated padding": (-false, [0] * 5),
    "a cast padding": (atl.cast("int32", false), [0] * 5),
    "a selected padding": (atl.gen(n, lambda i: atl.select(i < 2, false[i], atl.guard(i < 0, x[i]))), [0] * 5),
    "a sum with one computed part": (
        atl.gen(3, lambda i: atl.sum(n, lambda j: atl.guard(j == i, 0.0 * x[j]))),
        [0, 0, 0],
    ),
}


@pytest.mark.parametrize("what", PADDING)
def test_padding_elements(what: str) -> None:
    body, expected = PADDING[what]
    result = meaning(body)
    np.testing.assert_array_equal(result.padding(), np.array(expected, dtype=bool))
    assert not result.to_numpy("float64")[result.padding()].any()
    for position, pads in enumerate(expected):
        assert (result.at((position,)) is PAD) == bool(pads)


def test_padding_node_is_padding_of_its_shape() -> None:
    nothing = Padding(Type("float64", (size("n"), size("m"))))
    result = denote(Program("p", (), nothing), SIZES, {}, Exact())
    assert result.shape == (5, 3)
    assert result.padding().all()
    assert repr(result.at((0, 0))) == "PAD"


def reduction(monoid: Any, first: int, last: int, offset: float) -> Program:
    """Return a reduction over 0 <= k < 3 of offset + k, with padding except where first <= k < last."""
    bound = Program("p", (), strengthen(as_tensor(atl.sum(3, lambda q: offset + atl.value(q))).node, "float64")).body
    assert isinstance(bound, Reduce)
    condition = (first <= IndexExpr(bound.body.right.index)) & (IndexExpr(bound.body.right.index) < last)  # type: ignore[union-attr]
    return Program("p", (), Reduce(monoid, bound.low, bound.high, Guard(condition.node, bound.body)))


@pytest.mark.parametrize(
    ("monoid", "first", "last", "offset", "expected"),
    [
        ("sum", 1, 3, 1.0, 5.0),
        ("product", 0, 3, 1.0, 6.0),
        ("product", 1, 3, 1.0, 0.0),
        ("max", 0, 3, -9.0, -7.0),
        ("max", 0, 2, -9.0, 0.0),
        ("min", 0, 3, 9.0, 9.0),
        ("min", 1, 3, 9.0, 0.0),
        ("sum", 3, 3, 1.0, PAD),
        ("product", 3, 3, 1.0, 0.0),
        ("max", 3, 3, 1.0, 0.0),
        ("min", 3, 3, 1.0, 0.0),
    ],
)
def test_padding_among_iterations_counts_as_zero(
    monoid: str, first: int, last: int, offset: float, expected: object
) -> None:
    for scalars in (Machine(), Exact()):
        found = denote(reduction(monoid, first, last, offset), {}, {}, scalars).at(())
        assert found is PAD if expected is PAD else found == expected


@pytest.mark.parametrize("monoid", ["sum", "product", "max", "min"])
def test_fold_over_empty_range_is_padding(monoid: Monoid) -> None:
    program = atl.program("p", [], atl.gen(2, lambda i: atl.reduce(monoid, i, lambda j: 1.0)))
    assert denote(program, {}, {}, Exact()).padding().tolist() == [True, False]


EMPTY: dict[str, tuple[Any, tuple[int, ...]]] = {
    "no rows": (atl.gen(z, m, lambda i, j: 1.0), (0, 3)),
    "no columns": (atl.gen(n, z, m, lambda i, j, q: 1.0), (5, 0, 3)),
    "an empty sum of matrices": (atl.sum(z, lambda q: A), (5, 3)),
    "a split of nothing": (atl.split(4, atl.gen(z, lambda i: 1.0)), (0, 4)),
    "a flattened matrix without columns": (atl.flatten(atl.gen(n, z, lambda i, j: 1.0)), (0,)),
    "a transposed matrix without columns": (atl.transpose(atl.gen(n, z, lambda i, j: 1.0)), (0, 5)),
    "a pad of nothing": (atl.padl(2, atl.gen(z, lambda i: 1.0)), (2,)),
    "nothing after something": (atl.concat(x, atl.gen(z, lambda i: 1.0)), (5,)),
}


@pytest.mark.parametrize("what", EMPTY)
def test_zero_extents_keep_the_full_shape(what: str) -> None:
    body, shape = EMPTY[what]
    result = meaning(body)
    assert result.shape == shape
    assert result.to_numpy("float64").shape == shape
    assert result.padding().shape == shape


def test_empty_sum_of_tensors_is_padding_of_the_body_shape() -> None:
    assert meaning(atl.sum(z, lambda q: A)).padding().all()


def test_false_guard_hides_nan_and_infinity() -> None:
    arrays = {**ARRAYS, "x": np.array([np.nan, np.inf, 1.0, -np.inf, np.nan])}
    np.testing.assert_array_equal(value(atl.gen(n, lambda i: atl.guard(i == 2, x[i])), arrays=arrays), [0, 0, 1, 0, 0])


def test_guards_and_selections_skip_excluded_elements() -> None:
    scalars = Machine()
    guarded = atl.gen(n, lambda i: atl.guard(i < 0, x[i] / 0.0))
    selected = atl.gen(n, lambda i: atl.select(i >= 0, x[i], x[i] / 0.0))
    meaning(guarded, scalars).padding()
    meaning(selected, scalars).to_numpy("float64")
    assert scalars.divisions_by_zero == 0
    assert meaning(atl.select(n > 0, 1.0, atl.sqrt(x[0])), Exact()).at(()) == 1
    assert meaning(atl.guard(n < 0, atl.exp(x[0])), Exact()).at(()) is PAD


@pytest.mark.parametrize(
    ("body", "divisions"),
    [
        (atl.let(atl.gen(n, lambda i: x[i] / atl.value(i)), lambda b: atl.gen((1, n), lambda i: b[i])), 0),
        (atl.let(atl.gen(n, lambda i: x[i] / 0.0), lambda b: atl.gen(n, n, lambda i, j: b[i] + b[j])), 5),
    ],
)
def test_let_computes_each_element_that_is_read_once(body: atl.Tensor, divisions: int) -> None:
    scalars = Machine()
    meaning(body, scalars).to_numpy("float64")
    assert scalars.divisions_by_zero == divisions


def test_nested_matrix_products_take_polynomial_time() -> None:
    scalars = Machine()
    power = atl.gen(n, n, lambda i, j: A[i, 0] / 0.0)
    for _ in range(6):
        power = atl.gen(n, n, lambda i, j, e=power: atl.sum(n, lambda q: e[i, q] * e[q, j]))
    meaning(power, scalars).to_numpy("float64")
    assert scalars.divisions_by_zero == 25


class Counting(Machine):
    """Machine numbers with a count of binary operations."""

    def __init__(self) -> None:
        super().__init__()
        self.operations = 0

    def binary(self, op: BinaryOp, dtype: str, x: Any, y: Any) -> Any:
        self.operations += 1
        return super().binary(op, dtype, x, y)


@pytest.mark.long
def test_blur_computes_each_element_once() -> None:
    picture = atl.tensor("picture", n, m)

    def blurred(e: atl.Tensor) -> atl.Tensor:
        return atl.gen(n, m, lambda i, j: atl.sum(3, 3, lambda p, q: e[i + p - 1, j + q - 1]) / 9.0)

    body = atl.let(blurred(picture), blurred)
    program = Program("blur", (picture.node.array,), strengthen(body.node, "float32"))  # type: ignore[union-attr]
    given = generator.random((64, 64), dtype=np.float32)
    machine = Counting()
    result = denote(program, {"n": 64, "m": 64}, {"picture": given}, machine).to_numpy("float32")
    assert machine.operations == 2 * 64 * 64 * (9 + 3 + 1)  # two sums and one division per element
    expected = given.astype(np.float64)
    for _ in range(2):
        around = np.pad(expected, 1)
        expected = np.mean([around[p : p + 64, q : q + 64] for p in range(3) for q in range(3)], axis=0)
    np.testing.assert_allclose(result, expected, rtol=1e-5)


def test_exact_numbers_are_exact() -> None:
    mean = atl.program("mean", [x], atl.sum(n, lambda i: x[i]) / atl.value(n))
    result = atl.evaluate(mean, x=[1, Fraction(1, 3), 0.5], exact=True)
    assert result.dtype == object
    assert result[()] == Fraction(11, 18)
    assert atl.evaluate(mean, x=np.array([0.1], dtype=np.float64), exact=True)[()] == Fraction(0.1)
    assert atl.evaluate(mean, x=np.array([0.1], dtype=np.float32), exact=True)[()] == Fraction(float(np.float32(0.1)))


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_nan_and_infinity_are_not_exact(number: float) -> None:
    program = atl.program("first", [x], x[0])
    with pytest.raises(NotExact, match=f"{number} is not a rational number"):
        atl.evaluate(program, x=np.array([number]), exact=True)


DOMAINS: tuple[Callable[[], Scalars[Any]], ...] = (Machine, Exact)


@pytest.mark.parametrize("domain", DOMAINS)
def test_int32_sum_wraps(domain: Callable[[], Scalars[Any]]) -> None:
    assert meaning(u[2] + u[2] + u[0], domain()).at(()) == 5
    assert meaning(atl.sum(n, lambda i: u[i] + u[i]), domain()).at(()) == 6


@pytest.mark.parametrize("domain", DOMAINS)
def test_division_by_zero_is_zero_and_counted(domain: Callable[[], Scalars[Any]]) -> None:
    scalars = domain()
    result = meaning(atl.gen(n, lambda i: 6.0 / atl.value(i)), scalars)
    np.testing.assert_array_equal(result.to_numpy("float64"), [0, 6, 3, 2, 1.5])
    assert scalars.divisions_by_zero == 1
    assert meaning(atl.gen(n, lambda i: atl.value(0) / (x[i] - x[i])), scalars).to_numpy("float64").sum() == 0
    assert scalars.divisions_by_zero == 6


class Operations(Exact):
    """Scalar domain in which an element is the number of operations that compute it."""

    def constant(self, value: float, dtype: str) -> Fraction:  # noqa: ARG002
        return Fraction(0)

    def element(self, raw: Any, dtype: str) -> Fraction:  # noqa: ARG002
        return Fraction(0)

    def binary(self, op: Any, dtype: str, x: Fraction, y: Fraction) -> Fraction:  # noqa: ARG002
        return x + y + 1


def test_meaning_is_parametric_in_the_scalars() -> None:
    assert meaning(atl.sum(n, lambda i: x[i] * y[i] + 1.0), Operations()).at(()) == 15


def test_evaluate_takes_arrays_by_position_or_name() -> None:
    first = atl.tensor("first", n, m)
    program = atl.program("scaled", [first, atl.tensor("second", m)], atl.gen(n, lambda i: first[i, 0] * atl.value(k)))
    given = np.arange(6, dtype=np.float32).reshape(2, 3)
    for result in (
        atl.evaluate(program, given, np.zeros(3, np.float32), k=2),
        atl.evaluate(program, given, second=np.zeros(3, np.float32), k=2),
        atl.evaluate(program, second=np.zeros(3, np.float32), k=np.int32(2), first=given),
    ):
        assert result.dtype == np.float32
        np.testing.assert_array_equal(result, [0, 6])


def test_evaluate_reads_arrays_in_any_memory_layout() -> None:
    program = atl.program("copy", [A], atl.gen(n, m, lambda i, j: A[i, j]))
    given = generator.normal(size=(8, 9))
    for view in (given.T, given[::-2, 1::3], np.broadcast_to(given[0], (4, 9))):
        np.testing.assert_array_equal(atl.evaluate(program, view), view)


def test_exact_must_be_a_bool() -> None:
    with pytest.raises(ArgumentError, match="exact=3") as caught:
        atl.evaluate(atl.program("copy", [x], atl.gen(n, lambda i: x[i])), [1.0], exact=3)  # type: ignore[arg-type]
    assert "by position" in str(caught.value)


def test_non_positive_divisor_is_refused_unless_guarded() -> None:
    quotient = index(Quotient(constant(3), size("z")))
    broken, shaped = Value(quotient, "float64"), Padding(Type("float64", (quotient,)))
    with pytest.raises(ExtentError, match="divided by a number that is not positive") as caught:
        denote(Program("p", (), broken), {"z": 0}, {}, Machine()).at(())
    assert caught.value.numbers == {"divisor": 0}
    with pytest.raises(ExtentError):
        denote(Program("p", (), shaped), {"z": 0}, {}, Machine())
    hidden = Guard(predicate.less(constant(0), size("z")), broken)
    assert denote(Program("p", (), hidden), {"z": 0}, {}, Machine()).at(()) is PAD


def test_open_terms_have_no_meaning() -> None:
    for term, name in ((TensorVar(1, "b", Type("float64", ())), "b"), (Value(index(Var(1, "i")), "float64"), "i")):
        with pytest.raises(EscapedIndex, match=f"{name} has no value here"):
            denote(Program("p", (), term), {}, {}, Machine()).at(())


def test_long_chain_of_lets_is_evaluated() -> None:
    def chained(count: int, e: atl.Tensor) -> atl.Tensor:
        if not count:
            return e
        return atl.let(atl.gen(n, lambda i: e[i] + 1.0), lambda b: chained(count - 1, b))

    np.testing.assert_allclose(value(chained(150, x)), a("x") + 150)


def test_too_deep_program_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    deep = x[0]
    for _ in range(120):
        deep = deep + 1.0
    result = meaning(deep)
    limit = sys.getrecursionlimit()
    depth = 0
    frame = sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(depth + 100)
    try:
        with pytest.raises(TooLarge, match="too deeply"):
            result.at(())
    finally:
        sys.setrecursionlimit(limit)
    assert result.at(()) == a("x")[0] + 120
