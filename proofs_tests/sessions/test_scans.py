"""Folds and scans with a user's combination: their values, their associativity, and scans in blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import atl
from atl import InvalidArgument, Tensor
from atl.errors import ATLError
from rewrites.certificates.certificate import dumps, loads
from rewrites.errors import CertificateError, DoesNotApply, FalseRule, NotFound
from rewrites.rule_checking.registry import status_text
from rewrites.tactics import scans

n = atl.sizes("n", min=1)
x, f = (atl.tensor(name, n, dtype="float64") for name in "xf")
numbers = np.random.default_rng(0)
UNTYPED: Any = atl


def add(a: Tensor, b: Tensor) -> Tensor:
    return a + b


def add_exponentials(a: Any, b: Any) -> Any:
    top = atl.maximum(a[0], b[0])
    return top, a[1] * atl.exp(a[0] - top) + b[1] * atl.exp(b[0] - top)


def then(a: Any, b: Any) -> Any:
    """Apply z -> a[0] * z + a[1], then the same with b."""
    return b[0] * a[0], b[0] * a[1] + b[1]


def first_of_greatest(a: Any, b: Any) -> Any:
    first = a[0] >= b[0]
    return atl.where(first, a[0], b[0]), atl.where(first, a[1], b[1])


PREFIX = atl.program("prefix", [x], atl.associative_scan(n, lambda i: x[i], add))
LOG_SUM_EXP = atl.program(
    "lse", [x], atl.fold(n, lambda i: (x[i], 1), add_exponentials, lambda s: s[0] + atl.log(s[1]))
)
FILTER = atl.rec(n, lambda p, y: f[p] * atl.select(p >= 1, y[p - 1], 0) + x[p])
LINEAR = atl.program("linear", [f, x], atl.associative_scan(n, lambda i: (f[i], x[i]), then, lambda of: of[1]))


def filtered(factors: np.ndarray, added: np.ndarray) -> np.ndarray:
    total, rows = 0.0, []
    for factor, value in zip(factors, added, strict=True):
        total = factor * total + value
        rows.append(total)
    return np.array(rows)


# -- values -----------------------------------------------------------------------------------------------------------


def test_fold_of_one_state() -> None:
    longest = atl.program("longest", [x], atl.fold(n, lambda i: x[i], atl.maximum))
    assert atl.evaluate(longest, np.array([1.0, 4.0, 2.0])) == 4.0
    twice = atl.program("twice", [x], atl.fold(n, lambda i: x[i], add, lambda total: 2 * total))
    assert atl.compile(twice)(np.array([1.0, 4.0, 2.0])) == 14.0


def test_fold_of_several_states() -> None:
    array = np.array([1000.0, 1000.0, 999.0])
    expected = 1000 + np.log(2 + np.exp(-1))
    assert np.isclose(atl.evaluate(LOG_SUM_EXP, array), expected)
    assert np.isclose(atl.compile(LOG_SUM_EXP)(array), expected)


def test_scan_of_vectors() -> None:
    table = atl.tensor("A", n, 3, dtype="float64")
    rows = atl.program("rows", [table], atl.associative_scan(n, lambda i: table[i], add))
    array = numbers.random((5, 3))
    np.testing.assert_allclose(atl.compile(rows)(array), np.cumsum(array, axis=0))


def test_states_of_a_scan_are_results() -> None:
    named = {"factor": f, "added": x}
    scan = atl.associative_scan(
        n,
        lambda i: {name: of[i] for name, of in named.items()},
        lambda a, b: {"factor": a["factor"] * b["factor"], "added": b["factor"] * a["added"] + b["added"]},
    )
    found = atl.evaluate(atl.program("linear", [f, x], scan), np.array([2.0, 3.0]), np.array([1.0, 1.0]))
    np.testing.assert_array_equal(found.factor, [2.0, 6.0])
    np.testing.assert_array_equal(found.added, [1.0, 4.0])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: UNTYPED.fold(n, lambda i: (x[i], 1), lambda a, b: a[0]), "returns other states than it is given"),
        (lambda: atl.fold(n, lambda i: {"a": x[i]}, lambda a, b: {"b": a["a"]}), "a dictionary of a"),
        (lambda: UNTYPED.fold(n, lambda i: x[i], 3), "fold got 3 as a function of two states"),
        (lambda: UNTYPED.associative_scan(n, lambda: x[0], add), "as a function of an index"),
        (lambda: UNTYPED.fold(n, lambda i: x[i], lambda a, b, c: a), "as a function of two states"),
        (lambda: UNTYPED.associative(lambda a, b, c: a), "combine="),
        (lambda: atl.associative(lambda a, b: a, ["a", "a"]), "different names of states"),
    ],
)
def test_misuse_is_refused(call: Any, message: str) -> None:
    with pytest.raises(ATLError, match=message):
        call()


# -- associativity ----------------------------------------------------------------------------------------------------


def test_combination_is_proved_associative() -> None:
    assert status_text(atl.associative(then, 2)) == "user-defined rule, proved for all sizes"


@pytest.mark.long
def test_sums_of_exponentials_are_associative_over_the_reals() -> None:
    assert "proved for all sizes; over the real numbers" in status_text(atl.associative(add_exponentials, 2))


@pytest.mark.long
def test_combination_may_be_only_tested() -> None:
    assert "user-defined rule, tested" in status_text(atl.associative(first_of_greatest, 2))


@pytest.mark.long
def test_other_combinations_are_refused_with_numbers() -> None:
    def unscaled(a: Any, b: Any) -> Any:
        top = atl.maximum(a["top"], b["top"])
        return {"top": top, "sum": a["sum"] + b["sum"] * atl.exp(b["top"] - top)}

    cases: list[tuple[Any, Any]] = [(lambda a, b: a - b, None), (unscaled, ["top", "sum"])]
    for combine, states in cases:
        with pytest.raises(FalseRule, match="the combination is not associative") as caught:
            atl.associative(combine, states)
        assert "the left side is" in str(caught.value.numbers)
    with pytest.raises(InvalidArgument, match="states=0"):
        atl.associative(add, 0)


# -- scans in blocks --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def in_blocks() -> atl.Session:
    return atl.reschedule(PREFIX).block_scan("y", 4, add)


@pytest.mark.long
def test_blocks_have_the_same_values(in_blocks: atl.Session) -> None:
    kernel = atl.compile(in_blocks.goal)
    for size in (1, 3, 4, 5, 8, 15):
        array = numbers.random(size)
        np.testing.assert_allclose(atl.evaluate(in_blocks.goal, array), np.cumsum(array))
        np.testing.assert_allclose(kernel(array), np.cumsum(array))


@pytest.mark.long
def test_certificate_contains_associativity(in_blocks: atl.Session) -> None:
    theorem = in_blocks.done()
    assert not theorem.unproved
    text = dumps(theorem)
    assert loads(text).rhs == in_blocks.goal
    assert "add_is_associative" in text
    with pytest.raises(CertificateError):
        loads(text.replace("n // 4", "n // 3"))


@pytest.mark.slow
def test_linear_recurrence_as_a_scan_in_blocks() -> None:
    """y[p] = f[p] * y[p - 1] + x[p] is the second state of a scan of linear functions."""
    s = atl.reschedule(atl.program("filter", [f, x], FILTER))
    rows = atl.associative_scan(n, lambda i: (f[i], x[i]), then, lambda of: of[1])
    s.induct("y", lambda p: rows[p])
    s.block_scan(s.find("rec[_ < n] _ from _ in _"), 4, then)
    arrays = numbers.random(11), numbers.random(11)
    np.testing.assert_allclose(atl.compile(s.goal)(*arrays), filtered(*arrays))
    assert loads(dumps(s.done())).rhs == s.goal


@pytest.mark.long
def test_recurrence_that_is_written_otherwise() -> None:
    rows = atl.rec(n, lambda p, y: atl.select(p >= 1, y[p - 1], 0) + x[p])
    s = atl.reschedule(atl.program("prefix", [x], rows)).block_scan("y", 4, add, element=lambda p: x[p])
    array = numbers.random(10)
    np.testing.assert_allclose(atl.evaluate(s.goal, array), np.cumsum(array))


def test_refusals() -> None:
    s = atl.reschedule(PREFIX)
    with pytest.raises(FalseRule, match="the combination is not associative"):
        s.block_scan("y", 4, lambda a, b: a - b)
    with pytest.raises(NotFound, match="the recurrence is not a scan by this combine") as caught:
        s.block_scan("y", 4, atl.maximum)
    assert caught.value.numbers["n"] >= 2  # type: ignore[index, operator]
    assert len(str(caught.value).splitlines()) <= 6
    with pytest.raises(InvalidArgument, match="k=1"):
        s.block_scan("y", 1, add)
    with pytest.raises(InvalidArgument, match="combine="):
        s.block_scan("y", 4, lambda a: a)
    other = atl.reschedule(atl.program("filter", [f, x], FILTER))
    with pytest.raises(InvalidArgument, match=r"write the recurrence as atl\.associative_scan"):
        other.block_scan("y", 4, then)
    with pytest.raises(ZeroDivisionError):
        s.block_scan("y", 4, lambda a, b: a * (1 / 0))
    with pytest.raises(DoesNotApply, match="the rows of y are not written as a scan"):
        other.block_scan("y", 4, add)
    with pytest.raises(InvalidArgument, match="element returns other states than combine"):
        other.block_scan("y", 4, add, element=lambda p: (f[p], x[p]))
    with pytest.raises(InvalidArgument, match="combine returns 2 states"):
        s.block_scan("y", 4, lambda a, b: (a, b))


@pytest.mark.long
@pytest.mark.parametrize("fault", ["totals", "scans"])
def test_wrong_combination_of_blocks_is_refused(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant the totals of the block itself, and the rows of the block before."""

    def at(self: Any, q: Any, r: Any, totals: Tensor, rows: Tensor) -> Tensor:
        total = totals[q if fault == "totals" else q - 1]
        row = rows[q - 1 if fault == "scans" else q, r]
        return atl.select(q >= 1, self.combine(total, row), rows[q, r])

    monkeypatch.setattr(scans._Scan, "at", at)
    with pytest.raises(ATLError):
        atl.reschedule(PREFIX).block_scan("y", 4, add)
