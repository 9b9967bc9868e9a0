"""Refusals of programs: repeated and missing inputs, names of two things, and indices outside of their binders."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import atl
from atl.checks.wellformed import make_program
from atl.core.index import ZERO, Array, constant, read
from atl.core.program import Result
from atl.core.terms import Constant, Input, Local, Padding, Type
from atl.errors import ATLError, EscapedIndex, InvalidName

n, m = atl.sizes("n m")
a, b = atl.tensor("a", n), atl.tensor("b", n)
at = atl.tensor("at", n, dtype="int64", range=(0, n))
declared = Array("one", (constant(1),), "int64", low=ZERO, high=n.node)
one = atl.Tensor(Input(declared))
leaked: list[atl.IndexExpr] = []
kept: list[atl.Tensor] = []


def keep(i: atl.IndexExpr) -> atl.Tensor:
    leaked.append(i)
    return a[i]


def keep_tensor(v: atl.Tensor) -> atl.Tensor:
    kept.append(v)
    return v


atl.gen(n, keep)
atl.gen(n, lambda j: atl.exp(keep(j)))
atl.let(a + 1, keep_tensor)
pair = Padding(Type("float32", (constant(2),)))
first = read(declared, (ZERO,))
positions = Array("positions", (constant(2),), "int64")
segments = Array("segments", (n.node,), "int64", monotonic="nondecreasing", between=positions)

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
    "missing in the whole body": (lambda: atl.program("f", [a], atl.value(one[0])), InvalidName, "uses the tensor one"),
    "missing in a shape": (
        lambda: atl.program("f", [a, atl.Tensor(Input(Array("c", (first,), "float32")))], a),
        InvalidName,
        "uses the tensor one",
    ),
    "missing in the first bound": (
        lambda: atl.program("f", [a, atl.tensor("c", n, dtype="int64", range=(one[0], n))], a),
        InvalidName,
        "uses the tensor one",
    ),
    "missing in the second bound": (
        lambda: atl.program("f", [a, atl.tensor("c", n, dtype="int64", range=(0, one[0]))], a),
        InvalidName,
        "uses the tensor one",
    ),
    "missing positions of segments": (
        lambda: atl.program("f", [a, atl.Tensor(Input(segments))], a),
        InvalidName,
        "uses the tensor positions",
    ),
    "missing in the first result": (
        lambda: make_program("f", (), pair, (), (Result("p", (first,)), Result("q", ()))),
        InvalidName,
        "uses the tensor one",
    ),
    "missing in the second result": (
        lambda: make_program("f", (), pair, (), (Result("p", ()), Result("q", (first,)))),
        InvalidName,
        "uses the tensor one",
    ),
    "the first size and an input": (
        lambda: atl.program("f", [atl.tensor("n"), a], a),
        InvalidName,
        "n names both a size and an input",
    ),
    "a size in a condition and an input": (
        lambda: atl.program("f", [atl.tensor("m")], atl.tensor("m"), given=[m > 1]),
        InvalidName,
        "m names both a size and an input",
    ),
    "let-bound tensor by itself": (
        lambda: make_program("f", (), Local(0, Type("float32", ()))),
        EscapedIndex,
        "an index or a let-bound tensor is used outside the operator",
    ),
    "escaped tensor": (lambda: atl.program("f", [a], kept[0]), EscapedIndex, "the let-bound tensor v is used outside"),
    "two escaped indices": (
        lambda: atl.program("f", [a], a[leaked[0] + leaked[1]]),
        EscapedIndex,
        "the index i and the index j is used outside",
    ),
    "two escaped indices of a condition": (
        lambda: atl.program("f", [a], atl.guard((leaked[0] < 1) & (leaked[1] < 2), a)),
        EscapedIndex,
        "the index i and the index j is used outside",
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


ALIKE: dict[str, tuple[Array, Array]] = {
    "element types": (Array("a", (n.node,), "int64"), Array("a", (n.node,), "int32")),
    "orders": (Array("a", (n.node,), "int64", monotonic="nondecreasing"), Array("a", (n.node,), "int64")),
    "shapes": (Array("a", (n.node,), "int64"), Array("a", (m.node,), "int64")),
    "lower bounds": (Array("a", (n.node,), "int64", low=m.node), Array("a", (n.node, m.node), "int64")),
    "upper bounds": (Array("a", (n.node,), "int64", high=m.node), Array("a", (n.node, m.node), "int64")),
}
"""Two declarations that differ in one part."""


@pytest.mark.parametrize("part", ALIKE)
def test_declarations_of_one_name_agree_in_each_part(part: str) -> None:
    declared, used = map(Input, ALIKE[part])
    assert make_program("f", (declared.array,), declared).inputs == (declared.array,)
    with pytest.raises(InvalidName, match="a is declared twice with different types"):
        make_program("f", (declared.array,), used)


@pytest.mark.parametrize("turned", [False, True])
def test_error_points_to_the_term_with_the_escaped_index(*, turned: bool) -> None:
    read_outside = a[leaked[0]]
    term = read_outside + 1
    both = b[0] + term if turned else term + b[0]
    with pytest.raises(EscapedIndex) as refused:
        atl.program("f", [a, b], both, given=[n > 0])
    place = refused.value.place
    assert place is not None
    assert place.source == read_outside.node.source
    assert place.source != both.node.source


def test_minimum_of_each_size_is_assumed() -> None:
    k, wide = atl.sizes("k", min=2), atl.sizes("wide", min=5)
    once = make_program("f", (), Constant(1, "float32"), [(k < 9).node])
    assert len(once.assumptions) == 2
    x = atl.tensor("x", k, wide)
    assert len(atl.program("f", [x], x).assumptions) == 2
    assert len(atl.program("f", [x], x, given=[(k < 9) & (wide < 7)]).assumptions) == 4
