"""Forged statements and arguments of user-defined rules."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import atl
from atl.core.index import bound, constant, size
from atl.core.predicate import at_most
from atl.core.terms import Concat, Gen, Let, Local, Type
from atl.errors import ATLError, InvalidArgument, ShapeError
from rewrites.errors import PremiseFailed
from rewrites.kernel import reflexivity, rewrite
from rewrites.metavariables import Kind
from rewrites.rule import Rule
from rewrites.rule_arguments import Function
from rewrites.user_rules import Elem, Equation, Index, Vector, VectorT, equation, given, rule


def test_let_with_a_wrong_type_in_a_rule_is_refused() -> None:
    def shifted(v: Vector, m: Index) -> Equation:
        """The declared type of the bound tensor is too short, so a proof would read beyond its end."""
        short = Local(0, Type(v.node.type.dtype, (constant(50),)))
        beyond = atl.sum(m, lambda k: atl.Tensor(Let(v.node, short))[k + 60])
        n = v.shape[0]
        return equation(beyond, atl.sum(m, lambda k: 0 * v[k]), given((n >= 100) & (m <= 10) | (m == 0)))

    with pytest.raises(InvalidArgument, match="with a type that differs from its value's"):
        rule(shifted)


def test_condition_takes_indices_only() -> None:
    def guarded(p: Any, k: Index, e: Elem) -> Equation:
        """A guard is a sum of one guard."""
        return equation(atl.guard(p(k), e), atl.sum(1, lambda i: atl.guard(p(k), e)))

    of_tensors = Kind("condition", 0, "s", (Kind("tensor"),))
    guarded.__annotations__ = {"p": of_tensors, "k": Index, "e": Elem}
    with pytest.raises(InvalidArgument, match="the parameter p of the rule guarded has no kind"):
        rule(guarded)


@cache
def behind() -> Rule:
    def behind(f: Vector[VectorT], a: VectorT, v: Vector, k: Index) -> Equation:
        """Beyond the end of f(a), a concatenation has the elements of v."""
        n = f(a).shape[0]
        return equation(atl.concat(f(a), v)[k], v[k - n], given(k >= n, k < n + v.shape[0]))

    return rule(behind)


@pytest.mark.long
@pytest.mark.parametrize("declared", [3, 5])
def test_function_argument_needs_consistent_shapes(declared: int) -> None:
    t, w, v = (atl.tensor(name, n, dtype="float64") for name, n in (("t", 3), ("w", 2), ("v", 20)))
    start = reflexivity(atl.program("p", [t, w, v], atl.concat(atl.concat(t, w), v)[10]))
    of = Type("float64", (constant(declared),))
    arguments = {"f": Function((of,), Concat(Local(0, of), w.node)), "a": t.node, "v": v.node, "k": constant(10)}
    if declared == 3:
        assert rewrite(start, behind(), (), arguments).rhs.body == v[5].node
        return
    with pytest.raises(ShapeError, match="f returns tensors of different shapes: a dimension is 5 at one place"):
        rewrite(start, behind(), (), arguments)


@cache
def other_zeros() -> Rule:
    def other_zeros(e: Vector[Index], v: Vector, i: Index, j: Index, k: Index) -> Equation:
        """The element after the zeros of e(i) is the same as after those of e(j)."""

        def behind(at: Index) -> atl.Tensor:
            return atl.concat(atl.guard(k < 0, e(at)), v)[k]

        return equation(behind(i), behind(j), given(k >= 0, k < v.shape[0]))

    return rule(other_zeros)


@pytest.mark.long
@pytest.mark.parametrize(("j", "error"), [("2", None), ("m", PremiseFailed), ("4", ShapeError)])
def test_shape_of_a_function_may_not_depend_on_its_index(j: str, error: type[ATLError] | None) -> None:
    """Elements behind the zeros of e(i) and e(j) are equal only if both have the same number of zeros."""

    n, m = atl.sizes("n m")
    x, v = atl.tensor("x", 30, dtype="float64"), atl.tensor("v", 20, dtype="float64")
    first = atl.gen(2, lambda t: x[t])
    start = reflexivity(
        atl.program("p", [x, v], atl.concat(atl.guard(n < 0, first), v)[n], given=[n <= 19, m >= 1, m <= 20])
    )
    arguments: dict[str, Any] = {
        "e": Function(("index",), Gen(constant(0), bound(0), x[bound(0)].node, "t")),
        "v": v.node,
        "i": constant(2),
        "j": size("m") if j == "m" else constant(int(j)),
        "k": size("n"),
    }
    if error is None:
        assert rewrite(start, other_zeros(), (), arguments).rhs == start.rhs
        return
    with pytest.raises(error):
        rewrite(start, other_zeros(), (), arguments)


@pytest.mark.long
def test_condition_of_indices_applies_under_binders() -> None:
    """With the kind that is refused, the two indices in scope would be confused."""

    def guarded(p: Any, k: Index, e: Elem) -> Equation:
        """A guard is a sum of one guard."""
        return equation(atl.guard(p(k), e), atl.sum(1, lambda i: atl.guard(p(k), e)))

    guarded.__annotations__ = {"p": Kind("condition", parameters=(Index,)), "k": Index, "e": Elem}  # type: ignore[arg-type]
    x = atl.tensor("x", 3, dtype="float64")
    start = reflexivity(atl.program("p", [x], atl.gen(3, lambda j: atl.guard(j >= 1, x[j]))))
    arguments: dict[str, Any] = {
        "p": Function(("index",), at_most(constant(1), bound(1))),
        "k": constant(0),
        "e": x[bound(0)].node,
    }
    theorem = rewrite(start, rule(guarded), (0,), arguments)
    assert atl.evaluate(theorem.rhs, x=[1.0, 2.0, 3.0]).tolist() == [0.0, 2.0, 3.0]
