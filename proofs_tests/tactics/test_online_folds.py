"""Folds in one pass, derived from their definitions by `s.recur`, and refusals of false steps."""

from __future__ import annotations

import numpy as np
import pytest

import atl
from atl import IndexExpr, Tensor, concat, exp, gen, let, log, maximum, reduce
from atl.errors import InvalidArgument
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import DoesNotApply, FalseRule, NotATheorem, NotFound
from rewrites.rule_checking.registry import status_of
from rewrites.rule_checking.status import Status
from rewrites.user_rules import Equation, Scalar, equation, rule

n, m = atl.sizes("n", min=1), atl.sizes("m")
x, A = atl.tensor("x", n, dtype="float64"), atl.tensor("A", m, n, dtype="float64")


def pair(a: Tensor, b: Tensor) -> Tensor:
    return concat(gen(1, lambda _: a), gen(1, lambda _: b))


def sums_of_powers(row: Tensor, count: IndexExpr) -> Tensor:
    """Return the maximum of the first elements, and the sum of their powers."""
    top = reduce("max", count, lambda i: row[i])
    return pair(top, atl.sum(count, lambda i: exp(row[i] - top)))


def next_sums(row: Tensor, p: IndexExpr, y: Tensor) -> Tensor:
    old = y[p - 1]
    top = maximum(old[0], row[p])
    return let(top, lambda top: pair(top, old[1] * exp(old[0] - top) + exp(row[p] - top)))


def log_sum_exp(row: Tensor) -> Tensor:
    top = reduce("max", n, lambda i: row[i])
    return top + log(atl.sum(n, lambda i: exp(row[i] - top)))


@pytest.mark.long
def test_log_sum_exp_in_one_pass() -> None:
    s = atl.reschedule(atl.program("log_sum_exp", [x], log_sum_exp(x)))
    s.recur(
        "_ + log(_)", n, lambda p: sums_of_powers(x, p + 1), lambda p, y: next_sums(x, p, y),
        result=lambda last: last[0] + log(last[1]), name="sums",
    )  # fmt: skip
    assert "rec[1 <= p < n] sums from" in str(s.goal)
    assert loads(dumps(s.done())).rhs == s.goal
    for values in ([2.0], [-3.0, 800.0, 1.0, 800.0], list(range(7))):
        array = np.array(values, dtype=float)
        np.testing.assert_allclose(atl.compile(s.goal)(array), np.logaddexp.reduce(array), rtol=1e-14)


def test_functions_may_name_loops_and_lets_around_the_term() -> None:
    body = gen(m, lambda i: let(A[i], log_sum_exp, name="row"))
    s = atl.reschedule(atl.program("by_rows", [A], body))
    s.recur(
        "_ + log(_)", "n", lambda p, row: sums_of_powers(row, p + 1), lambda p, y, row: next_sums(row, p, y),
        result=lambda last: last[0] + log(last[1]),
    )  # fmt: skip
    array = np.array([[1.0, 2.0, 500.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(atl.compile(s.goal)(array), np.logaddexp.reduce(array, axis=1), rtol=1e-14)


@pytest.mark.long
def test_false_step_is_refuted_with_numbers() -> None:
    s = atl.reschedule(atl.program("squares", [x], atl.sum(n, lambda i: x[i] * x[i])))
    with pytest.raises(NotFound, match="the formula differs from the next row") as caught:
        s.recur(
            "Σ[i < n] _", n, lambda p: atl.sum(p + 1, lambda i: x[i] * x[i]), lambda p, y: y[p - 1] + x[p] * x[p - 1]
        )
    assert isinstance(caught.value.numbers, dict)
    assert {"n", "p"} <= set(caught.value.numbers)
    assert not s.steps


@pytest.mark.long
def test_unscaled_sum_of_powers_is_not_proved() -> None:
    """The sum so far is not scaled to the new maximum."""

    def unscaled(p: IndexExpr, y: Tensor) -> Tensor:
        top = maximum(y[p - 1, 0], x[p])
        return pair(top, y[p - 1, 1] + exp(x[p] - top))

    s = atl.reschedule(atl.program("log_sum_exp", [x], log_sum_exp(x)))
    with pytest.raises(NotFound, match=r"next row"):
        s.recur(
            "_ + log(_)", n, lambda p: sums_of_powers(x, p + 1), unscaled, result=lambda last: last[0] + log(last[1])
        )


@pytest.mark.long
def test_other_arguments_are_refused() -> None:
    s = atl.reschedule(atl.program("total", [x], atl.sum(n, lambda i: x[i])))

    def total(p: IndexExpr) -> Tensor:
        return atl.sum(p + 1, lambda i: x[i])

    def add(p: IndexExpr, y: Tensor) -> Tensor:
        return y[p - 1] + x[p]

    with pytest.raises(NotFound, match="the term differs from the result of the last row"):
        s.recur("Σ[i < n] _", n, total, add, result=lambda last: 2 * last)
    with pytest.raises(InvalidArgument, match="formula has the parameter k, which is not a loop or let around"):
        s.recur("Σ[i < n] _", n, lambda p, k: x[k], add)
    with pytest.raises(InvalidArgument, match="step has too few parameters"):
        s.recur("Σ[i < n] _", n, total, lambda p: x[p])
    with pytest.raises(InvalidArgument, match="step=3"):
        s.recur("Σ[i < n] _", n, total, 3)  # type: ignore[arg-type]
    with pytest.raises(NotATheorem, match="does not state the equation"):
        s.recur("Σ[i < n] _", n, total, add, lemma=atl.reschedule(s.goal).done())


Sums = tuple[Tensor, Tensor]


def scaled(a: Sums, b: Sums) -> Sums:
    top = maximum(a[0], b[0])
    return top, a[1] * exp(a[0] - top) + b[1] * exp(b[0] - top)


def one_unscaled(a: Sums, b: Sums) -> Sums:
    top = maximum(a[0], b[0])
    return top, a[1] + b[1] * exp(b[0] - top)


@pytest.mark.long
def test_associativity_of_a_combine_is_proved_or_refuted() -> None:
    @rule
    def associative(a: Scalar, b: Scalar, c: Scalar, d: Scalar, e: Scalar, f: Scalar) -> Equation:
        """Sums of powers may be combined in any order."""
        return equation(scaled(scaled((a, b), (c, d)), (e, f))[1], scaled((a, b), scaled((c, d), (e, f)))[1])

    found = status_of(associative)
    assert found is not None
    assert found.status == Status.PROVED
    assert "over the real numbers" in str(found)
    with pytest.raises(FalseRule, match="its sides differ") as caught:

        @rule
        def false(a: Scalar, b: Scalar, c: Scalar, d: Scalar, e: Scalar, f: Scalar) -> Equation:
            """Sums of powers may be combined without scaling the first one."""
            first = one_unscaled(one_unscaled((a, b), (c, d)), (e, f))
            return equation(first[1], one_unscaled((a, b), one_unscaled((c, d), (e, f)))[1])

    assert caught.value.numbers


def test_wrong_result_is_refused_with_numbers() -> None:
    s = atl.reschedule(atl.program("total", [x], atl.sum(n, lambda i: x[i]) + 1))

    def total(p: atl.IndexExpr) -> atl.Tensor:
        return atl.sum(p + 1, lambda i: x[i])

    with pytest.raises(NotFound, match="the term differs from the result of the last row") as caught:
        s.recur("_ + 1", n, total, lambda p, y: y[p - 1] + x[p], result=lambda last: last + 2)
    assert caught.value.numbers


def test_result_is_proved_beyond_equal_simplified_forms() -> None:
    s = atl.reschedule(atl.program("twice", [x], atl.sum(n, lambda i: 2 * x[i])))
    s.recur(
        "Σ[_ < n] _",
        n,
        lambda p: atl.sum(p + 1, lambda i: x[i]),
        lambda p, y: y[p - 1] + x[p],
        result=lambda last: last * 2,
    )
    assert atl.evaluate(s.goal, np.array([1.0, 2.0, 3.0])) == 12


def test_rows_that_may_be_none_are_refused() -> None:
    z = atl.tensor("z", m)
    s = atl.reschedule(atl.program("total", [z], atl.sum(m, lambda i: z[i])))
    with pytest.raises(DoesNotApply, match="a recurrence of m rows is not proved to have a last row") as caught:
        s.recur("_", m, lambda p: atl.sum(p + 1, lambda i: z[i]), lambda p, y: y[p - 1] + z[p])
    assert "1 <= m" in str(caught.value)
