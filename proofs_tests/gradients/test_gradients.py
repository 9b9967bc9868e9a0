"""Gradients: their values, theorems, certificates, costs, ties and refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import atl
from atl.core import terms
from atl.core.operations import BinaryOp
from atl.core.program import Program
from lowering.timing.operations import operations
from proofs_tests.gradients import fuzz
from proofs_tests.gradients.duals import values
from proofs_tests.gradients.fuzz import differences, run
from rewrites.derivation import Derivation
from rewrites.errors import NotATheorem, NotEqual
from rewrites.named_operators import binary

N, M, K = atl.sizes("n m k")
F: Any = {"dtype": "float64"}
A, B, C = atl.tensor("A", N, K, **F), atl.tensor("B", K, M, **F), atl.tensor("C", M, N, **F)
X, W, V = atl.tensor("x", N, **F), atl.tensor("w", K, **F), atl.tensor("v", N, **F)
SIZES = {"n": 5, "m": 4, "k": 3}


def softmax() -> atl.Tensor:
    def exponentials(top: atl.Tensor) -> atl.Tensor:
        return atl.gen(N, lambda i: atl.exp(X[i] - top))

    return atl.let(
        atl.reduce("max", N, lambda i: X[i]),
        lambda top: atl.let(exponentials(top), lambda e: atl.let(atl.sum(N, lambda i: e[i]), lambda s: e / s)),
    )


def layer_norm() -> atl.Tensor:
    def scaled(c: atl.Tensor) -> atl.Tensor:
        variance = atl.sum(N, lambda i: c[i] * c[i]) / atl.value(N)
        return atl.let(1 / atl.sqrt(variance + 1e-5), lambda r: atl.gen(N, lambda i: c[i] * r))

    mean = atl.sum(N, lambda i: X[i]) / atl.value(N)
    return atl.let(mean, lambda m: atl.let(atl.gen(N, lambda i: X[i] - m), scaled))


def network() -> atl.Tensor:
    hidden = atl.gen(N, lambda i: atl.tanh(atl.sum(K, lambda j: A[i, j] * W[j]) + V[i]))
    return atl.let(hidden, lambda h: atl.gen(M, lambda q: atl.sum(N, lambda i: C[q, i] * h[i])))


def program(name: str, inputs: list[atl.Tensor], body: atl.Tensor) -> Program:
    return atl.program(name, inputs, body)


def refuse(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Make a rule apply nowhere."""
    attempted: Any = Derivation.attempted
    monkeypatch.setattr(
        Derivation,
        "attempted",
        lambda work, rule, *given, **options: rule.name != name and attempted(work, rule, *given, **options),
    )


def mean_square() -> atl.Tensor:
    return ((X - V) ** 2).mean()


PRODUCT = program("product", [A, B], A @ B)
NAMED = {
    "product": (PRODUCT, ("A", "B"), 2.05),
    "softmax": (program("softmax", [X], softmax()), ("x",), 4.0),
    "layer_norm": (program("layer_norm", [X], layer_norm()), ("x",), 4.0),
    "whole_tensors": (program("mean_square", [X, V], mean_square()), ("x", "v"), 4.0),
    "network": (program("network", [A, W, V, C], network()), ("A", "w", "v", "C"), 4.0),
}


def arrays_of(p: Program, seed: int = 0) -> dict[str, Any]:
    numbers = np.random.default_rng(seed)
    shapes = {array.name: tuple(SIZES[str(extent)] for extent in array.shape) for array in p.inputs}
    return {name: numbers.normal(size=shape) for name, shape in shapes.items()}


@pytest.mark.parametrize("name", NAMED)
def test_gradient_agrees_with_dual_numbers(name: str) -> None:
    p, _, _ = NAMED[name]
    found, _, _, moves = differences(p, SIZES, arrays_of(p), np.random.default_rng(1))
    assert not found
    assert moves


@pytest.mark.parametrize("name", NAMED)
def test_cost_is_bounded(name: str) -> None:
    p, wrt, most = NAMED[name]
    sizes = {"n": 16, "m": 16, "k": 16}
    assert operations(atl.gradient(p, wrt).program, sizes, {}) <= most * operations(p, sizes, {})


def test_cost_does_not_grow_with_depth() -> None:
    e = X
    for _ in range(4):
        e = atl.tanh(atl.sin(e))
    nested = program("nested", [X], e)
    assert operations(atl.gradient(nested, "x").program, {"n": 16}, {}) <= 4.2 * operations(nested, {"n": 16}, {})


def test_lets_move_out_of_reshape_operators() -> None:
    flat = program("flat", [A], atl.tanh(atl.flatten(atl.sin(atl.exp(A)))))
    sizes = {"n": 16, "k": 16}
    assert operations(atl.gradient(flat, "A").program, sizes, {}) <= 4.2 * operations(flat, sizes, {})


def test_rows_as_long_as_the_tensor_cost_no_more() -> None:
    x = atl.tensor("x", N1, M, **F)
    rows = program("rows", [x], atl.split(N1, atl.cos(x)))
    sizes = {"n": 16, "m": 16}
    assert operations(atl.gradient(rows, "x").program, sizes, {}) <= 3 * operations(rows, sizes, {})


@pytest.mark.long
@pytest.mark.parametrize("name", NAMED)
def test_certificate_replays(name: str, tmp_path: Path) -> None:
    p, wrt, _ = NAMED[name]
    theorem = atl.gradient(p, wrt).theorem
    theorem.save(tmp_path / "gradient.atl.json")
    loaded = atl.load(tmp_path / "gradient.atl.json")
    assert isinstance(loaded, atl.Theorem)
    assert (loaded.lhs.body, loaded.rhs.body) == (theorem.lhs.body, theorem.rhs.body)


def test_theorem_starts_from_the_tangent() -> None:
    along = atl.tangent(PRODUCT, ["A", "B"])
    lhs = atl.gradient(PRODUCT, ["A", "B"]).theorem.lhs
    arrays = arrays_of(lhs)
    of_tangent, _, _ = values(along, SIZES, {name: arrays[name] for name in ("A", "B", "dA", "dB")})
    paired, _, _ = values(lhs, SIZES, arrays)
    assert np.allclose(paired, (arrays["dout"] * of_tangent).sum())


@pytest.mark.long
def test_kernel_of_a_gradient_is_the_transposed_product() -> None:
    arrays = arrays_of(atl.gradient(PRODUCT, ["A", "B"]).program)
    found: Any = atl.compile(atl.gradient(PRODUCT, ["A", "B"]).program)(arrays["A"], arrays["B"], arrays["dout"])
    assert np.allclose(found.dA, arrays["dout"] @ arrays["B"].T)
    assert np.allclose(found.dB, arrays["A"].T @ arrays["dout"])


@pytest.mark.long
def test_second_gradient_agrees_with_dual_numbers() -> None:
    cubic = program("cubic", [X], atl.sum(N, lambda i: X[i] * X[i] * X[i]))
    _, made, inputs, _ = differences(cubic, SIZES, arrays_of(cubic), np.random.default_rng(1))
    found, _, _, moves = differences(made.program, SIZES, inputs, np.random.default_rng(2))
    assert not found
    assert moves


@pytest.mark.long
def test_lets_that_cannot_leave_a_guard_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    element = X[4] * V[4]
    guarded = program("guarded", [X, V], atl.guard(N >= 5, element / (atl.exp(X[3]) * V[2]) * atl.tanh(element)))
    refuse(monkeypatch, "ll_guard")
    found, _, _, moves = differences(guarded, SIZES, arrays_of(guarded), np.random.default_rng(1))
    assert not found
    assert moves


NESTED = program("nested", [X], atl.exp(atl.tanh(X) * atl.exp(X)) * atl.exp(X * X))


@pytest.mark.parametrize(
    ("rule", "p"),
    [("let_let", NAMED["layer_norm"][0]), ("ll_mul_left", NESTED), ("ll_mul_right", NESTED)],
    ids=["let_let", "ll_mul_left", "ll_mul_right"],
)
def test_operands_without_names_are_computed_again(rule: str, p: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, rule)
    found, _, _, moves = differences(p, SIZES, arrays_of(p), np.random.default_rng(1))
    assert not found
    assert moves


def test_operands_are_computed_again_if_a_step_is_not_reversible(monkeypatch: pytest.MonkeyPatch) -> None:
    def follow(work: Derivation, theorem: Any) -> None:
        raise NotEqual("the subterm is not the right side")

    monkeypatch.setattr(Derivation, "follow", follow)
    found, _, _, moves = differences(NESTED, SIZES, arrays_of(NESTED), np.random.default_rng(1))
    assert not found
    assert moves


# -- recurrences ------------------------------------------------------------------------------------------------------


def previous(rows: atl.Tensor, p: atl.IndexExpr) -> atl.Tensor:
    return atl.select(p >= 1, rows[p - 1], 0)


def recurrent_network() -> atl.Tensor:
    def step(s: atl.IndexExpr, h: atl.Tensor) -> atl.Tensor:
        return atl.gen(N, lambda j: atl.tanh(atl.sum(N, lambda i: C[s, i] * h[i]) + V[j]))

    return atl.iterate(M, X, step)


N1, N2 = atl.sizes("n", min=1), atl.sizes("n", min=2)
RECURRENCES = {
    "sums": (program("sums", [X], atl.rec(N, lambda p, y: previous(y, p) + X[p])), 2.0),
    "padded": (program("padded", [X], atl.padl(2, atl.rec(N, lambda p, y: previous(y, p) + X[p]))), 2.5),
    "linear": (program("linear", [X, V], atl.rec(N, lambda p, y: previous(y, p) * V[p] + X[p])), 4.0),
    "nonlinear": (program("nonlinear", [X, V], atl.rec(N, lambda p, y: atl.tanh(previous(y, p) * V[p]) + X[p])), 7.0),
    "all_rows": (program("all_rows", [X, V], atl.rec(N, lambda p, y: atl.sum(p, lambda q: y[q] * V[q]) + X[p])), 4.0),
    "network": (program("network", [C, X, V], recurrent_network()), 6.0),
    "steps": (program("steps", [X], atl.gen(N, lambda i: atl.iterate(3, X[i], lambda s, u: (u + X[i] / u) / 2))), 5.0),
}


@pytest.mark.long
@pytest.mark.parametrize("name", RECURRENCES)
def test_gradient_of_a_recurrence_agrees_with_dual_numbers(name: str) -> None:
    p, most = RECURRENCES[name]
    found, made, _, moves = differences(p, SIZES, arrays_of(p), np.random.default_rng(1))
    assert not found
    assert moves
    sizes = {"n": 24, "m": 24}
    assert operations(made.program, sizes, {}) <= most * operations(p, sizes, {})


@pytest.mark.long
def test_contributions_to_earlier_rows_share_a_let() -> None:
    def step(s: atl.IndexExpr, u: atl.Tensor) -> atl.Tensor:
        return atl.let(atl.tanh(u), lambda t: atl.gen(N, lambda i: atl.select(i >= 2, t[i] * u[0], t[i])))

    p = program("p", [X], atl.iterate(M, X, step))
    found, made, _, moves = differences(p, SIZES, arrays_of(p), np.random.default_rng(1))
    assert not found
    assert moves
    assert str(made.program).count("tanh") == 2, "one in the rows, and one in their cotangents"


@pytest.mark.long
def test_first_rows_of_a_recurrence_have_a_gradient() -> None:
    x, v = atl.tensor("x", 2, **F), atl.tensor("v", N2, **F)
    p = program("two_rows", [x, v], atl.rec(x, N2, lambda p, y: v[p] * y[p - 1] - y[p - 2] * y[p - 2]))
    numbers = np.random.default_rng(3)
    arrays = {"x": numbers.normal(size=2), "v": numbers.normal(size=5)}
    found, made, _, moves = differences(p, {"n": 5}, arrays, numbers)
    assert not found
    assert moves
    assert operations(made.program, {"n": 64}, {}) <= 8 * operations(p, {"n": 64}, {})


@pytest.mark.parametrize("row", ["stop(x[p])", "select(1 <= p, 2 * y[p - 1], 1) + stop(x[p])"])
def test_recurrence_that_no_direction_reaches_has_gradient_zero(row: str) -> None:
    constant = f"rec[p < n] y from padding(float64[0]) in {row}"
    alone = atl.parse(f"alone (x : float64[n]) : float64[n] := sin({constant})")
    assert isinstance(atl.tangent(alone, "x").body, terms.Padding)
    assert isinstance(atl.gradient(alone, "x").program.body, terms.Padding)
    scaled = atl.parse(f"scaled (x : float64[n]) : float64[n] := x * sin({constant})")
    at, along = np.array([0.5, 1.25]), np.array([2.0, -1.0])
    sine: Any = atl.evaluate(alone, at)
    assert np.allclose(np.asarray(atl.evaluate(atl.gradient(scaled, "x").program, at, along)), sine * along)


@pytest.mark.long
def test_gradient_of_sums_is_a_sum_in_reverse() -> None:
    p, _ = RECURRENCES["sums"]
    found = atl.evaluate(atl.gradient(p, "x").program, np.ones(4), np.array([1.0, 2.0, 3.0, 4.0]))
    assert np.array_equal(found, [10.0, 9.0, 7.0, 4.0])


@pytest.mark.long
def test_second_gradient_of_a_recurrence_agrees_with_dual_numbers() -> None:
    p, _ = RECURRENCES["linear"]
    _, made, inputs, _ = differences(p, SIZES, arrays_of(p), np.random.default_rng(1))
    found, _, _, moves = differences(made.program.whole, SIZES, inputs, np.random.default_rng(2))
    assert not found
    assert moves


# -- ties -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "at", "expected"),
    [
        (atl.abs, [0.0, -2.0], [0.0, -1.0]),
        (lambda x: atl.maximum(x, 1), [1.0, 3.0], [0.5, 1.0]),
        (lambda x: atl.minimum(x, 1), [1.0, 3.0], [0.5, 0.0]),
        (lambda x: atl.reduce("max", 2, lambda i: x[i]) * atl.gen(2, lambda i: 0.5), [4.0, 4.0], [0.5, 0.5]),
        (lambda x: atl.reduce("product", 2, lambda i: x[i]) * atl.gen(2, lambda i: 0.5), [0.0, 4.0], [4.0, 0.0]),
        (lambda x: atl.where(x > 0, x * x, -x), [0.0, 2.0], [-1.0, 4.0]),
        (lambda x: x * atl.stop(x), [3.0, 2.0], [3.0, 2.0]),
        (lambda x: atl.floor(x) + atl.round(x), [0.5, 2.0], [0.0, 0.0]),
    ],
    ids=["abs", "maximum", "minimum", "max", "product", "where", "stop", "floor"],
)  # fmt: skip
def test_ties_are_those_of_pytorch(
    body: Callable[[atl.Tensor], atl.Tensor], at: list[float], expected: list[float]
) -> None:
    x = atl.tensor("x", 2, **F)
    g = atl.gradient(program("tie", [x], body(x)), ["x"])
    for found in (atl.evaluate(g.program, np.array(at), np.ones(2)), atl.compile(g.program)(np.array(at), np.ones(2))):
        assert np.array_equal(np.asarray(found), expected)


def test_square_root_at_zero_is_infinite_as_in_pytorch() -> None:
    x = atl.tensor("x", 1, **F)
    g = atl.gradient(program("root", [x], atl.sqrt(x)), ["x"])
    assert np.isposinf(np.asarray(atl.compile(g.program)(np.zeros(1), np.ones(1)))).all()


def test_equal_terms_of_a_maximum_share_equally() -> None:
    x = atl.tensor("x", 4, **F)
    g = atl.gradient(program("top", [x], atl.reduce("max", 4, lambda i: x[i])), ["x"])
    found = atl.evaluate(g.program, np.array([2.0, 1.0, 2.0, 2.0]), 3.0)
    assert np.allclose(found, [1.0, 0.0, 1.0, 1.0])


# -- conversions ------------------------------------------------------------------------------------------------------

HALVES: Any = {"dtype": "float16"}
H, G = atl.tensor("h", N, K, **HALVES), atl.tensor("g", K, M, **HALVES)
WIDE_BODY = atl.cast("float32", H) @ atl.cast("float32", G)
WIDE = program("wide", [H, G], WIDE_BODY)
SINGLE = atl.tensor("s", N)
CONVERSIONS = {
    "product": (WIDE, "float16"),
    "stored": (program("stored", [H, G], atl.cast("float16", WIDE_BODY)), "float16"),
    "widened": (
        program("widened", [SINGLE], atl.sin(atl.cast("float64", SINGLE)) * atl.cast("float64", SINGLE * SINGLE)),
        "float32",
    ),
    "narrowed": (program("narrowed", [X], atl.exp(atl.cast("float32", X * X))), "float64"),
    "largest": (program("largest", [H], atl.reduce("max", N, lambda i: atl.cast("float32", H[i]))), "float16"),
}


@pytest.mark.parametrize("name", CONVERSIONS)
def test_gradients_have_the_types_of_their_inputs(name: str) -> None:
    p, dtype = CONVERSIONS[name]
    arrays = {each: made.astype(dtype) for each, made in arrays_of(p).items()}
    found, made, _, moves = differences(p, SIZES, arrays, np.random.default_rng(1))
    assert not found
    assert moves
    assert made.program.dtype == dtype


def test_gradient_of_a_product_of_halves_is_rounded_once() -> None:
    numbers = np.random.default_rng(2)
    h, g = numbers.normal(size=(3, 5)).astype("float16"), numbers.normal(size=(5, 4)).astype("float16")
    y = numbers.normal(size=(3, 4)).astype("float32")
    found: Any = atl.compile(atl.gradient(WIDE, ["h", "g"]).program)(h, g, y)
    assert found.dh.dtype == found.dg.dtype == np.float16
    exact = y.astype("float64") @ g.T.astype("float64"), h.T.astype("float64") @ y.astype("float64")
    for ours, wanted in zip((found.dh, found.dg), exact, strict=True):
        assert np.abs(ours.astype("float64") - wanted).max() <= 2.0**-11 * np.abs(wanted).max() * 1.01


def test_derivatives_are_computed_in_the_widest_type() -> None:
    assert atl.tangent(CONVERSIONS["widened"][0], "s").dtype == "float64"
    assert atl.tangent(CONVERSIONS["narrowed"][0], "x").inputs[-1].dtype == "float64"
    assert atl.tangent(WIDE, "h").inputs[-1].dtype == "float32"


def test_result_without_its_cast_is_found() -> None:
    made = atl.gradient(WIDE, "h")
    with pytest.raises(NotATheorem, match="is not the gradient of its theorem"):
        replace(made, program=replace(made.program, body=terms.Cast("float16", made.program.body)))


# -- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrt", "error", "message"),
    [
        (["X"], atl.InvalidArgument, "scaled has no input 'X'"),
        ([], atl.InvalidArgument, "a derivative with respect to"),
        (["x", "x"], atl.InvalidArgument, "a derivative with respect to"),
        ([["x"]], atl.InvalidArgument, "a derivative with respect to"),
        ([1], atl.InvalidArgument, r"a derivative with respect to \[1\]"),
        (None, atl.InvalidArgument, "a derivative with respect to None"),
        ({"x"}, atl.InvalidArgument, "a derivative with respect to"),
        (["x", "z"], atl.DtypeError, "the input z has float32 elements, but x has float64"),
        (["p"], atl.DtypeError, "has int64 elements"),
    ],
)
def test_wrong_inputs_are_refused(wrt: Any, error: type[Exception], message: str) -> None:
    p, z = atl.tensor("p", N, dtype="int64"), atl.tensor("z", N, dtype="float32")
    scaled = program("scaled", [X, p, z], X * atl.cast("float64", p) * atl.cast("float64", z))
    for derivative in (atl.gradient, atl.tangent):
        with pytest.raises(error, match=message):
            derivative(scaled, wrt)


def test_one_name_is_a_list_of_one_name() -> None:
    square = program("square", [X], X * X)
    assert atl.tangent(square, "x") == atl.tangent(square, ["x"])
    assert atl.gradient(square, "x").program == atl.gradient(square, ["x"]).program


def test_rule_that_does_not_apply_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "adjoint_of_gen")
    with pytest.raises(atl.DoesNotApply, match="the premises of the rule for `gen` are not proved"):
        atl.gradient(program("doubled", [X], atl.gen(N, lambda i: 2 * X[i])), ["x"])


def test_reshape_operator_is_unfolded_where_its_rule_does_not_apply(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, "adjoint_of_transpose")
    p = program("transposed", [A], atl.transpose(A))
    found, _, _, moves = differences(p, SIZES, arrays_of(p), np.random.default_rng(1))
    assert not found
    assert moves


def test_extents_may_be_written_differently() -> None:
    """The type of `split` says ⌈3 / n⌉, and the pairing 2 // n + 1."""
    n, x = atl.sizes("n", min=1), atl.tensor("x", 3, **F)
    p = program("split", [x], atl.split(n, x))
    found, _, _, moves = differences(p, {"n": 2}, {"x": np.ones(3)}, np.random.default_rng(1))
    assert not found
    assert moves


# -- random programs --------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_random_programs_agree_with_dual_numbers() -> None:
    outcomes, _, wrong = run(12, 7, limit=0)
    assert not wrong
    assert outcomes["checked"] == 12
    assert outcomes["derivative not zero"] >= 4


def test_undocumented_refusals_are_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise atl.DoesNotApply("an inner step does not apply")

    monkeypatch.setattr(fuzz, "gradient", refuses)
    outcomes, _, wrong = run(1, 7, limit=0)
    assert outcomes["failed"] == len(wrong) > 0
    assert not outcomes["checked"]


@pytest.mark.parametrize(("op", "rule"), [("add", "adjoint_of_add"), ("sub", "adjoint_of_sub")])
def test_pairing_over_an_empty_range_says_nothing_about_other_shapes(op: BinaryOp, rule: str) -> None:
    """With n = 0 and m = 3 the sum is empty, but a sum over b is not."""
    n, m = atl.sizes("n m")
    y, a, b = (atl.tensor(name, size, dtype="float64") for name, size in (("y", m), ("a", n), ("b", m)))
    body = atl.sum(n, lambda i: y[i] * binary(op, a, b)[i])
    session = atl.reschedule(atl.program("f", [y, a, b], body, given=[n <= 0]))
    with pytest.raises(atl.DoesNotApply, match="a premise fails: m = n"):
        session.rw(rule)
