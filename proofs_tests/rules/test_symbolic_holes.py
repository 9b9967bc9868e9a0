"""Equations that are false, and that proofs of earlier versions accepted: names of bound variables, types of tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import atl
from atl.core.program import Program
from rewrites.equations import equation_of
from rewrites.rule_checking.symbolic import proved

n, m, q = atl.sizes("n m q", min=1)
G, U, C = atl.tensor("G", m, n), atl.tensor("U", m), atl.tensor("C")
X, Y = atl.tensor("x"), atl.tensor("y")


def largest(extent: Any, body: Callable[[Any], Any]) -> atl.Tensor:
    return atl.reduce("max", extent, body)


def folds(position: Callable[[Any, Any], Any]) -> Program:
    """Return a sum in which a condition on its index, once it is decided, removes the innermost fold."""

    def inner(y: Any, i: Any) -> atl.Tensor:
        return largest(m, lambda j: atl.select(y % 2 == 0, G[j, position(i, j)], largest(m, lambda a: U[a])))

    body = largest(n, lambda i: atl.sum(q, lambda y: inner(y, i) * atl.guard(y % 2 == 0, 1)))
    return atl.program("p", [G, U], body)


def rows(row: atl.Tensor) -> Program:
    return atl.program("rows", [C, U], atl.rec(n, lambda p, y: row))


def by_test(element: atl.Tensor) -> Program:
    """Return a choice by a test of numbers in the type of a tensor."""
    zero = element - element
    body = atl.select(n == 2**30, atl.where(atl.value(n) + zero < atl.value(2 * n) + zero, X, Y), X)
    return atl.program("q", [X, Y, *(atl.tensor(f"of_{dtype}", dtype=dtype) for dtype in ("int32", "int64"))], body)


def by_order(largest_of: Callable[[atl.Tensor, atl.Tensor], atl.Tensor]) -> Program:
    """Return a choice by a test of sizes in int32, where they wrap, of a value made of these sizes in float64."""
    zero, none = of("int32") - of("int32"), 0 * X
    test = atl.value(n) + zero < atl.value(m) + zero
    return atl.program("o", [X, of("int32")], atl.where(test, largest_of(atl.value(n) + none, atl.value(m) + none), X))


def by_row(row: Callable[[str], atl.Tensor], *, both: bool) -> Program:
    """Return a choice by a test of a row in float64 of the largest of 0 and the row in int32, where sizes wrap."""
    low = atl.maximum(0, row("int32")) if both else row("int32")
    x = atl.tensor("x", dtype="int32")
    return atl.program("r", [x, of("int32"), of("float64")], atl.where(row("float64") > 0, low, x))


def row_of_size(dtype: str) -> atl.Tensor:
    return atl.rec(1, lambda p, y: atl.value(3 * n), dtype=dtype)[0]


def row_of_rows(dtype: str) -> atl.Tensor:
    step = atl.value(3 * n) + (of(dtype) - of(dtype))
    return atl.rec(n + 1, lambda p, y: atl.select(p > 0, y[p - 1] * 0 + step, step))[n]


def of(dtype: str) -> atl.Tensor:
    return atl.tensor(f"of_{dtype}", dtype=dtype)


FALSE: dict[str, Callable[[], tuple[Program, Program]]] = {
    "a fold inside of another vanishes": lambda: (
        folds(lambda i, j: atl.imax(0, i - j - 50)), folds(lambda i, j: 0),
    ),
    "bodies of different depth": lambda: (
        rows(C), rows(C + largest(m, lambda j: U[j]) - largest(m, lambda j: U[atl.imin(j, n + 50)])),
    ),
    "an order in int32 and a maximum in float64": lambda: (by_order(atl.maximum), by_order(lambda _, high: high)),
    "a row in float64 and a row in int32": lambda: (by_row(row_of_size, both=True), by_row(row_of_size, both=False)),
    "rows of rows in two types": lambda: (by_row(row_of_rows, both=True), by_row(row_of_rows, both=False)),
    "int32 and int64": lambda: (by_test(of("int32")), by_test(of("int64"))),
}  # fmt: skip


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if "vanishes" in name else ()) for name in FALSE]
)
def test_false_equation_is_not_proved(name: str) -> None:
    left, right = FALSE[name]()
    for _ in range(4):  # bound variables are numbered anew, in other sets
        assert proved(equation_of(left, right)) is not None
        assert proved(equation_of(right, left)) is not None


def test_test_of_numbers_in_one_type_is_proved() -> None:
    a = of("int32")
    assert proved(equation_of(by_test(a), by_test(a + a - a))) is None
