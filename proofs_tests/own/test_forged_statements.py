"""Statements and arguments that are put together by hand: nothing that was not judged is used as a rule."""

from __future__ import annotations

from typing import Any

import pytest

import atl
from atl.core.index import bound, constant
from atl.core.predicate import at_most
from atl.core.terms import Concat, Let, Local, Type
from atl.errors import RankError, WrongArgument
from rewrites.errors import PremiseFailed
from rewrites.instantiation import Function
from rewrites.kernel import reflexivity, rewrite
from rewrites.kinds import Kind
from rewrites.own import Elem, Equation, Index, Vector, VectorT, equation, given, rule


def test_a_let_binds_a_tensor_of_the_type_of_its_value() -> None:
    def shifted(v: Vector, m: Index) -> Equation:
        """A proof would read beyond a bound tensor that is said to be shorter than it is."""
        short = Local(0, Type(v.node.type.dtype, (constant(50),)))
        beyond = atl.sum(m, lambda k: atl.Tensor(Let(v.node, short))[k + 60])
        n = v.shape[0]
        return equation(beyond, atl.sum(m, lambda k: 0 * v[k]), given((n >= 100) & (m <= 10) | (m == 0)))

    with pytest.raises(WrongArgument, match="with another type than its value has"):
        rule(shifted)


def test_a_condition_takes_indices_alone() -> None:
    def guarded(p: Any, k: Index, e: Elem) -> Equation:
        """A guard is a sum of one guard."""
        return equation(atl.guard(p(k), e), atl.sum(1, lambda i: atl.guard(p(k), e)))

    of_tensors = Kind("condition", 0, "s", (Kind("tensor"),))
    guarded.__annotations__ = {"p": of_tensors, "k": Index, "e": Elem}
    with pytest.raises(WrongArgument, match="the parameter p of the rule guarded has no kind"):
        rule(guarded)


@pytest.mark.long
@pytest.mark.parametrize("declared", [3, 5])
def test_a_function_gives_the_shape_that_its_declared_parameters_say(declared: int) -> None:
    @rule
    def behind(f: Vector[VectorT], a: VectorT, v: Vector, k: Index) -> Equation:
        """Behind the elements of a value are those of the next tensor."""
        n = f(a).shape[0]
        return equation(atl.concat(f(a), v)[k], v[k - n], given(k >= n, k < n + v.shape[0]))

    t, w, v = (atl.tensor(name, n, dtype="float64") for name, n in (("t", 3), ("w", 2), ("v", 20)))
    start = reflexivity(atl.program("p", [t, w, v], atl.concat(atl.concat(t, w), v)[10]))
    of = Type("float64", (constant(declared),))
    arguments = {"f": Function((of,), Concat(Local(0, of), w.node)), "a": t.node, "v": v.node, "k": constant(10)}
    if declared == 3:
        assert rewrite(start, behind, (), arguments).rhs.body == v[5].node
        return
    with pytest.raises(PremiseFailed, match="a premise of behind is not proved here"):
        rewrite(start, behind, (), arguments)


def test_no_rule_of_a_user_is_used_beyond_the_ranks_at_which_it_is_judged() -> None:
    @rule
    def itself(a: Elem) -> Equation:
        """What is taken from twice a tensor is that tensor."""
        return equation(a + a - a, a)

    x = atl.tensor("x", *[1] * 5, dtype="float64")
    start = reflexivity(atl.program("p", [x], x[0, 0, 0, 0, 0] + x[0, 0, 0, 0, 0]))
    with pytest.raises(RankError, match="itself is not stated for elements of rank 5"):
        rewrite(start, itself, (), {"a": x.node})


def test_a_condition_of_indices_is_used_under_binders() -> None:
    """What the refused kind would have let through: an index of the place that is taken for another one."""

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
