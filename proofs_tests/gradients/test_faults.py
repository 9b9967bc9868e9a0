"""Faults planted in tangents are found: each changes a derivative of one of a few small programs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core import operations, terms
from atl.core.operations import UnaryOp
from gradients import tangents
from proofs_tests.gradients.duals import duals, values

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
    return total + quotient + extrema + chosen + bound


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


FAULTS: Final[dict[str, Callable[..., Any]]] = {
    **{f"no {op}": without(terms.Binary, op=op) for op in ("add", "sub", "mul", "div", "min", "max")},
    **{f"no {op}": without(terms.Unary, op=op) for op in ("neg", "abs")},
    **{f"no {monoid} over a range": without(terms.Reduce, monoid=monoid) for monoid in ("max", "product")},
    "no where": without(terms.Where),
    "no let": without(terms.Let),
    "no access": without(terms.Access),
    "no generation": without(terms.Gen),
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
        ("_or_zero", lambda d, like: terms.Padding(like.type)),
    ],
)
def test_wrong_helper_is_found(name: str, wrong: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tangents, name, wrong)
    assert differs()
