"""Faults planted in tangents and gradients are found.

A fault in a tangent changes a derivative of one of a few small programs. A gradient program that does not compute the
gradient of its theorem is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core import operations, terms
from atl.core.operations import UnaryOp
from atl.surface.numpy_forms import over
from atl.surface.results import Results, results
from gradients import reverse_mode, tangents
from proofs_tests.gradients.duals import duals, values
from rewrites.errors import NotATheorem
from rewrites.kernel import reflexivity
from rewrites.named_operators import pairing

N: Final = atl.sizes("n")
X: Final = atl.tensor("x", N, dtype="float64")
AT: Final = np.array([0.5, 1.25, 0.75])
ALONG: Final = np.array([1.5, -2.0, 0.25])
SMOOTH: Final[tuple[UnaryOp, ...]] = ("sqrt", "exp", "log", "tanh", "erf", "sin", "cos", "log1p", "expm1")


def body(x: atl.Tensor) -> atl.Tensor:
    """Return a tensor whose derivative depends on each case of the tangent."""
    smooth: list[Callable[[atl.Tensor], atl.Tensor]] = [getattr(atl, op) for op in SMOOTH]
    total = x
    for function in smooth:
        total = total + function(x)
    quotient = atl.gen(N, lambda i: (x[i] - 2) / (x[i] * x[i] + 1) - atl.abs(-x[i]))
    extrema = atl.minimum(x, 0.6) * atl.maximum(x * x, 0.9)
    folds = atl.reduce("max", N, lambda i: x[i]) - atl.reduce("product", N, lambda i: x[i])
    chosen = atl.where(x > 0.6, x * 3, 1 - x)
    bound = atl.let(atl.gen(N, lambda i: x[i] * x[i]), lambda y: atl.gen(N, lambda i: y[i] * folds))
    return total + quotient + extrema + chosen + bound + structure(x) + recurrences(x)


def structure(x: atl.Tensor) -> atl.Tensor:
    """Return a tensor with the constructors that are linear in their parts."""
    column = atl.gen(N, 1, lambda i, j: x[i] * x[i])
    parts = atl.concat(x, x * x)
    return atl.gen(
        N,
        lambda i: (
            atl.transpose(column)[0, i]
            + parts[N + i]
            + atl.select(i >= 1, x[i] * 3, x[i])
            + atl.guard(i >= 1, x[i] * x[i - 1])
        ),
    )


def recurrences(x: atl.Tensor) -> atl.Tensor:
    """Return recurrences without first rows and with them."""
    alone = atl.rec(N, lambda p, rows: atl.select(p >= 1, rows[p - 1], 1) * x[p] + x[p])
    later = atl.rec(x, N + N, lambda p, rows: rows[p - N] * x[p - N])
    return alone + atl.gen(N, lambda i: later[N + i])


PROGRAM: Final = atl.program("all", [X], body(X))


def differs() -> bool:
    """Return whether the tangent differs from dual numbers."""
    _, expected, _ = values(PROGRAM, {"n": 3}, {"x": duals(AT, ALONG)})
    found, _, _ = values(atl.tangent(PROGRAM, "x"), {"n": 3}, {"x": AT, "dx": ALONG})
    return not np.allclose(found, expected, rtol=1e-9)


def test_tangent_without_faults_agrees() -> None:
    assert not differs()


@pytest.mark.parametrize("op", SMOOTH)
@pytest.mark.parametrize("fault", ["identity", "negated", "doubled"])
def test_wrong_derivative_of_a_function_is_found(op: UnaryOp, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    row = operations.OPERATIONS[op]
    wrong: dict[str, Callable[..., Any]] = {
        "identity": lambda d, x, y, of: d,
        "negated": lambda *given: -row.tangent(*given),  # type: ignore[misc]
        "doubled": lambda *given: row.tangent(*given) * 2,  # type: ignore[misc]
    }
    monkeypatch.setitem(operations.OPERATIONS, op, replace(row, tangent=wrong[fault]))
    assert differs()


BINARY: Final = tangents._Tangent._of_binary
FOLD: Final = tangents._Tangent._fold
OF: Final = tangents._Tangent._of


def without(constructor: type[terms.Term], **fields: str) -> Callable[..., Any]:
    """Return the tangent with zero for terms of one constructor."""

    def of(self: Any, e: Any, value: Any) -> Any:
        left_out = isinstance(e, constructor) and all(getattr(e, name) == each for name, each in fields.items())
        return None if left_out else OF(self, e, value)

    return of


def first_operand_only(op: str, position: int) -> Callable[..., Any]:
    """Return the tangent in which one operand of an operation counts as constant."""

    def of(self: Any, e: Any, value: Any) -> Any:
        if not (isinstance(e, terms.Binary) and e.op == op):
            return OF(self, e, value)
        operand = (e.left, e.right)[position]
        kept = self._known.get(id(operand))
        self._known[id(operand)] = (operand, None)
        try:
            return OF(self, e, value)
        finally:
            self._known.pop(id(operand))
            if kept is not None:
                self._known[id(operand)] = kept

    return of


def constant_first_rows(self: Any, e: Any, value: Any) -> Any:
    """Return the tangent in which the first rows of recurrences count as constant."""
    made = OF(self, e, value)
    if not (isinstance(made, terms.Let) and isinstance(e, terms.Rec)):
        return made
    assert isinstance(made.body, terms.Rec)
    return replace(made, body=replace(made.body, init=terms.Padding(made.body.init.type)))


FAULTS: Final[dict[str, Callable[..., Any]]] = {
    **{f"no {op}": without(terms.Binary, op=op) for op in ("add", "sub", "mul", "div", "min", "max")},
    **{f"no {op}": without(terms.Unary, op=op) for op in ("neg", "abs")},
    **{f"no {monoid} over a range": without(terms.Reduce, monoid=monoid) for monoid in ("max", "product")},
    "no where": without(terms.Where),
    "no let": without(terms.Let),
    "no access": without(terms.Access),
    "no generation": without(terms.Gen),
    "no selection": without(terms.Select),
    "no guard": without(terms.Guard),
    "no concatenation": without(terms.Concat),
    "no reshape operator": without(terms.Reshape),
    "no recurrence": without(terms.Rec),
    "earlier rows are constant": without(terms.TensorVar, name="rows"),
    "first rows are constant": constant_first_rows,
    **{
        f"operand {position} of {op} is constant": first_operand_only(op, position)
        for op in ("add", "sub", "mul", "div")
        for position in (0, 1)
    },
}


@pytest.mark.parametrize("fault", FAULTS)
def test_missing_case_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangents._Tangent, "_of", FAULTS[fault])
    assert differs()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("_sum", lambda a, b: a if b is None or a is not None else b),
        ("_times", lambda d, factor: d),
        ("_filled", lambda value, like, dtype: over(like.type.shape, lambda _: terms.Constant(2 * value, dtype))),
    ],
)
def test_wrong_helper_is_found(name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangents, name, wrong)
    assert differs()


# -- programs of gradients --------------------------------------------------------------------------------------------

Y: Final = atl.tensor("y", N, dtype="float64")
PRODUCT: Final = atl.program("product", [X, Y], atl.gen(N, lambda i: X[i] * Y[i]))


def test_swapped_results_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def swapped(**named: atl.Tensor) -> Results:
        return results(**dict(zip(named, reversed(named.values()), strict=True)))

    monkeypatch.setattr(reverse_mode, "results", swapped)
    with pytest.raises(NotATheorem, match="product_gradient is not the gradient of its theorem"):
        atl.gradient(PRODUCT, ["x", "y"])


def test_second_pairing_with_a_direction_is_found() -> None:
    dx, dout = atl.tensor("dx", N, dtype="float64"), atl.tensor("dout", N, dtype="float64")
    twice = reflexivity(atl.program("twice", [X, dx, dout], pairing(dout, dx) + pairing(dout, dx)))
    with pytest.raises(NotATheorem, match="two pairings with the direction dx"):
        reverse_mode.Gradient(atl.program("once", [X, dout], dout), twice, ("x",), atl.program("itself", [X], X))


@pytest.mark.parametrize("wrt", [["x"], ["x", "y"]])
def test_other_program_is_found(wrt: list[str]) -> None:
    made = atl.gradient(PRODUCT, wrt)
    other = atl.program("other", [X, Y], atl.gen(N, lambda i: X[i] * Y[i] * Y[i]))
    with pytest.raises(NotATheorem, match="is not the gradient of its theorem"):
        replace(made, program=atl.gradient(other, wrt).program)
    with pytest.raises(NotATheorem, match="is not the gradient of its theorem"):
        replace(made, program=PRODUCT)


def test_theorem_about_another_input_is_found() -> None:
    """The pairings with dx and dy have equal shapes, so only the tangent says which input the gradient is of."""
    made = atl.gradient(PRODUCT, "x")
    with pytest.raises(NotATheorem, match="the theorem of product_gradient is not about the program and y"):
        replace(made, wrt=("y",))
    other = atl.program("product", [X, Y], atl.gen(N, lambda i: X[i] * Y[i] * Y[i]))
    with pytest.raises(NotATheorem, match="is not about the program and x"):
        replace(made, of=other)
    both = atl.gradient(PRODUCT, ["x", "y"])
    with pytest.raises(NotATheorem, match=r"is not (the gradient of its theorem|about the program)"):
        replace(both, wrt=("y", "x"))
