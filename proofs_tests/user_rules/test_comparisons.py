"""User-defined rules about comparisons and Boolean elements: what holds for floats only is not proved."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import pytest

import atl
from atl import Tensor, exp, maximum, minimum, rec, where
from rewrites import kernel
from rewrites.errors import FalseRule, NotATheorem
from rewrites.rule import Equation, Index, Scalar, Vector, equation, given
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.status import Status
from rewrites.user_rules import rule

LARGE = 2_000_000_000
"""A constant whose double is not an int32."""


@rule
def cancelled(a: Scalar, b: Scalar, c: Scalar) -> Equation:
    """A common term of a comparison cancels, unless integers wrap."""
    return equation(where(b == LARGE, a + b, a) < where(b == LARGE, c + b, c), a < c)


@rule
def wrapped(a: Scalar, b: Scalar) -> Equation:
    """The sum of constants is positive, unless integers wrap."""
    return equation(where((a - a) + LARGE + LARGE > 0, a, b), a)


@rule
def of_bits(a: Scalar, b: Scalar, c: Scalar) -> Equation:
    """For integers, min(a, ~a) is negative. Boolean elements have no sign."""
    return equation(where(minimum(a, ~a) < (a ^ a), b, c), b)


@rule
def exchanged(a: Scalar, b: Scalar, c: Scalar, d: Scalar) -> Equation:
    """A negated comparison exchanges the operands of a choice."""
    return equation(where(~(a < b), c, d), where(a < b, d, c))


def test_comparisons_are_not_proved_by_differences() -> None:
    for each in (cancelled, wrapped):
        found = status_of(each)
        assert found is not None
        assert found.status != Status.PROVED
    found = status_of(exchanged)
    assert found is not None
    assert found.status == Status.PROVED


def test_tested_rule_is_not_used_for_boolean_elements() -> None:
    x = atl.tensor("x", dtype="bool")
    y, z = (atl.tensor(name, dtype="float64") for name in "yz")
    program = atl.program("f", [x, y, z], where(minimum(x, ~x) < (x ^ x), y, z))
    with pytest.raises(NotATheorem, match="was not tried for elements of bool"):
        kernel.rewrite(kernel.reflexivity(program), of_bits, (), {"a": x.node, "b": y.node, "c": z.node})


@pytest.mark.parametrize(
    "step",
    [
        lambda y, _: maximum(y, 0),
        lambda y, _: where(y < 0, 1, y),
        lambda y, x: where((y == x) & (x != 2), y + 1, y),
    ],
    ids=["max with 0", "less than 0", "equal"],
)
def test_false_steps_of_recurrences_are_refused(step: Callable[..., Any]) -> None:
    """Numbers modulo a prime, in which recurrences are compared, have no order."""

    def kept(hi: Index, x: Vector, z: Vector) -> Equation:
        """The step changes nothing."""
        left = rec(x, hi, lambda p, y: step(y[p - 1], z[0]))
        return equation(left, rec(x, hi, lambda p, y: y[p - 1]), given(x.shape[0] >= 1, z.shape[0] >= 1))

    with pytest.raises(FalseRule, match="kept is false: its sides differ"):
        rule(kept)


@pytest.mark.long
@pytest.mark.parametrize(
    ("left", "right", "status"),
    [
        (lambda y, x: maximum(y + 1, x + 1), lambda y, x: maximum(y, x) + 1, Status.TESTED),
        (lambda y, x: exp(y) * exp(x), lambda y, x: exp(y + x), Status.PROVED),
        (lambda y, _: maximum(y, -y), lambda y, _: abs(y), Status.TESTED),
    ],
    ids=["max", "exp", "abs"],
)
def test_true_steps_of_recurrences_are_proved_or_tested_in_numbers(
    left: Callable[..., Tensor], right: Callable[..., Tensor], status: Status
) -> None:
    def same(hi: Index, x: Vector) -> Equation:
        """Both steps are equal."""
        one = rec(x, hi, lambda p, y: left(y[p - 1], x[0]))
        return equation(one, rec(x, hi, lambda p, y: right(y[p - 1], x[0])), given(x.shape[0] >= 1))

    found = status_of(rule(same))
    assert found is not None
    assert found.status == status


# -- tests of elements in recurrences: all of few results are tried, and random ones of many -------------------------


@pytest.mark.long
def test_false_rule_with_six_rare_results_is_refuted() -> None:
    def all_less(
        n: Index, a: Scalar, b: Scalar, c: Scalar, d: Scalar, e: Scalar, f: Scalar,
        g: Scalar, h: Scalar, i: Scalar, j: Scalar, k: Scalar, m: Scalar,
    ) -> Equation:  # fmt: skip
        """False where six comparisons are true, which few random elements satisfy."""
        every = (a < b) & (c < d) & (e < f) & (g < h) & (i < j) & (k < m)
        return equation(rec(n, lambda p, y: where(every, a, b)), rec(n, lambda p, y: 1 * b))

    with pytest.raises(FalseRule, match="all_less is false"):
        rule(all_less)


def in_order(*elements: Tensor) -> Tensor:
    """Return whether each element is less than every later one."""
    first, *rest = (before < after for before, after in combinations(elements, 2))
    for other in rest:
        first = first & other
    return first


@pytest.mark.long
def test_false_rule_with_ten_tests_is_refuted_in_numbers() -> None:
    def sorted_elements(n: Index, a: Scalar, b: Scalar, c: Scalar, d: Scalar, e: Scalar) -> Equation:
        """False where the elements are sorted."""
        return equation(
            rec(n, lambda p, y: where(in_order(a, b, c, d, e), a, b)),
            rec(n, lambda p, y: 1 * b),
        )

    with pytest.raises(FalseRule, match="sorted_elements is false") as caught:
        rule(sorted_elements)
    assert "the left side is" in str(caught.value.numbers)


@pytest.mark.long
def test_rule_with_more_tests_is_not_bounded() -> None:
    """The equation is true, but no proof is found. Without results that break it, it is tested only."""

    def contradictory(n: Index, a: Scalar, b: Scalar, c: Scalar, d: Scalar, e: Scalar) -> Equation:
        """Elements that are sorted are not sorted in the other order."""
        return equation(
            rec(n, lambda p, y: where(in_order(a, b, c, d, e) & (e < a), a, b)),
            rec(n, lambda p, y: 1 * b),
        )

    found = status_of(rule(contradictory))
    assert found is not None
    assert found.status == Status.TESTED
    assert "more than 8 tests" in str(found)
