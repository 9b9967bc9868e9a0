"""What the kernel must refuse, however it is asked."""

from __future__ import annotations

import pytest

import atl
from atl import Program
from atl.index import constant
from atl.terms import Reduce
from rewrites.kernel import NotATheorem, NotEqual, PremiseFailed, Theorem, reflexivity, rewrite, transitivity
from rewrites.rules import RULES

n = atl.sizes("n")
x = atl.tensor("x", n)


def program(body: atl.Tensor) -> Program:
    return atl.program("p", [x], body)


def test_a_theorem_is_made_by_the_kernel_only() -> None:
    with pytest.raises(NotATheorem):
        Theorem(object(), program(x), program(x), None)


def test_a_shape_that_is_equal_under_a_guard_does_not_leave_the_guard() -> None:
    """[n = 2] · x has the shape n. Under the guard x is a tensor of two elements, but only there."""
    start = reflexivity(program(atl.guard(n == 2, x)))
    with pytest.raises(PremiseFailed):
        rewrite(start, RULES["gen_eta"], (0,), {"n": constant(2), "v": x.node}, reverse=True)


def test_the_same_step_holds_where_the_shape_is_equal_everywhere() -> None:
    start = reflexivity(atl.program("p", [x], atl.guard(n >= 1, x), given=[n == 2]))
    after = rewrite(start, RULES["gen_eta"], (0,), {"n": constant(2), "v": x.node}, reverse=True)
    assert str(after.rhs.type) == "float32 (2)"


def test_a_guard_does_not_come_to_stand_inside_of_a_product() -> None:
    start = reflexivity(program(atl.reduce("product", n, lambda i: atl.select(i >= 1, x[i], 1.0))))
    body = start.rhs.body
    assert isinstance(body, Reduce)
    always = {"p": (n >= 0).node, "e": body.body}
    with pytest.raises(PremiseFailed):
        rewrite(start, RULES["guard_true"], (0,), always, reverse=True)


def test_a_path_that_is_not_there_and_a_term_that_is_not_the_side_are_refused() -> None:
    start = reflexivity(program(atl.gen(n, lambda i: x[i])))
    with pytest.raises(NotEqual):
        rewrite(start, RULES["gen_eta"], (0, 5), {"n": n.node, "v": x.node})
    with pytest.raises(NotEqual):
        rewrite(start, RULES["gen_eta"], (0,), {"n": n.node, "v": x.node})


def test_theorems_compose_only_where_they_meet() -> None:
    with pytest.raises(NotATheorem):
        transitivity(reflexivity(program(x)), reflexivity(program(atl.gen(n, lambda i: 2 * x[i]))))
