"""Refusals of programs: repeated and missing inputs, names of two things, and indices outside of their binders."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import atl
from atl.errors import ATLError, EscapedIndex, InvalidName

n, m = atl.sizes("n m")
a, b = atl.tensor("a", n), atl.tensor("b", n)
at = atl.tensor("at", n, dtype="int64", range=(0, n))
one = atl.tensor("one", 1, dtype="int64", range=(0, n))
leaked: list[atl.IndexExpr] = []


def keep(i: atl.IndexExpr) -> atl.Tensor:
    leaked.append(i)
    return a[i]


atl.gen(n, keep)

WRONG: dict[str, tuple[Callable[[], object], type[ATLError], str]] = {
    "two inputs": (lambda: atl.program("f", [a, b, atl.tensor("a", m)], b), InvalidName, "two inputs are called a"),
    "missing": (lambda: atl.program("f", [a], a + b), InvalidName, "uses the tensor b, which is not among its inputs"),
    "missing within": (
        lambda: atl.program("f", [a], atl.gen(n, lambda i: a[i] * atl.guard(i < 1, b[i]))),
        InvalidName,
        "uses the tensor b",
    ),
    "missing position": (
        lambda: atl.program("f", [a, b], a + atl.gen(n, lambda i: b[at[i]])),
        InvalidName,
        "uses the tensor at",
    ),
    "missing in a condition": (
        lambda: atl.program("f", [a], a, given=[n > 3, one[0] >= 1]),
        InvalidName,
        "uses the tensor one",
    ),
    "declared twice": (
        lambda: atl.program("f", [a], atl.gen(n, lambda i: atl.tensor("a", m)[i])),
        InvalidName,
        "a is declared twice with different types",
    ),
    "a size and an input": (
        lambda: atl.program("f", [atl.tensor("m"), a], atl.gen(m, lambda i: a[i])),
        InvalidName,
        "m names both a size and an input",
    ),
    "escaped index": (lambda: atl.program("f", [a], a[leaked[0]]), EscapedIndex, "is used outside the operator"),
    "index in a condition": (
        lambda: atl.program("f", [a], a, given=[n > 1, leaked[0] < n]),
        EscapedIndex,
        "an assumption of f contains an index",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_wrong_names_and_indices_are_refused(what: str) -> None:
    build, error, says = WRONG[what]
    with pytest.raises(error, match=says):
        build()


def test_minimum_of_each_size_is_assumed() -> None:
    k, wide = atl.sizes("k", min=2), atl.sizes("wide", min=5)
    x = atl.tensor("x", k, wide)
    assert len(atl.program("f", [x], x).assumptions) == 2
    assert len(atl.program("f", [x], x, given=[(k < 9) & (wide < 7)]).assumptions) == 4
